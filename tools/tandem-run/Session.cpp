//===- Session.cpp - one rank's runs ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Clock.h"
#include "Files.h"
#include "Inputs.h"
#include "Measured.h"
#include "Ranks.h"
#include "Results.h"
#include "ToolMain.h"
#include "tandem/Program/NativeCode.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

using namespace tandem;
using namespace tandem::run;
using Clock = std::chrono::steady_clock;

namespace {

/// Names come from the program's file: they must not leave the folder. A name that an earlier entry
/// has taken (an input and a result may share theirs) is followed by a number.
std::string fileName(const std::string &name, const nlohmann::json &entries) {
  std::string stem;
  for (char c : name)
    stem += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  if (stem.empty() || stem[0] == '.')
    stem = "_" + stem;
  std::string file = stem + ".npy";
  auto isTaken = [&](const nlohmann::json &entry) { return entry["file"] == file; };
  for (int i = 2; std::any_of(entries.begin(), entries.end(), isTaken); ++i)
    file = fmt::format("{}-{}.npy", stem, i);
  return file;
}

/// Writes <name>.npy files of one folder (made if need be) and, at the end, index.json: a list of
/// {name, role: "input"|"output", dtype, shape, file}. NumPy has no bf16: such a tensor is written
/// as uint16, the upper half of the f32 with the same value
/// (`(a.astype(np.uint32) << 16).view(np.float32)`, or `a.view(ml_dtypes.bfloat16)`); floats of 8
/// bits as uint8 (`a.view(ml_dtypes.float8_e4m3fn)`).
class NpyFolder {
public:
  static Expected<NpyFolder> create(const std::string &path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error)
      return Status(Code::Io, fmt::format("cannot make folder \"{}\": {}", path, error.message()));
    NpyFolder folder(path);
    folder.index = "[]";
    return folder;
  }

  Status add(const std::string &name, bool isResult, const Tensor &tensor) {
    // By DType; NumPy has neither bf16 nor floats of 8 bits.
    static constexpr const char *descriptors[kNumDTypes] = {
        "<f4", "<f2", "<u2", "<i4", "<f8", "<i8", "|i1", "|b1", "<i2", "|u1", "|u1"};
    const char *descriptor = descriptors[static_cast<unsigned>(tensor.dtype)];
    std::string shape;
    for (int64_t extent : tensor.shape)
      shape += fmt::format("{},", extent);
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                     descriptor, shape);
    // Magic, version 1.0 and length are 10 bytes; the data starts at a multiple of 64.
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    std::string head("\x93NUMPY\x01\x00", 8);
    head += static_cast<char>(header.size() & 0xff);
    head += static_cast<char>(header.size() >> 8);

    auto entries = nlohmann::json::parse(index);
    std::string file = fileName(name, entries);
    entries.push_back({{"name", name},
                       {"role", isResult ? "output" : "input"},
                       {"dtype", toString(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"file", file}});
    index = entries.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::string bytes = head + header;
    bytes.append(reinterpret_cast<const char *>(tensor.data.data()), tensor.data.size());
    return writeFile(path + "/" + file, bytes);
  }

  Status finish() { return writeFile(path + "/index.json", index + "\n"); }

private:
  explicit NpyFolder(std::string path) : path(std::move(path)) {}
  std::string path, index;
};

/// Bytes of all arguments: of this rank's pieces, or of the logical tensors.
uint64_t bytesOf(const Program &program, bool logical) {
  uint64_t bytes = 0;
  for (const ArgumentInfo &info : program.arguments()) {
    const std::vector<int64_t> &shape = logical ? info.shape : info.localShape;
    if (logical || info.present)
      bytes +=
          Layout::dense(info.dtype, shape.data(), static_cast<unsigned>(shape.size())).numBytes();
  }
  return bytes;
}

class Session {
public:
  Session(RankJob &job, const std::string &path, std::string_view bytes, Report &report)
      : job(job), options(job.options), bootstrap(job.bootstrap), path(path), bytes(bytes),
        report(report), root(job.bootstrap.rank() == 0) {}

  /// Memory may also run out, and threads, where no rank waits to hear of it.
  Status run() {
    try {
      return runAll();
    } catch (const std::exception &) {
      Status caught = caughtException().withPrefix(
          rankMessage(bootstrap.rank(), fmt::format("while it {}: ", doing)));
      bootstrap.giveUp(caught);
      return caught;
    }
  }

private:
  Status runAll() {
    TANDEM_RETURN_IF_ERROR(agree(load(), Step::Own));
    doing = "made its context";
    // Ranks as threads prepare in a world of its own, where the others would not hear that one has
    // gone.
    if (!job.context)
      TANDEM_RETURN_IF_ERROR(agree(makeContext(), Step::Context));
    context = job.context.get();
    doing = "prepared the program";
    TANDEM_RETURN_IF_ERROR(agree(prepare(), Step::Together));
    doing = "ran the program and compared its results";
    // All but the last extent: one run each.
    for (size_t i = 0; i + 1 < options.extents.size(); ++i)
      TANDEM_RETURN_IF_ERROR(runFirst(options.extents[i], false));
    TANDEM_RETURN_IF_ERROR(
        runFirst(options.extents.empty() ? std::nullopt : std::optional(options.extents.back()),
                 !options.dumpNpy.empty()));
    TANDEM_RETURN_IF_ERROR(keepBits());
    for (uint32_t i = 0; i < options.warmup; ++i)
      TANDEM_RETURN_IF_ERROR(runOnce().status());
    TANDEM_RETURN_IF_ERROR(poisonResults());
    for (uint32_t i = 0; i < options.repeat; ++i) {
      TANDEM_RETURN_IF_ERROR(bootstrap.barrier());
      TANDEM_ASSIGN_OR_RETURN(double ms, runOnce());
      times.push_back(ms);
      TANDEM_RETURN_IF_ERROR(compareBits(i));
    }
    if (options.verify)
      TANDEM_RETURN_IF_ERROR(examine(false));
    TANDEM_RETURN_IF_ERROR(agreeOnBits());
    TANDEM_RETURN_IF_ERROR(measure());
    doing = "gathered its report";
    return collect();
  }

  /// Inputs are the same in every run: what a later run should have waited for may lie there from
  /// the one before. So the first is looked at by itself, and the last for what comes with speed.
  Status runFirst(std::optional<int64_t> wanted, bool dump) {
    TANDEM_RETURN_IF_ERROR(agree(setExtent(wanted), Step::Own));
    TANDEM_ASSIGN_OR_RETURN(placements, gatherPlacements(*program, bootstrap));
    TANDEM_RETURN_IF_ERROR(
        agree(withMemory("this rank's tensors", bytesOf(*program, false), [&] { return bind(); }),
              Step::Own));
    TANDEM_RETURN_IF_ERROR(runOnce().status());
    return options.verify || dump ? examine(dump) : Status::success();
  }

  Status setExtent(std::optional<int64_t> wanted) {
    extent = wanted;
    if (!extent)
      return Status::success();
    TANDEM_RETURN_IF_ERROR(context->check(tandem_set_extent(prepared->instance(), *extent)));
    program = atExtent(whole, *extent);
    reference.reset();
    report.results.clear();
    return Status::success();
  }

  /// What a step that failed says of the other ranks and programs.
  enum class Step {
    Own,      ///< each rank does its part by itself
    Together, ///< fails on all ranks, or on none
    Context,  ///< no program can do without it
  };

  /// What one rank tells the others of a step: Good is said by an empty word, else the first letter
  /// of it, and the message follows.
  enum Word : char {
    Refused = 'r', ///< this program: the rank can go on with the next
    Heard = 'h',   ///< of another rank that has failed
    Broken = 'b',  ///< the rank cannot go on
  };

  Word wordOf(const Status &status, Step step) const {
    if (step == Step::Context || (context && tandem_context_health(context->handle()) != TANDEM_OK))
      return Broken;
    switch (status.code()) {
    case Code::InvalidArgument:
    case Code::InvalidProgram:
    case Code::Unsupported:
    case Code::OutOfMemory:
      return Refused;
    case Code::Aborted:
      return Heard;
    default: // after these the state of the device and the peers is unknown
      return Broken;
    }
  }

  /// Before a program runs: all ranks hear how a step went on each. If one refuses the program,
  /// that is everybody's Report::failure, and an error here.
  Status agree(const Status &mine, Step step) {
    std::string word;
    if (!mine.ok())
      word = char(wordOf(mine, step)) + rankMessage(bootstrap.rank(), mine.message());
    auto all = allGatherStrings(bootstrap, word);
    if (!all)
      return mine.ok() ? all.status() : mine;
    auto first = [&](char letter) -> const std::string * {
      for (const std::string &theirs : *all)
        if (!theirs.empty() && theirs[0] == letter)
          return &theirs;
      return nullptr;
    };
    const std::string *refused = first(Refused), *heard = first(Heard), *broken = first(Broken);
    bool someGood = std::any_of(all->begin(), all->end(), [](auto &w) { return w.empty(); });
    if (!refused && !heard && !broken)
      return Status::success();
    // Who was told that another rank has failed needs one that says so.
    if (broken || !refused || (step == Step::Together && someGood)) {
      const std::string *why = broken ? broken : heard ? heard : refused;
      return mine.ok() ? Status(Code::Aborted, why->substr(1)) : mine;
    }
    report.failure = ((*all)[0].empty() ? *refused : (*all)[0]).substr(1);
    report.mine = word.empty() ? "" : word.substr(1);
    return Status(Code::Aborted, report.failure);
  }

  Status load() {
    auto opened = ProgramFile::fromMemory(bytes);
    if (!opened)
      return opened.status().withPrefix(path + ": ");
    file = *opened;
    report.name = file->name();
    report.ranks = file->numRanks();
    TANDEM_RETURN_IF_ERROR(checkRanks(*file, bootstrap.worldSize()));
    Status proof = file->requireProof();
    report.proven = proof.ok();
    if (options.requireProof)
      TANDEM_RETURN_IF_ERROR(proof.withPrefix("--require-proof: "));
    auto mine = file->rankProgram(bootstrap.rank());
    if (!mine)
      return mine.status().withPrefix(path + ": ");
    whole = program = *mine;
    if (options.noNative)
      TANDEM_RETURN_IF_ERROR(refuseNativeCode(*whole).withPrefix("--no-native: "));
    if (options.verify && !file->hasReference())
      return Status(Code::InvalidArgument, "--verify: the file has no unsharded reference");
    return Status::success();
  }

  Status makeContext() {
    ContextRequest request{options.device, options.channel, options.timeout, options.noGraph};
    TANDEM_ASSIGN_OR_RETURN(request.kernels, loadKernels(options.kernels));
    request.link = options.link;
    request.flightRecorder = options.hangReport;
    TANDEM_ASSIGN_OR_RETURN(job.context, RankContext::create(request, bootstrap, job.localWorld));
    return Status::success();
  }

  Status prepare() {
    TANDEM_ASSIGN_OR_RETURN(prepared, PreparedProgram::create(*context, bytes));
    return Status::success();
  }

  Status bind() {
    const auto &arguments = program->arguments();
    memories.clear();
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      const ArgumentInfo &info = arguments[i];
      const Shard &shard = placements[i][bootstrap.rank()];
      // What a rank has of a result is only in the memory that is bound: it may be large.
      uint64_t bytes = shard.numElements() * sizeOf(info.dtype);
      TANDEM_ASSIGN_OR_RETURN(auto memory, BoundMemory::create(*context, bytes));
      memories.push_back(std::move(memory));
      if (!info.isResult)
        TANDEM_RETURN_IF_ERROR(
            memories[i]->write(makeShard(options.seed, i, info, shard).data.data()));
      if (shard.present && !info.isMask)
        TANDEM_RETURN_IF_ERROR(context->check(
            tandem_bind(prepared->instance(), i, memories[i]->data(), bytes,
                        static_cast<tandem_dtype>(info.dtype),
                        static_cast<uint32_t>(info.localShape.size()), info.localShape.data())));
    }
    return poisonResults();
  }

  Status poisonResults() {
    for (uint32_t i = 0; i < memories.size(); ++i)
      if (program->arguments()[i].isResult)
        TANDEM_RETURN_IF_ERROR(poison(*memories[i], program->arguments()[i].dtype));
    return Status::success();
  }

  Expected<double> runOnce() {
    auto begin = Clock::now();
    TANDEM_RETURN_IF_ERROR(context->check(tandem_run(prepared->instance())));
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

  /// Gathers the results and compares them, on rank 0; all ranks learn whether that went well.
  Status examine(bool dump) {
    auto gathered = gatherResults(
        *program, placements,
        [&](uint32_t argument, uint64_t offset, uint64_t count, void *to) {
          return memories[argument]->read(to, offset, count);
        },
        bootstrap, [this](const Status &mine) { return agree(mine, Step::Own); });
    if (!gathered)
      return gathered.status();
    // What is wrong with the results is for rank 0 to say, and for all to hear.
    Status verdict = gathered->problem;
    if (root && verdict.ok())
      verdict = withMemory("the unsharded reference's tensors", 2 * bytesOf(*program, true),
                           [&] { return examineWhole(gathered->results, dump); });
    std::string problem = verdict.code() == Code::OutOfMemory
                              ? rankMessage(bootstrap.rank(), verdict.message())
                              : verdict.message();
    TANDEM_ASSIGN_OR_RETURN(auto verdicts, allGatherStrings(bootstrap, problem));
    report.failure = verdicts[0];
    return verdicts[0].empty() ? Status::success() : Status(Code::Aborted, verdicts[0]);
  }

  bool mustRepeatBits() const {
    return options.verify && file->index().deterministic() != sp::Determinism::none;
  }

  Expected<std::vector<std::byte>> bitsOf(uint32_t argument) {
    std::vector<std::byte> bits(memories[argument]->size());
    TANDEM_RETURN_IF_ERROR(memories[argument]->read(bits.data(), 0, bits.size()));
    return bits;
  }

  /// This rank's results of the first run, if later ones must have the same bits.
  Status keepBits() {
    firstBits.resize(memories.size());
    for (uint32_t i = 0; mustRepeatBits() && i < memories.size(); ++i)
      if (program->arguments()[i].isResult) {
        TANDEM_ASSIGN_OR_RETURN(firstBits[i], bitsOf(i));
      }
    return Status::success();
  }

  /// Compares this rank's results with those of the first run, if they must have the same bits.
  Status compareBits(uint32_t run) {
    for (uint32_t i = 0; mustRepeatBits() && i < memories.size() && otherBits.empty(); ++i) {
      const ArgumentInfo &info = program->arguments()[i];
      if (!info.isResult)
        continue;
      TANDEM_ASSIGN_OR_RETURN(auto found, bitsOf(i));
      if (found != firstBits[i])
        otherBits = rankMessage(
            bootstrap.rank(),
            fmt::format("the program is deterministic, but run {} gave result \"{}\" other bits "
                        "than the first run",
                        run + 2 + options.warmup, info.name));
    }
    return Status::success();
  }

  /// After all runs: whether every rank found the same bits.
  Status agreeOnBits() {
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, otherBits));
    for (const std::string &problem : all)
      if (!problem.empty()) {
        report.failure = problem;
        return Status(Code::Aborted, problem);
      }
    return Status::success();
  }

  Status examineWhole(const std::vector<Tensor> &results, bool dump) {
    if (dump)
      TANDEM_RETURN_IF_ERROR(writeTensors(results));
    if (!options.verify)
      return Status::success();
    if (!reference) {
      std::vector<Tensor> inputs = makeInputs(options.seed, *program);
      TANDEM_ASSIGN_OR_RETURN(KernelList kernels, loadKernels(options.kernels));
      TANDEM_ASSIGN_OR_RETURN(Reference computed, computeReference(*file, inputs, kernels, extent));
      reference = std::move(computed);
    }
    return judge(*program, placements, results, *reference, report.results);
  }

  Status writeTensors(const std::vector<Tensor> &results) {
    TANDEM_ASSIGN_OR_RETURN(auto folder, NpyFolder::create(dumpFolder(options, path)));
    std::vector<Tensor> inputs = makeInputs(options.seed, *program);
    size_t input = 0, result = 0;
    for (const ArgumentInfo &info : program->arguments()) {
      const Tensor &tensor = info.isResult ? results[result++] : inputs[input++];
      if (!info.isMask)
        TANDEM_RETURN_IF_ERROR(folder.add(info.name, info.isResult, tensor));
    }
    return folder.finish();
  }

  /// One more run, of which every command's time is noted.
  Status measure() {
    if (options.trace.empty())
      return Status::success();
    TANDEM_RETURN_IF_ERROR(context->check(tandem_trace(prepared->instance(), 1)));
    TANDEM_RETURN_IF_ERROR(bootstrap.barrier());
    MeasuredRun mine;
    mine.begin = nanoseconds();
    TANDEM_RETURN_IF_ERROR(runOnce().status());
    mine.end = nanoseconds();
    uint32_t count = 0;
    TANDEM_RETURN_IF_ERROR(
        context->check(tandem_command_times(prepared->instance(), &mine.times, &count)));
    mine.count = count;
    std::string origin = fmt::format("measured on {} over {}", options.device, options.channel);
    if (!options.link.empty())
      origin += ", link " + options.link;
    return traceRun(*file, bootstrap, mine, origin, options.trace);
  }

  Status collect() {
    RankReport mine = countCommands(*program);
    mine.medianMs = medianOf(times);
    report.perRank.resize(bootstrap.worldSize());
    TANDEM_RETURN_IF_ERROR(bootstrap.allGather(&mine, sizeof(mine), report.perRank.data()));
    std::vector<double> all(times.size() * bootstrap.worldSize());
    TANDEM_RETURN_IF_ERROR(
        bootstrap.allGather(times.data(), times.size() * sizeof(double), all.data()));
    for (size_t i = 0; i < times.size(); ++i) {
      double slowest = 0;
      for (uint32_t rank = 0; rank < bootstrap.worldSize(); ++rank)
        slowest = std::max(slowest, all[rank * times.size() + i]);
      report.milliseconds.push_back(slowest);
    }
    report.verified = options.verify;
    return Status::success();
  }

  RankJob &job;
  const Options &options;
  Bootstrap &bootstrap;
  const std::string &path;
  std::string_view bytes;
  Report &report;
  bool root;
  const char *doing = "loaded the program"; ///< for messages
  std::shared_ptr<const ProgramFile> file;
  std::shared_ptr<const Program> whole;   ///< as compiled
  std::shared_ptr<const Program> program; ///< with the extent of the current runs
  std::optional<int64_t> extent;
  std::vector<Placement> placements;             ///< by argument
  std::vector<std::vector<std::byte>> firstBits; ///< by argument: of the first run, see keepBits
  std::string otherBits;                         ///< what compareBits found on this rank
  std::vector<double> times;                     ///< ms
  std::optional<Reference> reference;            ///< rank 0
  RankContext *context = nullptr;
  std::vector<std::unique_ptr<BoundMemory>> memories; ///< by argument; outlive the runs
  std::unique_ptr<PreparedProgram> prepared;
};

} // namespace

Status run::checkRanks(const ProgramFile &file, uint32_t launched) {
  if (file.numRanks() == launched)
    return Status::success();
  return Status(Code::InvalidArgument,
                fmt::format("program \"{}\" is for {} ranks, launched were {}", file.name(),
                            file.numRanks(), launched));
}

Status run::runRank(RankJob &job, const std::string &program, std::string_view bytes,
                    Report &report) {
  Status status = Session(job, program, bytes, report).run();
  // All ranks have met over it.
  return report.failure.empty() ? status : Status::success();
}
