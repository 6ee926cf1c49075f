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

/// A part of a stream digit's value: `value` is in 0 ... size-1. Example: a digit of 12 indices as
/// (4, owner), (3, chunk) has the value owner * 3 + chunk.
struct IndexPart {
  int64_t size;
  Value value;
  /// Whether `value` is the first value of the loop, if known at compile time; null: test for 0.
  std::optional<bool> isFirst = std::nullopt;
  /// Selects the last slice of a ragged digit, which is shorter.
  bool isShort = false;
  /// Number of consecutive values from `value` on, all below `size`: slices handled together. Only
  /// for a digit with one part.
  int64_t count = 1;
  bool isWhole() const { return count > 1 && count == size; }
};

/// An iteration of a stream loop: for each stream digit of the loop's types, in order of
/// dimensions, its value in parts, outermost first.
struct SliceIndex {
  SmallVector<SmallVector<IndexPart>> digits;
};

/// Identifies a kept digit of a local buffer, and which digits form one view dimension.
class DigitLabel {
public:
  /// Digit `number` of a list. Adjacent digits with consecutive numbers form one view dimension.
  DigitLabel(int64_t number = 0) : DigitLabel(Kind::Number, number) {}
  /// A digit over the ranks of a collective, `number` 0 outermost. Together they are the view's
  /// first dimension.
  static DigitLabel rank(int64_t number) { return {Kind::Rank, number}; }
  /// A digit with this device's coordinate on axis `axis` of a ReshardPlan.
  static DigitLabel coordinate(int64_t axis) { return {Kind::Coordinate, axis}; }

  bool isRank() const { return kind == Kind::Rank; }
  /// The axis of a coordinate.
  std::optional<int64_t> getAxis() const {
    return kind == Kind::Coordinate ? std::optional(number) : std::nullopt;
  }
  /// Whether a digit with this label continues the view dimension of one labelled `before`.
  bool follows(DigitLabel before) const {
    return kind == before.kind && kind != Kind::Coordinate && number == before.number + 1;
  }

private:
  enum class Kind { Number, Rank, Coordinate };
  DigitLabel(Kind kind, int64_t number) : kind(kind), number(number) {}

  Kind kind;
  int64_t number;
};

/// A digit of a dimension of a *local* buffer, which has no device digits. If `index` is set, the
/// view has only that index, or with `chunk` the `length` indices from `index * chunk` on.
/// Otherwise the digit is kept. Example: 24 rows as {3}, {2, index 1}, {4} are the rows 4 ... 7, 12
/// ... 15 and 20 ... 23, with the view dimensions 3 and 4.
struct LocalDigit {
  int64_t size;
  Value index;
  DigitLabel label = {};
  int64_t chunk = 0, length = 0;

  /// Whether the view has a dimension for it.
  bool isKept() const { return !index || chunk; }
  int64_t numKept() const { return !index ? size : chunk ? length : 1; }
};
using LocalDims = SmallVector<SmallVector<LocalDigit>>;

/// The slice `index` of a ragged digit, or its last slice if `isShort`. Null `index`: keeps all.
LocalDigit getRaggedDigit(const fusion::ResolvedDigit &digit, Value index, bool isShort,
                          DigitLabel label);

/// A digit of a dimension in one slice, with the stride of its indices in the logical dimension.
struct SliceDigit {
  LocalDigit local;
  int64_t stride;
  StringAttr axis = {}; ///< of a device digit, which has one index on a device
};

/// The digits of a dimension in one slice, outermost first. `streams`: the slice's stream digits of
/// this and later dimensions (empty: all are kept); takes this one's.
FailureOr<SmallVector<SliceDigit>> getSliceDigits(fusion::DimAxesAttr dim, int64_t extent,
                                                  MeshAttr mesh,
                                                  ArrayRef<SmallVector<IndexPart>> &streams);

/// The digits of the local buffer.
SmallVector<LocalDigit> getLocalDigits(ArrayRef<SliceDigit> digits);

/// The local digits of a buffer for a value of `type`; stream digits get `index`, or are kept if it
/// is null. Example: 12x8 as `[stream(3), -]` at index i is {3 @ i, 4}, {8}.
LocalDims getLocalDims(RankedTensorType type, const SliceIndex *index);

/// The row-major digits of `iteration` in a loop over `sizes`. Example: iteration 5 of sizes {3, 2}
/// is 2 and 1.
SliceIndex getSliceIndex(OpBuilder &builder, Location loc, ArrayRef<int64_t> sizes,
                         Value iteration);

/// A view of `buffer` with dimensions read as `dims`: one view dimension per kept run of digits, in
/// order. Dimensions without kept digits vanish, or with `keepRank` stay with extent 1. Digits of
/// ranks, if any, become the first dimension.
Value makeView(OpBuilder &builder, Location loc, Value buffer, const LocalDims &dims,
               bool keepRank);

/// `view` with a dimension of extent 1 at `position`.
Value insertUnitDim(OpBuilder &builder, Location loc, Value view, int64_t position);

/// `buffer` with other sizes and strides, starting at `offset` of its root.
Value reinterpret(OpBuilder &builder, Location loc, Value buffer, int64_t offset,
                  ArrayRef<int64_t> shape, ArrayRef<int64_t> strides);

/// Cuts one dimension's digits in several buffers so that their views have the same dimensions:
/// kept digits in common sizes, and separate runs only at gaps. Fails if the buffers keep different
/// numbers of indices, or sizes that do not divide each other. Example: {12} and {3, 2 @ i, 4}
/// become {3, 4} and {3, 2 @ i, 4}, both with the view dimensions 3, 4.
LogicalResult alignDigits(OpBuilder &builder, Location loc,
                          ArrayRef<SmallVector<LocalDigit> *> lists);

/// The number of view dimensions that `makeView` with `keepRank` makes of each dimension. Example:
/// {3, 2 @ i, 4}, {8} gives {2, 1}.
SmallVector<int64_t> getViewRanks(const LocalDims &dims);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICES_H
