//===- OneSided.h - puts and signals of a schedule --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_ONESIDED_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_ONESIDED_H

#include "../../ProgramBuilder.h"
#include "GatherLoop.h"
#include "Peers.h"

#include "tandem/Dialect/Fusion/IR/ScheduleInfo.h"
#include "tandem/Program/Capabilities.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The one-sided channel along mesh axes, and signals that tell its devices of arrivals. A set of
/// signals has one slot for each device of the group: the device that raises it.
class OneSided {
public:
  /// `peers`: the group along the axes; `sets`: how many sets of signals.
  OneSided(const Peers &peers, MeshAttr mesh, ArrayRef<StringAttr> axes, int64_t sets = 1);

  /// Copies `source` to `target`, which is this device's name for its place at the peer.
  void put(Value source, Value target, Value peer, Value stream) const;
  /// Tells the peer that all puts before it on this stream have arrived: raises this device's slot
  /// to `number` + 1.
  void signal(Value peer, Value number, Value stream, int64_t set = 0) const;
  /// Holds `stream` until device `from` has told of `number`.
  void waitFor(Value from, Value number, Value stream, int64_t set = 0) const;
  /// Holds `stream` until all peers have told of `number`.
  void waitForAll(Value number, Value stream, int64_t set = 0) const;

  /// Puts this device's slices with these numbers where they belong in `received` (as of
  /// `GatherLoop::allocReceived`) at one peer after another, each followed by a signal of its
  /// number. `getStream`: the stream that copies to the peer at a distance.
  LogicalResult putSlices(LoopEmitter &body, const GatherLoop &gather, ArrayRef<Value> received,
                          function_ref<Value(Value distance)> getStream,
                          SliceNumbers numbers = {}) const;
  /// Pushes this device's slices of a gather (signals 0, 1, ...) by one kernel of so many blocks;
  /// if slices differ in shape, by one for each. `received`: the result's shape, symmetric.
  LogicalResult pushSlices(LoopEmitter &body, const GatherLoop &gather, Value received,
                           int64_t blocks, Value stream) const;

private:
  Value getSlot(Value device, int64_t set) const;

  ProgramBuilder &program;
  Location loc;
  Peers peers;
  Value channel;
  int64_t firstSignal;
};

/// Also the option `blocks`, and the rules for slices that SMs push.
fusion::ScheduleInfo withPushOptions(fusion::ScheduleInfo info);
/// What a plan uses whose slices so many thread blocks push; none: copy engines do.
program::CapabilitySet usesOfPush(std::optional<int64_t> blocks);
/// The thread blocks that push the slices of a gather; none: copy engines do.
Explained<std::optional<int64_t>> getPushBlocks(const StreamLoop &loop, const GatherLoop &gather);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_ONESIDED_H
