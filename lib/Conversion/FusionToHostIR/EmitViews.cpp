//===- EmitViews.cpp - ops that only look at their operand in another way -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"
#include "SlicePlaces.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

bool Emitter::isView(Operation *op) {
  return isa<fusion::BroadcastOp, fusion::PermuteOp, fusion::ReshapeOp, fusion::SliceOp>(op);
}

/// `buffer` with other sizes and strides, from the same first element, `offset` in its root.
static Value reinterpret(OpBuilder &builder, Location loc, Value buffer, int64_t offset,
                         ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  auto type = cast<MemRefType>(buffer.getType());
  MemRefLayoutAttrInterface layout;
  if (offset != 0 || computeStrides(shape) != strides)
    layout = StridedLayoutAttr::get(builder.getContext(), offset, strides);
  auto result = MemRefType::get(shape, type.getElementType(), layout, type.getMemorySpace());
  return memref::ReinterpretCastOp::create(builder, loc, result, buffer, offset, shape, strides);
}

/// Whether the elements lie as in a buffer of its own. Strides of extents of 1 say nothing.
static bool isRowMajor(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset, expected = 1;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  for (auto [extent, stride] :
       llvm::zip_equal(llvm::reverse(type.getShape()), llvm::reverse(strides))) {
    if (extent != 1 && stride != expected)
      return false;
    expected *= extent;
  }
  return true;
}

/// A reshape of what lies apart: its elements are copied together.
static bool mustPack(Operation *op, Value operandBuffer) {
  return isa<fusion::ReshapeOp>(op) && !isRowMajor(cast<MemRefType>(operandBuffer.getType()));
}

FailureOr<Value> Emitter::makeWholeView(Operation *op) {
  Location loc = op->getLoc();
  Value buffer = getBuffer(op->getOperand(0));
  auto type = cast<MemRefType>(buffer.getType());
  auto shape = fusion::getLocalShape(cast<RankedTensorType>(op->getResult(0).getType()));

  if (auto permute = dyn_cast<fusion::PermuteOp>(op)) {
    if (permute.getPermutation().empty())
      return buffer;
    SmallVector<unsigned> permutation(permute.getPermutation().begin(),
                                      permute.getPermutation().end());
    auto map = AffineMap::getPermutationMap(permutation, builder.getContext());
    return memref::TransposeOp::create(builder, loc, buffer, AffineMapAttr::get(map)).getResult();
  }
  if (auto slice = dyn_cast<fusion::SliceOp>(op)) {
    auto sliced =
        memref::SubViewOp::inferResultType(type, slice.getOffsets(), *shape, slice.getSteps());
    return memref::SubViewOp::create(builder, loc, cast<MemRefType>(sliced), buffer,
                                     slice.getOffsets(), *shape, slice.getSteps())
        .getResult();
  }

  // The rest rewrites strides, which must be numbers for that.
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)) || ShapedType::isDynamic(offset) ||
      llvm::any_of(strides, ShapedType::isDynamic))
    return op->emitError("a view of a view at an offset that changes is not lowered yet here");
  if (auto broadcast = dyn_cast<fusion::BroadcastOp>(op)) {
    SmallVector<int64_t> repeated(shape->size(), 0);
    for (auto [dim, target] : llvm::enumerate(broadcast.getDims()))
      if (type.getDimSize(dim) == (*shape)[target])
        repeated[target] = strides[dim];
    return reinterpret(builder, loc, buffer, offset, *shape, repeated);
  }
  return reinterpret(builder, loc, buffer, offset, *shape, computeStrides(*shape));
}

LogicalResult Emitter::prepare(Operation *op) {
  Value result = op->getResult(0);
  // Has no buffer; emitSlice says what that allows.
  if (isTruth(result))
    return success();
  bool packs = isView(op) && mustPack(op, getBuffer(op->getOperand(0)));
  if (!isView(op) || getBuffer(result) || packs) {
    (void)getOrAllocBuffer(result);
    // Slices of the result are no slices of the operand: it is packed as a whole, before the loop.
    if (packs && !reshapedInLoop.contains(op) && !slicesAgree(op, op->getOpOperand(0)))
      onMesh(op->getLoc(), fusion::getAxes(result).getMesh(),
             [&] { emitPacking(cast<fusion::ReshapeOp>(op), nullptr, mainStream); });
    return success();
  }
  FailureOr<Value> view = makeWholeView(op);
  if (failed(view))
    return failure();
  setBuffer(result, *view);
  views.insert(result);
  return success();
}

/// Copies a slice (null: all) of what lies apart into the buffer of its reshape, which has the same
/// row-major order.
void Emitter::emitPacking(fusion::ReshapeOp op, const SliceIndex *index, Value stream) {
  Location loc = op.getLoc();
  Value operand = getBuffer(op.getInput());
  ArrayRef<int64_t> shape = cast<MemRefType>(operand.getType()).getShape();
  Value packed =
      reinterpret(builder, loc, getBuffer(op.getResult()), 0, shape, computeStrides(shape));
  LocalDims dims = getLocalDims(op.getInput().getType(), index);
  Value from = makeView(builder, loc, operand, dims, true);
  Value to = makeView(builder, loc, packed, dims, true);
  hostir::CopyOp::create(builder, loc, from, to, stream);
}

LogicalResult Emitter::emitView(Operation *op, const SliceIndex *index, Value stream) {
  Value result = op->getResult(0);
  if (views.contains(result))
    return success();
  // The result has a buffer of its own: somebody outside reads it there, or its elements lie apart
  // in the operand's.
  bool packs = mustPack(op, getBuffer(op->getOperand(0)));
  if (reshapedInLoop.contains(op) || (packs && (!index || slicesAgree(op, op->getOpOperand(0))))) {
    emitPacking(cast<fusion::ReshapeOp>(op), index, stream);
    return success();
  }
  if (packs)
    return success();
  FailureOr<Value> view = makeWholeView(op);
  if (failed(view))
    return failure();
  LocalDims dims = getLocalDims(cast<RankedTensorType>(result.getType()), index);
  Value in = makeView(builder, op->getLoc(), *view, dims, true);
  Value out = makeView(builder, op->getLoc(), getOrAllocBuffer(result), dims, true);
  hostir::CopyOp::create(builder, op->getLoc(), in, out, stream);
  return success();
}
