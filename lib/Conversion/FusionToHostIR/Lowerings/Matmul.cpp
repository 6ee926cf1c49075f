//===- Matmul.cpp - lowering of fusion.matmul -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

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
/// How many additional view dimensions a dimension has, and the first of its view dimensions.
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

namespace {
/// Emits one slice of a matmul. A vector is a matrix of one row (lhs) or one column (rhs): `dims`
/// and the result have a unit dimension for it.
class MatmulSlice {
public:
  MatmulSlice(fusion::MatmulOp op, OpDims dims, Value out, Value stream, LoopEmitter &loop)
      : op(op), loc(op.getLoc()), dims(std::move(dims)), out(out), stream(stream), loop(loop),
        program(loop.program), builder(loop.getBuilder()) {}

  LogicalResult emit(const FirstSlice &first);

private:
  static constexpr unsigned kLhs = 0, kRhs = 1, kResult = 2, kTerm = 3;

  LogicalResult emitContiguous(const FirstSlice &first);

  LocalDims &dimsOf(unsigned which) {
    return which == kResult ? dims.result : which == kTerm ? term.dims : dims.operands[which];
  }
  /// The unit dimensions of a view of the operand or result, ascending.
  SmallVector<int64_t> getUnitDims(unsigned which) {
    SmallVector<int64_t> unit;
    int64_t rank =
        which >= kResult ? op.getType().getRank() + op.isLhsVector() + op.isRhsVector() : 2;
    if (op.isLhsVector() && which != kRhs)
      unit.push_back(rank - 2);
    if (op.isRhsVector() && which != kLhs)
      unit.push_back(rank - 1);
    return unit;
  }
  Value makeMatrixView(Value buffer, unsigned which);

  // Indices into `dims`.
  int64_t lhsM() { return dims.operands[kLhs].size() - (op.getTransposeA() ? 1 : 2); }
  int64_t lhsK() { return dims.operands[kLhs].size() - (op.getTransposeA() ? 2 : 1); }
  int64_t rhsK() { return dims.operands[kRhs].size() - (op.getTransposeB() ? 1 : 2); }
  int64_t rhsN() { return dims.operands[kRhs].size() - (op.getTransposeB() ? 2 : 1); }

  fusion::MatmulOp op;
  Location loc;
  OpDims dims;
  SliceBuffer term; ///< added to the result, which it has the digits of; or a null buffer
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
  // Slices in other dimensions have other digits.
  for (auto [operand, mine] : llvm::zip_equal(op->getOperands(), dims.operands))
    (void)loop.getSource(operand, mine);
  out = loop.getTarget(op.getResult(), out, dims.result);
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  term = loop.getTerm(op.getResult());
  if (term.buffer) {
    OpDims others = dims;
    others.result = term.dims;
    if (failed(alignDims(builder, op, rule.operands, rule.results[0], others)))
      return failure();
    term.dims = others.result;
  }
  if (failed(alignDims(builder, op, rule.operands, rule.results[0], dims)))
    return failure();
  SmallVector<unsigned> all{kLhs, kRhs, kResult};
  if (term.buffer)
    all.push_back(kTerm);
  for (unsigned which : all)
    for (int64_t dim : getUnitDims(which))
      dimsOf(which).insert(dimsOf(which).begin() + dim, SmallVector<LocalDigit>{{1, {}}});
  int64_t rank = dims.result.size();
  int64_t splitM = SplitDim(dims.result, rank - 2).runs;
  int64_t splitN = SplitDim(dims.result, rank - 1).runs;
  LocalDims &lhs = dims.operands[0], &rhs = dims.operands[1];
  // A non-contiguous slice of M (or N) is several runs of rows. All but the innermost digit become
  // batch dimensions, which the other operand lacks, so it broadcasts. If the other operand has
  // batch dimensions, the runs are multiplied one after another.
  auto fitsTerm = [&](int64_t dim, int64_t runs) {
    return !term.buffer || SplitDim(term.dims, dim).runs == runs;
  };
  bool batchM = fitsTerm(rank - 2, splitM) && splitM && !splitN && rhs.size() == 2 &&
                SplitDim(lhs, lhsM()).runs == splitM && (rank == 2 || !op.getTransposeA());
  bool batchN = fitsTerm(rank - 1, splitN) && splitN && !splitM && lhs.size() == 2 &&
                !op.getBias() && SplitDim(rhs, rhsN()).runs == splitN;
  SmallVector<SmallVector<LocalDigit> *> ofM, ofN;
  if (!batchM)
    ofM = {&lhs[lhsM()], &dims.result[rank - 2]};
  if (!batchN)
    ofN = {&rhs[rhsN()], &dims.result[rank - 1]};
  if (!batchN && op.getBias())
    ofN.push_back(&dims.operands[2][0]);
  if (!batchM && term.buffer)
    ofM.push_back(&term.dims[rank - 2]);
  if (!batchN && term.buffer)
    ofN.push_back(&term.dims[rank - 1]);
  return forEachRun(program, loc, ofM, [&](Value) {
    return forEachRun(program, loc, ofN, [&](Value) {
      return forEachTerm(program, loc, lhs[lhsK()], rhs[rhsK()], first,
                         [&](const FirstSlice &now) { return emitContiguous(now); });
    });
  });
}

Value MatmulSlice::makeMatrixView(Value buffer, unsigned which) {
  LocalDims mine = dimsOf(which);
  SmallVector<int64_t> unit = getUnitDims(which);
  for (int64_t dim : llvm::reverse(unit))
    mine.erase(mine.begin() + dim);
  Value view = makeView(builder, loc, buffer, mine, true);
  for (int64_t dim : unit)
    view = insertUnitDim(builder, loc, view, SplitDim(dimsOf(which), dim).first);
  return view;
}

LogicalResult MatmulSlice::emitContiguous(const FirstSlice &first) {
  auto bufferOf = [&](Value operand) {
    LocalDims found;
    return loop.getSource(operand, found);
  };
  Value lhs = makeMatrixView(bufferOf(op.getLhs()), kLhs);
  Value rhs = makeMatrixView(bufferOf(op.getRhs()), kRhs);
  Value result = makeMatrixView(out, kResult);
  Value added = term.buffer ? makeMatrixView(term.buffer, kTerm) : Value();
  int64_t rank = dims.result.size();
  SplitDim m(dims.result, rank - 2), n(dims.result, rank - 1);
  // Leading batch dimensions of the result stay before the runs.
  if (m.runs && rank == 2) {
    lhs = moveToFront(builder, loc, lhs, SplitDim(dims.operands[kLhs], lhsM()).first, m.runs);
    result = moveToFront(builder, loc, result, m.first, m.runs);
    added = added ? moveToFront(builder, loc, added, m.first, m.runs) : added;
  }
  if (n.runs) {
    rhs = moveToFront(builder, loc, rhs, SplitDim(dims.operands[kRhs], rhsN()).first, n.runs);
    result = moveToFront(builder, loc, result, n.first, n.runs);
    added = added ? moveToFront(builder, loc, added, n.first, n.runs) : added;
  }
  Value bias = added;
  if (op.getBias())
    bias = makeView(builder, loc, bufferOf(op.getBias()), dims.operands[2], true);
  // It is added once.
  auto emit = [&](Value bias, bool accumulate) {
    hostir::MatmulOp::create(builder, loc, lhs, rhs, bias, result, stream, op.getTransposeA(),
                             op.getTransposeB(), accumulate);
    return success();
  };
  return ifFirst(
      builder, loc, first, [&] { return emit(bias, false); }, [&] { return emit({}, true); });
}

void tandem::attachMatmulLowering(MLIRContext &context) {
  attachLowering<fusion::MatmulOp, MatmulLowering>(context);
}
