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

/// What a kept digit of a local buffer is in a view, and which digits are one dimension of it.
class DigitLabel {
public:
  /// Digit `number` of a list. Neighbours with consecutive numbers are one dimension of the view,
  /// others are dimensions of their own.
  DigitLabel(int64_t number = 0) : DigitLabel(Kind::Number, number) {}
  /// A digit that counts the ranks of a collective, `number` 0 the outermost one: together they are
  /// the view's first dimension.
  static DigitLabel rank(int64_t number) { return {Kind::Rank, number}; }
  /// A digit that takes this device's coordinate on axis number `axis` of a ReshardPlan.
  static DigitLabel coordinate(int64_t axis) { return {Kind::Coordinate, axis}; }

  bool isRank() const { return kind == Kind::Rank; }
  /// The axis of a coordinate.
  std::optional<int64_t> getAxis() const {
    return kind == Kind::Coordinate ? std::optional(number) : std::nullopt;
  }
  /// Whether a digit with this label, behind one labelled `before`, is the same view dimension.
  bool follows(DigitLabel before) const {
    return kind == before.kind && kind != Kind::Coordinate && number == before.number + 1;
  }

private:
  enum class Kind { Number, Rank, Coordinate };
  DigitLabel(Kind kind, int64_t number) : kind(kind), number(number) {}

  Kind kind;
  int64_t number;
};

/// A digit of a dimension of a *local* buffer (device digits are not in it). `index` set: the view
/// takes that one index; with `chunk` set, the `length` indices from `index * chunk` on. Otherwise
/// the digit is kept. Example: a dimension of 24 rows as {3}, {2, index 1}, {4} is the rows 4 ...
/// 7, 12 ... 15 and 20 ... 23, and the view has the dimensions 3 and 4 for it.
struct LocalDigit {
  int64_t size;
  Value index;
  DigitLabel label = {};
  int64_t chunk = 0, length = 0;

  /// Whether the view has a dimension for it.
  bool isKept() const { return !index || chunk; }
};
using LocalDims = SmallVector<SmallVector<LocalDigit>>;

/// What a slice takes of a ragged digit: its last slice if `isShort`. A null `index` keeps it all.
LocalDigit getRaggedDigit(const fusion::ResolvedDigit &digit, Value index, bool isShort,
                          DigitLabel label);

/// The local digits of a buffer that holds a value of `type`. Stream digits take `index`; all are
/// kept if it is null. Example: 12x8 as `[stream(3), -]` at index i is {3 @ i, 4}, {8}.
LocalDims getLocalDims(RankedTensorType type, const SliceIndex *index);

/// The iteration that the numbers `iteration` of a loop over `sizes` stand for: its row-major
/// digits. Example: iteration 5 of sizes {3, 2} is 2 and 1.
SliceIndex getSliceIndex(OpBuilder &builder, Location loc, ArrayRef<int64_t> sizes,
                         Value iteration);

/// A view of `buffer`, whose dimensions are read as `dims`. One view dimension per kept run of
/// digits, in order. A dimension of the buffer of which nothing is kept vanishes, unless
/// `keepRank`: then it stays with extent 1. The digits of ranks, if any, become the view's
/// first dimension.
Value makeView(OpBuilder &builder, Location loc, Value buffer, const LocalDims &dims,
               bool keepRank);

/// Cuts the digits of one dimension, as several buffers have it, so that their views have the same
/// dimensions for it: kept digits in common sizes, and runs only where one of them has a gap.
/// Failure if they keep different numbers of indices, or sizes that do not divide each other.
/// Example: {12} and {3, 2 @ i, 4} become {3, 4} and {3, 2 @ i, 4}: both views have dimensions
/// 3, 4.
LogicalResult alignDigits(OpBuilder &builder, Location loc,
                          ArrayRef<SmallVector<LocalDigit> *> lists);

/// For each dimension, how many view dimensions `makeView` with `keepRank` makes of it. Example:
/// {3, 2 @ i, 4}, {8} gives {2, 1}.
SmallVector<int64_t> getViewRanks(const LocalDims &dims);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICES_H
