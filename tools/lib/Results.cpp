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

using namespace tandem;
using namespace tandem::run;

Expected<std::vector<Placement>> run::gatherPlacements(const Program &program,
                                                       Bootstrap &bootstrap) {
  std::vector<Shard> mine = shardsOf(program);
  std::vector<int64_t> numbers;
  for (const Shard &shard : mine) {
    numbers.insert(numbers.end(), {shard.present, shard.offset, shard.term,
                                   static_cast<int64_t>(shard.shape.size())});
    numbers.insert(numbers.end(), shard.shape.begin(), shard.shape.end());
    numbers.insert(numbers.end(), shard.strides.begin(), shard.strides.end());
  }
  std::string text(reinterpret_cast<const char *>(numbers.data()),
                   numbers.size() * sizeof(int64_t));
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, text));
  std::vector<Placement> placements(mine.size());
  for (const std::string &theirs : all) {
    size_t at = 0;
    auto next = [&] {
      int64_t value = 0;
      if (at + sizeof(value) <= theirs.size())
        std::memcpy(&value, theirs.data() + at, sizeof(value));
      at += sizeof(value);
      return value;
    };
    for (Placement &placement : placements) {
      Shard shard;
      shard.present = next() != 0;
      shard.offset = next();
      shard.term = static_cast<uint32_t>(next());
      auto dims = static_cast<size_t>(next());
      for (std::vector<int64_t> *part : {&shard.shape, &shard.strides})
        for (size_t d = 0; d < dims; ++d)
          part->push_back(next());
      placement.push_back(std::move(shard));
    }
    if (at != theirs.size())
      return Status(Code::Internal, "ranks disagree on the program's arguments");
  }
  return placements;
}

/// The bytes of every rank, on rank 0; empty on others. In pieces: only rank 0 needs memory for
/// what all ranks have.
static Expected<std::vector<std::string>> gatherOnRoot(const Tensor &mine, Bootstrap &bootstrap) {
  constexpr uint64_t piece = uint64_t(4) << 20;
  uint64_t size = mine.data.size();
  std::vector<uint64_t> sizes(bootstrap.worldSize());
  TANDEM_RETURN_IF_ERROR(bootstrap.allGather(&size, sizeof size, sizes.data()));
  uint64_t most = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::string> parts(bootstrap.rank() == 0 ? sizes.size() : 0);
  for (size_t rank = 0; rank < parts.size(); ++rank)
    parts[rank].reserve(sizes[rank]);
  std::string sent, all;
  for (uint64_t begin = 0; begin < most; begin += piece) {
    uint64_t length = std::min(piece, most - begin);
    auto lengthOf = [&](uint64_t of) { return begin < of ? std::min(length, of - begin) : 0; };
    if (uint64_t mineHere = lengthOf(size))
      sent.assign(reinterpret_cast<const char *>(mine.data.data()) + begin, mineHere);
    else
      sent.clear();
    sent.resize(length);
    all.resize(length * sizes.size());
    TANDEM_RETURN_IF_ERROR(bootstrap.allGather(sent.data(), length, all.data()));
    for (size_t rank = 0; rank < parts.size(); ++rank)
      parts[rank].append(all, rank * length, lengthOf(sizes[rank]));
  }
  return parts;
}

Expected<std::vector<Tensor>> run::gatherResults(const Program &program,
                                                 const std::vector<Placement> &placements,
                                                 const std::vector<Tensor> &buffers,
                                                 Bootstrap &bootstrap) {
  std::vector<Tensor> results;
  Status problem;
  const auto &arguments = program.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isResult)
      continue;
    TANDEM_ASSIGN_OR_RETURN(auto parts, gatherOnRoot(buffers[i], bootstrap));
    if (bootstrap.rank() != 0 || !problem.ok())
      continue;
    auto whole = assemble(arguments[i], placements[i], parts);
    if (whole)
      results.push_back(std::move(*whole));
    else
      problem = whole.status();
  }
  if (!problem.ok())
    return problem;
  return results;
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
  auto oracle = file.oracle();
  if (!oracle)
    return oracle.status().withPrefix("oracle: ");
  Reference reference;
  reference.paths = pathsToResults(**oracle);
  auto computed = runOracle(*oracle, inputs, kernels, extent);
  if (!computed)
    return computed.status().withPrefix("oracle: ");
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
