//===- Slices.h - views of the pieces that one iteration handles -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICES_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Support/LLVM.h"
#include <optional>

namespace tandem {

/// One component of a stream digit's value: `value` runs over 0 ... size-1. A digit of 12 indices
/// may be given as (4, owner), (3, chunk): owner * 3 + chunk.
struct IndexPart {
  int64_t size;
  Value value;
  /// Whether `value` is what the loop begins with, where that is known; it begins with 0 unless
  /// this says otherwise.
  std::optional<bool> isFirst = std::nullopt;
  /// The last slice of a ragged digit is meant, which is shorter.
  bool isShort = false;
  /// How many values from `value` on are meant, all below `size`: slices of one digit that are
  /// handled at once. Only of a digit's one part.
  int64_t count = 1;
};

/// Which iteration of a stream loop is meant: for each stream digit of the loop's types, in order
/// of dimensions, its value in parts, outermost first.
struct SliceIndex {
  SmallVector<SmallVector<IndexPart>> digits;
};

/// A digit of a dimension of a *local* buffer (device digits are not in it). `index` set: the view
/// takes that one index; with `chunk` set, the `length` indices from `index * chunk` on. Otherwise
/// the digit is kept; `label` numbers kept digits: neighbours with consecutive labels are one
/// dimension of the view, others are dimensions of their own.
struct LocalDigit {
  int64_t size;
  Value index;
  int64_t label = 0;
  int64_t chunk = 0, length = 0;

  /// Whether the view has a dimension for it.
  bool isKept() const { return !index || chunk; }
};
/// Label of the digit that numbers the ranks of a collective.
inline constexpr int64_t kFrontLabel = -100;

using LocalDims = SmallVector<SmallVector<LocalDigit>>;

/// What a slice takes of a ragged digit: its last slice if `isShort`. A null `index` keeps it all.
LocalDigit getRaggedDigit(const fusion::ResolvedDigit &digit, Value index, bool isShort,
                          int64_t label);

/// The local digits of a buffer that holds a value of `type`. Stream digits take `index`; all are
/// kept if it is null.
LocalDims getLocalDims(RankedTensorType type, const SliceIndex *index);

/// The iteration that the numbers `iteration` of a loop over `sizes` stand for.
SliceIndex getSliceIndex(OpBuilder &builder, Location loc, ArrayRef<int64_t> sizes,
                         Value iteration);

/// A view of `buffer`, whose dimensions are read as `dims`. One view dimension per kept run of
/// digits, in order. A dimension of the buffer of which nothing is kept vanishes, unless
/// `keepRank`: then it stays with extent 1. The digit labelled kFrontLabel, if any, becomes the
/// view's first dimension.
Value makeView(OpBuilder &builder, Location loc, Value buffer, const LocalDims &dims,
               bool keepRank);

/// Cuts the digits of one dimension, as several buffers have it, so that their views have the same
/// dimensions for it: kept digits in common sizes, and runs only where one of them has a gap.
/// Failure if they keep different numbers of indices, or sizes that do not divide each other.
LogicalResult alignDigits(OpBuilder &builder, Location loc,
                          ArrayRef<SmallVector<LocalDigit> *> lists);

/// For each dimension, how many view dimensions `makeView` with `keepRank` makes of it.
SmallVector<int64_t> getViewRanks(const LocalDims &dims);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICES_H
