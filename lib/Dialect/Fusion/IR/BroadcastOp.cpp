//===- BroadcastOp.cpp - fusion.broadcast -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem::fusion;

LogicalResult BroadcastOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  return appendShape(
      *this, shapes::broadcastTo(shapeOf(getInput()), shapeOf(getResult()), getDims().vec()),
      shapes);
}

LogicalResult BroadcastOp::verify() {
  return failure(failed(verifyInferred(*this)) ||
                 failed(verifyElementType(*this, "the result", getType(),
                                          getInput().getType().getElementType())));
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType() && getType().hasStaticShape())
    return getInput();
  return {};
}

AxesRule BroadcastOp::getAxesRule() {
  AxesRule rule;
  int64_t rank = getType().getRank();
  rule.factors.assign(rank, FactorKind::Parallel);
  rule.results.emplace_back(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  SmallVector<int64_t> &operand = rule.operands.emplace_back();
  for (auto [extent, dim] : llvm::zip_equal(getInput().getType().getShape(), getDims())) {
    bool repeated = extent == 1 && getType().getDimSize(dim) != 1;
    operand.push_back(repeated ? AxesRule::kNone : dim);
  }
  return rule;
}
