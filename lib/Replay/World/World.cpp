//===- World.cpp - queries of a loaded world --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/World.h"

#include "tandem/Program/CollectiveRoute.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::replay {

static_assert(static_cast<int>(Space::Symmetric) == static_cast<int>(sp::Space::symmetric));

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
                                 command.stream, indexOf(id), infoOf(command.kind).name, name.text);
  if (!name.location.empty())
    text += " at " + name.location;
  return text + ")";
}

void localAccesses(const World &world, const Rank &rank, const Command &command,
                   std::vector<Access> &out) {
  auto add = [&](uint32_t k, bool reads, bool writes) {
    uint32_t view = k < command.numOperands ? rank.operands[command.operands + k] : kNone;
    if (view != kNone && (reads || writes))
      out.push_back({view, reads, writes});
  };
  const program::CommandInfo &info = infoOf(command.kind);
  if (info.takesList) {
    for (uint32_t k = 0; k < command.numOperands; ++k)
      add(k, k >= rank.kernelOutputs[command.aux], k < rank.kernelOutputs[command.aux]);
    return;
  }
  bool sends = true, receives = true; // of a collective with a root: not on all ranks
  bool isRoot = command.peer != kNone && &world.ranks[command.peer] == &rank;
  if (command.kind == Kind::Collective && !isRoot) {
    auto kind = static_cast<tandem::CollectiveKind>(command.op);
    receives = !program::isToRoot(kind);
    sends = !program::isFromRoot(kind);
  }
  bool updates = command.kind == Kind::Matmul &&
                 command.flags & static_cast<uint8_t>(sp::CommandFlags::accumulate);
  for (uint32_t k = 0; k < info.operands.size(); ++k)
    add(k, (info.operands[k].reads && sends) || (k == 0 && updates),
        info.operands[k].writes && receives);
}

} // namespace tandem::replay
