//===- AttentionOp.cpp - fusion.attention -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

#include <cmath>

using namespace mlir;
using namespace tandem::fusion;

LogicalResult AttentionOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  SmallVector<int64_t> &shape = shapes.emplace_back(getQuery().getType().getShape());
  int64_t rank = static_cast<int64_t>(shape.size());
  shape.back() = getValue().getType().getDimSize(rank - 1);
  for (int64_t dim = 0; dim < rank - 2; ++dim)
    for (RankedTensorType other : {getKey().getType(), getValue().getType()}) {
      if (!compatibleExtents(shape[dim], other.getDimSize(dim)))
        return emitOpError() << "expected equal batch extents, found " << formatShape(shape[dim])
                             << " and " << formatShape(other.getDimSize(dim)) << " in dimension "
                             << dim;
      shape[dim] = knownExtent(shape[dim], other.getDimSize(dim));
    }
  return success();
}

LogicalResult AttentionOp::verify() {
  RankedTensorType query = getQuery().getType(), key = getKey().getType(),
                   value = getValue().getType();
  int64_t rank = query.getRank();
  if (rank < 2 || key.getRank() != rank || value.getRank() != rank)
    return emitOpError() << "expected a query, keys and values of one rank, 2 or more, found ranks "
                         << rank << ", " << key.getRank() << " and " << value.getRank();
  Type element = query.getElementType();
  if (!isa<Float32Type, Float16Type, BFloat16Type>(element))
    return emitOpError() << "expected elements of f32, f16 or bf16, found " << element;
  if (failed(verifyElementType(*this, "keys", key, element)) ||
      failed(verifyElementType(*this, "values", value, element)) ||
      failed(verifyElementType(*this, "the result", getType(), element)))
    return failure();
  int64_t depth = query.getDimSize(rank - 1), tokens = key.getDimSize(rank - 2);
  if (!compatibleExtents(depth, key.getDimSize(rank - 1)) || depth == 0)
    return emitOpError() << "expected query and keys of equal depth, 1 or more, found "
                         << formatShape(depth) << " and " << formatShape(key.getDimSize(rank - 1));
  if (!compatibleExtents(tokens, value.getDimSize(rank - 2)))
    return emitOpError() << "expected as many keys as values, found " << formatShape(tokens)
                         << " and " << formatShape(value.getDimSize(rank - 2));
  SmallVector<SmallVector<int64_t>> shapes;
  if (failed(inferResultShapes(shapes)) ||
      failed(verifyShape(*this, "the result", getType().getShape(), shapes.front())))
    return failure();
  if (getScale()) {
    double scale = getScale()->convertToDouble();
    if (!(scale > 0) || !std::isfinite(static_cast<float>(scale)))
      return emitOpError("expected a finite scale greater than 0, as f32");
  }
  int64_t rows = query.getDimSize(rank - 2);
  if (getCausal() && !compatibleExtents(rows, tokens))
    return emitOpError() << "expected as many keys as rows with causal, found "
                         << formatShape(tokens) << " and " << formatShape(rows);
  if (std::optional<int64_t> count = getKeyCount();
      count && (*count < 1 || getCausal() || (!ShapedType::isDynamic(tokens) && *count > tokens)))
    return emitOpError() << "expected a key_count from 1 to the number of keys, "
                         << formatShape(tokens) << ", and without causal, found " << *count;
  if (!getZigzag())
    return success();
  int64_t pairs = static_cast<int64_t>(*getZigzag());
  if (pairs <= 0 || !getCausal())
    return emitOpError("expected zigzag greater than 0, and with causal");
  if (!ShapedType::isDynamic(rows) && (rows % 2 != 0 || rows / 2 % pairs != 0))
    return emitOpError() << "expected a number of tokens that 2 * zigzag divides, found " << rows
                         << " and zigzag " << pairs;
  return success();
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
  auto withBatch = [&](int64_t outer, int64_t inner) {
    SmallVector<int64_t> factors = llvm::to_vector(llvm::seq<int64_t>(0, batch));
    factors.append({outer, inner});
    return factors;
  };
  rule.operands = {withBatch(m, d), withBatch(n, d), withBatch(n, e)};
  rule.results = {withBatch(m, e)};
  return rule;
}
