//===- Queues.cpp - streams that share hardware queues ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckImpl.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace tandem::check {

using namespace replay;

namespace {

using Fold = std::vector<uint16_t>;

/// Folds to try beyond which a proof by trying is given up, and commands that may be replayed.
constexpr unsigned kMaxFolds = 4096;
constexpr uint64_t kMaxReplayed = uint64_t(1) << 28;

class FoldSearch {
public:
  FoldSearch(const World &world, const CheckOptions &options, Findings &findings)
      : world(world), options(options), findings(findings) {
    for (const Rank &rank : world.ranks)
      streams = std::max(streams, rank.numStreams);
    queues = std::min<unsigned>(options.queues, streams);
    perQueue = (streams + queues - 1) / queues;
  }

  void run(std::vector<std::string> &limits) {
    if (perQueue <= 1)
      return;
    // Order only grows when queues are merged: what ends in one queue ends in any number.
    Fold all(streams, 0);
    if (!hangs(all))
      return;
    if (perQueue >= streams)
      return report(all);
    // What two streams in one queue bring to a halt hangs under every fold that has them together.
    for (uint32_t a = 0; a < streams; ++a)
      for (uint32_t b = a + 1; b < streams; ++b) {
        Fold pair(streams);
        for (uint32_t s = 0; s < streams; ++s)
          pair[s] = static_cast<uint16_t>(s == b ? a : s);
        if (tryFold(pair))
          return;
      }
    Fold fold;
    enumerate(fold, 0);
    if (!found && exhausted)
      limits.push_back(fmt::format(
          "queue sharing: {} folds onto {} queues ended, others were not tried", tried, queues));
  }

private:
  bool hangs(const Fold &fold) {
    WalkOptions walk;
    walk.bufferedSends = options.bufferedSends;
    walk.queueOf = fold;
    InstantDriver driver(world);
    Walker walker(world, walk, driver);
    driver.run(walker);
    ++tried;
    return !walker.finished();
  }

  bool tryFold(const Fold &fold) {
    if (found || exhausted)
      return true;
    exhausted = tried >= kMaxFolds || tried * world.commands.size() > kMaxReplayed;
    if (!exhausted && hangs(fold))
      report(fold);
    return found || exhausted;
  }

  /// All folds of at most `perQueue` streams a queue, by the queue of each stream in turn.
  void enumerate(Fold &fold, uint16_t used) {
    if (fold.size() == streams) {
      tryFold(fold);
      return;
    }
    for (uint16_t q = 0; q < std::min<unsigned>(used + 1u, queues) && !found && !exhausted; ++q) {
      if (static_cast<unsigned>(std::count(fold.begin(), fold.end(), q)) >= perQueue)
        continue;
      fold.push_back(q);
      enumerate(fold, std::max<uint16_t>(used, q + 1u));
      fold.pop_back();
    }
  }

  void report(const Fold &fold) {
    found = true;
    WalkOptions walk;
    walk.bufferedSends = options.bufferedSends;
    walk.queueOf = fold;
    InstantDriver driver(world);
    Walker walker(world, walk, driver);
    driver.run(walker);
    std::string shared;
    for (uint32_t q = 0; q < streams; ++q) {
      std::vector<unsigned> members;
      for (uint32_t s = 0; s < streams; ++s)
        if (fold[s] == q)
          members.push_back(s);
      if (members.size() > 1)
        shared += fmt::format("{}streams {} share a queue", shared.empty() ? "" : ", ",
                              fmt::join(members, ", "));
    }
    for (Cycle &cycle : findCycles(world, walker, 1))
      findings.add({Diagnosis::QueueDeadlock,
                    fmt::format("on {} hardware queues the program hangs where {}", queues, shared),
                    std::move(cycle.commands), std::move(cycle.steps)});
  }

  const World &world;
  const CheckOptions &options;
  Findings &findings;
  uint32_t streams = 1;
  unsigned queues = 1, perQueue = 1;
  uint64_t tried = 0;
  bool found = false, exhausted = false;
};

} // namespace

void checkQueues(const World &world, const CheckOptions &options, Findings &findings,
                 std::vector<std::string> &limits) {
  if (options.queues > 0)
    FoldSearch(world, options, findings).run(limits);
}

} // namespace tandem::check
