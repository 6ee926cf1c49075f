//===- ReplayImpl.h - inside of the replay library ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_REPLAYIMPL_H
#define TANDEM_REPLAY_REPLAYIMPL_H

#include "tandem/Replay/World.h"

#include <optional>
#include <utility>
#include <vector>

namespace tandem::replay {

/// Finds the partners of all communication; fills collectives, members, slots, incoming and
/// mismatches. The slots' sizes are already set.
void matchAll(World &world);

/// The classes of World::loadClasses.
struct RankClasses {
  /// What a communication is on each rank of a class.
  struct Communication {
    uint32_t peer = kNone; ///< class
    uint32_t aux = 0;      ///< tag or slot; ends that match have equal ones
    Reach reach = Reach::Unknown;
  };
  std::vector<std::vector<Communication>> communications;
  /// By channel and class: the classes of its group, and what that stands for.
  std::vector<std::vector<std::pair<std::vector<uint32_t>, Span>>> groups;
  uint32_t numSlots = 0;

  size_t size() const { return communications.size(); }
};

/// Whether a command has an entry in UniformRanks::communications.
inline bool isCommunication(Kind kind) {
  return isMessage(kind) || kind == Kind::Put || kind == Kind::Signal || kind == Kind::WaitSignal;
}

/// `commands`: of rank 0. None if a table of peers is no permutation, or messages do not match.
std::optional<RankClasses> findClasses(const std::vector<Command> &commands,
                                       const UniformRanks &ranks, uint32_t devicesPerNode);

} // namespace tandem::replay

#endif // TANDEM_REPLAY_REPLAYIMPL_H
