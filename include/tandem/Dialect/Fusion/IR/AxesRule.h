//===- AxesRule.h - which dimensions of an op run together -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_AXESRULE_H
#define TANDEM_DIALECT_FUSION_IR_AXESRULE_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace tandem::fusion {

enum class FactorKind {
  /// Independent iterations: all dimensions of the factor share their axes.
  Parallel,
  /// Reduced by `AxesRule::reduceKind`: device digits make the result partial.
  Reduction,
  /// All indices are needed at once (a sliced or concatenated dimension): no device digits.
  Whole,
  /// Combined slice after slice into a state of the op's own (a softmax): no device digits, since
  /// states of several devices are no partial values.
  Folded,
};

/// Whether slices of such a dimension are combined into one result.
inline bool isCombined(FactorKind kind) {
  return kind == FactorKind::Reduction || kind == FactorKind::Folded;
}
/// Whether a device needs all indices of such a dimension.
inline bool isOnOneDevice(FactorKind kind) {
  return kind == FactorKind::Whole || kind == FactorKind::Folded;
}

/// How an op treats partial operands.
enum class PartialKind {
  /// Result and operands are partial over the same mesh axes with the same reduction.
  Alike,
  /// As Alike, but only with the reduction `AxesRule::reduceKind` (for sums of partial sums).
  AlikeSame,
  /// One operand may be a partial sum if the others are replicated (a product).
  Product,
  /// Operands and results must not be partial.
  Never,
};

/// One factor of dimension `dim`, of `extent` indices. Example: 24 as the pieces 4 and 6.
struct DimPiece {
  int64_t dim;
  int64_t extent;
};

/// The iteration space of an op: every dimension of an operand or result belongs to one factor.
///
/// If an op regroups dimensions, they are cut into pieces, outermost first, and each piece belongs
/// to one factor. Example: `reshape 8x6 -> 2x24` has the factors 2, 4 and 6. The operand's pieces
/// are 2 and 4 (dimension 0) and 6 (dimension 1); the result's are 2 (dimension 0), 4 and 6
/// (dimension 1). A piece that the other side cuts differently, as in `reshape 2x3 -> 3x2`, is a
/// factor of its own of kind Whole.
struct AxesRule {
  /// A repeated dimension of extent 1, which cannot have device digits.
  static constexpr int64_t kNone = -1;

  SmallVector<FactorKind> factors;
  SmallVector<SmallVector<int64_t>> operands; // factor of each dimension or piece, per operand
  SmallVector<SmallVector<int64_t>> results;  // factor of each dimension or piece, per result
  /// The pieces of each operand's and result's dimensions; empty: one piece per dimension.
  SmallVector<SmallVector<DimPiece>> operandPieces, resultPieces;
  /// Factors whose extent has a meaning of its own (zigzag order has chunks of it): not padded.
  SmallVector<int64_t> exact;
  ReduceKind reduceKind = ReduceKind::Sum;
  PartialKind partial = PartialKind::Alike;
  /// An operand that is added once (a bias): neither it nor the result next to it is partial. It is
  /// optional; where the result would be partial, it is removed and added after the reduction.
  std::optional<unsigned> addedOnce;
  /// The operand that is not resharded if operands do not fit each other (a layer's weight).
  std::optional<unsigned> stationary;
  /// One call per device computes the whole result: no stream digits on dimensions of kind Whole.
  bool callsOnce = false;
  /// Ops of this kind keep their order, and a device computes all of its part at once: no stream
  /// digits in results.
  bool isOrdered = false;

  bool regroups() const { return !operandPieces.empty(); }
  bool reduces() const { return llvm::any_of(factors, isCombined); }
  /// Whether the op computes sums, whose rounding depends on the order.
  bool addsUp() const { return reduces() && reduceKind == ReduceKind::Sum; }
  /// Extent of piece `piece` of an operand of this shape. Example: 4 for piece 1 of `reshape 8x6 ->
  /// 2x24`.
  int64_t getExtent(ArrayRef<int64_t> shape, unsigned operand, int64_t piece) const {
    return regroups() ? operandPieces[operand][piece].extent : shape[piece];
  }

  /// The rule of an elementwise op.
  static AxesRule elementwise(unsigned numOperands, unsigned numResults, int64_t rank);
};

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_AXESRULE_H
