//===- MatmulOp.cpp - fusion.matmul -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem::fusion;

int64_t MatmulOp::lhsM() { return getLhs().getType().getRank() - (getTransposeA() ? 1 : 2); }
int64_t MatmulOp::lhsK() { return getLhs().getType().getRank() - (getTransposeA() ? 2 : 1); }
int64_t MatmulOp::rhsK() { return getRhs().getType().getRank() - (getTransposeB() ? 1 : 2); }
int64_t MatmulOp::rhsN() { return getRhs().getType().getRank() - (getTransposeB() ? 2 : 1); }

/// Batch extent of an operand at a batch dimension of the result (numbered from the last one, 0),
/// or 1.
static int64_t batchExtent(RankedTensorType type, int64_t fromLast) {
  int64_t dim = type.getRank() - 3 - fromLast;
  return dim < 0 ? 1 : type.getDimSize(dim);
}

LogicalResult MatmulOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType();
  int64_t batchRank = std::max(lhs.getRank(), rhs.getRank()) - 2;
  SmallVector<int64_t> &shape = shapes.emplace_back();
  for (int64_t i = batchRank - 1; i >= 0; --i) {
    int64_t a = batchExtent(lhs, i), b = batchExtent(rhs, i);
    if (!compatibleExtents(a, b) && a != 1 && b != 1)
      return emitOpError() << "expected batch extents that are equal or 1, found " << a << " and "
                           << b;
    // `?` beside 1 says nothing; beside another extent it can only be that one or 1.
    shape.push_back(a == 1 ? b : b == 1 ? a : knownExtent(a, b));
  }
  shape.push_back(lhs.getDimSize(lhsM()));
  shape.push_back(rhs.getDimSize(rhsN()));
  return success();
}

LogicalResult MatmulOp::verify() {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType(), result = getType();
  for (auto [what, type] : {std::pair("lhs", lhs), std::pair("rhs", rhs)})
    if (type.getRank() < 2)
      return emitOpError() << "expected " << what << " of rank 2 or more, found rank "
                           << type.getRank();
  Type elementType = lhs.getElementType();
  if (!isa<FloatType>(elementType))
    return emitOpError() << "expected floating point elements, found " << elementType;
  if (failed(verifyElementType(*this, "rhs", rhs, elementType)) ||
      (!result.getElementType().isF32() &&
       failed(verifyElementType(*this, "the result", result, elementType))))
    return failure();
  int64_t k = lhs.getDimSize(lhsK()), otherK = rhs.getDimSize(rhsK());
  if (!compatibleExtents(k, otherK))
    return emitOpError() << "expected equal contracted extents, found " << k << " in lhs and "
                         << otherK << " in rhs";
  SmallVector<SmallVector<int64_t>> shapes;
  if (failed(inferResultShapes(shapes)) ||
      failed(verifyShape(*this, "the result", result.getShape(), shapes.front())))
    return failure();
  if (!getBias())
    return success();
  RankedTensorType bias = getBias().getType();
  if (bias.getRank() != 1 || !compatibleExtents(bias.getDimSize(0), shapes.front().back()))
    return emitOpError() << "expected a bias of rank 1 and extent "
                         << formatShape(shapes.front().back()) << ", found ["
                         << formatShape(bias.getShape()) << "]";
  return verifyElementType(*this, "the bias", bias, result.getElementType());
}

AxesRule MatmulOp::getAxesRule() {
  // Factors: the result's dimensions, then K.
  int64_t rank = getType().getRank(), factorK = rank;
  AxesRule rule;
  rule.factors.assign(rank, FactorKind::Parallel);
  rule.factors.push_back(FactorKind::Reduction);
  rule.partial = PartialKind::Product;
  auto addOperand = [&](RankedTensorType type, int64_t dimK, int64_t other, int64_t otherFactor) {
    SmallVector<int64_t> &factors = rule.operands.emplace_back(type.getRank());
    for (int64_t dim = 0; dim < type.getRank() - 2; ++dim) {
      int64_t factor = rank - type.getRank() + dim;
      bool repeated = type.getDimSize(dim) == 1 && getType().getDimSize(factor) != 1;
      factors[dim] = repeated ? AxesRule::kNone : factor;
    }
    factors[dimK] = factorK;
    factors[other] = otherFactor;
  };
  addOperand(getLhs().getType(), lhsK(), lhsM(), rank - 2);
  addOperand(getRhs().getType(), rhsK(), rhsN(), rank - 1);
  if (getBias()) {
    rule.operands.push_back({rank - 1});
    rule.neverPartialOperand = 2;
  }
  rule.results.emplace_back(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  return rule;
}
