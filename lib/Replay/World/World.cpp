//===- World.cpp - queries of a loaded world --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/World.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::replay {

static_assert(static_cast<int>(Kind::FusedExchange) ==
              static_cast<int>(sp::CommandKind::fused_exchange));
static_assert(static_cast<int>(Space::Symmetric) == static_cast<int>(sp::Space::symmetric));

std::string_view toString(Kind kind) {
  return sp::EnumNameCommandKind(static_cast<sp::CommandKind>(kind));
}

uint32_t World::rankOf(CommandId command) const {
  // Ranks have about equally many commands: guess, then walk.
  auto guess = static_cast<uint32_t>(uint64_t(command) * ranks.size() /
                                     std::max<size_t>(commands.size(), 1));
  while (command < ranks[guess].begin)
    --guess;
  while (command >= ranks[guess].end)
    ++guess;
  return guess;
}

const Slot *World::slotOf(uint32_t rank, uint32_t slot) const {
  uint32_t first = firstSlot[rank];
  return slot < firstSlot[rank + 1] - first ? &slots[first + slot] : nullptr;
}

std::string World::describe(CommandId id) const {
  const Command &command = commands[id];
  const Name &name = names[command.name];
  std::string text = fmt::format("rank {} stream {} command {} ({} \"{}\"", rankOf(id),
                                 command.stream, indexOf(id), toString(command.kind), name.text);
  if (!name.location.empty())
    text += " at " + name.location;
  return text + ")";
}

void localAccesses(const World &world, const Rank &rank, const Command &command,
                   std::vector<Access> &out) {
  auto add = [&](uint32_t k, bool reads, bool writes) {
    uint32_t view = k < command.numOperands ? rank.operands[command.operands + k] : kNone;
    if (view != kNone)
      out.push_back({view, reads, writes});
  };
  switch (command.kind) {
  case Kind::Copy:
  case Kind::Reduce:
    add(0, false, true);
    return add(1, true, false);
  case Kind::Matmul:
    add(0, command.flags & static_cast<uint8_t>(sp::CommandFlags::accumulate), true);
    for (uint32_t k = 1; k < 4; ++k)
      add(k, true, false);
    return;
  case Kind::Accumulate:
    add(0, true, true);
    return add(1, true, false);
  case Kind::Collective: {
    auto kind = static_cast<tandem::CollectiveKind>(command.op);
    bool isRoot = command.peer != kNone && &world.ranks[command.peer] == &rank;
    bool writes = isRoot || (kind != tandem::CollectiveKind::Reduce &&
                             kind != tandem::CollectiveKind::Gather);
    bool reads = isRoot || (kind != tandem::CollectiveKind::Broadcast &&
                            kind != tandem::CollectiveKind::Scatter);
    if (writes)
      add(0, false, true);
    if (reads)
      add(1, true, false);
    return;
  }
  case Kind::Send:
    return add(0, true, false);
  case Kind::Recv:
    return add(0, false, true);
  case Kind::Put:
    return add(1, true, false);
  case Kind::Launch:
  case Kind::Call:
    for (uint32_t k = 0; k < command.numOperands; ++k)
      add(k, k >= rank.kernelOutputs[command.aux], k < rank.kernelOutputs[command.aux]);
    return;
  default:
    return;
  }
}

} // namespace tandem::replay
