//===- Waits.cpp - what a command waits for ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Waits.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

namespace {

/// The parts of a group, gated matmul or fused exchange; else the command itself.
std::vector<CommandId> partsOf(const World &world, CommandId id) {
  const Command &command = world.commands[id];
  if (command.kind != Kind::Group && command.kind != Kind::GatedMatmul &&
      command.kind != Kind::FusedExchange)
    return {id};
  std::vector<CommandId> parts;
  CommandId end = world.ranks[world.rankOf(id)].end;
  for (CommandId part = id + 1; part < end; ++part) {
    const Command &next = world.commands[part];
    bool isPart = command.kind == Kind::Group         ? isMessage(next.kind) && next.next == id
                  : command.kind == Kind::GatedMatmul ? next.isGated && next.partner == id
                                                      : next.isFused && part - id <= command.aux;
    if (!isPart)
      break;
    parts.push_back(part);
  }
  return parts;
}

/// The first signal that ends the wait; kNone if there is none.
CommandId signalFor(const World &world, CommandId wait) {
  const Command &command = world.commands[wait];
  const Slot *slot = world.slotOf(world.rankOf(wait), command.aux);
  if (!slot)
    return kNone;
  auto raise = std::find_if(slot->raises.begin(), slot->raises.end(), [&](CommandId signal) {
    return world.commands[signal].value >= command.value;
  });
  return raise == slot->raises.end() ? kNone : *raise;
}

} // namespace

std::vector<CommandId> awaitedBy(const World &world, CommandId id) {
  std::vector<CommandId> awaited;
  for (CommandId part : partsOf(world, id)) {
    const Command &command = world.commands[part];
    switch (infoOf(command.kind).sync) {
    case Sync::Wait:
    case Sync::Send:
    case Sync::Recv:
      awaited.push_back(command.partner);
      break;
    case Sync::WaitSignal:
      awaited.push_back(signalFor(world, part));
      break;
    case Sync::Collective:
      if (command.partner != kNone) {
        const MatchedCollective &matched = world.collectives[command.partner];
        for (uint32_t m = 0; m < world.groupSize(matched); ++m)
          if (world.members[matched.members + m] != part)
            awaited.push_back(world.members[matched.members + m]);
      }
      break;
    case Sync::Record:
    case Sync::None:
    case Sync::Group:
    case Sync::Signal:
      break;
    }
  }
  awaited.erase(std::remove(awaited.begin(), awaited.end(), kNone), awaited.end());
  return awaited;
}

std::string missingFor(const World &world, CommandId id) {
  for (CommandId part : partsOf(world, id)) {
    const Command &command = world.commands[part];
    if (command.kind == Kind::Send && command.partner == kNone)
      return "the program has no receive for its message";
    if (command.kind == Kind::Recv && command.partner == kNone)
      return "the program has no send for its message";
    if (command.kind == Kind::WaitSignal && signalFor(world, part) == kNone)
      return "no rank of the program raises the signal so far";
    if (command.kind == Kind::Collective && command.partner != kNone) {
      const MatchedCollective &matched = world.collectives[command.partner];
      for (uint32_t m = 0; m < world.groupSize(matched); ++m)
        if (world.members[matched.members + m] == kNone)
          return "rank " + std::to_string(world.groups[matched.group][m]) +
                 " of the program issues fewer collectives";
    }
  }
  return {};
}

} // namespace tandem::check
