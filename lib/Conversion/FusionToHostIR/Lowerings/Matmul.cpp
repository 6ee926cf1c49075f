//===- Matmul.cpp - lowering of fusion.matmul -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

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

/// Runs `body` for each run of a dimension's digits, so that each view is contiguous in it: `lists`
/// are the digits that the operands have for it, aligned. `body` gets the loop's index, null
/// without a loop. Example: rows [3 @ all, 4 @ i, 5 @ all] are 3 runs of 5 rows.
static LogicalResult forEachRun(ProgramBuilder &program, Location loc,
                                ArrayRef<SmallVector<LocalDigit> *> lists,
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
  return program.loop(loc, 0, count, [&](Value run) {
    SliceIndex index = getSliceIndex(program.getBuilder(), loc, sizes, run);
    for (auto &mine : kept)
      for (auto [digit, parts] : llvm::zip_equal(mine, index.digits))
        digit->index = parts.front().value;
    return body(run);
  });
}

namespace {
/// Emits one slice of a matmul.
class MatmulSlice {
public:
  MatmulSlice(fusion::MatmulOp op, OpDims dims, Value out, Value stream, LoopEmitter &loop)
      : op(op), loc(op.getLoc()), dims(std::move(dims)), out(out), stream(stream), loop(loop),
        program(loop.program), builder(loop.getBuilder()) {}

  LogicalResult emit(const FirstSlice &first);

private:
  LogicalResult emitRuns(const FirstSlice &first);
  LogicalResult emitContiguous(const FirstSlice &first);

  fusion::MatmulOp op;
  Location loc;
  OpDims dims;
  Value out, stream;
  LoopEmitter &loop;
  ProgramBuilder &program;
  OpBuilder &builder;
};

class MatmulLowering : public ReducingLowering {
  bool readsPlaces() const override { return true; }
  bool writesPlaces() const override { return true; }
  Type getAccumulatorElement(Operation *op) const override { return getWideElement(op); }
  LogicalResult combine(Operation *op, OpDims dims, Value out, const FirstSlice &first,
                        Value stream, LoopEmitter &loop) const override {
    return MatmulSlice(cast<fusion::MatmulOp>(op), std::move(dims), out, stream, loop).emit(first);
  }
};
} // namespace

LogicalResult MatmulSlice::emit(const FirstSlice &first) {
  // Slices in other places have other digits.
  for (auto [operand, mine] : llvm::zip_equal(op->getOperands(), dims.operands))
    (void)loop.getSource(operand, mine);
  out = loop.getTarget(op.getResult(), out, dims.result);
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  if (failed(alignDims(builder, op, rule.operands, rule.results[0], dims)))
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
  return forEachRun(program, loc, ofM, [&](Value) {
    return forEachRun(program, loc, ofN, [&](Value) { return emitRuns(first); });
  });
}

/// The runs of a slice of K that is not contiguous accumulate.
LogicalResult MatmulSlice::emitRuns(const FirstSlice &first) {
  SmallVector<LocalDigit> lhsK = dims.operands[0][op.lhsK()], rhsK = dims.operands[1][op.rhsK()];
  LogicalResult done = forEachRun(
      program, loc, {&dims.operands[0][op.lhsK()], &dims.operands[1][op.rhsK()]}, [&](Value run) {
        FirstSlice isFirst = first;
        if (run && !first.never) {
          isFirst.condition = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, run,
                                                    program.getIndex(0));
          if (first.condition)
            isFirst.condition =
                arith::AndIOp::create(builder, loc, first.condition, isFirst.condition);
        }
        return emitContiguous(isFirst);
      });
  dims.operands[0][op.lhsK()] = lhsK;
  dims.operands[1][op.rhsK()] = rhsK;
  return done;
}

LogicalResult MatmulSlice::emitContiguous(const FirstSlice &first) {
  auto view = [&](Value operand, unsigned number) {
    LocalDims found;
    Value buffer = loop.getSource(operand, found);
    return makeView(builder, loc, buffer, dims.operands[number], true);
  };
  Value lhs = view(op.getLhs(), 0), rhs = view(op.getRhs(), 1);
  Value result = makeView(builder, loc, out, dims.result, true);
  int64_t rank = cast<RankedTensorType>(op.getResult().getType()).getRank();
  SplitDim m(dims.result, rank - 2), n(dims.result, rank - 1);
  // Batch dimensions that the result has in front stay in front of the runs.
  if (m.runs && rank == 2) {
    lhs = moveToFront(builder, loc, lhs, SplitDim(dims.operands[0], op.lhsM()).first, m.runs);
    result = moveToFront(builder, loc, result, m.first, m.runs);
  }
  if (n.runs) {
    rhs = moveToFront(builder, loc, rhs, SplitDim(dims.operands[1], op.rhsN()).first, n.runs);
    result = moveToFront(builder, loc, result, n.first, n.runs);
  }
  Value bias = op.getBias() ? view(op.getBias(), 2) : Value();
  // The bias is added once.
  auto emit = [&](Value bias, bool accumulate) {
    hostir::MatmulOp::create(builder, loc, lhs, rhs, bias, result, stream, op.getTransposeA(),
                             op.getTransposeB(), accumulate);
    return success();
  };
  return ifFirst(
      builder, loc, first, [&] { return emit(bias, false); }, [&] { return emit({}, true); });
}

void tandem::addMatmulLowering(OpLowerings &lowerings) {
  lowerings.add<fusion::MatmulOp>(std::make_unique<MatmulLowering>());
}
