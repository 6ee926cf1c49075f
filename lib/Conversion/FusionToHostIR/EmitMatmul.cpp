//===- EmitMatmul.cpp - emits slices of matmuls -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"

using namespace mlir;
using namespace tandem;

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

namespace {
/// How many more view dimensions than one a dimension becomes, and which view dimension is the
/// first of them.
struct SplitDim {
  SplitDim(const LocalDims &dims, int64_t dim) {
    SmallVector<int64_t> ranks = getViewRanks(dims);
    runs = ranks[dim] - 1;
    for (int64_t i = 0; i < dim; ++i)
      first += ranks[i];
  }
  int64_t runs, first = 0;
};
} // namespace

LogicalResult Emitter::forEachRun(Location loc, ArrayRef<SmallVector<LocalDigit> *> lists,
                                  function_ref<LogicalResult(Value)> body) {
  auto isWhole = [](SmallVector<LocalDigit> *list) { return getViewRanks({*list})[0] == 1; };
  if (llvm::all_of(lists, isWhole))
    return body({});
  // All kept digits but the innermost are run through.
  SmallVector<int64_t> sizes;
  SmallVector<SmallVector<LocalDigit *>> kept;
  for (SmallVector<LocalDigit> *list : lists) {
    SmallVector<LocalDigit *> &mine = kept.emplace_back();
    for (LocalDigit &digit : *list)
      if (digit.isKept())
        mine.push_back(&digit);
    if (!mine.empty())
      mine.pop_back();
  }
  int64_t count = 1;
  for (LocalDigit *digit : kept.front()) {
    sizes.push_back(digit->size);
    count *= digit->size;
  }
  return loop(loc, 0, count, [&](Value run) {
    SliceIndex index = getSliceIndex(builder, loc, sizes, run);
    for (auto &mine : kept)
      for (auto [digit, parts] : llvm::zip_equal(mine, index.digits))
        digit->index = parts.front().value;
    return body(run);
  });
}

LogicalResult Emitter::emitMatmul(fusion::MatmulOp op, OpDims dims, Value out, FirstSlice first,
                                  Value stream) {
  // Own slices may lie in other digits.
  for (auto [operand, mine] : llvm::zip_equal(op->getOperands(), dims.operands))
    (void)getSource(operand, mine);
  if (auto place = placedSlices.find(op.getResult()); place != placedSlices.end()) {
    out = place->second.buffer;
    dims.result = place->second.dims;
  }
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  if (failed(alignDims(op, rule.operands, rule.results[0], dims)))
    return failure();
  int64_t rank = cast<RankedTensorType>(op.getResult().getType()).getRank();
  int64_t splitM = SplitDim(dims.result, rank - 2).runs;
  int64_t splitN = SplitDim(dims.result, rank - 1).runs;
  LocalDims &lhs = dims.operands[0], &rhs = dims.operands[1];
  // A slice of M (or N) that is not contiguous is several runs of rows. All but the last become
  // batch dimensions, which the other operand does not have and so broadcasts over. Where it has
  // some, the runs are multiplied one after another.
  bool batchM = splitM && !splitN && op.getRhs().getType().getRank() == 2 &&
                SplitDim(lhs, op.lhsM()).runs == splitM && (rank == 2 || !op.getTransposeA());
  bool batchN = splitN && !splitM && op.getLhs().getType().getRank() == 2 && !op.getBias() &&
                SplitDim(rhs, op.rhsN()).runs == splitN;
  SmallVector<SmallVector<LocalDigit> *> ofM, ofN;
  if (!batchM)
    ofM = {&lhs[op.lhsM()], &dims.result[rank - 2]};
  if (!batchN)
    ofN = {&rhs[op.rhsN()], &dims.result[rank - 1]};
  if (!batchN && op.getBias())
    ofN.push_back(&dims.operands[2][0]);
  return forEachRun(op.getLoc(), ofM, [&](Value) {
    return forEachRun(op.getLoc(), ofN,
                      [&](Value) { return emitMatmulRuns(op, dims, out, first, stream); });
  });
}

/// The runs of a slice of K that is not contiguous accumulate.
LogicalResult Emitter::emitMatmulRuns(fusion::MatmulOp op, OpDims &dims, Value out,
                                      FirstSlice first, Value stream) {
  SmallVector<LocalDigit> lhsK = dims.operands[0][op.lhsK()], rhsK = dims.operands[1][op.rhsK()];
  LogicalResult done = forEachRun(
      op.getLoc(), {&dims.operands[0][op.lhsK()], &dims.operands[1][op.rhsK()]}, [&](Value run) {
        FirstSlice isFirst = first;
        if (run && !first.never) {
          isFirst.condition = arith::CmpIOp::create(builder, op.getLoc(), arith::CmpIPredicate::eq,
                                                    run, getIndex(0));
          if (first.condition)
            isFirst.condition =
                arith::AndIOp::create(builder, op.getLoc(), first.condition, isFirst.condition);
        }
        return emitContiguousMatmul(op, dims, out, isFirst, stream);
      });
  dims.operands[0][op.lhsK()] = lhsK;
  dims.operands[1][op.rhsK()] = rhsK;
  return done;
}

LogicalResult Emitter::emitContiguousMatmul(fusion::MatmulOp op, OpDims &dims, Value outBuffer,
                                            FirstSlice first, Value stream) {
  Location loc = op.getLoc();
  auto view = [&](Value operand, unsigned number) {
    LocalDims found;
    Value buffer = getSource(operand, found);
    return makeView(builder, loc, buffer, dims.operands[number], true);
  };
  Value lhs = view(op.getLhs(), 0), rhs = view(op.getRhs(), 1);
  Value out = makeView(builder, loc, outBuffer, dims.result, true);
  int64_t rank = cast<RankedTensorType>(op.getResult().getType()).getRank();
  SplitDim m(dims.result, rank - 2), n(dims.result, rank - 1);
  // Batch dimensions that the result has in front stay in front of the runs.
  if (m.runs && rank == 2) {
    lhs = moveToFront(builder, loc, lhs, SplitDim(dims.operands[0], op.lhsM()).first, m.runs);
    out = moveToFront(builder, loc, out, m.first, m.runs);
  }
  if (n.runs) {
    rhs = moveToFront(builder, loc, rhs, SplitDim(dims.operands[1], op.rhsN()).first, n.runs);
    out = moveToFront(builder, loc, out, n.first, n.runs);
  }
  Value bias = op.getBias() ? view(op.getBias(), 2) : Value();
  // The bias is added once.
  auto emit = [&](Value bias, bool accumulate) {
    hostir::MatmulOp::create(builder, loc, lhs, rhs, bias, out, stream, op.getTransposeA(),
                             op.getTransposeB(), accumulate);
    return success();
  };
  return ifFirst(loc, first, [&] { return emit(bias, false); }, [&] { return emit({}, true); });
}
