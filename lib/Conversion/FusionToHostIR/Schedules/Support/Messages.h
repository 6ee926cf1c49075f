//===- Messages.h - groups of a send and a receive --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_MESSAGES_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_MESSAGES_H

#include "GatherLoop.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A view that is sent, and the one that is received at the same time.
using Exchanged = std::pair<Value, Value>;

/// Where the messages of a group go and come from, and the stream that holds them.
struct MessageGroup {
  Value channel, to, from, stream;

  /// Sends and receives all pieces in one group; without it two devices could wait for each other.
  void emit(ProgramBuilder &program, Location loc, ArrayRef<Exchanged> pieces) const;
};

/// Hops of gathered slices from device to device. Slices are received where they belong in
/// `places`, one buffer of the gathered shape for each gather, and sent on from there. Default: the
/// buffers of the gathered values.
class GatherHops {
public:
  GatherHops(const GatherLoop &gather, LoopEmitter &body, ArrayRef<Value> places = {});

  /// A slice in the buffer of gather number `i`.
  FailureOr<Value> getPlace(size_t i, const SliceIndex &slice) const;
  /// A slice where this device has it: in the operand if it is its own, else where it has arrived.
  FailureOr<Value> getSource(size_t i, const SliceIndex &slice, bool isOwn,
                             Value receiver = {}) const;
  /// A slice in `shard`, a buffer with the slices of one device in the shape of the operand of
  /// gather number `i`. `receiver`: as of planReshardFor.
  FailureOr<Value> getPart(size_t i, Value shard, const SliceIndex &slice,
                           Value receiver = {}) const;
  /// Sends the slices of `owner` (this device, if `isOwn`) with these numbers, and receives those
  /// of `nextOwner`. With `to`, one shard for each gather, they are received there, and those of
  /// others are sent from the shards `from`.
  LogicalResult emit(Value owner, Value nextOwner, bool isOwn, SliceNumbers numbers,
                     const MessageGroup &group, ArrayRef<Value> from = {},
                     ArrayRef<Value> to = {}) const;
  /// The same for slice `number`; the one that is received has the index `theirs`.
  LogicalResult emitSlice(Value owner, bool isOwn, Value number, const SliceIndex &theirs,
                          const MessageGroup &group, ArrayRef<Value> from = {},
                          ArrayRef<Value> to = {}) const;

private:
  const GatherLoop &gather;
  LoopEmitter &body;
  SmallVector<Value> places;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_MESSAGES_H
