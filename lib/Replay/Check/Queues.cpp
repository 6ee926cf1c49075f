//===- Queues.cpp - streams that share hardware queues ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every rank's streams may be folded in another way, so there are far too many folds to try. They
// need not be tried. Order only grows when queues are merged: if a program ends with all streams of
// each rank in one queue, it ends under every fold. If it does not, some commands wait for each
// other in a cycle, and a cycle has a short form that goes through each rank's queues once (if c1
// stands before d1 and c2 before d2, then c1 before d2 or c2 before d1), that is: with two streams
// of a rank in one queue. Every number of queues below that of streams allows that.
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
    limits.push_back(fmt::format("queue sharing: with everything of a rank in one queue the "
                                 "program hangs, but no fold onto {} queues is known to hang",
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

  /// What `head` keeps from running must share its queue.
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

  /// Each command of a cycle waits for one that the next one stands in front of.
  Sharing alongCycle(const Walker &walker, const Cycle &cycle) const {
    Sharing sharing;
    for (size_t i = 0; i < cycle.commands.size(); ++i)
      share(sharing, cycle.commands[(i + 1) % cycle.commands.size()],
            walker.waitsFor(cycle.commands[i]));
    return sharing;
  }

  /// From a queue that is stuck, all that must be stuck for it to be: where any of several signals
  /// could release it, what is in front of each of them.
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

  /// Whether so many queues hold these sets, with at most ceil(S / k) streams each: largest first
  /// into the emptiest.
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

  /// Reports the fold if it exists and hangs.
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
                    fmt::format("on {} hardware queues the program hangs where {}", options.queues,
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
