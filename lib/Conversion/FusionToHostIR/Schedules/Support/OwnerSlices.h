//===- OwnerSlices.h - slices that one device each owns -*- C++ -*-===//
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

struct OwnerDigits;

/// Slices of one owner, by their numbers: `first` to `end` - 1, by default all.
struct SliceNumbers {
  int64_t first = 0, end = -1;

  std::pair<int64_t, int64_t> of(const OwnerDigits &digits) const;
};

/// The stream for slice `number` of an owner.
using StreamFn = function_ref<Value(Value number)>;
/// The main stream for all slices.
inline constexpr std::nullptr_t onMain = nullptr;
/// Emits the transfer of slice `number`, whose index is `slice`, on or next to `stream`, on which
/// it is computed.
using TransferFn = function_ref<LogicalResult(Value number, const SliceIndex &slice, Value stream)>;

/// The stream digits of a loop whose slices have one owner each. One of the digits is read as
/// outer * owner * inner. Example: the loop over [stream(4) * stream(2)] of a gather over 4 devices
/// has owners in its first digit, outer = inner = 1, and otherSizes = {2}: slice number 1 of
/// owner 3 is iteration (3, 1).
struct OwnerDigits {
  /// Of a loop whose stream digit number `digit` counts `devices` owners.
  OwnerDigits(const StreamLoop &loop, size_t digit, int64_t devices, int64_t outer = 1,
              int64_t inner = 1);

  SmallVector<int64_t> otherSizes; ///< all parts but the owner's, in order
  ArrayRef<int64_t> streamSizes;   ///< of the loop
  size_t digit;                    ///< the number of the digit with the owner's part
  int64_t devices, outer, inner;

  /// The number of slices of one owner.
  int64_t numSlices() const;

  /// The index of slice `number` (0 ... numSlices()-1) of `owner`, or of the slices of `count`
  /// neighbouring owners from this one on, which then have one slice each. `isFirst`: the loop
  /// begins with it.
  SliceIndex getIndex(OpBuilder &builder, Location loc, Value owner, Value number, bool isFirst,
                      int64_t count = 1) const;
  /// All slices of `owner` at once. Needs digits of one part.
  SliceIndex getWhole(OpBuilder &builder, Location loc, Value owner, bool isFirst) const;
  /// The iteration that handles slice `number` in step `step`, if a step handles the slices of one
  /// owner: step * numSlices() + number.
  Value getIteration(ProgramBuilder &program, Location loc, Value step, Value number) const;

  /// Emits `emit` for the slices of `owner` with these numbers, in each shape that they may have.
  LogicalResult forEachSlice(LoopEmitter &body, Location loc, Value owner, bool isFirst,
                             SliceNumbers numbers, StreamFn getStream, TransferFn emit) const;
};

inline std::pair<int64_t, int64_t> SliceNumbers::of(const OwnerDigits &digits) const {
  return {first, end < 0 ? digits.numSlices() : end};
}

/// An axis of `axes` along which devices hold copies of a result that `op` adds up from floats, as
/// a matmul does; null: none. Shapes and strides may decide the order of additions: libraries
/// choose algorithms by them. So the copies are equal to the last bit only if all devices compute a
/// slice in one shape, with equal strides, and combine slices in one order.
StringAttr findCopiedSum(Operation *op, ArrayRef<StringAttr> axes);

/// Whether slices of several owners can be handled at once, as a schedule's option 'merge' asks:
/// one slice each, of one stream digit, without a copied sum along `axes`, where devices handle
/// different slices at once.
Obstacle verifyMerge(const StreamLoop &loop, const OwnerDigits &digits, ArrayRef<StringAttr> axes);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_OWNERSLICES_H
