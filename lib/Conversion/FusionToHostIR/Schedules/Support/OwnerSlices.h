//===- OwnerSlices.h - loops over slices that one device each owns -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_OWNERSLICES_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_OWNERSLICES_H

#include "../../LoopEmitter.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The stream digits of a loop with the owner's coordinate as a part of its
/// own: one digit of them is read as outer, owner, inner.
struct OwnerDigits {
  SmallVector<int64_t> otherSizes; ///< all parts but the owner's, in order
  ArrayRef<int64_t> streamSizes;   ///< of the loop
  size_t digit = 0;                ///< the number of the digit with the owner's part
  int64_t devices = 1, outer = 1, inner = 1;

  /// The number of slices of one owner.
  int64_t numSlices() const;

  /// The index of slice `number` (0 ... numSlices()-1) of `owner`, or of the
  /// slices of `count` neighbouring owners from this one on, which then have
  /// one slice each. `isFirst`: the loop begins with it.
  SliceIndex getIndex(OpBuilder &builder, Location loc, Value owner, Value number, bool isFirst,
                      int64_t count = 1) const;
};

/// Of a loop whose reshard is `plan`, which names an owner.
OwnerDigits getOwnerDigits(const StreamGroup &group, const ReshardPlan &plan);
/// Of a loop whose stream digit number `digit` counts `devices` owners.
OwnerDigits getOwnerDigits(const StreamGroup &group, size_t digit, int64_t devices);

/// A gather that a loop begins with, one of those if there are several; the
/// loop computes on what has arrived.
struct GatherLoop {
  GatherLoop(const StreamGroup &group, fusion::ReshardOp reshard);

  const StreamGroup &group;
  fusion::ReshardOp reshard;
  ArrayRef<Operation *> consumers;
  /// Whether somebody outside reads the gathered value, looks at it as a whole,
  /// or must read own and received slices alike: only then does the own part
  /// have to be in it.
  bool gatheredIsRead;

  /// The plan of the reshard's slice; emits its indices.
  FailureOr<ReshardPlan> getPlan(const SliceIndex &slice, OpBuilder &builder) const;
  /// Copies an own slice into the gathered value.
  LogicalResult copyOwn(LoopEmitter &loop, const SliceIndex &slice, Value stream) const;
  /// Lets the consumers read an own slice: in the gathered value, or where it
  /// lies.
  LogicalResult placeOwn(LoopEmitter &loop, const SliceIndex &slice, Value stream) const;
  /// Computes on an own slice, which needs no wait; on those of all of
  /// the loop's gathers.
  LogicalResult emitOwn(LoopEmitter &loop, const SliceIndex &slice, Value stream) const;
  static LogicalResult emitOwn(ArrayRef<GatherLoop> gathers, LoopEmitter &loop,
                               const SliceIndex &slice, Value stream);
};

/// A loop whose last op, a reduction, hands each slice of what the others
/// compute to its owner, who combines them when he has all: the devices' slices
/// lie side by side in receive memory.
struct ScatterLoop {
  ScatterLoop(const StreamGroup &group, const ScatteredDigit &scattered);

  const StreamGroup &group;
  fusion::ReshardOp scatter;
  const ScatteredDigit &scattered;
  OwnerDigits digits;
  SmallVector<Operation *> producers;

  /// The shape of the receive memory: [device, own piece...].
  SmallVector<int64_t> getReceivedShape() const;
  /// The piece of one device in receive memory.
  Value getPlace(ProgramBuilder &program, Value received, Value device) const;
  /// Buffers for all that the loop makes.
  LogicalResult prepare(LoopEmitter &loop) const;
  /// Computes a slice on `stream`.
  LogicalResult emitProducers(LoopEmitter &loop, const SliceIndex &slice, Value stream) const;
  /// The slice where it is computed, and in its owner's piece.
  Value getComputed(ProgramBuilder &program, const SliceIndex &slice) const;
  Value getTarget(ProgramBuilder &program, Value place, const SliceIndex &slice) const;
  /// Computes an own slice into `place`.
  LogicalResult emitOwn(LoopEmitter &loop, Value place, const SliceIndex &slice,
                        Value stream) const;
  /// Combines what has been received, on the main stream.
  void reduce(ProgramBuilder &program, Value received) const;

private:
  LocalDims getTargetDims(ProgramBuilder &program, const SliceIndex &slice) const;
};

/// The digit of the group's one reshard, if its loop hands each slice to its
/// owner.
std::optional<ScatteredDigit> getScatter(const StreamGroup &group);
/// Whether the rest of the group lets it: what is reduced is read by nobody
/// else, and no other op combines slices.
LogicalResult checkScatter(const StreamGroup &group, function_ref<InFlightDiagnostic()> why);

/// The plan of a slice of the gathers that the group begins with, its only
/// reshards, if it has one owner, who may begin with it, else failure; then
/// `reason` says what is expected and was found.
FailureOr<ReshardPlan> getOwnerPlan(const StreamGroup &group, std::string *reason = nullptr);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_OWNERSLICES_H
