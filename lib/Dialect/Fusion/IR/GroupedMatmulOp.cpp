//===- GroupedMatmulOp.cpp - fusion.grouped_matmul -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

LogicalResult GroupedMatmulOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  return appendShape(
      *this,
      shapes::groupedMatmul(shapeOf(getX()), shapeOf(getW()), shapeOf(getEnds()), getTransposeB()),
      shapes);
}

LogicalResult GroupedMatmulOp::verify() {
  if (failed(verifyElementType(*this, "ends", getEnds().getType(),
                               IntegerType::get(getContext(), 32))))
    return failure();
  Type element = getX().getType().getElementType();
  if (!isFp8(element) && !isa<Float32Type, Float16Type, BFloat16Type>(element))
    return emitOpError() << "expected elements of f32, f16, bf16, f8E4M3FN or f8E5M2, found "
                         << element;
  return verifyProduct(*this);
}

AxesRule GroupedMatmulOp::getAxesRule() {
  // Factors: the batch dimensions, M, N, K, G.
  int64_t batch = getType().getRank() - 2;
  int64_t m = batch, n = batch + 1, k = batch + 2, g = batch + 3;
  AxesRule rule;
  rule.factors.assign(batch, FactorKind::Parallel);
  rule.factors.append(
      {FactorKind::Whole, FactorKind::Parallel, FactorKind::Reduction, FactorKind::Whole});
  rule.partial = PartialKind::Never;
  rule.stationary = 1;
  rule.callsOnce = true;
  auto withBatch = [&](ArrayRef<int64_t> inner) {
    SmallVector<int64_t> factors = llvm::to_vector(llvm::seq<int64_t>(0, batch));
    llvm::append_range(factors, inner);
    return factors;
  };
  rule.operands = {withBatch({m, k}), {g, k, n}, withBatch({g})};
  if (getTransposeB())
    rule.operands[1] = {g, n, k};
  rule.results = {withBatch({m, n})};
  return rule;
}
