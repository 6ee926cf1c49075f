//===- Results.cpp - results of all ranks, do they agree --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Results.h"

#include "Inputs.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <xxhash.h>

using namespace tandem;
using namespace tandem::run;

/// Numbers of shards: more are not a rank's.
static constexpr uint64_t kMostLoops = 64;

namespace {

/// Reads numbers from another rank's text.
class NumberReader {
public:
  explicit NumberReader(const std::string &text) : text(text) {}
  int64_t next() {
    int64_t value = 0;
    good = good && at + sizeof(value) <= text.size();
    if (good)
      std::memcpy(&value, text.data() + at, sizeof(value));
    at += sizeof(value);
    return value;
  }
  void list(std::vector<int64_t> &to, uint64_t count) {
    good = good && count <= kMostLoops;
    for (uint64_t i = 0; good && i < count; ++i)
      to.push_back(next());
  }
  /// All of it has been read, and no more.
  bool complete() const { return good && at == text.size(); }

private:
  const std::string &text;
  size_t at = 0;
  bool good = true;
};

} // namespace

Expected<std::vector<Placement>> run::gatherPlacements(const Program &program,
                                                       Bootstrap &bootstrap) {
  std::vector<Shard> mine = shardsOf(program);
  std::vector<int64_t> numbers;
  for (const Shard &shard : mine) {
    numbers.insert(numbers.end(), {shard.present, shard.offset, shard.term,
                                   static_cast<int64_t>(shard.shape.size())});
    numbers.insert(numbers.end(), shard.shape.begin(), shard.shape.end());
    numbers.insert(numbers.end(), shard.strides.begin(), shard.strides.end());
    numbers.push_back(static_cast<int64_t>(shard.local.size()));
    numbers.insert(numbers.end(), shard.local.begin(), shard.local.end());
  }
  std::string text(reinterpret_cast<const char *>(numbers.data()),
                   numbers.size() * sizeof(int64_t));
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, text));
  std::vector<Placement> placements(mine.size());
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    NumberReader reader(all[rank]);
    for (size_t i = 0; i < placements.size(); ++i) {
      Shard shard;
      shard.present = reader.next() != 0;
      shard.offset = reader.next();
      shard.term = static_cast<uint32_t>(reader.next());
      auto dims = static_cast<uint64_t>(reader.next());
      reader.list(shard.shape, dims);
      reader.list(shard.strides, dims);
      reader.list(shard.local, static_cast<uint64_t>(reader.next()));
      const ArgumentInfo &info = program.arguments()[i];
      if (shard.term >= std::max<uint32_t>(info.terms, 1) || !shard.liesIn(info.shape))
        return Status(Code::Io, fmt::format("argument \"{}\": rank {} gives a shard that does not "
                                            "lie in the tensor",
                                            info.name, rank));
      placements[i].push_back(std::move(shard));
    }
    if (!reader.complete())
      return Status(Code::Internal, "ranks disagree on the program's arguments");
  }
  return placements;
}

namespace {

/// Gathers one result on rank 0, in pieces.
class Gathering {
public:
  Gathering(const ArgumentInfo &info, const Placement &placement, Bootstrap &bootstrap)
      : placement(placement), bootstrap(bootstrap), bytes(sizeOf(info.dtype)),
        ranks(bootstrap.worldSize()) {
    for (const Shard &shard : placement)
      most = std::max(most, shard.numElements());
    auto isReplica = [&](const Shard &a, const Shard &b) {
      return a.present == b.present && a.offset == b.offset && a.shape == b.shape &&
             a.strides == b.strides && a.local == b.local && a.term == b.term;
    };
    for (uint32_t rank = 0; rank < ranks; ++rank)
      for (uint32_t first = 0; first <= rank && firsts.size() == rank; ++first)
        if (first == rank ||
            (firsts[first] == first && isReplica(placement[first], placement[rank])))
          firsts.push_back(first);
    step = std::min(most, kPiece / bytes);
    mine.resize(step * bytes);
    hashes.resize(ranks);
    if (ranks > 1)
      all.reserve(mine.size() * ranks); // touched if something is sent
    if (bootstrap.rank() == 0)
      assembly.emplace(info, placement);
  }

  Status run(const std::function<Status(uint64_t offset, uint64_t count, void *to)> &read) {
    for (int64_t begin = 0; begin < most; begin += step) {
      int64_t length = std::min(step, most - begin);
      mine.assign(length * bytes, '\0'); // never longer than at first
      if (int64_t count = countOf(bootstrap.rank(), begin, length))
        TANDEM_RETURN_IF_ERROR(read(begin * bytes, count * bytes, mine.data()));
      uint64_t hash = XXH3_64bits(mine.data(), mine.size());
      TANDEM_RETURN_IF_ERROR(bootstrap.allGather(&hash, sizeof hash, hashes.data()));
      auto isSent = [&](uint32_t rank) {
        return rank != 0 && countOf(rank, begin, length) != 0 &&
               (firsts[rank] == rank || hashes[rank] != hashes[firsts[rank]]);
      };
      bool any = false;
      for (uint32_t rank = 0; rank < ranks; ++rank)
        any |= isSent(rank);
      if (any) {
        all.resize(mine.size() * ranks); // as much as there is room for
        TANDEM_RETURN_IF_ERROR(bootstrap.allGather(mine.data(), mine.size(), all.data()));
      }
      for (uint32_t rank = 0; assembly && rank < ranks; ++rank)
        if (rank == 0 || isSent(rank))
          assembly->add(rank, begin, countOf(rank, begin, length),
                        reinterpret_cast<const std::byte *>(
                            rank == 0 ? mine.data() : all.data() + rank * mine.size()));
    }
    return Status::success();
  }

  std::optional<Assembly> assembly; ///< rank 0

private:
  static constexpr int64_t kPiece = int64_t(1) << 20; ///< bytes

  int64_t countOf(uint32_t rank, int64_t begin, int64_t length) const {
    return std::clamp<int64_t>(placement[rank].numElements() - begin, 0, length);
  }

  const Placement &placement;
  Bootstrap &bootstrap;
  int64_t bytes; ///< of an element
  uint32_t ranks;
  int64_t most = 0;             ///< elements of a rank
  int64_t step = 0;             ///< elements of a piece
  std::string mine, all;        ///< one piece, of this rank and of all
  std::vector<uint64_t> hashes; ///< of the pieces
  std::vector<uint32_t> firsts; ///< by rank: the first that holds the same elements
};

} // namespace

/// What an Assembly of the argument needs: the terms, and which elements are known.
static uint64_t assembledBytes(const ArgumentInfo &info) {
  uint64_t elements = 1;
  for (int64_t extent : info.shape)
    elements *= static_cast<uint64_t>(extent);
  return elements * info.terms * (sizeOf(info.dtype) + 1);
}

Expected<Gathered> run::gatherResults(const Program &program,
                                      const std::vector<Placement> &placements,
                                      const ReadResult &read, Bootstrap &bootstrap,
                                      const AgreeOnStep &agree) {
  Gathered gathered;
  const auto &arguments = program.arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isResult)
      continue;
    std::optional<Gathering> gathering;
    TANDEM_RETURN_IF_ERROR(
        agree(withMemory(fmt::format("result \"{}\" of all ranks", arguments[i].name),
                         assembledBytes(arguments[i]), [&] {
                           gathering.emplace(arguments[i], placements[i], bootstrap);
                           return Status::success();
                         })));
    TANDEM_RETURN_IF_ERROR(gathering->run(
        [&](uint64_t offset, uint64_t count, void *to) { return read(i, offset, count, to); }));
    if (bootstrap.rank() != 0 || !gathered.problem.ok())
      continue;
    auto whole = gathering->assembly->finish();
    if (whole)
      gathered.results.push_back(std::move(*whole));
    else
      gathered.problem = whole.status();
  }
  return gathered;
}

Status run::poison(BoundMemory &memory, DType type) {
  Tensor block(type, {int64_t(1) << 16});
  poison(block);
  for (uint64_t at = 0; at < memory.size(); at += block.data.size())
    TANDEM_RETURN_IF_ERROR(memory.write(block.data.data(), at,
                                        std::min<uint64_t>(block.data.size(), memory.size() - at)));
  return Status::success();
}

std::vector<Tensor> run::makeInputs(uint64_t seed, const Program &program) {
  std::vector<Tensor> inputs;
  for (uint32_t i = 0; i < program.arguments().size(); ++i)
    if (!program.arguments()[i].isResult)
      inputs.push_back(makeInput(seed, i, program.arguments()[i]));
  return inputs;
}

Expected<Reference> run::computeReference(const ProgramFile &file, std::vector<Tensor> &inputs,
                                          const KernelList &kernels,
                                          std::optional<int64_t> extent) {
  auto program = file.reference();
  if (!program)
    return program.status().withPrefix("reference: ");
  Reference reference;
  reference.paths = pathsToResults(**program);
  auto computed = runReference(*program, inputs, kernels, extent);
  if (!computed)
    return computed.status().withPrefix("reference: ");
  reference.results = std::move(*computed);
  return reference;
}

static Status judgeOne(const Program &program, const ArgumentInfo &info, const Placement &placement,
                       const Tensor &out, const Tensor &reference, const Path &path,
                       ResultReport &report) {
  if (out.shape != reference.shape || out.dtype != reference.dtype)
    return Status(Code::InvalidProgram,
                  fmt::format("argument \"{}\": the unsharded reference has {}, the program {}",
                              info.name, reference.layout().str(), out.layout().str()));
  Comparison comparison = compare(out, reference, path, program.index().reduced_wire());
  if (report.name.empty())
    report = {info.name, info.dtype, comparison};
  else if (!(comparison.error <= report.comparison.error))
    report.comparison = comparison;
  int64_t index = comparison.firstWrong;
  if (index < 0)
    return Status::success();
  std::string error = comparison.exact
                          ? "expected equality to the last bit"
                          : fmt::format("relative error {:.1e}, expected at most {:.1e}",
                                        comparison.error, comparison.tolerance);
  return Status(Code::Internal,
                fmt::format("argument \"{}\", {}; first wrong at index {}, held by rank {}: found "
                            "{}, expected {}",
                            info.name, error, indexText(out.shape, index), rankOf(placement, index),
                            out.get(index), reference.get(index)));
}

Status run::judge(const Program &program, const std::vector<Placement> &placements,
                  const std::vector<Tensor> &results, const Reference &reference,
                  std::vector<ResultReport> &reports) {
  reports.resize(results.size());
  size_t next = 0;
  Status wrong;
  for (size_t i = 0; i < program.arguments().size(); ++i) {
    if (!program.arguments()[i].isResult)
      continue;
    Status status = judgeOne(program, program.arguments()[i], placements[i], results[next],
                             reference.results[next], reference.paths[next], reports[next]);
    if (wrong.ok())
      wrong = status;
    ++next;
  }
  return wrong;
}
