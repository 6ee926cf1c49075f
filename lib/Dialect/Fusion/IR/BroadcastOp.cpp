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
  // New and repeated dimensions have the result type's extents; `?` there means not repeated.
  SmallVector<int64_t> &shape = shapes.emplace_back(getType().getShape());
  for (auto [extent, dim] : llvm::zip_equal(getInput().getType().getShape(), getDims()))
    if (ShapedType::isDynamic(shape[dim]))
      shape[dim] = extent;
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (static_cast<int64_t>(getDims().size()) != input.getRank())
    return emitOpError() << "expected one entry of 'dims' per operand dimension ("
                         << input.getRank() << "), found " << getDims().size();
  if (failed(verifyAscendingDims(*this, "dims", getDims(), result.getRank())))
    return failure();
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    int64_t extent = input.getDimSize(i), resultExtent = result.getDimSize(dim);
    if (extent != 1 && !compatibleExtents(extent, resultExtent))
      return emitOpError() << "expected extent " << resultExtent << " (of result dimension " << dim
                           << ") or 1 in operand dimension " << i << ", found " << extent;
  }
  return verifyElementType(*this, "the result", result, input.getElementType());
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
