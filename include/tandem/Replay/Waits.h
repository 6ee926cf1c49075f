//===- Waits.h - what a command waits for -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The question of a job that hangs: the positions of its ranks are known, and the program says who
// should have done what.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_WAITS_H
#define TANDEM_REPLAY_WAITS_H

#include "tandem/Replay/World.h"

#include <string>
#include <vector>

namespace tandem::check {

/// The commands without which `command` cannot end, except those before it on its stream: the
/// record of a wait, the other end of a message, those of all messages of a group, the other
/// members' parts in a collective, the first signal that raises a slot far enough. Empty for
/// commands of the device, and for those whose other end is missing in the program.
std::vector<replay::CommandId> awaitedBy(const replay::World &world, replay::CommandId command);

/// Which other end of `command` the program lacks, as text: "the program has no send for its
/// message". "" if none is missing.
std::string missingFor(const replay::World &world, replay::CommandId command);

} // namespace tandem::check

#endif // TANDEM_REPLAY_WAITS_H
