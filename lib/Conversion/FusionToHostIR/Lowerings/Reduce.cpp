//===- Reduce.cpp - lowering of fusion.reduce -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

/// `view`, made by `makeView` from `dims`, without the dimensions `dropped` of extent 1.
static Value dropDims(OpBuilder &builder, Location loc, Value view, const LocalDims &dims,
                      ArrayRef<int64_t> dropped) {
  SmallVector<ReassociationIndices> groups;
  SmallVector<int64_t> front; // dropped dimensions before the first kept one
  int64_t viewDim = 0;
  for (auto [dim, ranks] : llvm::enumerate(getViewRanks(dims)))
    for (int64_t i = 0; i < ranks; ++i, ++viewDim) {
      if (!llvm::is_contained(dropped, static_cast<int64_t>(dim))) {
        groups.emplace_back();
        groups.back().append(front);
        front.clear();
      }
      if (groups.empty())
        front.push_back(viewDim);
      else
        groups.back().push_back(viewDim);
    }
  return memref::CollapseShapeOp::create(builder, loc, view, groups);
}

LogicalResult tandem::emitReduction(OpBuilder &builder, Location loc, ReduceKind reduction,
                                    Value in, const LocalDims &inDims, ArrayRef<int64_t> reduced,
                                    Value out, const FirstSlice &first, Value stream) {
  // The view dimensions of the reduced dimensions.
  SmallVector<int64_t> dims;
  int64_t viewDim = 0;
  for (auto [dim, ranks] : llvm::enumerate(getViewRanks(inDims)))
    for (int64_t i = 0; i < ranks; ++i, ++viewDim)
      if (llvm::is_contained(reduced, static_cast<int64_t>(dim)))
        dims.push_back(viewDim);
  auto kind = ReduceKindAttr::get(builder.getContext(), reduction);
  auto reduceTo = [&](Value target) {
    if (dims.empty())
      hostir::CopyOp::create(builder, loc, in, target, stream);
    else
      hostir::ReduceOp::create(builder, loc, kind, in, target, builder.getDenseI64ArrayAttr(dims),
                               stream);
    return success();
  };
  return ifFirst(
      builder, loc, first, [&] { return reduceTo(out); },
      [&] {
        Value term = in;
        if (!dims.empty()) {
          term = hostir::allocLike(builder, loc, out, stream);
          (void)reduceTo(term);
        }
        hostir::AccumulateOp::create(builder, loc, kind, term, out, stream);
        return success();
      });
}

/// Whether an op computes `value`, and one other op reads it; also through the operands of loops.
static bool isReadOnce(Value value) {
  while (value.hasOneUse()) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return true;
    auto loop = dyn_cast<fusion::StreamLoopOp>(argument.getOwner()->getParentOp());
    if (!loop)
      return false;
    value = loop->getOperand(argument.getArgNumber());
  }
  return false;
}

namespace {
/// Where a device has one index of each reduced dimension, the result is a view of the operand, if
/// nothing else reads that: schedules may add to partial sums in place. Example: partial sums whose
/// dimension of the ranks is reduced.
class ReduceLowering : public ReducingLowering {
  LogicalResult prepare(Operation *op, LoopEmitter &loop) const override;
  bool readsPlaces() const override { return true; }
  /// A maximum needs no rounding.
  Type getAccumulatorElement(Operation *op) const override {
    if (cast<fusion::ReduceOp>(op).getKind() == ReduceKind::Sum)
      return getWideElement(op);
    return OpLowering::getAccumulatorElement(op);
  }
  LogicalResult combine(Operation *op, OpDims dims, Value out, const FirstSlice &first,
                        Value stream, LoopEmitter &loop) const override;
};
} // namespace

LogicalResult ReduceLowering::prepare(Operation *operation, LoopEmitter &loop) const {
  auto op = cast<fusion::ReduceOp>(operation);
  Value buffer = loop.program.getBuffer(op.getInput());
  auto type = buffer ? dyn_cast<MemRefType>(buffer.getType()) : MemRefType();
  // Slices that a reshard brings may be elsewhere. An argument, or what a view shows, is not ours.
  bool isView = type && !loop.program.getBuffer(op.getResult()) && isReadOnce(op.getInput()) &&
                !op.getInput().getDefiningOp<fusion::ReshardOp>() &&
                buffer.getDefiningOp<hostir::AllocOp>() &&
                type.getElementType() == op.getType().getElementType() &&
                llvm::all_of(op.getDims(), [&](int64_t dim) { return type.getDimSize(dim) == 1; });
  if (!isView)
    return ReducingLowering::prepare(operation, loop);
  FailureOr<Value> view = memref::SubViewOp::rankReduceIfNeeded(
      loop.getBuilder(), op.getLoc(), buffer, *fusion::getLocalShape(op.getType()));
  if (failed(view))
    return op.emitError("expected a result without dimensions of extent 1, found ") << op.getType();
  loop.program.setBuffer(op.getResult(), *view);
  loop.setView(op.getResult());
  return success();
}

LogicalResult ReduceLowering::combine(Operation *operation, OpDims opDims, Value out,
                                      const FirstSlice &first, Value stream,
                                      LoopEmitter &loop) const {
  auto op = cast<fusion::ReduceOp>(operation);
  if (loop.isView(op.getResult()))
    return success();
  OpBuilder &builder = loop.getBuilder();
  Location loc = op.getLoc();
  LocalDims &inDims = opDims.operands[0];
  Value source = loop.getSource(op.getInput(), inDims);
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  if (failed(alignDims(builder, op, rule.operands, rule.results[0], opDims)))
    return failure();
  Value in = makeView(builder, loc, source, inDims, true);
  out = makeView(builder, loc, out, opDims.result, true);
  if (op.getKeepDims() && !op.getDims().empty())
    out = dropDims(builder, loc, out, opDims.result, op.getDims());

  Type inElement = cast<MemRefType>(in.getType()).getElementType();
  Type element = cast<MemRefType>(out.getType()).getElementType();
  if (inElement != element) {
    Value wide = hostir::allocLike(builder, loc, in, stream, element);
    loop.program.launch(loc, loop.program.getCastKernel(loc, inElement, element), in, wide, stream);
    in = wide;
  }
  return emitReduction(builder, loc, op.getKind(), in, inDims, op.getDims(), out, first, stream);
}

void tandem::attachReduceLowering(MLIRContext &context) {
  attachLowering<fusion::ReduceOp, ReduceLowering>(context);
}
