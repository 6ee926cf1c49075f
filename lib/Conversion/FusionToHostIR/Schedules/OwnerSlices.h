//===- OwnerSlices.h - loops over slices that one device each owns -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_OWNERSLICES_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_OWNERSLICES_H

#include "../Emitter.h"

namespace mlir::tandem {

/// The stream digits of a loop with the owner's coordinate as a part of its own: one digit of them
/// is read as outer, owner, inner.
struct OwnerDigits {
  SmallVector<int64_t> otherSizes; ///< all parts but the owner's, in order
  ArrayRef<int64_t> streamSizes;   ///< of the loop
  size_t digit = 0;                ///< the number of the digit with the owner's part
  int64_t devices = 1, outer = 1, inner = 1;

  /// The number of slices of one owner.
  int64_t numSlices() const;

  /// The index of slice `number` (0 ... numSlices()-1) of `owner`, or of the slices of `count`
  /// neighbouring owners from this one on, which then have one slice each. `isFirst`: the loop
  /// begins with it.
  SliceIndex getIndex(OpBuilder &builder, Location loc, Value owner, Value number, bool isFirst,
                      int64_t count = 1) const;
};

/// Of a loop whose reshard is `plan`, which names an owner.
OwnerDigits getOwnerDigits(const StreamGroup &group, const ReshardPlan &plan);
/// Of a loop whose stream digit number `digit` counts `devices` owners.
OwnerDigits getOwnerDigits(const StreamGroup &group, size_t digit, int64_t devices);

/// A loop that begins with a gather and computes on what has arrived.
struct GatherLoop {
  explicit GatherLoop(const StreamGroup &group);

  const StreamGroup &group;
  fusion::ReshardOp reshard;
  ArrayRef<Operation *> consumers;
  /// Whether somebody outside reads the gathered value, or looks at it as a whole: only then does
  /// the own part have to be in it.
  bool gatheredIsRead;

  /// The plan of the reshard's slice; emits its indices.
  FailureOr<ReshardPlan> getPlan(const SliceIndex &slice, OpBuilder &builder) const;
  /// Copies an own slice into the gathered value.
  LogicalResult copyOwn(Emitter &emitter, const SliceIndex &slice, Value stream) const;
  /// Computes on an own slice, which nobody has to wait for.
  LogicalResult emitOwn(Emitter &emitter, const SliceIndex &slice, Value stream) const;
};

/// The plan of a slice of the group's one reshard if it has one owner, who may begin with it, else
/// failure.
FailureOr<ReshardPlan> getOwnerPlan(const StreamGroup &group);

} // namespace mlir::tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_OWNERSLICES_H
