//===- ZeroPadding.h - where the padding of a dimension is 0 ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ZEROPADDING_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ZEROPADDING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesRule.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::fusion {

/// The factor of a dimension of an operand or a result; none if the op cuts the dimension into
/// pieces, or joins it with others of more than one index.
std::optional<int64_t> getOperandFactor(const AxesRule &rule, unsigned operand, int64_t dim);
std::optional<int64_t> getResultFactor(const AxesRule &rule, unsigned result, int64_t dim);

/// Whether all operands and results of an op that have this factor may be padded alike: the op
/// computes its padding from theirs. Not the rows of attention in zigzag order, whose chunks have
/// the size that the extent says.
bool followsPadding(Operation *op, const AxesRule &rule, int64_t factor);

/// Whether this dimension of a result gets the padding of an operand, or may be of any extent.
/// Otherwise the result is computed without padding, and 0 is appended.
bool givesPadding(Operation *op, unsigned result, int64_t dim);

/// Which dimensions of a function's values have 0 as padding, if those of its arguments have and
/// the arguments' elements are finite.
class ZeroPadding {
public:
  explicit ZeroPadding(func::FuncOp function);
  bool isZero(Value value, int64_t dim) const;

private:
  bool compute(OpResult result, int64_t dim) const;
  bool hasGivenElements(OpResult result) const;

  DenseMap<Value, SmallVector<bool>> zeros;
  /// Values whose elements are those of arguments, or constants: finite.
  DenseMap<Value, bool> given;
};

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ZEROPADDING_H
