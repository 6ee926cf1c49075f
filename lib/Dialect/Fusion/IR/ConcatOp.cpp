//===- ConcatOp.cpp - fusion.concat -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem::fusion;

LogicalResult ConcatOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  int64_t dim = getDim();
  auto first = cast<RankedTensorType>(getInputs().front().getType());
  SmallVector<int64_t> &shape = shapes.emplace_back(first.getShape());
  for (auto [i, type] : llvm::enumerate(llvm::drop_begin(getInputs().getTypes()))) {
    ArrayRef<int64_t> other = cast<RankedTensorType>(type).getShape();
    for (auto [d, extent] : llvm::enumerate(other)) {
      int64_t &mine = shape[d];
      if (static_cast<int64_t>(d) != dim) {
        if (!compatibleExtents(mine, extent))
          return emitOpError() << "expected extent " << mine << " in dimension " << d
                               << " of operand " << i + 1 << ", found " << extent;
        mine = knownExtent(mine, extent);
      } else if (ShapedType::isDynamic(mine) || ShapedType::isDynamic(extent)) {
        mine = ShapedType::kDynamic;
      } else if (llvm::AddOverflow(mine, extent, mine)) {
        return emitOpError() << "expected extents whose sum fits 63 bits along dimension " << dim;
      }
    }
  }
  return success();
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError() << "expected at least one operand, found none";
  auto first = cast<RankedTensorType>(getInputs().front().getType());
  for (auto [i, type] : llvm::enumerate(getInputs().getTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getRank() != first.getRank())
      return emitOpError() << "expected rank " << first.getRank() << " of operand " << i
                           << ", found " << tensor.getRank();
    if (failed(verifyElementType(*this, "operand " + std::to_string(i), tensor,
                                 first.getElementType())))
      return failure();
  }
  int64_t dim = getDim();
  if (dim < 0 || dim >= first.getRank())
    return emitOpError() << "expected 'dim' between 0 and " << first.getRank() - 1 << ", found "
                         << dim;
  SmallVector<SmallVector<int64_t>> shapes;
  if (failed(inferResultShapes(shapes)) ||
      failed(verifyShape(*this, "the result", getType().getShape(), shapes.front())))
    return failure();
  return verifyElementType(*this, "the result", getType(), first.getElementType());
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
