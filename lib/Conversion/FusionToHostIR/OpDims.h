//===- OpDims.h - the digits of an op's operands and result in one slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPDIMS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPDIMS_H

#include "Slices.h"
#include "mlir/IR/Operation.h"
#include "tandem/Dialect/Fusion/IR/AxesRule.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The digits of an op's operands and result in one slice: one list per dimension of each.
struct OpDims {
  SmallVector<LocalDims> operands;
  LocalDims result;
};

/// The digits of operand `operand` that belong to the slice `result` of the op's result. Example:
/// for `matmul(8x16, 16x4) -> [stream(2), -]`, slice i of the result has the digits [2 @ i, 4],
/// [4]; the left operand gets [2 @ i, 4], [16] and the right one [16], [4].
LocalDims getOperandDims(Operation *op, const fusion::AxesRule &rule, unsigned operand,
                         const LocalDims &result);

/// The digits of all operands and of the result for the slice at `index` of the result, or of
/// operand `operand` if set. Null `index`: keeps all digits.
OpDims getOpDims(Operation *op, const SliceIndex *index, std::optional<unsigned> operand);

/// Cuts the digits of operands and result that belong to one factor equally, so that their views
/// have one shape (see alignDigits). An error at `op` if this is impossible.
LogicalResult alignDims(OpBuilder &builder, Operation *op,
                        ArrayRef<SmallVector<int64_t>> operandFactors,
                        ArrayRef<int64_t> resultFactors, OpDims &dims);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPDIMS_H
