//===- Push.h - the two halves of the schedule push -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_PUSH_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_PUSH_H

#include "OwnerSlices.h"
#include "Peers.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Gather: own slices go to the peers' receive memory while they are computed on; then what has
/// arrived is. `plan` is that of a slice of the group's one reshard.
LogicalResult emitPushGather(const StreamGroup &group, const ReshardPlan &plan,
                             ProgramBuilder &program);

/// Reduction: slices are computed in the order of those who get them, the own last; each goes to
/// its owner's receive memory, who then reduces what has arrived. `scattered` is the digit of the
/// group's scatter.
LogicalResult emitPushReduce(const StreamGroup &group, const ScatteredDigit &scattered,
                             ProgramBuilder &program);

/// What both halves are made of: one stream that copies and never waits for a peer, one or more
/// that compute, a channel, and a signal slot for each source.
class PushLoop {
public:
  PushLoop(const StreamGroup &group, const ReshardPlan &plan, OwnerDigits digits, Location loc,
           ProgramBuilder &program);

  /// Distances [first, first + count) that are computed at once.
  struct Batch {
    int64_t first, count;
  };
  /// All distances 0 ... devices - 1, nearest first, as `merge` cuts them.
  static SmallVector<Batch> getGatherBatches(fusion::ScheduleAttr schedule, int64_t devices);
  /// The same, farthest first.
  static SmallVector<Batch> getReduceBatches(fusion::ScheduleAttr schedule, int64_t devices);

  /// Work begins behind what the main stream has done, and the main stream goes on behind it.
  void fork() const { program.fork(loc, numForked()); }
  void join() const { program.join(loc, numForked()); }
  Value getCopyStream() const;
  /// Of a piece of work by its number.
  Value getComputeStream(Value number) const;

  /// Copies `source` to `target`, this rank's name for the place, at a peer, and says so: slice
  /// `number` of this device has come.
  void push(Value source, Value target, Value peer, Value number) const;
  /// Holds `stream` until slice `number` of device `from` has come.
  void waitFor(Value from, Value number, Value stream) const;

  const StreamGroup &group;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  OwnerDigits digits;
  Value me;
  Peers peers;

private:
  int64_t numForked() const { return computeStreams == 1 ? 1 : computeStreams + 1; }

  Value channel;
  int64_t firstSignal, computeStreams;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_PUSH_H
