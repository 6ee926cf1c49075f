//===- MatmulOp.cpp - fusion.matmul -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

int64_t MatmulOp::lhsK() {
  return isLhsVector() ? 0 : getLhs().getType().getRank() - (getTransposeA() ? 2 : 1);
}
int64_t MatmulOp::rhsK() {
  return isRhsVector() ? 0 : getRhs().getType().getRank() - (getTransposeB() ? 1 : 2);
}

/// Extent of an operand in a batch dimension of the result (0: the last one); 1 if it has none.
static int64_t batchExtent(RankedTensorType type, int64_t fromLast) {
  int64_t dim = type.getRank() - 3 - fromLast;
  return dim < 0 ? 1 : type.getDimSize(dim);
}

LogicalResult MatmulOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType();
  int64_t batchRank = std::max<int64_t>({lhs.getRank(), rhs.getRank(), 2}) - 2;
  SmallVector<int64_t> &shape = shapes.emplace_back();
  for (int64_t i = batchRank - 1; i >= 0; --i) {
    int64_t a = batchExtent(lhs, i), b = batchExtent(rhs, i);
    if (!compatibleExtents(a, b) && a != 1 && b != 1)
      return emitOpError() << "expected batch extents that are equal or 1, found " << a << " and "
                           << b;
    // `?` with 1 is unknown; with another extent it is that extent or 1.
    shape.push_back(a == 1 ? b : b == 1 ? a : knownExtent(a, b));
  }
  if (!isLhsVector())
    shape.push_back(lhs.getDimSize(lhs.getRank() - (getTransposeA() ? 1 : 2)));
  if (!isRhsVector())
    shape.push_back(rhs.getDimSize(rhs.getRank() - (getTransposeB() ? 2 : 1)));
  return success();
}

LogicalResult MatmulOp::verify() {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType(), result = getType();
  for (auto [what, type, transpose] :
       {std::tuple("lhs", lhs, getTransposeA()), std::tuple("rhs", rhs, getTransposeB())}) {
    if (type.getRank() < 1)
      return emitOpError() << "expected " << what << " of rank 1 or more, found rank 0";
    if (type.getRank() == 1 && transpose)
      return emitOpError() << "expected " << what
                           << " of rank 2 or more to transpose, found a vector";
  }
  Type elementType = lhs.getElementType();
  if (!isa<FloatType>(elementType))
    return emitOpError() << "expected floating point elements, found " << elementType;
  if (failed(verifyProductTypes(*this, "lhs", lhs, "rhs", rhs, result)))
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
  if (isRhsVector())
    return emitOpError() << "expected no bias where rhs is a vector: the result has no N";
  if (bias.getRank() != 1 || !compatibleExtents(bias.getDimSize(0), shapes.front().back()))
    return emitOpError() << "expected a bias of rank 1 and extent "
                         << formatShape(shapes.front().back()) << ", found ["
                         << formatShape(bias.getShape()) << "]";
  return verifyElementType(*this, "the bias", bias, result.getElementType());
}

AxesRule MatmulOp::getAxesRule() {
  // Factors: the result's dimensions (batch, M, N; a vector has no M or no N), then K.
  int64_t rank = getType().getRank(), factorK = rank;
  AxesRule rule;
  rule.factors.assign(rank, FactorKind::Parallel);
  rule.factors.push_back(FactorKind::Reduction);
  rule.partial = PartialKind::Product;
  rule.stationary = 1;
  int64_t factorN = rank - (isRhsVector() ? 0 : 1), factorM = factorN - (isLhsVector() ? 0 : 1);
  auto addOperand = [&](RankedTensorType type, int64_t dimK, int64_t otherFactor) {
    SmallVector<int64_t> &factors = rule.operands.emplace_back(type.getRank(), otherFactor);
    int64_t batchRank = std::max<int64_t>(type.getRank() - 2, 0);
    for (int64_t dim = 0; dim < batchRank; ++dim) {
      int64_t factor = factorM - batchRank + dim, extent = type.getDimSize(dim);
      // `?` may become 1.
      bool repeated = extent != getType().getDimSize(factor) || ShapedType::isDynamic(extent);
      factors[dim] = repeated ? AxesRule::kNone : factor;
    }
    factors[dimK] = factorK;
  };
  addOperand(getLhs().getType(), lhsK(), factorM);
  addOperand(getRhs().getType(), rhsK(), factorN);
  if (getBias()) {
    rule.operands.push_back({factorN});
    rule.addedOnce = 2;
  }
  rule.results.emplace_back(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  return rule;
}
