//===- Queues.cpp - streams that share hardware queues ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each rank may map its streams to queues differently: far too many mappings to try them all. Order
// only grows when queues are merged, so a program that finishes with one queue per rank finishes
// under every mapping. Otherwise some commands wait in a cycle. Every cycle has a short form that
// visits each rank's queues once (if c1 is before d1 and c2 before d2, then c1 is before d2 or c2
// before d1), so only two streams of a rank share a queue. Every number of queues below that of
// streams allows this.
//
//===----------------------------------------------------------------------===//

#include "CheckImpl.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace tandem::check {

using namespace replay;

namespace {

/// Per rank: sets of streams that share a queue; streams in none have their own.
using Sharing = std::map<uint32_t, std::vector<std::set<uint32_t>>>;

class FoldSearch {
public:
  FoldSearch(const World &world, const CheckOptions &options, Findings &findings)
      : world(world), options(options), findings(findings) {}

  void run(std::vector<std::string> &limits) {
    std::vector<uint16_t> all(world.numStreams());
    bool folded = false;
    for (const Rank &rank : world.ranks)
      for (uint32_t s = 0; s < rank.numStreams; ++s) {
        bool shares = rank.numStreams > options.queues;
        folded |= shares;
        all[rank.firstStream + s] = static_cast<uint16_t>(shares ? 0 : s);
      }
    if (!folded)
      return;
    InstantDriver driver(world);
    Walker walker(world, walkOptions(std::move(all)), driver);
    driver.run(walker);
    if (walker.finished())
      return;
    for (const Cycle &cycle : findCycles(world, walker, kMaxCycles))
      if (tryFold(alongCycle(walker, cycle)))
        return;
    for (const Position &position : walker.stuck())
      if (tried < kMaxCycles && tryFold(whatHolds(walker, position)))
        return;
    limits.push_back(fmt::format("queue sharing: with one queue per rank the program deadlocks, "
                                 "but no mapping onto {} queues is known to deadlock",
                                 options.queues));
  }

private:
  static constexpr unsigned kMaxCycles = 64;

  WalkOptions walkOptions(std::vector<uint16_t> fold) const {
    WalkOptions walk;
    walk.bufferedSends = options.bufferedSends;
    walk.queueOf = std::move(fold);
    return walk;
  }

  uint32_t streamOf(CommandId command) const { return world.commands[command].stream; }

  /// The streams of `head` and of the command after it share a queue.
  void share(Sharing &sharing, CommandId head, CommandId behind) const {
    if (streamOf(head) == streamOf(behind))
      return;
    std::vector<std::set<uint32_t>> &sets = sharing[world.rankOf(head)];
    std::set<uint32_t> merged{streamOf(head), streamOf(behind)};
    for (auto at = sets.begin(); at != sets.end();)
      if (at->count(streamOf(head)) || at->count(streamOf(behind))) {
        merged.insert(at->begin(), at->end());
        at = sets.erase(at);
      } else {
        ++at;
      }
    sets.push_back(std::move(merged));
  }

  /// Each command of the cycle waits for one that is queued after the next one.
  Sharing alongCycle(const Walker &walker, const Cycle &cycle) const {
    Sharing sharing;
    for (size_t i = 0; i < cycle.commands.size(); ++i)
      share(sharing, cycle.commands[(i + 1) % cycle.commands.size()],
            walker.waitsFor(cycle.commands[i]));
    return sharing;
  }

  /// From a stuck queue, collects all queues that must be stuck for it; if any of several signals
  /// could release it, the queues in front of each.
  Sharing whatHolds(const Walker &walker, const Position &start) const {
    std::map<std::pair<uint32_t, uint32_t>, CommandId> heads;
    for (const Position &position : walker.stuck())
      heads[{position.rank, position.queue}] = position.at;
    Sharing sharing;
    std::set<CommandId> seen{start.at};
    std::vector<CommandId> open{start.at};
    while (!open.empty()) {
      CommandId head = open.back();
      open.pop_back();
      for (CommandId awaited : awaitedBy(walker, head)) {
        auto before = heads.find({world.rankOf(awaited), walker.queueOf(awaited)});
        if (before == heads.end())
          continue;
        share(sharing, before->second, awaited);
        if (seen.insert(before->second).second)
          open.push_back(before->second);
      }
    }
    return sharing;
  }

  std::vector<CommandId> awaitedBy(const Walker &walker, CommandId head) const {
    const Command &command = world.commands[head];
    if (command.kind != Kind::WaitSignal) {
      CommandId one = walker.waitsFor(head);
      return one == kNone ? std::vector<CommandId>() : std::vector<CommandId>{one};
    }
    std::vector<CommandId> result;
    for (CommandId raise : world.slotOf(world.rankOf(head), command.aux)->raises)
      if (world.commands[raise].value >= command.value)
        result.push_back(raise);
    return result;
  }

  /// Whether `sets` fit the queues with at most ceil(S / k) streams each: largest set first into
  /// the emptiest queue.
  bool fits(const Rank &rank, const std::vector<std::set<uint32_t>> &sets) const {
    uint32_t most = (rank.numStreams + options.queues - 1) / options.queues;
    std::vector<uint32_t> sizes, load(options.queues, 0);
    for (const std::set<uint32_t> &set : sets)
      sizes.push_back(static_cast<uint32_t>(set.size()));
    std::sort(sizes.rbegin(), sizes.rend());
    for (uint32_t size : sizes) {
      uint32_t &queue = *std::min_element(load.begin(), load.end());
      queue += size;
      if (queue > most)
        return false;
    }
    return true;
  }

  /// Reports the mapping if it exists and deadlocks.
  bool tryFold(const Sharing &sharing) {
    ++tried;
    std::vector<uint16_t> fold(world.numStreams());
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      for (uint32_t s = 0; s < world.ranks[r].numStreams; ++s)
        fold[world.ranks[r].firstStream + s] = static_cast<uint16_t>(s);
    for (const auto &[r, sets] : sharing) {
      if (!fits(world.ranks[r], sets))
        return false;
      for (const std::set<uint32_t> &set : sets)
        for (uint32_t s : set)
          fold[world.ranks[r].firstStream + s] = static_cast<uint16_t>(*set.begin());
    }
    InstantDriver driver(world);
    Walker walker(world, walkOptions(std::move(fold)), driver);
    driver.run(walker);
    if (walker.finished())
      return false;
    std::vector<Cycle> cycles = findCycles(world, walker, 1);
    for (Cycle &cycle : cycles)
      findings.add({Diagnosis::QueueDeadlock,
                    fmt::format("on {} hardware queues the program deadlocks if {}", options.queues,
                                describe(sharing)),
                    std::move(cycle.commands), std::move(cycle.steps)});
    return !cycles.empty();
  }

  /// "streams 1, 2 of rank 0 share a queue, ..."
  static std::string describe(const Sharing &sharing) {
    constexpr size_t kMost = 8;
    std::map<std::set<uint32_t>, std::vector<uint32_t>> ranksOf;
    for (const auto &[r, sets] : sharing)
      for (const std::set<uint32_t> &set : sets)
        ranksOf[set].push_back(r);
    std::vector<std::string> parts;
    for (const auto &[set, ranks] : ranksOf) {
      size_t shown = std::min(ranks.size(), kMost);
      parts.push_back(fmt::format("streams {} of rank{} {}{} share a queue", fmt::join(set, ", "),
                                  ranks.size() > 1 ? "s" : "",
                                  fmt::join(ranks.begin(), ranks.begin() + shown, ", "),
                                  shown < ranks.size() ? ", ..." : ""));
    }
    return fmt::format("{}", fmt::join(parts, " and "));
  }

  const World &world;
  const CheckOptions &options;
  Findings &findings;
  unsigned tried = 0;
};

} // namespace

void checkQueues(const World &world, const CheckOptions &options, Findings &findings,
                 std::vector<std::string> &limits) {
  if (options.queues > 0)
    FoldSearch(world, options, findings).run(limits);
}

} // namespace tandem::check
