//===- GroupedMatmul.cpp - lowering of fusion.grouped_matmul -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of the built-in kernel of this name. The kernel has no accumulating form: what is added to
// an older result is computed into a buffer first.
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Program/BuiltinKernels.h"

using namespace mlir;
using namespace tandem;

/// Whether the last dimension is contiguous, and the dimensions before the last `inner` ones are
/// those of one array.
static bool isArrayOf(Value view, int64_t inner) {
  auto type = cast<MemRefType>(view.getType());
  ArrayRef<int64_t> shape = type.getShape();
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  if (shape.back() != 1 && strides.back() != 1)
    return false;
  for (int64_t dim = 1; dim < type.getRank() - inner; ++dim)
    if (shape[dim - 1] != 1 && strides[dim - 1] != strides[dim] * shape[dim])
      return false;
  return true;
}

namespace {

/// Emits one slice.
class GroupedSlice {
public:
  GroupedSlice(fusion::GroupedMatmulOp op, OpDims dims, Value out, Value stream, LoopEmitter &loop)
      : op(op), loc(op.getLoc()), dims(std::move(dims)), out(out), stream(stream), loop(loop),
        program(loop.program), builder(loop.getBuilder()) {}

  LogicalResult emit(const FirstSlice &first);

private:
  static constexpr unsigned kX = 0, kW = 1, kEnds = 2;

  LogicalResult emitBatch(int64_t dim, const FirstSlice &first);
  LogicalResult emitRuns(const FirstSlice &first);
  LogicalResult emitCall(const FirstSlice &first);
  Value alloc(Value like, Type element) {
    ArrayRef<int64_t> shape = cast<MemRefType>(like.getType()).getShape();
    return hostir::AllocOp::create(builder, loc, MemRefType::get(shape, element), stream,
                                   IntegerAttr(), IntegerAttr());
  }
  /// A view of an operand, copied if the kernel could not read it.
  Value getOperand(unsigned which, int64_t inner);

  fusion::GroupedMatmulOp op;
  Location loc;
  OpDims dims;
  Value out, stream;
  LoopEmitter &loop;
  ProgramBuilder &program;
  OpBuilder &builder;
};

class GroupedMatmulLowering : public ReducingLowering {
  bool readsPlaces() const override { return true; }
  bool writesPlaces() const override { return true; }
  Type getAccumulatorElement(Operation *op) const override { return getWideElement(op); }
  LogicalResult combine(Operation *op, OpDims dims, Value out, const FirstSlice &first,
                        Value stream, LoopEmitter &loop) const override {
    return GroupedSlice(cast<fusion::GroupedMatmulOp>(op), std::move(dims), out, stream, loop)
        .emit(first);
  }
};

} // namespace

LogicalResult GroupedSlice::emit(const FirstSlice &first) {
  for (auto [operand, mine] : llvm::zip_equal(op->getOperands(), dims.operands))
    (void)loop.getSource(operand, mine);
  out = loop.getTarget(op.getResult(), out, dims.result);
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  if (failed(alignDims(builder, op, rule.operands, rule.results[0], dims)))
    return failure();
  return emitBatch(0, first);
}

/// One call per run of indices of the batch dimensions from `dim` on, and of N.
LogicalResult GroupedSlice::emitBatch(int64_t dim, const FirstSlice &first) {
  int64_t rank = dims.result.size();
  if (dim == rank - 2)
    return forEachRun(program, loc,
                      {&dims.operands[kW][op.getTransposeB() ? 1 : 2], &dims.result[rank - 1]},
                      [&](Value) { return emitRuns(first); });
  return forEachRun(program, loc,
                    {&dims.operands[kX][dim], &dims.operands[kEnds][dim], &dims.result[dim]},
                    [&](Value) { return emitBatch(dim + 1, first); });
}

/// Adds up the runs of a slice of K that is not contiguous.
LogicalResult GroupedSlice::emitRuns(const FirstSlice &first) {
  SmallVector<LocalDigit> &ofX = dims.operands[kX].back(),
                          &ofW = dims.operands[kW][op.getTransposeB() ? 2 : 1];
  SmallVector<LocalDigit> xBefore = ofX, wBefore = ofW;
  LogicalResult done = forEachRun(program, loc, {&ofX, &ofW}, [&](Value run) {
    FirstSlice isFirst = first;
    if (run && !first.never) {
      isFirst.condition =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, run, program.getIndex(0));
      if (first.condition)
        isFirst.condition = arith::AndIOp::create(builder, loc, first.condition, isFirst.condition);
    }
    return emitCall(isFirst);
  });
  ofX = xBefore;
  ofW = wBefore;
  return done;
}

Value GroupedSlice::getOperand(unsigned which, int64_t inner) {
  LocalDims unused;
  Value buffer = loop.getSource(op->getOperand(which), unused);
  Value view = makeView(builder, loc, buffer, dims.operands[which], /*keepRank=*/true);
  if (isArrayOf(view, inner))
    return view;
  Value dense = alloc(view, cast<MemRefType>(view.getType()).getElementType());
  hostir::CopyOp::create(builder, loc, view, dense, stream);
  return dense;
}

LogicalResult GroupedSlice::emitCall(const FirstSlice &first) {
  Value x = getOperand(kX, 2), w = getOperand(kW, 3), ends = getOperand(kEnds, 1);
  Value result = makeView(builder, loc, out, dims.result, /*keepRank=*/true);
  // The type of sums of slices, which is that of the call's result.
  Type kept = cast<MemRefType>(result.getType()).getElementType();
  // Batch dimensions, then N.
  int64_t batch = cast<MemRefType>(result.getType()).getRank() - 2;
  SmallVector<int64_t> numbers;
  auto add = [&](bool hasBatch, ArrayRef<int64_t> inner) {
    for (int64_t dim = 0; hasBatch && dim < batch; ++dim)
      numbers.push_back(dim);
    llvm::append_range(numbers, inner);
  };
  add(true, {-1, batch});
  add(true, {-1, -1});
  add(false,
      op.getTransposeB() ? ArrayRef<int64_t>{-1, batch, -1} : ArrayRef<int64_t>{-1, -1, batch});
  add(true, {-1});
  // The kernel's result does not depend on where the parts lie in the whole tensors.
  SmallVector<int64_t> extents(cast<MemRefType>(result.getType()).getShape().take_front(batch));
  extents.push_back(cast<MemRefType>(result.getType()).getShape().back());
  SmallVector<Value> offsets(extents.size(), program.getIndex(0));
  auto call = [&](Value into) {
    hostir::CallOp::create(
        builder, loc, builder.getStringAttr(program::kGroupedMatmul), ValueRange{x, w, ends}, into,
        builder.getDenseI64ArrayAttr(numbers), offsets, builder.getDenseI64ArrayAttr(extents),
        stream, op.getTransposeB() ? builder.getStringAttr(program::kTransposeB) : StringAttr(),
        FloatAttr(), FloatAttr(), builder.getUnitAttr(), StringAttr());
  };
  return ifFirst(
      builder, loc, first,
      [&] {
        if (isArrayOf(result, 2)) {
          call(result);
          return success();
        }
        Value product = alloc(result, kept);
        call(product);
        hostir::CopyOp::create(builder, loc, product, result, stream);
        return success();
      },
      [&] {
        Value term = alloc(result, kept);
        call(term);
        hostir::AccumulateOp::create(builder, loc,
                                     ReduceKindAttr::get(builder.getContext(), ReduceKind::Sum),
                                     term, result, stream);
        return success();
      });
}

void tandem::addGroupedMatmulLowering(OpLowerings &lowerings) {
  lowerings.add<fusion::GroupedMatmulOp>(std::make_unique<GroupedMatmulLowering>());
}
