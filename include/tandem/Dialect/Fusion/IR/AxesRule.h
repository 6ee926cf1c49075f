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
#include "llvm/ADT/SmallVector.h"

namespace tandem::fusion {

enum class FactorKind {
  /// One iteration per index, independent of each other: axes pass between all dimensions of the
  /// factor.
  Parallel,
  /// Combined over by `AxesRule::reduceKind`: device digits make the result partial.
  Reduction,
  /// Every index is needed at once (a dimension that is cut, or concatenated): device digits are
  /// not allowed.
  Whole,
};

/// How an op treats partial operands.
enum class PartialKind {
  /// Result and operands are partial alike (same mesh axes, same reduction).
  Alike,
  /// As Alike, but only for the reduction `AxesRule::reduceKind` (an addition of partial sums, a
  /// reduction).
  AlikeSame,
  /// One operand may be a partial sum where the others are replicated (a product).
  Product,
  /// No operand and no result may be partial.
  Never,
};

/// The iteration space of an op: every dimension of an operand or result belongs to one factor, or
/// stands alone.
struct AxesRule {
  /// A dimension of extent 1 that is repeated, and so can hold no device digit.
  static constexpr int64_t kNone = -1;

  SmallVector<FactorKind> factors;
  SmallVector<SmallVector<int64_t>> operands; // factor of each dimension, per operand
  SmallVector<SmallVector<int64_t>> results;  // factor of each dimension, per result
  ReduceKind reduceKind = ReduceKind::Sum;
  PartialKind partial = PartialKind::Alike;
  /// An operand that is never partial (a bias), or -1.
  int64_t neverPartialOperand = -1;

  /// The rule of an elementwise op.
  static AxesRule elementwise(unsigned numOperands, unsigned numResults, int64_t rank);
};

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_AXESRULE_H
