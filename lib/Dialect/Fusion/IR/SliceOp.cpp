//===- SliceOp.cpp - fusion.slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem::fusion;

/// True if the op takes all of dimension `dim`. A result extent `?` with offset 0 and step 1 means
/// all.
static bool takesWhole(SliceOp op, int64_t dim) {
  int64_t extent = op.getInput().getType().getDimSize(dim), taken = op.getType().getDimSize(dim);
  return op.getOffsets()[dim] == 0 && op.getSteps()[dim] == 1 &&
         (extent == taken || ShapedType::isDynamic(taken));
}

LogicalResult SliceOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  return appendShape(*this,
                     shapes::slice(shapeOf(getInput()), shapeOf(getResult()), getOffsets().vec(),
                                   getSteps().vec()),
                     shapes);
}

LogicalResult SliceOp::verify() {
  return failure(failed(verifyInferred(*this)) ||
                 failed(verifyElementType(*this, "the result", getType(),
                                          getInput().getType().getElementType())));
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getInput().getType() != getType())
    return {};
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    if (!takesWhole(*this, dim))
      return {};
  return getInput();
}

AxesRule SliceOp::getAxesRule() {
  AxesRule rule;
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    rule.factors.push_back(takesWhole(*this, dim) ? FactorKind::Parallel : FactorKind::Whole);
  rule.operands.emplace_back(llvm::to_vector(llvm::seq<int64_t>(0, getType().getRank())));
  rule.results = rule.operands;
  return rule;
}
