//===- Order.cpp - what is before what, over all ranks ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Order.h"

#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

/// Most commands visited by all searches together: some seconds.
static constexpr uint64_t kMaxVisited = uint64_t(1) << 30;

Order::Order(const World &world) : world(world) {
  uint32_t chains = world.numStreams(), events = world.numEvents();
  head.assign(chains, kNone);
  reached.assign(chains, kNone);
  ended.assign(chains, 0);
  firstWait.assign(events + 1, 0);
  auto forWaits = [&](auto body) {
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      for (CommandId i = world.ranks[r].begin; i < world.ranks[r].end; ++i)
        if (world.commands[i].kind == Kind::Wait)
          body(world.ranks[r].firstEvent + world.commands[i].aux, i);
  };
  forWaits([&](uint32_t event, CommandId) { ++firstWait[event + 1]; });
  for (uint32_t e = 0; e < events; ++e)
    firstWait[e + 1] += firstWait[e];
  waits.resize(firstWait.back());
  std::vector<uint32_t> at(firstWait.begin(), firstWait.end() - 1);
  forWaits([&](uint32_t event, CommandId wait) { waits[at[event]++] = wait; });
  for (uint32_t r = 0; r < world.numRanks(); ++r)
    for (CommandId i = world.ranks[r].begin; i < world.ranks[r].end; ++i) {
      CommandId &first = head[world.ranks[r].firstStream + world.commands[i].stream];
      if (first == kNone)
        first = i;
    }
}

bool Order::before(CommandId x, CommandId y, unsigned runs) {
  isExhausted |= visited > kMaxVisited;
  if (isExhausted)
    return true;
  if (x != source || run > runs)
    search(x);
  while (run < runs)
    nextRun();
  CommandId top = isMessage(world.commands[y].kind) ? world.commands[y].next : y;
  CommandId first = reached[chainOf(y)];
  return first != kNone && first <= top;
}

bool Order::beforeEnd(CommandId x, uint32_t rank) {
  isExhausted |= visited > kMaxVisited;
  if (isExhausted)
    return true;
  if (x != source || run > 0)
    search(x);
  return ended[world.ranks[rank].firstStream];
}

void Order::clear() {
  visited += reached.size() / 8;
  std::fill(reached.begin(), reached.end(), kNone);
  std::fill(ended.begin(), ended.end(), 0);
  raisesOf.clear();
  raised.clear();
}

void Order::search(CommandId x) {
  source = x;
  run = 0;
  clear();
  const Command &command = world.commands[x];
  if (command.kind == Kind::Put)
    reachArrival(x);
  else
    reachEnd(isMessage(command.kind) ? command.next : x);
  drain();
}

void Order::nextRun() {
  ++run;
  std::vector<uint8_t> before = ended;
  clear();
  for (uint32_t chain = 0; chain < before.size(); ++chain)
    if (before[chain]) {
      ended[chain] = 1;
      if (head[chain] != kNone)
        reachBegin(head[chain]);
    }
  drain();
}

void Order::reachBegin(CommandId c) {
  uint32_t chain = chainOf(c);
  ended[chain] = 1;
  if (reached[chain] != kNone && reached[chain] <= c)
    return;
  pending.emplace_back(c, reached[chain]);
  reached[chain] = c;
}

void Order::reachEnd(CommandId c) {
  if (world.commands[c].next != kNone)
    reachBegin(world.commands[c].next);
  else
    ended[chainOf(c)] = 1;
}

/// The signals after a put, on its stream and channel to its peer, are raised after its arrival; no
/// others are.
void Order::reachArrival(CommandId put) {
  const Command &p = world.commands[put];
  for (CommandId c = p.next; c != kNone; c = world.commands[c].next) {
    const Command &command = world.commands[c];
    if (command.kind == Kind::Signal && command.channel == p.channel && command.peer == p.peer)
      reachRaise(c);
  }
}

void Order::reachRaise(CommandId signal) {
  if (!raised.insert(signal).second)
    return;
  const Command &command = world.commands[signal];
  const Slot &slot = *world.slotOf(command.peer, command.aux);
  for (CommandId wait : slot.waits) {
    uint64_t value = world.commands[wait].value;
    if (value > command.value)
      continue;
    auto candidates =
        slot.raises.end() -
        std::partition_point(slot.raises.begin(), slot.raises.end(),
                             [&](CommandId raise) { return world.commands[raise].value < value; });
    // Any of the candidates may have released the wait: only commands after all of them are after
    // it.
    if (++raisesOf[wait] == static_cast<uint64_t>(candidates))
      reachEnd(wait);
  }
}

void Order::drain() {
  while (!pending.empty()) {
    auto [first, last] = pending.back();
    pending.pop_back();
    for (CommandId c = first; c != last; c = world.commands[c].next)
      visit(c);
  }
}

void Order::visit(CommandId c) {
  ++visited;
  const Command &command = world.commands[c];
  switch (infoOf(command.kind).sync) {
  case Sync::Record: {
    uint32_t event = world.ranks[world.rankOf(c)].firstEvent + command.aux;
    for (uint32_t w = firstWait[event]; w < firstWait[event + 1]; ++w)
      reachEnd(waits[w]);
    return;
  }
  case Sync::Group:
    for (CommandId m = c + 1; m <= c + command.aux; ++m) {
      const Command &message = world.commands[m];
      if (message.kind == Kind::Send && message.partner != kNone)
        reachEnd(world.commands[message.partner].next);
    }
    return;
  case Sync::Collective:
    return visitCollective(c);
  case Sync::Signal:
    return reachRaise(c);
  case Sync::Wait:
  case Sync::None:
  case Sync::Send:
  case Sync::Recv:
  case Sync::WaitSignal:
    return;
  }
}

void Order::visitCollective(CommandId c) {
  const MatchedCollective &collective = world.collectives[world.commands[c].partner];
  auto kind = static_cast<tandem::CollectiveKind>(world.commands[c].op);
  uint32_t root = world.commands[c].peer, self = world.rankOf(c);
  if (program::isFromRoot(kind) && self != root)
    return;
  const std::vector<uint32_t> &group = world.groups[collective.group];
  for (uint32_t m = 0; m < group.size(); ++m) {
    CommandId member = world.members[collective.members + m];
    if (member != kNone && (!program::isToRoot(kind) || group[m] == root))
      reachEnd(member);
  }
}

} // namespace tandem::check
