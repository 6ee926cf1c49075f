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

struct WalkOptions {
  /// A send completes without its receive; else it may block until that is posted.
  bool bufferedSends = false;
  /// The hardware queue of its rank that a stream runs on, by the number of the stream among those
  /// of all ranks (Rank::firstStream); empty: each on its own.
  std::vector<uint16_t> queueOf;
};

/// Decides how long things take. Every call hands over something that has begun; the driver says
/// when it is over, at once or later, through Walker::complete.
class Driver {
public:
  virtual ~Driver();
  /// A command is at the head of its queue, and all it has to wait for has happened. Of a group:
  /// its messages are posted now. Of a message and of a collective: it is posted, the other ends
  /// need not be there. `complete` is wanted for all but groups, messages and collectives.
  virtual void begin(CommandId command) = 0;
  /// Both ends are posted (or, with bufferedSends, the send is): wants complete(send), which ends
  /// the receive too.
  virtual void beginTransfer(CommandId send, CommandId recv) = 0;
  /// All members are posted: wants complete(first member that is not kNone), which ends all.
  virtual void beginCollective(uint32_t collective) = 0;
  /// A group or a member of a collective is complete.
  virtual void end(CommandId command) = 0;
};

/// Where one queue of one rank stands.
struct Position {
  uint32_t rank = 0, queue = 0;
  CommandId at = kNone; ///< the command that has not completed; kNone: all have
};

/// One run of all ranks. Deterministic: flags only grow and messages match by tag, so the commands
/// that complete do not depend on the order in which the driver completes them.
class Walker {
public:
  Walker(const World &world, const WalkOptions &options, Driver &driver);
  ~Walker();
  /// Posts what stands at the heads of queues; call first, and after complete(). Reports to the
  /// driver, which may call complete() from its callbacks.
  void advance();
  void complete(CommandId command);
  bool finished() const;
  bool isComplete(CommandId command) const;
  /// The queues that have not come to their end.
  std::vector<Position> stuck() const;
  /// The queue of a command's stream.
  uint32_t queueOf(CommandId command) const;
  /// Of a queue that stands at a command: the first thing that this waits for and that has not
  /// happened; kNone if nobody can bring it about (a message without partner, a signal that nobody
  /// raises).
  CommandId waitsFor(CommandId command) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tandem::replay

#endif // TANDEM_REPLAY_WALKER_H
