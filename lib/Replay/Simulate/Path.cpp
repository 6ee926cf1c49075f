//===- Path.cpp - critical paths ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimulatorImpl.h"

#include <algorithm>

namespace tandem::simulate {

using replay::Command;
using replay::CommandId;
using replay::Kind;
using replay::kNone;

IssueTimes::IssueTimes(const replay::World &world, const CommandCosts &costs,
                       const machine::Launching &launching)
    : start(launching.run.at(0)) {
  bool any = std::any_of(launching.issue.begin(), launching.issue.end(),
                         [](double cost) { return cost > 0; });
  if (!any)
    return;
  times.resize(world.commands.size());
  for (const replay::Rank &rank : world.ranks) {
    double now = start;
    for (CommandId c = rank.begin; c < rank.end; ++c) {
      // Messages are issued with their group.
      if (!replay::isMessage(world.commands[c].kind))
        now += costs.issue(world.commands[c]);
      times[c] = now;
    }
  }
}

std::vector<CommandId> predecessors(const replay::World &world) {
  std::vector<CommandId> previous(world.commands.size(), kNone);
  for (CommandId c = 0; c < world.commands.size(); ++c) {
    const Command &command = world.commands[c];
    if (!replay::isMessage(command.kind) && command.next != kNone)
      previous[command.next] = c;
  }
  return previous;
}

CommandId PathFinder::later(CommandId a, CommandId b) const {
  if (a == kNone || b == kNone)
    return a == kNone ? b : a;
  return result.end[b] > result.end[a] ? b : a;
}

PathFinder::Origin PathFinder::originOfGroup(CommandId command) const {
  CommandId last = kNone;
  for (CommandId m = command + 1; m <= command + world.commands[command].aux; ++m)
    if (last == kNone || result.end[m] > result.end[last])
      last = m;
  if (last == kNone)
    return {result.begin[command], previous[command], command};
  // The transfer began when the later end was posted.
  CommandId partner = world.commands[last].partner;
  CommandId other = partner == kNone ? command : world.commands[partner].next;
  CommandId poster = result.begin[other] > result.begin[command] ? other : command;
  CommandId send = world.commands[last].kind == Kind::Send ? last : partner;
  double begin = send == kNone ? result.begin[command] : result.begin[send];
  return {begin, previous[poster], poster};
}

PathFinder::Origin PathFinder::originOf(CommandId id) const {
  const Command &command = world.commands[id];
  CommandId before = previous[id];
  if (command.kind == Kind::Wait || command.kind == Kind::WaitSignal) {
    CommandId awaited = command.kind == Kind::Wait ? command.partner : kNone;
    if (command.kind == Kind::WaitSignal)
      if (const replay::Slot *slot = world.slotOf(world.rankOf(id), command.aux))
        for (CommandId raise : slot->raises) // the first that reached the value
          if (world.commands[raise].value >= command.value &&
              (awaited == kNone || result.end[raise] < result.end[awaited]))
            awaited = raise;
    CommandId cause = later(before, awaited);
    return {cause == kNone ? result.begin[id] : result.end[cause], cause, id};
  }
  if (command.kind == Kind::Group)
    return originOfGroup(id);
  if (command.kind != Kind::Collective)
    return {result.begin[id], before, id};
  const replay::MatchedCollective &collective = world.collectives[command.partner];
  CommandId last = id;
  for (uint32_t m = 0; m < world.groupSize(collective); ++m) {
    CommandId member = world.members[collective.members + m];
    if (member != kNone && result.begin[member] > result.begin[last])
      last = member;
  }
  return {result.begin[last], previous[last], last};
}

PathTime PathFinder::walk(uint32_t rank, std::vector<PathStep> *steps) const {
  PathTime time;
  CommandId at = kNone;
  for (CommandId c = world.ranks[rank].begin; c < world.ranks[rank].end; ++c)
    if (!replay::isMessage(world.commands[c].kind) &&
        (at == kNone || result.end[c] >= result.end[at]))
      at = c;
  while (at != kNone) {
    Origin origin = originOf(at);
    double begin = std::min(origin.begin, result.end[at]);
    time.byKind[static_cast<size_t>(world.commands[at].kind)] += result.end[at] - begin;
    if (steps && result.end[at] > begin)
      steps->push_back({at, begin, result.end[at]});
    double before = origin.cause == kNone ? 0 : result.end[origin.cause];
    double gap = std::max(0.0, begin - before);
    // The delay is issuing by the host, or latency between two commands.
    bool issued = origin.cause == kNone || issue.at(origin.gate) > before;
    (issued ? time.issue : time.latency) += gap;
    at = origin.cause;
  }
  if (steps)
    std::reverse(steps->begin(), steps->end());
  return time;
}

} // namespace tandem::simulate
