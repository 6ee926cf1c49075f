//===- Progress.cpp - does a run come to its end ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckImpl.h"

#include <map>

namespace tandem::check {

using namespace replay;

void InstantDriver::run(Walker &toRun) {
  walker = &toRun;
  toRun.advance();
}

void InstantDriver::begin(CommandId command) {
  Kind kind = world.commands[command].kind;
  if (kind != Kind::Group && kind != Kind::Collective && !isMessage(kind))
    walker->complete(command);
}

void InstantDriver::beginTransfer(CommandId send, CommandId) { walker->complete(send); }

void InstantDriver::beginCollective(uint32_t collective) {
  walker->complete(world.members[world.collectives[collective].members]);
}

namespace {

/// Records a possible order in which the commands begin.
class NotingDriver final : public InstantDriver {
public:
  explicit NotingDriver(const World &world)
      : InstantDriver(world), when(world.commands.size(), 0) {}
  void begin(CommandId command) override {
    when[command] = ++now;
    InstantDriver::begin(command);
  }
  std::vector<uint32_t> when;

private:
  uint32_t now = 0;
};

/// The positions of stuck queues; each has an edge to the queue that it waits for.
class WaitGraph {
public:
  WaitGraph(const World &world, const Walker &walker)
      : world(world), walker(walker), positions(walker.stuck()) {
    for (size_t p = 0; p < positions.size(); ++p)
      index[{positions[p].rank, positions[p].queue}] = p;
  }

  std::vector<Cycle> cycles(unsigned most) {
    std::vector<Cycle> found;
    std::vector<size_t> seenFrom(positions.size(), kUnseen); // the start that reached it first
    for (size_t start = 0; start < positions.size() && found.size() < most; ++start) {
      size_t p = start;
      while (p != kUnseen && seenFrom[p] == kUnseen) {
        seenFrom[p] = start;
        p = next(p);
      }
      if (p != kUnseen && seenFrom[p] == start)
        found.push_back(describe(p));
    }
    return found;
  }

private:
  static constexpr size_t kUnseen = ~size_t(0);

  size_t next(size_t p) const {
    CommandId awaited = walker.waitsFor(positions[p].at);
    if (awaited == kNone)
      return kUnseen;
    auto at = index.find({world.rankOf(awaited), walker.queueOf(awaited)});
    return at == index.end() ? kUnseen : at->second;
  }

  Cycle describe(size_t first) const {
    Cycle cycle;
    size_t p = first;
    do {
      CommandId here = positions[p].at, awaited = walker.waitsFor(here);
      p = next(p);
      CommandId before = positions[p].at;
      cycle.commands.push_back(here);
      std::string step =
          fmt::format("{} waits for {}", world.describe(here), world.describe(awaited));
      if (before != awaited)
        step += fmt::format(", which is queued behind {}", world.describe(before));
      cycle.steps.push_back(std::move(step));
    } while (p != first);
    return cycle;
  }

  const World &world;
  const Walker &walker;
  std::vector<Position> positions;
  std::map<std::pair<uint32_t, uint32_t>, size_t> index;
};

} // namespace

std::vector<Cycle> findCycles(const World &world, const Walker &walker, unsigned most) {
  return WaitGraph(world, walker).cycles(most);
}

Execution checkProgress(const World &world, const CheckOptions &options, Findings &findings) {
  NotingDriver driver(world);
  WalkOptions walk;
  walk.bufferedSends = options.bufferedSends;
  Walker walker(world, walk, driver);
  driver.run(walker);
  Execution execution;
  execution.finished = walker.finished();
  execution.when = std::move(driver.when);
  if (execution.finished)
    return execution;
  std::vector<Cycle> cycles = findCycles(world, walker, findings.limit);
  for (Cycle &cycle : cycles) {
    std::string what = cycle.steps.size() == 1
                           ? "a queue waits for itself"
                           : fmt::format("{} queues wait for each other", cycle.steps.size());
    findings.add({Diagnosis::Deadlock, what, std::move(cycle.commands), std::move(cycle.steps)});
  }
  return execution;
}

} // namespace tandem::check
