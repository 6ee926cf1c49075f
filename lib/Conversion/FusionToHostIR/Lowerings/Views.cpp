//===- Views.cpp - lowering of ops whose result is a view -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"
#include "../SlicePlaces.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

static SmallVector<int64_t> getLocalShape(Value value) {
  return *fusion::getLocalShape(cast<RankedTensorType>(value.getType()));
}

namespace {
/// An op whose result is a view of its operand's buffer. The whole result becomes a view before the
/// loop, and slices need no command. If the result needs a separate buffer (it is returned), slices
/// are copied.
class ViewLowering : public OpLowering {
public:
  LogicalResult prepare(Operation *op, LoopEmitter &loop) const override;
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const override;

protected:
  /// `buffer`, which holds the whole operand, as a view with the result's local shape `shape`.
  virtual FailureOr<Value> makeWholeView(Operation *op, Value buffer, ArrayRef<int64_t> shape,
                                         OpBuilder &builder) const = 0;
};

class PermuteLowering : public ViewLowering {
  FailureOr<Value> makeWholeView(Operation *op, Value buffer, ArrayRef<int64_t> shape,
                                 OpBuilder &builder) const override {
    ArrayRef<int64_t> order = cast<fusion::PermuteOp>(op).getPermutation();
    if (order.empty())
      return buffer;
    SmallVector<unsigned> permutation(order.begin(), order.end());
    auto map = AffineMap::getPermutationMap(permutation, builder.getContext());
    return memref::TransposeOp::create(builder, op->getLoc(), buffer, AffineMapAttr::get(map))
        .getResult();
  }
};

class SliceLowering : public ViewLowering {
  FailureOr<Value> makeWholeView(Operation *op, Value buffer, ArrayRef<int64_t> shape,
                                 OpBuilder &builder) const override {
    auto slice = cast<fusion::SliceOp>(op);
    auto type = memref::SubViewOp::inferResultType(cast<MemRefType>(buffer.getType()),
                                                   slice.getOffsets(), shape, slice.getSteps());
    return memref::SubViewOp::create(builder, op->getLoc(), cast<MemRefType>(type), buffer,
                                     slice.getOffsets(), shape, slice.getSteps())
        .getResult();
  }
};

/// Views that rewrite strides, which must be constants.
class StridesLowering : public ViewLowering {
  FailureOr<Value> makeWholeView(Operation *op, Value buffer, ArrayRef<int64_t> shape,
                                 OpBuilder &builder) const final {
    auto type = cast<MemRefType>(buffer.getType());
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(type.getStridesAndOffset(strides, offset)) || ShapedType::isDynamic(offset) ||
        llvm::any_of(strides, ShapedType::isDynamic))
      return op->emitError("a view of a view at an offset that changes is not lowered yet here");
    return reinterpret(builder, op->getLoc(), buffer, offset, shape,
                       getStrides(op, type, strides, shape));
  }
  /// Strides of the result from those of the operand's buffer of type `from`.
  virtual SmallVector<int64_t> getStrides(Operation *op, MemRefType from, ArrayRef<int64_t> strides,
                                          ArrayRef<int64_t> shape) const = 0;
};

class BroadcastLowering : public StridesLowering {
  SmallVector<int64_t> getStrides(Operation *op, MemRefType from, ArrayRef<int64_t> strides,
                                  ArrayRef<int64_t> shape) const override {
    SmallVector<int64_t> repeated(shape.size(), 0);
    for (auto [dim, target] : llvm::enumerate(cast<fusion::BroadcastOp>(op).getDims()))
      if (from.getDimSize(dim) == shape[target])
        repeated[target] = strides[dim];
    return repeated;
  }
};

/// A reshape of elements that are not row-major in memory copies them to a packed buffer.
class ReshapeLowering : public StridesLowering {
  LogicalResult prepare(Operation *op, LoopEmitter &loop) const override;
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const override;
  SmallVector<int64_t> getStrides(Operation *op, MemRefType from, ArrayRef<int64_t> strides,
                                  ArrayRef<int64_t> shape) const override {
    return computeStrides(shape);
  }
  static bool mustPack(Operation *op, LoopEmitter &loop) {
    Value buffer = loop.program.getBuffer(op->getOperand(0));
    return !hostir::isDense(cast<MemRefType>(buffer.getType()));
  }
};
} // namespace

LogicalResult ViewLowering::prepare(Operation *op, LoopEmitter &loop) const {
  Value result = op->getResult(0);
  if (loop.program.getBuffer(result))
    return success();
  FailureOr<Value> view = makeWholeView(op, loop.program.getBuffer(op->getOperand(0)),
                                        getLocalShape(result), loop.getBuilder());
  if (failed(view))
    return failure();
  loop.program.setBuffer(result, *view);
  loop.setView(result);
  return success();
}

LogicalResult ViewLowering::emit(Operation *op, const SliceIndex *index, Value stream,
                                 LoopEmitter &loop) const {
  Value result = op->getResult(0);
  if (loop.isView(result))
    return success();
  OpBuilder &builder = loop.getBuilder();
  FailureOr<Value> view =
      makeWholeView(op, loop.program.getBuffer(op->getOperand(0)), getLocalShape(result), builder);
  if (failed(view))
    return failure();
  LocalDims dims = getLocalDims(cast<RankedTensorType>(result.getType()), index);
  Value in = makeView(builder, op->getLoc(), *view, dims, true);
  Value out = makeView(builder, op->getLoc(), loop.program.getOrAllocBuffer(result), dims, true);
  hostir::CopyOp::create(builder, op->getLoc(), in, out, stream);
  return success();
}

/// Copies a slice (null: all) of the operand to the buffer of its reshape, in row-major order.
static void emitPacking(fusion::ReshapeOp op, const SliceIndex *index, Value stream,
                        LoopEmitter &loop) {
  Location loc = op.getLoc();
  OpBuilder &builder = loop.getBuilder();
  Value operand = loop.program.getBuffer(op.getInput());
  ArrayRef<int64_t> shape = cast<MemRefType>(operand.getType()).getShape();
  Value packed = reinterpret(builder, loc, loop.program.getBuffer(op.getResult()), 0, shape,
                             computeStrides(shape));
  LocalDims dims = getLocalDims(op.getInput().getType(), index);
  Value from = makeView(builder, loc, operand, dims, true);
  Value to = makeView(builder, loc, packed, dims, true);
  hostir::CopyOp::create(builder, loc, from, to, stream);
}

LogicalResult ReshapeLowering::prepare(Operation *op, LoopEmitter &loop) const {
  if (!mustPack(op, loop))
    return ViewLowering::prepare(op, loop);
  (void)loop.program.getOrAllocBuffer(op->getResult(0));
  // The result's slices are not the operand's: pack all of it before the loop.
  if (!loop.isReshapedInLoop(op) && !slicesAgree(op, op->getOpOperand(0)))
    loop.program.onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(), [&] {
      emitPacking(cast<fusion::ReshapeOp>(op), nullptr, loop.program.getMainStream(), loop);
    });
  return success();
}

LogicalResult ReshapeLowering::emit(Operation *op, const SliceIndex *index, Value stream,
                                    LoopEmitter &loop) const {
  if (loop.isView(op->getResult(0)))
    return success();
  bool packs = mustPack(op, loop);
  if (loop.isReshapedInLoop(op) || (packs && (!index || slicesAgree(op, op->getOpOperand(0)))))
    emitPacking(cast<fusion::ReshapeOp>(op), index, stream, loop);
  else if (!packs)
    return ViewLowering::emit(op, index, stream, loop);
  return success();
}

void tandem::attachViewLowerings(MLIRContext &context) {
  attachLowering<fusion::BroadcastOp, BroadcastLowering>(context);
  attachLowering<fusion::PermuteOp, PermuteLowering>(context);
  attachLowering<fusion::ReshapeOp, ReshapeLowering>(context);
  attachLowering<fusion::SliceOp, SliceLowering>(context);
}
