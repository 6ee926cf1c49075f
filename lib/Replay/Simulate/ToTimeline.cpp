//===- ToTimeline.cpp - a simulated run as a timeline ---*- C++ -*-===//
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

/// Span::bytes.
static uint64_t bytesOf(const replay::World &world, const replay::Rank &rank, CommandId id) {
  const Command &command = world.commands[id];
  auto operand = [&](const Command &c, uint32_t k) -> uint64_t {
    const replay::View *view = world.operand(rank, c, k);
    return view ? world.layoutOf(*view).numBytes() : 0;
  };
  if (command.kind == Kind::Group) {
    uint64_t sent = 0, received = 0;
    for (CommandId m = id + 1; m <= id + command.aux; ++m)
      (world.commands[m].kind == Kind::Send ? sent : received) += operand(world.commands[m], 0);
    return sent ? sent : received;
  }
  bool moves = command.kind == Kind::Copy ||
               replay::infoOf(command.kind).category == program::Category::Communication;
  return moves ? std::max(operand(command, 0), operand(command, 1)) : 0;
}

std::vector<timeline::Span> spansOf(const replay::World &world, const Result &result,
                                    const std::vector<CommandId> &previous, uint32_t rank) {
  const replay::Rank &owner = world.ranks[rank];
  std::vector<timeline::Span> spans;
  for (CommandId c = owner.begin; c < owner.end; ++c) {
    const Command &command = world.commands[c];
    if (replay::isMessage(command.kind))
      continue;
    timeline::Span span;
    // A wait begins when its stream reaches it.
    bool waits = command.kind == Kind::Wait || command.kind == Kind::WaitSignal;
    span.begin = !waits ? result.begin[c] : previous[c] == kNone ? 0 : result.end[previous[c]];
    span.end = std::max(span.begin, result.end[c]);
    span.command = c - owner.begin;
    span.stream = command.stream;
    span.kind = static_cast<uint8_t>(command.kind);
    span.category = timeline::categoryOf(span.kind);
    span.name = command.name;
    span.bytes = bytesOf(world, owner, c);
    spans.push_back(span);
  }
  return spans;
}

namespace {

/// Arrows of messages and signals among the first `ranks` ranks.
class Flows {
public:
  Flows(const replay::World &world, const Result &result, uint32_t ranks)
      : world(world), result(result), ranks(ranks) {
    CommandId last = ranks ? world.ranks[ranks - 1].end : 0;
    numbers.assign(last, kNone);
    for (uint32_t r = 0; r < ranks; ++r) {
      uint32_t number = 0;
      for (CommandId c = world.ranks[r].begin; c < world.ranks[r].end; ++c)
        if (!replay::isMessage(world.commands[c].kind))
          numbers[c] = number++;
    }
  }

  std::vector<timeline::Flow> make() {
    for (uint32_t r = 0; r < ranks; ++r)
      for (CommandId c = world.ranks[r].begin; c < world.ranks[r].end; ++c) {
        const Command &command = world.commands[c];
        if (command.kind == Kind::Send && command.partner != kNone && command.peer < ranks)
          add(r, command.next, command.peer, world.commands[command.partner].next, c);
        else if (command.kind == Kind::Signal && command.peer < ranks)
          signal(r, c);
      }
    return std::move(flows);
  }

private:
  void signal(uint32_t rank, CommandId id) {
    const Command &command = world.commands[id];
    const replay::Slot *slot = world.slotOf(command.peer, command.aux);
    if (!slot)
      return;
    for (CommandId wait : slot->waits)
      if (world.commands[wait].value == command.value)
        return add(rank, id, command.peer, wait, id);
  }

  void add(uint32_t from, CommandId fromCommand, uint32_t to, CommandId toCommand,
           CommandId timed) {
    timeline::Flow flow;
    flow.fromRank = from;
    flow.fromSpan = numbers[fromCommand];
    flow.toRank = to;
    flow.toSpan = numbers[toCommand];
    flow.begin = result.begin[timed];
    flow.end = result.end[timed];
    flows.push_back(flow);
  }

  const replay::World &world;
  const Result &result;
  uint32_t ranks;
  std::vector<uint32_t> numbers; ///< index of a command among its rank's spans
  std::vector<timeline::Flow> flows;
};

} // namespace

timeline::Timeline makeTimeline(const replay::World &world, const Result &result,
                                const std::string &origin, uint32_t maxRanks) {
  timeline::Timeline timeline;
  timeline.program = world.name;
  timeline.origin = origin;
  timeline.seconds = result.seconds;
  for (const replay::Name &name : world.names)
    timeline.names.push_back({name.text, name.location});
  uint32_t ranks = std::min(maxRanks, world.numRanks());
  std::vector<CommandId> previous = predecessors(world);
  for (uint32_t r = 0; r < ranks; ++r)
    timeline.ranks.push_back(spansOf(world, result, previous, r));
  timeline.flows = Flows(world, result, ranks).make();
  return timeline;
}

} // namespace tandem::simulate
