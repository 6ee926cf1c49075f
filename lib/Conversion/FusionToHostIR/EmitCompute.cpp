//===- EmitCompute.cpp - emits slices of ops that compute locally -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"

using namespace mlir;
using namespace mlir::tandem;

LocalDims Emitter::getOperandDims(Operation *op, const fusion::AxesRule &rule, unsigned operand,
                                  const LocalDims &result) {
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  LocalDims dims = getLocalDims(type, nullptr);
  for (auto [dim, factor] : llvm::enumerate(rule.operands[operand])) {
    if (factor == fusion::AxesRule::kNone)
      continue;
    const auto *along = llvm::find(rule.results[0], factor);
    if (along != rule.results[0].end())
      dims[dim] = result[along - rule.results[0].begin()];
  }
  return dims;
}

Value Emitter::getOperandView(Value operand, LocalDims &dims, Location loc) {
  auto own = ownSlices.find(operand);
  if (own == ownSlices.end())
    return makeView(builder, loc, getBuffer(operand), dims, true);
  dims = own->second.dims;
  return makeView(builder, loc, own->second.buffer, dims, true);
}

Value Emitter::getResultView(Value result, const LocalDims &dims, Location loc) {
  return makeView(builder, loc, getOrAllocBuffer(result), dims, true);
}

/// `view` with the dimensions in [first, first + count) moved to the front.
static Value moveToFront(OpBuilder &builder, Location loc, Value view, int64_t first,
                         int64_t count) {
  if (count == 0 || first == 0)
    return view;
  SmallVector<unsigned> permutation;
  int64_t rank = cast<MemRefType>(view.getType()).getRank();
  for (int64_t i = first; i < first + count; ++i)
    permutation.push_back(i);
  for (int64_t i = 0; i < rank; ++i)
    if (i < first || i >= first + count)
      permutation.push_back(i);
  auto map = AffineMap::getPermutationMap(permutation, builder.getContext());
  return memref::TransposeOp::create(builder, loc, view, AffineMapAttr::get(map));
}

LogicalResult Emitter::emitMatmul(fusion::MatmulOp op, const SliceIndex *index, Value stream) {
  Location loc = op.getLoc();
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  auto resultType = cast<RankedTensorType>(op.getResult().getType());
  LocalDims outDims = getLocalDims(resultType, index);
  LocalDims lhsDims = getOperandDims(op, rule, 0, outDims);
  LocalDims rhsDims = getOperandDims(op, rule, 1, outDims);
  Value lhs = getOperandView(op.getLhs(), lhsDims, loc);
  Value rhs = getOperandView(op.getRhs(), rhsDims, loc);
  Value out = getResultView(op.getResult(), outDims, loc);

  // A slice of M (or N) that is not contiguous is several runs of rows: all but the last become
  // batch dimensions, which the other operand does not have and so broadcasts over.
  auto split = [](const LocalDims &dims, int64_t dim) { return getViewRanks(dims)[dim] - 1; };
  auto first = [](const LocalDims &dims, int64_t dim) {
    SmallVector<int64_t> ranks = getViewRanks(dims);
    int64_t sum = 0;
    for (int64_t i = 0; i < dim; ++i)
      sum += ranks[i];
    return sum;
  };
  int64_t rank = resultType.getRank();
  int64_t splitM = split(outDims, rank - 2), splitN = split(outDims, rank - 1);
  if (split(lhsDims, op.lhsK()) || split(rhsDims, op.rhsK()))
    return op.emitError("a slice of the contracted dimension that is not contiguous is not "
                        "lowered yet");
  if ((splitM || splitN) && (op.getLhs().getType().getRank() > 2 && splitN))
    return op.emitError("a slice of N that is not contiguous is lowered only for an lhs without "
                        "batch dimensions");
  if (splitM && op.getRhs().getType().getRank() > 2)
    return op.emitError("a slice of M that is not contiguous is lowered only for an rhs without "
                        "batch dimensions");
  if (splitM && splitN)
    return op.emitError("slices of both M and N that are not contiguous are not lowered yet");
  if (splitM && split(lhsDims, op.lhsM()) != splitM)
    return op.emitError("operand and result slices of M have different digits");
  if (splitN && split(rhsDims, op.rhsN()) != splitN)
    return op.emitError("operand and result slices of N have different digits");
  // Batch dimensions that the result has in front stay in front of the runs.
  if (splitM && rank == 2) {
    lhs = moveToFront(builder, loc, lhs, first(lhsDims, op.lhsM()), splitM);
    out = moveToFront(builder, loc, out, first(outDims, rank - 2), splitM);
  } else if (splitM && op.getTransposeA()) {
    return op.emitError("a slice of M that is not contiguous is not lowered yet for a transposed "
                        "lhs with batch dimensions");
  }
  if (splitN) {
    rhs = moveToFront(builder, loc, rhs, first(rhsDims, op.rhsN()), splitN);
    out = moveToFront(builder, loc, out, first(outDims, rank - 1), splitN);
  }

  Value bias;
  if (op.getBias()) {
    LocalDims biasDims = getOperandDims(op, rule, 2, outDims);
    if (splitN)
      return op.emitError("a bias with a slice of N that is not contiguous is not lowered yet");
    bias = getOperandView(op.getBias(), biasDims, loc);
  }
  hostir::MatmulOp::create(builder, loc, lhs, rhs, bias, out, stream, op.getTransposeA(),
                           op.getTransposeB(), /*accumulate=*/false);
  return success();
}

LogicalResult Emitter::emitReduce(fusion::ReduceOp op, const SliceIndex *index, Value stream) {
  Location loc = op.getLoc();
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  LocalDims outDims = getLocalDims(cast<RankedTensorType>(op.getResult().getType()), index);
  LocalDims inDims = getOperandDims(op, rule, 0, outDims);
  Value in = getOperandView(op.getInput(), inDims, loc);
  Value out = getResultView(op.getResult(), outDims, loc);

  // The view's dimensions that the reduced dimensions became.
  SmallVector<int64_t> dims;
  int64_t viewDim = 0;
  for (auto [dim, ranks] : llvm::enumerate(getViewRanks(inDims)))
    for (int64_t i = 0; i < ranks; ++i, ++viewDim)
      if (llvm::is_contained(op.getDims(), static_cast<int64_t>(dim)))
        dims.push_back(viewDim);
  if (dims.empty()) {
    hostir::CopyOp::create(builder, loc, in, out, stream);
    return success();
  }
  hostir::ReduceOp::create(builder, loc,
                           fusion::ReduceKindAttr::get(builder.getContext(), op.getKind()), in, out,
                           builder.getDenseI64ArrayAttr(dims), stream);
  return success();
}
