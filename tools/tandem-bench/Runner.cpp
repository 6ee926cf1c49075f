//===- Runner.cpp - rows by turns, on one rank ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "Clock.h"
#include "Pool.h"
#include "Probes.h"
#include "Ranks.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <future>
#include <random>
#include <thread>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using namespace tandem::run;

namespace tandem::bench {

/// Between two barriers of ranks that wait for the oracle; timeouts are longer.
static constexpr std::chrono::milliseconds kPatience(50);

/// What the first rank says that has an error; "": none has. Collective.
static Expected<std::string> firstProblem(Bootstrap &bootstrap, const Status &mine) {
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine.message()));
  for (uint32_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      return rankMessage(rank, all[rank]);
  return std::string();
}

/// What a candidate is made with.
struct Setup {
  run::RankContext &context;
  Bootstrap &bootstrap;
  InputPool &pool;
  uint32_t sets;
  bool poisons; ///< results, before anything runs: somebody will look at them
};

/// Where a turn went.
struct Turn {
  int64_t enqueued = 0, done = 0; ///< ns of this host's clock
};

/// One rank's part of a program that is timed.
class Candidate {
public:
  Candidate(const Variant &variant, Mode mode) : variant(variant), mode(mode) {}

  // One after the other; between them ranks agree that all went well everywhere.
  /// Reads this rank's program.
  Status load(const Setup &setup) {
    context = &setup.context;
    rank = setup.bootstrap.rank();
    TANDEM_ASSIGN_OR_RETURN(file, ProgramFile::fromMemory(variant.bytes));
    if (file->numRanks() != setup.bootstrap.worldSize())
      return Status(Code::InvalidArgument,
                    fmt::format("the program is for {} ranks, there are {}", file->numRanks(),
                                setup.bootstrap.worldSize()));
    TANDEM_ASSIGN_OR_RETURN(program, file->rankProgram(rank));
    return Status();
  }

  /// Collective. Finds memory for all arguments.
  Status allocate(const Setup &setup) {
    TANDEM_ASSIGN_OR_RETURN(placements, gatherPlacements(*program, setup.bootstrap));
    const auto &arguments = program->arguments();
    bindings.resize(setup.sets);
    results.resize(arguments.size());
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      const Shard &shard = placements[i][rank];
      if (arguments[i].isResult) {
        uint64_t bytes = shard.present ? arguments[i].localBytes() : 0;
        TANDEM_ASSIGN_OR_RETURN(results[i], BoundMemory::create(setup.context, bytes));
      }
      for (uint32_t set = 0; set < setup.sets; ++set) {
        BoundMemory *memory = results[i].get();
        if (!memory) {
          TANDEM_ASSIGN_OR_RETURN(memory, setup.pool.get(i, arguments[i], shard, set));
        }
        bindings[set].push_back(memory);
      }
    }
    return Status();
  }

  /// Collective. A graph is captured with its addresses, so each set of inputs has an instance of
  /// its own.
  Status prepare(const Setup &setup) {
    for (uint32_t i = 0; i < (mode == Mode::Graph ? setup.sets : 1); ++i) {
      TANDEM_ASSIGN_OR_RETURN(auto instance, PreparedProgram::create(setup.context, variant.bytes));
      instances.push_back(std::move(instance));
      if (mode == Mode::Traced)
        TANDEM_RETURN_IF_ERROR(context->check(tandem_trace(instances[i]->instance(), 1)));
      TANDEM_RETURN_IF_ERROR(bind(*instances[i], i));
    }
    bound = 0;
    return setup.poisons ? poison() : Status();
  }

  /// From now on runs read set `set`.
  Status use(uint32_t set) {
    if (mode == Mode::Graph) {
      current = set;
      return Status();
    }
    if (bound != set)
      TANDEM_RETURN_IF_ERROR(bind(*instances[0], set));
    bound = set;
    return Status();
  }

  Status poison() {
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i])
        TANDEM_RETURN_IF_ERROR(run::poison(*results[i], program->arguments()[i].dtype));
    return Status();
  }

  /// Enqueues `batch` runs and waits for them.
  Expected<Turn> run(uint32_t batch) {
    tandem_instance *instance = instances[current]->instance();
    Turn turn;
    for (uint32_t i = 0; i < batch; ++i)
      TANDEM_RETURN_IF_ERROR(context->check(tandem_enqueue(instance, nullptr)));
    turn.enqueued = nanoseconds();
    TANDEM_RETURN_IF_ERROR(context->check(tandem_wait(instance)));
    turn.done = nanoseconds();
    if (mode == Mode::Traced)
      TANDEM_RETURN_IF_ERROR(checkTimes(instance));
    return turn;
  }

  /// Collective. Compares the results of the last run, of set `set`, with the oracle's, for which
  /// the other ranks wait as long as it takes. The verdict ("": right) is the same on all ranks;
  /// `error` is rank 0's.
  Expected<std::string> verify(Bootstrap &bootstrap, uint64_t seed, uint32_t set,
                               References &references, double &error) {
    auto whole = gatherResults(
        *program, placements,
        [&](uint32_t argument, uint64_t offset, uint64_t count, void *to) {
          return results[argument]->read(to, offset, count);
        },
        bootstrap,
        [&](const Status &mine) -> Status {
          TANDEM_ASSIGN_OR_RETURN(std::string problem, firstProblem(bootstrap, mine));
          return problem.empty() ? Status() : Status(Code::OutOfMemory, problem);
        });
    if (!whole)
      return whole.status();
    std::future<Status> verdict;
    if (rank == 0)
      verdict = std::async(std::launch::async, [&] {
        return whole->problem.ok() ? compare(whole->results, seed, set, references, error)
                                   : whole->problem;
      });
    // An oracle may take longer than ranks wait for each other: they pass barrier after barrier.
    for (;;) {
      bool done = rank != 0 || verdict.wait_for(kPatience) == std::future_status::ready;
      std::string mine = rank != 0 ? "" : done ? "=" + verdict.get().message() : "";
      TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine));
      if (!all[0].empty())
        return all[0].substr(1);
    }
  }

  const Variant &variant;
  const Mode mode;
  std::shared_ptr<const ProgramFile> file;

private:
  /// That the last run was a traced one.
  Status checkTimes(tandem_instance *instance) const {
    const int64_t *times = nullptr;
    uint32_t count = 0;
    TANDEM_RETURN_IF_ERROR(context->check(tandem_command_times(instance, &times, &count)));
    bool any = std::any_of(times, times + 2 * size_t(count), [](int64_t time) { return time > 0; });
    return any || count == 0 ? Status()
                             : Status(Code::InvalidArgument, "a traced run recorded no times");
  }

  Status bind(PreparedProgram &instance, uint32_t set) {
    const auto &arguments = program->arguments();
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      if (!placements[i][rank].present)
        continue;
      BoundMemory *memory = bindings[set][i];
      const ArgumentInfo &info = arguments[i];
      TANDEM_RETURN_IF_ERROR(context->check(
          tandem_bind(instance.instance(), i, memory->data(), memory->size(),
                      static_cast<tandem_dtype>(info.dtype),
                      static_cast<uint32_t>(info.localShape.size()), info.localShape.data())));
    }
    return Status();
  }

  /// On rank 0: the logical results with the oracle's, which is asked once a role and set.
  Status compare(const std::vector<Tensor> &whole, uint64_t seed, uint32_t set,
                 References &references, double &error) const {
    // The fusion is one, however it runs.
    Role role = variant.role == Role::Sequence ? Role::Fused : variant.role;
    auto found = references.find({role, set});
    if (found == references.end()) {
      std::vector<Tensor> logical = makeInputs(seedOf(seed, set), *program);
      TANDEM_ASSIGN_OR_RETURN(Reference reference, computeReference(*file, logical));
      found = references.emplace(std::pair(role, set), std::move(reference)).first;
    }
    std::vector<ResultReport> reports;
    Status status = judge(*program, placements, whole, found->second, reports);
    for (const ResultReport &report : reports)
      error = std::max(error, report.comparison.error);
    return status;
  }

  run::RankContext *context = nullptr;
  std::shared_ptr<const Program> program;
  std::vector<run::Placement> placements;
  std::vector<std::vector<run::BoundMemory *>> bindings;  ///< by set, by argument
  std::vector<std::unique_ptr<run::BoundMemory>> results; ///< by argument; null for inputs
  std::vector<std::unique_ptr<run::PreparedProgram>> instances;
  uint32_t rank = 0;
  uint32_t current = 0; ///< instance
  uint32_t bound = 0;   ///< set of the only instance
};

} // namespace tandem::bench

/// From the last rank's arrival to the common start: the news must have come by then.
static constexpr int64_t kLead = 300000;
/// Rounds that a row has at least.
static constexpr uint32_t kLeastRounds = 3;
/// Operations of a product up to which verifying it takes about a second.
static constexpr double kVerifiedFlops = 2e9;

std::vector<Slot> bench::slotsOf(uint32_t round, size_t count, uint32_t sets) {
  std::vector<Slot> slots(count);
  // Rounds that end with the last set begin with the first one. The others begin with another one,
  // as the parts are not alike.
  uint32_t shift = count % sets == 0 ? round : 0;
  for (uint32_t part = 0; part < sets; ++part) {
    std::vector<size_t> candidates;
    for (size_t c = part; c < count; c += sets)
      candidates.push_back(c);
    // Of all ranks alike. Not std::shuffle, which libraries define differently.
    std::minstd_rand random(1 + round * sets + part);
    random.discard(8); // small seeds begin alike
    for (size_t i = candidates.size(); i > 1; --i)
      std::swap(candidates[i - 1], candidates[random() % i]);
    for (size_t i = 0; i < candidates.size(); ++i)
      slots[i * sets + (part + shift) % sets] = {candidates[i], (round + part) % sets};
  }
  return slots;
}

Status Runner::start() {
  spins = std::thread::hardware_concurrency() >= hostRanks();
  TANDEM_ASSIGN_OR_RETURN(offset, clockOffset(bootstrap));
  // Ranks as threads prepare in a world of its own, where the others would not hear that one has
  // gone.
  TANDEM_RETURN_IF_ERROR(bootstrap.barrier());
  for (Mode mode : options.modes) {
    ContextRequest request{options.device, options.channel, options.timeout, mode == Mode::Direct};
    TANDEM_ASSIGN_OR_RETURN(auto context, RankContext::create(request, bootstrap, world));
    contexts.push_back(std::move(context));
  }
  bool gated = tandem_context_has_gated_kernels(contexts[0]->handle()) != 0;
  TANDEM_ASSIGN_OR_RETURN(gatedKernels, allHave(gated));
  TANDEM_ASSIGN_OR_RETURN(exchangeKernels, allHave(hasExchangeKernels()));
  return bootstrap.barrier();
}

bool Runner::hasExchangeKernels() {
  // Channel peer has them for GPUs of CUDA (docs/fused-exchange.md).
  std::string_view device = tandem_context_device(contexts[0]->handle());
  std::string channels = options.channel + ",";
  return device.rfind("cuda", 0) == 0 && channels.find("peer,") != std::string::npos;
}

Expected<bool> Runner::allHave(bool mine) {
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine ? "yes" : "no"));
  return std::count(all.begin(), all.end(), "yes") == static_cast<ptrdiff_t>(all.size());
}

Expected<std::string> Runner::agree(const Status &mine) { return firstProblem(bootstrap, mine); }

RankContext &Runner::contextOf(Mode mode) {
  auto found = std::find(options.modes.begin(), options.modes.end(), mode);
  return *contexts[static_cast<size_t>(found - options.modes.begin())];
}

Status Runner::checkHealth() {
  for (const auto &context : contexts)
    TANDEM_RETURN_IF_ERROR(context->check(tandem_context_health(context->handle())));
  return Status();
}

bool Runner::isVerified(const Row &row) const {
  if (row.kind == RowKind::Tuning)
    return options.verify == "all";
  return row.kind == RowKind::Shape &&
         (options.verify == "all" ||
          (options.verify == "auto" && row.shape.flops() <= kVerifiedFlops));
}

Expected<int64_t> Runner::barrier(bool stop, bool &stopped) {
  if (options.gapMs > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.gapMs));
  const int64_t mine[2] = {nanoseconds() - offset, stop};
  std::vector<int64_t> all(2 * size_t(bootstrap.worldSize()));
  TANDEM_RETURN_IF_ERROR(bootstrap.allGather(mine, sizeof mine, all.data()));
  int64_t last = 0;
  for (size_t rank = 0; rank < bootstrap.worldSize(); ++rank)
    last = std::max(last, all[2 * rank]);
  stopped = all[1] != 0; // rank 0's word
  int64_t begin = last + kLead + offset;
  if (!spins)
    std::this_thread::sleep_for(std::chrono::nanoseconds(begin - nanoseconds()));
  while (nanoseconds() < begin) {
  }
  return begin;
}

Status Runner::time(std::vector<Candidate *> &candidates,
                    std::vector<Measurement *> &measurements) {
  size_t count = candidates.size();
  std::vector<std::vector<double>> mine(2 * count);
  int64_t started = nanoseconds();
  bool stopped = false;
  for (uint32_t round = 0; round < options.warmup + options.iterations && !stopped; ++round) {
    bool isFirst = true;
    for (auto [c, set] : slotsOf(round, count, options.sets)) {
      TANDEM_RETURN_IF_ERROR(candidates[c]->use(set));
      bool late = std::chrono::nanoseconds(nanoseconds() - started) > options.rowTime;
      bool enough = isFirst && round >= options.warmup + kLeastRounds;
      isFirst = false;
      TANDEM_ASSIGN_OR_RETURN(int64_t begin, barrier(late && enough, stopped));
      if (stopped)
        break;
      TANDEM_ASSIGN_OR_RETURN(Turn took, candidates[c]->run(options.batch));
      if (round < options.warmup)
        continue;
      mine[2 * c].push_back(double(took.done - begin) * 1e-9 / options.batch);
      mine[2 * c + 1].push_back(double(took.enqueued - begin) * 1e-9 / options.batch);
    }
  }
  for (size_t i = 0; i < mine.size(); ++i) {
    std::vector<double> all(mine[i].size() * bootstrap.worldSize());
    TANDEM_RETURN_IF_ERROR(
        bootstrap.allGather(mine[i].data(), mine[i].size() * sizeof(double), all.data()));
    std::vector<double> &slowest = i % 2 ? measurements[i / 2]->host : measurements[i / 2]->seconds;
    for (size_t k = 0; k < mine[i].size(); ++k) {
      double most = 0;
      for (uint32_t rank = 0; rank < bootstrap.worldSize(); ++rank)
        most = std::max(most, all[rank * mine[i].size() + k]);
      slowest.push_back(most);
    }
  }
  return Status();
}

Status Runner::examine(std::vector<Candidate *> &candidates,
                       std::vector<Measurement *> &measurements, References &references) {
  for (size_t c = 0; c < candidates.size(); ++c)
    for (uint32_t set = 0; set < options.sets; ++set) {
      TANDEM_RETURN_IF_ERROR(candidates[c]->use(set));
      TANDEM_RETURN_IF_ERROR(candidates[c]->poison());
      TANDEM_RETURN_IF_ERROR(bootstrap.barrier());
      TANDEM_RETURN_IF_ERROR(candidates[c]->run(1).status());
      Measurement &measurement = *measurements[c];
      TANDEM_ASSIGN_OR_RETURN(
          std::string verdict,
          candidates[c]->verify(bootstrap, options.seed, set, references, measurement.error));
      if (measurement.failure.empty())
        measurement.failure = verdict;
      measurement.verified = measurement.failure.empty();
    }
  return Status();
}

Expected<std::vector<Measurement>> Runner::run(const Row &row) {
  bool verified = isVerified(row);
  InputPool pool(*contexts[0], options.seed, verified);
  std::vector<Measurement> measurements;
  std::vector<std::unique_ptr<Candidate>> owned;
  std::vector<size_t> owners;
  for (const Variant &variant : row.variants)
    for (Mode mode : options.modes) {
      Measurement &measurement = measurements.emplace_back();
      measurement.role = variant.role;
      measurement.name = variant.name;
      measurement.mode = mode;
      measurement.refused = variant.refused;
      // Without kernels the runtime runs the parts, which is no measurement of them.
      if (auto probe = parseProbe(variant.name); probe && row.kind == RowKind::Probe) {
        const char *lacks = probe->work == Work::Gated && !gatedKernels   ? "gated matmuls"
                            : isExchange(probe->work) && !exchangeKernels ? "fused exchanges"
                                                                          : nullptr;
        measurement.noKernels = lacks != nullptr;
        if (lacks)
          measurement.refused = fmt::format("the device has no kernels for {}", lacks);
      }
      if (!measurement.refused.empty())
        continue;
      auto candidate = std::make_unique<Candidate>(variant, mode);
      Setup setup{contextOf(mode), bootstrap, pool, options.sets, verified};
      std::string &refused = measurement.refused;
      // A program that cannot be read is damaged, not refused: there is no going on.
      TANDEM_ASSIGN_OR_RETURN(std::string damaged, agree(candidate->load(setup)));
      if (!damaged.empty())
        return Status(Code::InvalidProgram, fmt::format("\"{}\": {}", variant.name, damaged));
      for (auto step : {&Candidate::allocate, &Candidate::prepare})
        if (refused.empty()) {
          TANDEM_ASSIGN_OR_RETURN(refused, agree((candidate.get()->*step)(setup)));
        }
      if (!refused.empty()) {
        candidate.reset();
        TANDEM_RETURN_IF_ERROR(checkHealth());
        continue;
      }
      measurement.file = candidate->file;
      owned.push_back(std::move(candidate));
      owners.push_back(measurements.size() - 1);
    }
  std::vector<Candidate *> candidates;
  std::vector<Measurement *> theirs;
  for (size_t i = 0; i < owned.size(); ++i) {
    candidates.push_back(owned[i].get());
    theirs.push_back(&measurements[owners[i]]);
  }
  References references;
  // What a later run should have waited for may lie there from the one before, so the first is
  // looked at by itself, and one after all others for what comes with speed.
  if (verified)
    TANDEM_RETURN_IF_ERROR(examine(candidates, theirs, references));
  TANDEM_RETURN_IF_ERROR(time(candidates, theirs));
  if (verified)
    TANDEM_RETURN_IF_ERROR(examine(candidates, theirs, references));
  return measurements;
}
