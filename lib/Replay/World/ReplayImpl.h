//===- ReplayImpl.h - inside of the replay library ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_REPLAYIMPL_H
#define TANDEM_REPLAY_REPLAYIMPL_H

#include "tandem/Replay/World.h"

namespace tandem::replay {

/// Finds the partners of everything that communicates; fills collectives, members, slots, incoming
/// and mismatches. The slots' sizes are there already.
void matchAll(World &world);

} // namespace tandem::replay

#endif // TANDEM_REPLAY_REPLAYIMPL_H
