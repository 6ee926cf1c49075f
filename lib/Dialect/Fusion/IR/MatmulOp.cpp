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

LogicalResult MatmulOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  std::optional<shapes::Shape> bias;
  if (getBias())
    bias = shapeOf(getBias());
  return appendShape(
      *this,
      shapes::matmul(shapeOf(getLhs()), shapeOf(getRhs()), getTransposeA(), getTransposeB(), bias),
      shapes);
}

LogicalResult MatmulOp::verify() {
  return failure(failed(verifyProduct(*this)) ||
                 (getBias() && failed(verifyElementType(*this, "the bias", getBias().getType(),
                                                        getType().getElementType()))));
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
