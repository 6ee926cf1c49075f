//===- OpDims.cpp - the digits of an op's operands and result in one slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpDims.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include <map>

using namespace mlir;
using namespace tandem;

LocalDims tandem::getOperandDims(Operation *op, const fusion::AxesRule &rule, unsigned operand,
                                 const LocalDims &result) {
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  LocalDims dims = getLocalDims(type, nullptr);
  for (auto [dim, factor] : llvm::enumerate(rule.operands[operand])) {
    if (factor == fusion::AxesRule::kNone)
      continue;
    const auto *along = llvm::find(rule.results[0], factor);
    if (along != rule.results[0].end())
      dims[dim] = result[along - rule.results[0].begin()];
  }
  return dims;
}

OpDims tandem::getOpDims(Operation *op, const SliceIndex *index, std::optional<unsigned> operand) {
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  OpDims dims;
  auto resultType = cast<RankedTensorType>(op->getResult(0).getType());
  if (!operand) {
    dims.result = getLocalDims(resultType, index);
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      dims.operands.push_back(getOperandDims(op, rule, i, dims.result));
    return dims;
  }
  auto type = cast<RankedTensorType>(op->getOperand(*operand).getType());
  LocalDims sliced = getLocalDims(type, index);
  auto follow = [&](LocalDims whole, ArrayRef<int64_t> factors) {
    for (auto [dim, factor] : llvm::zip_equal(whole, factors)) {
      const auto *along = llvm::find(rule.operands[*operand], factor);
      if (factor != fusion::AxesRule::kNone && along != rule.operands[*operand].end())
        dim = sliced[along - rule.operands[*operand].begin()];
    }
    return whole;
  };
  for (auto [i, other] : llvm::enumerate(op->getOperandTypes()))
    dims.operands.push_back(
        follow(getLocalDims(cast<RankedTensorType>(other), nullptr), rule.operands[i]));
  dims.result = follow(getLocalDims(resultType, nullptr), rule.results[0]);
  return dims;
}

LogicalResult tandem::alignDims(OpBuilder &builder, Operation *op,
                                ArrayRef<SmallVector<int64_t>> operandFactors,
                                ArrayRef<int64_t> resultFactors, OpDims &dims) {
  std::map<int64_t, SmallVector<SmallVector<LocalDigit> *>> ofFactor;
  auto add = [&](ArrayRef<int64_t> factors, LocalDims &mine) {
    for (auto [factor, digits] : llvm::zip_equal(factors, mine))
      if (factor != fusion::AxesRule::kNone)
        ofFactor[factor].push_back(&digits);
  };
  for (auto [factors, mine] : llvm::zip_equal(operandFactors, dims.operands))
    add(factors, mine);
  add(resultFactors, dims.result);
  for (auto &[factor, lists] : ofFactor)
    if (failed(alignDigits(builder, op->getLoc(), lists)))
      return op->emitError("expected slices of operands and result with digits of common sizes; "
                           "with other stream digits, or none, they may have them");
  return success();
}
