//===- ConcatOp.cpp - fusion.concat -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem::fusion;

LogicalResult ConcatOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  std::vector<shapes::Shape> operands;
  for (Value input : getInputs())
    operands.push_back(shapeOf(input));
  return appendShape(*this, shapes::concat(operands, getDim()), shapes);
}

LogicalResult ConcatOp::verify() {
  if (failed(verifyInferred(*this)))
    return failure();
  auto element = getType().getElementType();
  for (auto [i, type] : llvm::enumerate(getInputs().getTypes()))
    if (failed(verifyElementType(*this, "operand " + std::to_string(i),
                                 cast<RankedTensorType>(type), element)))
      return failure();
  return success();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1 && getInputs().front().getType() == getType())
    return getInputs().front();
  return {};
}

AxesRule ConcatOp::getAxesRule() {
  AxesRule rule;
  int64_t rank = getType().getRank();
  rule.factors.assign(rank, FactorKind::Parallel);
  rule.factors[getDim()] = FactorKind::Whole;
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  rule.operands.assign(getInputs().size(), dims);
  rule.results.push_back(dims);
  return rule;
}
