//===- Runner.cpp - rows by turns, on one rank ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "Clock.h"
#include "Ranks.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using namespace tandem::run;

/// From the last rank's arrival to the common start: the news must have come by then.
static constexpr int64_t kLead = 300000;
/// Rounds that a row has at least.
static constexpr uint32_t kLeastRounds = 3;
/// Operations of a product up to which verifying it takes about a second.
static constexpr double kVerifiedFlops = 2e9;

Slot bench::slotOf(uint32_t round, size_t turn, size_t count, uint32_t sets) {
  if (sets == 2 && count % 2 == 1 && count > 1) {
    // Around an odd ring two sets cannot alternate. Odd and even turns are rings of their own:
    // what has an even turn keeps to these.
    size_t odd = turn % 2, length = count / 2 + 1 - odd;
    return {(turn / 2 + round) % length * 2 + odd, (round + static_cast<uint32_t>(odd)) % 2};
  }
  size_t candidate = (turn + round) % count;
  // The last one is a neighbour of the first.
  size_t shift = candidate + 1 == count && candidate % sets == 0 && candidate > 0 ? 1 : candidate;
  return {candidate, static_cast<uint32_t>((round + shift) % sets)};
}

Status Runner::start() {
  spins = std::thread::hardware_concurrency() >= hostRanks();
  TANDEM_ASSIGN_OR_RETURN(offset, clockOffset(bootstrap));
  // Ranks as threads prepare in a world of its own, where nobody would hear that one has gone.
  TANDEM_RETURN_IF_ERROR(bootstrap.barrier());
  for (Mode mode : options.modes) {
    ContextRequest request{options.device, options.channel, options.timeout, mode == Mode::Direct};
    TANDEM_ASSIGN_OR_RETURN(auto context, RankContext::create(request, bootstrap, world));
    contexts.push_back(std::move(context));
  }
  return bootstrap.barrier();
}

Expected<std::string> Runner::agree(const Status &mine) {
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine.message()));
  for (uint32_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      return rankMessage(rank, all[rank]);
  return std::string();
}

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
  return row.kind == RowKind::Shape &&
         (options.verify == "all" ||
          (options.verify == "auto" && row.shape.flops() <= kVerifiedFlops));
}

Expected<int64_t> Runner::meet(bool stop, bool &stopped) {
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
  for (uint32_t round = 0; round < options.warmup + options.iterations && !stopped; ++round)
    for (size_t turn = 0; turn < count && !stopped; ++turn) {
      auto [c, set] = slotOf(round, turn, count, options.sets);
      TANDEM_RETURN_IF_ERROR(candidates[c]->use(set));
      bool late = std::chrono::nanoseconds(nanoseconds() - started) > options.rowTime;
      bool enough = turn == 0 && round >= options.warmup + kLeastRounds;
      TANDEM_ASSIGN_OR_RETURN(int64_t begin, meet(late && enough, stopped));
      if (stopped)
        break;
      TANDEM_ASSIGN_OR_RETURN(Turn took, candidates[c]->run(options.batch));
      if (round < options.warmup)
        continue;
      mine[2 * c].push_back(double(took.done - begin) * 1e-9 / options.batch);
      mine[2 * c + 1].push_back(double(took.enqueued - begin) * 1e-9 / options.batch);
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
      if (!variant.refused.empty())
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
