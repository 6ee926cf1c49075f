//===- Session.cpp - one rank's runs ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Inputs.h"
#include "Measure.h"
#include "Npy.h"
#include "tandem/Schema/stream_program_generated.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <sched.h>

using namespace tandem;
using namespace tandem::run;
using Clock = std::chrono::steady_clock;

namespace {

/// The handles of the C API, given back in the right order.
struct Handles {
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  std::vector<tandem_memory *> memories; ///< by argument; empty where the device takes the host's

  ~Handles() {
    if (instance)
      tandem_instance_destroy(instance);
    for (tandem_memory *memory : memories)
      tandem_memory_destroy(memory);
    if (program)
      tandem_program_destroy(program);
    if (context)
      tandem_context_destroy(context);
  }
  Status check(tandem_code code) const {
    return code == TANDEM_OK ? Status::success()
                             : Status(static_cast<Code>(code), tandem_last_error(context));
  }
};

/// Cores of this process, shared among the ranks of the node.
uint32_t matmulThreads(const Launch &launch, bool threads) {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set))
    return 1;
  auto cores = static_cast<uint32_t>(CPU_COUNT(&set));
  return std::max(1u, cores / std::max(1u, threads ? launch.worldSize() : launch.localSize()));
}

class Session {
public:
  Session(const RankJob &job, Report &report)
      : job(job), options(job.options), launch(job.launch), report(report),
        root(job.launch.rank() == 0) {}

  Status run() {
    TANDEM_RETURN_IF_ERROR(load());
    // Ranks as threads prepare in a world of its own, where nobody would hear that one has gone.
    TANDEM_RETURN_IF_ERROR(launch.barrier());
    TANDEM_RETURN_IF_ERROR(prepare());
    TANDEM_RETURN_IF_ERROR(placeArguments());
    TANDEM_RETURN_IF_ERROR(bind());
    // Inputs are the same in every run: what a later run should have waited for may lie there from
    // the one before. So the first is looked at by itself, and the last for what comes with speed.
    TANDEM_RETURN_IF_ERROR(runOnce().status());
    if (options.verify || !options.dumpNpy.empty())
      TANDEM_RETURN_IF_ERROR(examine(!options.dumpNpy.empty()));
    for (uint32_t i = 0; i < options.warmup; ++i)
      TANDEM_RETURN_IF_ERROR(runOnce().status());
    TANDEM_RETURN_IF_ERROR(poisonResults());
    for (uint32_t i = 0; i < options.repeat; ++i) {
      TANDEM_RETURN_IF_ERROR(launch.barrier());
      TANDEM_ASSIGN_OR_RETURN(double ms, runOnce());
      times.push_back(ms);
    }
    if (options.verify)
      TANDEM_RETURN_IF_ERROR(examine(false));
    TANDEM_RETURN_IF_ERROR(measure());
    return collect();
  }

private:
  Status load() {
    auto opened = ProgramFile::fromMemory(job.bytes);
    if (!opened)
      return opened.status().withPrefix(options.program + ": ");
    file = *opened;
    report.name = file->name();
    report.ranks = file->numRanks();
    TANDEM_RETURN_IF_ERROR(checkRanks(*file, launch.worldSize()));
    auto mine = file->rankProgram(launch.rank());
    if (!mine)
      return mine.status().withPrefix(options.program + ": ");
    program = *mine;
    if (options.verify && !file->hasOracle())
      return Status(Code::InvalidArgument, "--verify: the file has no oracle");
    return Status::success();
  }

  Status prepare() {
    tandem_launch callbacks{};
    callbacks.rank = launch.rank();
    callbacks.world_size = launch.worldSize();
    callbacks.local_rank = launch.localRank();
    callbacks.local_size = launch.localSize();
    callbacks.user = this;
    callbacks.all_gather = [](void *user, const void *mine, size_t bytes, void *all) {
      auto *self = static_cast<Session *>(user);
      self->launchError = self->launch.allGather(mine, bytes, all);
      return static_cast<int>(self->launchError.code());
    };
    callbacks.barrier = [](void *user) {
      auto *self = static_cast<Session *>(user);
      self->launchError = self->launch.barrier();
      return static_cast<int>(self->launchError.code());
    };
    tandem_context_options context{};
    context.struct_size = sizeof(context);
    context.device = options.device.c_str();
    context.channels = options.channel.c_str();
    if (job.localWorld) {
      context.local_world = job.localWorld;
      context.local_world_rank = launch.rank();
    } else if (launch.worldSize() > 1) {
      context.launch = &callbacks;
    }
    context.timeout_ms = static_cast<uint32_t>(options.timeout.count());
    context.no_graphs = options.noGraph;
    context.matmul_threads = matmulThreads(launch, job.localWorld != nullptr);
    // What the launch had to say is better than "the callback returned 5".
    auto check = [&](tandem_code code) {
      return code != TANDEM_OK && !launchError.ok() ? launchError : handles.check(code);
    };
    TANDEM_RETURN_IF_ERROR(check(tandem_context_create(&context, &handles.context)));
    TANDEM_RETURN_IF_ERROR(check(tandem_program_load_memory(handles.context, job.bytes.data(),
                                                            job.bytes.size(), &handles.program)));
    return check(tandem_prepare(handles.context, handles.program, &handles.instance));
  }

  /// Exchanges who holds what.
  Status placeArguments() {
    TANDEM_ASSIGN_OR_RETURN(std::vector<Shard> mine, shardsOf(*program));
    std::vector<int64_t> numbers;
    for (const Shard &shard : mine) {
      numbers.insert(numbers.end(), {shard.present, shard.offset, shard.term,
                                     static_cast<int64_t>(shard.shape.size())});
      numbers.insert(numbers.end(), shard.shape.begin(), shard.shape.end());
      numbers.insert(numbers.end(), shard.strides.begin(), shard.strides.end());
    }
    std::string text(reinterpret_cast<const char *>(numbers.data()),
                     numbers.size() * sizeof(int64_t));
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(launch, text));
    placements.resize(mine.size());
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
    return Status::success();
  }

  Status bind() {
    const auto &arguments = program->arguments();
    buffers.reserve(arguments.size());
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      const ArgumentInfo &info = arguments[i];
      const Shard &shard = placements[i][launch.rank()];
      if (info.isResult) {
        buffers.emplace_back(info.dtype, shard.present ? info.localShape : std::vector<int64_t>{0});
      } else {
        buffers.push_back(makeShard(options.seed, i, info, shard));
      }
      Tensor &buffer = buffers.back();
      TANDEM_ASSIGN_OR_RETURN(void *place, placeOf(buffer));
      if (shard.present)
        TANDEM_RETURN_IF_ERROR(handles.check(tandem_bind(
            handles.instance, i, place, buffer.data.size(), static_cast<tandem_dtype>(info.dtype),
            static_cast<uint32_t>(buffer.shape.size()), buffer.shape.data())));
    }
    TANDEM_RETURN_IF_ERROR(poisonResults());
    return launch.barrier();
  }

  /// Where the device finds `buffer`: a GPU has a copy.
  Expected<void *> placeOf(Tensor &buffer) {
    if (options.device.compare(0, 4, "cuda") != 0)
      return static_cast<void *>(buffer.data.data());
    tandem_memory *memory = nullptr;
    TANDEM_RETURN_IF_ERROR(
        handles.check(tandem_memory_create(handles.context, buffer.data.size(), &memory)));
    handles.memories.push_back(memory);
    TANDEM_RETURN_IF_ERROR(
        handles.check(tandem_memory_write(memory, 0, buffer.data.data(), buffer.data.size())));
    return tandem_memory_data(memory);
  }

  Status poisonResults() {
    for (uint32_t i = 0; i < buffers.size(); ++i)
      if (program->arguments()[i].isResult) {
        poison(buffers[i]);
        if (!handles.memories.empty())
          TANDEM_RETURN_IF_ERROR(handles.check(tandem_memory_write(
              handles.memories[i], 0, buffers[i].data.data(), buffers[i].data.size())));
      }
    return Status::success();
  }

  Expected<double> runOnce() {
    auto begin = Clock::now();
    TANDEM_RETURN_IF_ERROR(handles.check(tandem_run(handles.instance)));
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

  /// Gathers the results and compares them, on rank 0; all ranks learn whether that went well.
  Status examine(bool dump) {
    std::string problem;
    std::vector<Tensor> results;
    const auto &arguments = program->arguments();
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].isResult)
        continue;
      if (!handles.memories.empty())
        TANDEM_RETURN_IF_ERROR(handles.check(tandem_memory_read(
            handles.memories[i], 0, buffers[i].data.data(), buffers[i].data.size())));
      TANDEM_ASSIGN_OR_RETURN(
          auto parts, allGatherStrings(launch, {reinterpret_cast<char *>(buffers[i].data.data()),
                                                buffers[i].data.size()}));
      if (!root || !problem.empty())
        continue;
      auto whole = assemble(arguments[i], placements[i], parts);
      if (whole)
        results.push_back(std::move(*whole));
      else
        problem = whole.status().message();
    }
    if (root && problem.empty())
      problem = judge(results, dump).message();
    TANDEM_ASSIGN_OR_RETURN(auto verdicts, allGatherStrings(launch, problem));
    report.failure = verdicts[0];
    return verdicts[0].empty() ? Status::success() : Status(Code::Aborted, verdicts[0]);
  }

  Status judge(const std::vector<Tensor> &results, bool dump) {
    const auto &arguments = program->arguments();
    if (logicalInputs.empty())
      for (uint32_t i = 0; i < arguments.size(); ++i)
        if (!arguments[i].isResult)
          logicalInputs.push_back(makeInput(options.seed, i, arguments[i]));
    if (dump)
      TANDEM_RETURN_IF_ERROR(writeTensors(results));
    if (!options.verify)
      return Status::success();
    if (!references) {
      auto oracle = file->oracle();
      if (!oracle)
        return oracle.status().withPrefix("oracle: ");
      paths = pathsToResults(**oracle);
      auto computed = runOracle(*oracle, logicalInputs);
      if (!computed)
        return computed.status().withPrefix("oracle: ");
      references = std::move(*computed);
    }
    size_t next = 0;
    Status wrong;
    for (uint32_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].isResult) {
        Status status = judgeOne(i, results[next], (*references)[next], next);
        if (wrong.ok())
          wrong = status;
        ++next;
      }
    return wrong;
  }

  Status judgeOne(uint32_t argument, const Tensor &out, const Tensor &reference, size_t number) {
    const ArgumentInfo &info = program->arguments()[argument];
    if (out.shape != reference.shape || out.dtype != reference.dtype)
      return Status(Code::InvalidProgram,
                    fmt::format("argument \"{}\": the oracle's is {}, the program's {}", info.name,
                                reference.layout().str(), out.layout().str()));
    Comparison comparison = compare(out, reference, paths[number], program->index().reduced_wire());
    if (report.results.size() <= number)
      report.results.push_back({info.name, info.dtype, comparison});
    else if (!(comparison.error <= report.results[number].comparison.error))
      report.results[number].comparison = comparison;
    int64_t index = comparison.firstWrong;
    if (index < 0)
      return Status::success();
    std::string error = comparison.exact
                            ? "expected equality to the last bit"
                            : fmt::format("relative error {:.1e}, expected at most {:.1e}",
                                          comparison.error, comparison.tolerance);
    return Status(
        Code::Internal,
        fmt::format("argument \"{}\", {}; first wrong at index {}, held by rank {}: found "
                    "{}, expected {}",
                    info.name, error, indexText(out.shape, index),
                    rankOf(placements[argument], index), out.get(index), reference.get(index)));
  }

  Status writeTensors(const std::vector<Tensor> &results) {
    TANDEM_ASSIGN_OR_RETURN(auto folder, NpyFolder::create(options.dumpNpy));
    size_t input = 0, result = 0;
    for (const ArgumentInfo &info : program->arguments())
      TANDEM_RETURN_IF_ERROR(folder.add(
          info.name, info.isResult, info.isResult ? results[result++] : logicalInputs[input++]));
    return folder.finish();
  }

  /// One more run, of which every command's time is noted.
  Status measure() {
    if (options.trace.empty() && options.svg.empty())
      return Status::success();
    TANDEM_RETURN_IF_ERROR(handles.check(tandem_trace(handles.instance, 1)));
    TANDEM_RETURN_IF_ERROR(launch.barrier());
    MeasuredRun mine;
    mine.begin = nanoseconds();
    TANDEM_RETURN_IF_ERROR(runOnce().status());
    mine.end = nanoseconds();
    uint32_t count = 0;
    TANDEM_RETURN_IF_ERROR(
        handles.check(tandem_command_times(handles.instance, &mine.times, &count)));
    mine.count = count;
    std::string origin = fmt::format("measured on {} over {}", options.device, options.channel);
    return drawRun(*file, launch, mine, origin, options.trace, options.svg);
  }

  Status collect() {
    RankReport mine = countCommands(*program);
    mine.medianMs = medianOf(times);
    report.perRank.resize(launch.worldSize());
    TANDEM_RETURN_IF_ERROR(launch.allGather(&mine, sizeof(mine), report.perRank.data()));
    std::vector<double> all(times.size() * launch.worldSize());
    TANDEM_RETURN_IF_ERROR(
        launch.allGather(times.data(), times.size() * sizeof(double), all.data()));
    for (size_t i = 0; i < times.size(); ++i) {
      double slowest = 0;
      for (uint32_t rank = 0; rank < launch.worldSize(); ++rank)
        slowest = std::max(slowest, all[rank * times.size() + i]);
      report.milliseconds.push_back(slowest);
    }
    report.verified = options.verify;
    return Status::success();
  }

  const RankJob &job;
  const Options &options;
  Launch &launch;
  Report &report;
  bool root;
  Status launchError;
  std::shared_ptr<const ProgramFile> file;
  std::shared_ptr<const Program> program;
  std::vector<Placement> placements; ///< by argument
  std::vector<Tensor> buffers;       ///< by argument; before `handles`: outlives the runs
  std::vector<double> times;         ///< ms
  std::vector<Tensor> logicalInputs; ///< rank 0
  std::optional<std::vector<Tensor>> references; ///< rank 0
  std::vector<Path> paths;                       ///< rank 0; to the results
  Handles handles;
};

} // namespace

Status run::checkRanks(const ProgramFile &file, uint32_t launched) {
  if (file.numRanks() == launched)
    return Status::success();
  return Status(Code::InvalidArgument,
                fmt::format("program \"{}\" is for {} ranks, launched were {}", file.name(),
                            file.numRanks(), launched));
}

Status run::runRank(const RankJob &job, Report &report) { return Session(job, report).run(); }
