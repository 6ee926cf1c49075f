//===- Walker.h - a walk through all command lists --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_WALKER_H
#define TANDEM_REPLAY_WALKER_H

#include "tandem/Replay/World.h"

namespace tandem::replay {

/// The streaming multiprocessors (SMs) of a rank's GPU, and those that a command holds while it
/// waits for others.
struct SmLimits {
  unsigned total = 0; ///< 0: not limited (no GPU)
  /// Messages and collectives, which are kernels of NCCL. Those of one channel run one after
  /// another.
  unsigned perChannel = 32;
  unsigned perWait = 1; ///< a wait_signal, which is a kernel in graphs
};

/// Those that a gated matmul holds until its last part ends.
inline unsigned heldByGated(const SmLimits &sms, const Command &command) {
  return command.value < sms.total ? sms.total - static_cast<unsigned>(command.value) : 0;
}

/// Those that a fused exchange holds until its last part ends.
inline unsigned heldByExchange(const SmLimits &sms, const Command &command) {
  return command.value < sms.total ? static_cast<unsigned>(command.value) : sms.total;
}

/// Whether a copy or put is one of the copy engines of a GPU, which need no SM. Those of a fused
/// exchange or gated matmul are not.
bool isByCopyEngine(const World &world, const Rank &rank, const Command &command);

struct WalkOptions {
  /// A send completes without its receive; else it may block until the receive is posted.
  bool bufferedSends = false;
  /// The hardware queue of each stream, by its number among the streams of all ranks
  /// (Rank::firstStream); empty: each stream has its own.
  std::vector<uint16_t> queueOf;
  /// A kernel begins when its SMs are free; kernels that wait come first. Unlike otherwise, the
  /// order matters then: the walk is one that tends to get stuck.
  SmLimits sms;
};

/// Decides how long commands take. Each call announces that something has begun; the driver calls
/// Walker::complete when it ends, at once or later.
class Driver {
public:
  virtual ~Driver();
  /// A command is at the head of its queue and its waits are over. A group posts its messages; a
  /// message or collective is posted, possibly before its partners. The driver must call `complete`
  /// except for groups, messages and collectives.
  virtual void begin(CommandId command) = 0;
  /// Both ends are posted (with bufferedSends: the send). The driver must call complete(send),
  /// which also ends the receive.
  virtual void beginTransfer(CommandId send, CommandId recv) = 0;
  /// All members are posted. The driver must call complete(first member that is not kNone), which
  /// ends all.
  virtual void beginCollective(uint32_t collective) = 0;
  /// A group or a member of a collective is complete.
  virtual void end(CommandId command) = 0;
};

/// The state of one queue of one rank.
struct Position {
  uint32_t rank = 0, queue = 0;
  CommandId at = kNone; ///< the next command to complete; kNone at the end
};

/// One run of all ranks. Deterministic: flags only grow and messages match by tag, so the set of
/// completed commands does not depend on the driver's order.
class Walker {
public:
  Walker(const World &world, const WalkOptions &options, Driver &driver);
  ~Walker();
  /// Starts commands at the heads of queues. Call it first, and after complete(). The driver's
  /// callbacks may call complete().
  void advance();
  void complete(CommandId command);
  bool finished() const;
  bool isComplete(CommandId command) const;
  /// The queues with commands left.
  std::vector<Position> stuck() const;
  /// The queue of a command's stream.
  uint32_t queueOf(CommandId command) const;
  /// For the command at the head of a queue: the first unfinished command that it waits for. kNone
  /// if no command can unblock it (a message without partner, a signal that is never raised).
  CommandId waitsFor(CommandId command) const;
  /// Of the commands at the heads of a rank's queues: does it wait for SMs; does it hold some.
  bool waitsForSMs(CommandId command) const;
  bool holdsSMs(CommandId command) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tandem::replay

#endif // TANDEM_REPLAY_WALKER_H
