//===- AttentionOp.cpp - fusion.attention -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem::fusion;

LogicalResult AttentionOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  shapes::AttentionForm form;
  form.isCausal = getCausal();
  if (getScale())
    form.scale = getScale()->convertToDouble();
  form.zigzag = getZigzag();
  form.keyCount = getKeyCount();
  return appendShape(
      *this, shapes::attention(shapeOf(getQuery()), shapeOf(getKey()), shapeOf(getValue()), form),
      shapes);
}

LogicalResult AttentionOp::verify() {
  Type element = getQuery().getType().getElementType();
  if (!isa<Float32Type, Float16Type, BFloat16Type>(element))
    return emitOpError() << "expected elements of f32, f16 or bf16, found " << element;
  return failure(failed(verifyElementType(*this, "keys", getKey().getType(), element)) ||
                 failed(verifyElementType(*this, "values", getValue().getType(), element)) ||
                 failed(verifyElementType(*this, "the result", getType(), element)) ||
                 failed(verifyInferred(*this)));
}

AxesRule AttentionOp::getAxesRule() {
  // Factors: the batch dimensions, M, E, D, N.
  int64_t batch = getType().getRank() - 2;
  int64_t m = batch, e = batch + 1, d = batch + 2, n = batch + 3;
  AxesRule rule;
  rule.factors.assign(batch + 2, FactorKind::Parallel);
  rule.factors.push_back(FactorKind::Whole);
  rule.factors.push_back(FactorKind::Folded);
  rule.partial = PartialKind::Never;
  if (getZigzag())
    rule.exact = {m, n};
  auto withBatch = [&](int64_t outer, int64_t inner) {
    SmallVector<int64_t> factors = llvm::to_vector(llvm::seq<int64_t>(0, batch));
    factors.append({outer, inner});
    return factors;
  };
  rule.operands = {withBatch(m, d), withBatch(n, d), withBatch(n, e)};
  rule.results = {withBatch(m, e)};
  return rule;
}
