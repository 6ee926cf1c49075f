//===- SliceOp.cpp - fusion.slice -*- C++ -*-===//
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

/// True if the op takes all of dimension `dim`. A result extent `?` with offset 0 and step 1 means
/// all.
static bool takesWhole(SliceOp op, int64_t dim) {
  int64_t extent = op.getInput().getType().getDimSize(dim), taken = op.getType().getDimSize(dim);
  return op.getOffsets()[dim] == 0 && op.getSteps()[dim] == 1 &&
         (extent == taken || ShapedType::isDynamic(taken));
}

LogicalResult SliceOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  SmallVector<int64_t> &shape = shapes.emplace_back(getType().getShape());
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    if (takesWhole(*this, dim))
      shape[dim] = getInput().getType().getDimSize(dim);
  return success();
}

LogicalResult SliceOp::verify() {
  RankedTensorType input = getInput().getType();
  int64_t rank = input.getRank();
  if (getType().getRank() != rank)
    return emitOpError() << "expected a result of rank " << rank << ", found rank "
                         << getType().getRank();
  for (auto [what, list] : {std::pair("offsets", getOffsets()), std::pair("steps", getSteps())})
    if (static_cast<int64_t>(list.size()) != rank)
      return emitOpError() << "expected " << rank << " entries of '" << what << "', found "
                           << list.size();
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t offset = getOffsets()[dim], step = getSteps()[dim];
    if (offset < 0)
      return emitOpError() << "expected an offset that is not negative in dimension " << dim
                           << ", found " << offset;
    if (step < 1)
      return emitOpError() << "expected a positive step in dimension " << dim << ", found " << step;
    int64_t extent = input.getDimSize(dim), taken = getType().getDimSize(dim);
    if (ShapedType::isDynamic(extent) || ShapedType::isDynamic(taken) || taken == 0)
      continue;
    int64_t last;
    if (llvm::MulOverflow(taken - 1, step, last) || llvm::AddOverflow(last, offset, last) ||
        last >= extent)
      return emitOpError() << "expected elements inside the extent " << extent << " of dimension "
                           << dim << ", found " << taken << " from " << offset << " in steps of "
                           << step;
  }
  return verifyElementType(*this, "the result", getType(), input.getElementType());
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
