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

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Program/BuiltinKernels.h"

using namespace mlir;
using namespace tandem;

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
  LogicalResult emitCall(const FirstSlice &first);
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
                      [&](Value) {
                        return forEachTerm(program, loc, dims.operands[kX].back(),
                                           dims.operands[kW][op.getTransposeB() ? 2 : 1], first,
                                           [&](const FirstSlice &now) { return emitCall(now); });
                      });
  return forEachRun(program, loc,
                    {&dims.operands[kX][dim], &dims.operands[kEnds][dim], &dims.result[dim]},
                    [&](Value) { return emitBatch(dim + 1, first); });
}

Value GroupedSlice::getOperand(unsigned which, int64_t inner) {
  LocalDims unused;
  Value buffer = loop.getSource(op->getOperand(which), unused);
  Value view = makeView(builder, loc, buffer, dims.operands[which], /*keepRank=*/true);
  if (hostir::isArrayOfRows(cast<MemRefType>(view.getType()), inner))
    return view;
  Value dense = hostir::allocLike(builder, loc, view, stream);
  hostir::CopyOp::create(builder, loc, view, dense, stream);
  return dense;
}

LogicalResult GroupedSlice::emitCall(const FirstSlice &first) {
  Value x = getOperand(kX, 2), w = getOperand(kW, 3), ends = getOperand(kEnds, 1);
  Value result = makeView(builder, loc, out, dims.result, /*keepRank=*/true);
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
        if (hostir::isArrayOfRows(cast<MemRefType>(result.getType()), 2)) {
          call(result);
          return success();
        }
        Value product = hostir::allocLike(builder, loc, result, stream);
        call(product);
        hostir::CopyOp::create(builder, loc, product, result, stream);
        return success();
      },
      [&] {
        Value term = hostir::allocLike(builder, loc, result, stream);
        call(term);
        hostir::AccumulateOp::create(builder, loc,
                                     ReduceKindAttr::get(builder.getContext(), ReduceKind::Sum),
                                     term, result, stream);
        return success();
      });
}

void tandem::attachGroupedMatmulLowering(MLIRContext &context) {
  attachLowering<fusion::GroupedMatmulOp, GroupedMatmulLowering>(context);
}
