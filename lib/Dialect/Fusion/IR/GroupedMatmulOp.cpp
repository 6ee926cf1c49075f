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
  RankedTensorType x = getX().getType(), ends = getEnds().getType();
  SmallVector<int64_t> &shape = shapes.emplace_back(x.getShape());
  for (int64_t dim = 0; dim < x.getRank() - 2; ++dim)
    shape[dim] = knownExtent(shape[dim], ends.getDimSize(dim));
  shape.back() = getW().getType().getDimSize(getTransposeB() ? 1 : 2);
  return success();
}

LogicalResult GroupedMatmulOp::verify() {
  RankedTensorType x = getX().getType(), w = getW().getType(), ends = getEnds().getType();
  int64_t rank = x.getRank();
  if (rank < 2)
    return emitOpError() << "expected x of rank 2 or more, found rank " << rank;
  if (w.getRank() != 3)
    return emitOpError() << "expected w of rank 3, found rank " << w.getRank();
  if (ends.getRank() != rank - 1)
    return emitOpError() << "expected ends of rank " << rank - 1 << ", one less than x, found rank "
                         << ends.getRank();
  if (failed(verifyElementType(*this, "ends", ends, IntegerType::get(getContext(), 32))))
    return failure();
  Type element = x.getElementType();
  if (!isFp8(element) && !isa<Float32Type, Float16Type, BFloat16Type>(element))
    return emitOpError() << "expected elements of f32, f16, bf16, f8E4M3FN or f8E5M2, found "
                         << element;
  if (failed(verifyProductTypes(*this, "x", x, "w", w, getType())))
    return failure();
  int64_t k = x.getDimSize(rank - 1), otherK = w.getDimSize(getTransposeB() ? 2 : 1);
  if (!compatibleExtents(k, otherK))
    return emitOpError() << "expected equal contracted extents, found " << k << " in x and "
                         << otherK << " in w";
  SmallVector<int64_t> shape(x.getShape().drop_back());
  shape.back() = w.getDimSize(0);
  if (failed(verifyShape(*this, "ends", ends.getShape(), shape)))
    return failure();
  SmallVector<SmallVector<int64_t>> shapes;
  return failure(failed(inferResultShapes(shapes)) ||
                 failed(verifyShape(*this, "the result", getType().getShape(), shapes.front())));
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
