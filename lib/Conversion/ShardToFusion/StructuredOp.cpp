//===- StructuredOp.cpp - what a linalg op computes -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StructuredOp.h"

#include "Constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

static constexpr ReduceKind kKinds[] = {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min};

bool shardfusion::commutesWith(Operation *op, ReduceKind kind) {
  auto tensorOp = dyn_cast<fusion::FusionTensorOpInterface>(op);
  if (!tensorOp)
    return false;
  fusion::AxesRule rule = tensorOp.getAxesRule();
  return rule.partial == fusion::PartialKind::Alike ||
         (rule.partial == fusion::PartialKind::AlikeSame && rule.reduceKind == kind);
}

static std::optional<ReduceKind> getCombinerKind(Operation *op) {
  if (isa<arith::AddFOp, arith::AddIOp>(op))
    return ReduceKind::Sum;
  if (isa<arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp>(op))
    return ReduceKind::Max;
  if (isa<arith::MinimumFOp, arith::MinNumFOp, arith::MinSIOp>(op))
    return ReduceKind::Min;
  return std::nullopt;
}

/// The number of the operand whose element `value` is, perhaps as a wider float; -1 if none.
static int64_t getFactor(linalg::LinalgOp op, Value value) {
  if (auto wider = value.getDefiningOp<arith::ExtFOp>())
    value = wider.getIn();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != op.getBlock() ||
      !isa<RankedTensorType>(op.getMatchingOpOperand(argument)->get().getType()))
    return -1;
  return op.getMatchingOpOperand(argument)->getOperandNumber();
}

/// Sorts the loops of a product of `s.lhs` and `s.rhs`. False if it is no product of matrices and
/// vectors, with or without a batch.
static bool sortLoops(StructuredOp &s) {
  ContractedLoops &sorted = s.contracted;
  sorted = {};
  ArrayRef<unsigned> lhs = s.loops[s.lhs], rhs = s.loops[s.rhs];
  for (unsigned loop : s.loops.back()) {
    bool inLhs = llvm::is_contained(lhs, loop), inRhs = llvm::is_contained(rhs, loop);
    if (!inLhs && !inRhs)
      return false;
    (inLhs && inRhs ? sorted.batch : inLhs ? sorted.rows : sorted.columns).push_back(loop);
  }
  for (unsigned loop : lhs)
    if (!llvm::is_contained(s.loops.back(), loop))
      sorted.inner.push_back(loop);
  auto isInRhs = [&](unsigned loop) { return llvm::is_contained(rhs, loop); };
  size_t shared = sorted.batch.size() + sorted.inner.size();
  return !sorted.inner.empty() && llvm::all_of(sorted.inner, isInRhs) &&
         lhs.size() == shared + sorted.rows.size() &&
         rhs.size() == shared + sorted.columns.size() &&
         (sorted.batch.empty() || (!sorted.rows.empty() && !sorted.columns.empty()));
}

/// Whether `s` is a sum of products that fusion.matmul has; sets its factors.
static bool isContraction(StructuredOp &s) {
  auto product = s.mapped.getDefiningOp<arith::MulFOp>();
  if (s.reduceKind != ReduceKind::Sum || !product)
    return false;
  int64_t lhs = getFactor(s.op, product.getLhs()), rhs = getFactor(s.op, product.getRhs());
  auto init = static_cast<int64_t>(s.op->getNumOperands()) - 1;
  if (lhs < 0 || rhs < 0 || lhs == init || rhs == init)
    return false;
  auto elementOf = [&](int64_t i) { return getElementTypeOrSelf(s.op->getOperand(unsigned(i))); };
  Type result = elementOf(init);
  if (elementOf(lhs) != elementOf(rhs) || (result != elementOf(lhs) && !result.isF32()))
    return false;
  s.lhs = static_cast<unsigned>(lhs);
  s.rhs = static_cast<unsigned>(rhs);
  if (!sortLoops(s))
    return false;
  // Several rows are a batch of lhs alone; several columns have to be merged.
  if (s.contracted.columns.size() > 1 && s.contracted.rows.size() == 1) {
    std::swap(s.lhs, s.rhs);
    return sortLoops(s);
  }
  return true;
}

/// The body of an op with reduction loops: one value combined with the accumulator.
static LogicalResult readReduction(StructuredOp &s) {
  Value accumulator = s.op.getRegionOutputArgs()[0];
  Operation *combiner = s.op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  std::optional<ReduceKind> kind = combiner ? getCombinerKind(combiner) : std::nullopt;
  if (!kind || !accumulator.hasOneUse() || *accumulator.user_begin() != combiner)
    return s.op->emitOpError() << "expected a reduction by one sum, maximum or minimum of the "
                                  "accumulator and a value";
  s.kind = StructuredKind::Reduction;
  s.reduceKind = *kind;
  s.combiner = combiner;
  s.mapped = combiner->getOperand(combiner->getOperand(0) == accumulator ? 1 : 0);
  s.readsInit = true;
  if (isContraction(s))
    s.kind = StructuredKind::Contraction;
  return success();
}

/// Which partial operands the body commutes with: all of its ops, and nothing else is read.
static PlacementSet getPartialAlike(StructuredOp &s) {
  PlacementSet kinds;
  for (ReduceKind kind : kKinds) {
    if (s.combiner && (kind != s.reduceKind || !isa<BlockArgument>(s.mapped)))
      continue;
    bool alike = llvm::all_of(s.op.getBlock()->without_terminator(), [&](Operation &op) {
      return &op == s.combiner || commutesWith(&op, kind);
    });
    auto isElement = [&](Value value) {
      auto argument = dyn_cast<BlockArgument>(value);
      return !argument || getFactor(s.op, argument) >= 0;
    };
    for (Operation &op : *s.op.getBlock())
      alike &= llvm::all_of(op.getOperands(), [&](Value value) {
        return value.getParentBlock() == s.op.getBlock() && isElement(value);
      });
    if (alike)
      kinds.insert(Placement::partial(kind));
  }
  return kinds;
}

FailureOr<StructuredOp> shardfusion::readStructuredOp(linalg::LinalgOp op) {
  StructuredOp s;
  s.op = op;
  if (op->getNumResults() != 1 || op.getNumDpsInits() != 1)
    return op->emitOpError() << "expected one result, found " << op->getNumResults();
  if (!op.hasOnlyProjectedPermutations() || op.hasIndexSemantics())
    return op->emitOpError() << "expected indexing maps that select and permute loops, without "
                                "linalg.index";
  for (AffineMap map : op.getIndexingMapsArray()) {
    SmallVector<unsigned> &loops = s.loops.emplace_back();
    for (AffineExpr expr : map.getResults())
      loops.push_back(cast<AffineDimExpr>(expr).getPosition());
  }
  for (auto [loop, type] : llvm::enumerate(op.getIteratorTypesArray())) {
    bool inResult = llvm::is_contained(s.loops.back(), loop);
    if (inResult == (type == utils::IteratorType::parallel))
      continue;
    return op->emitOpError() << "expected exactly the parallel loops in the result's map, found "
                             << AffineMapAttr::get(op.getIndexingMapsArray().back());
  }
  if (op.getNumReductionLoops() != 0) {
    if (failed(readReduction(s)))
      return failure();
  } else {
    s.mapped = op.getBlock()->getTerminator()->getOperand(0);
    s.readsInit = op.payloadUsesValueFromOperand(op.getDpsInitOperand(0));
  }
  for (Operation &inner : op.getBlock()->without_terminator())
    if (!isa<fusion::FusionTensorOpInterface>(inner))
      return inner.emitOpError() << "expected an elementwise op that kernels compute, in the body "
                                    "of "
                                 << op->getName();
  s.partialAlike = getPartialAlike(s);
  return s;
}

Value StructuredOp::getInit() { return op.getDpsInitOperand(0)->get(); }

bool StructuredOp::readsTensor(unsigned operand) {
  OpOperand &use = op->getOpOperand(operand);
  if (!isa<RankedTensorType>(use.get().getType()))
    return false;
  return op.isDpsInit(&use) ? readsInit : op.payloadUsesValueFromOperand(&use);
}

/// One row per loop that may be split, one for none, and those of partial operands.
PlacementTable StructuredOp::getTable() {
  PlacementTable table;
  SmallVector<unsigned> numbers;
  unsigned init = op->getNumOperands() - 1;
  for (unsigned i = 0; i <= init; ++i)
    if (readsTensor(i))
      numbers.push_back(i);
  for (unsigned number : numbers)
    table.values.push_back(op->getOperand(number));
  table.values.push_back(op->getResult(0));

  auto addRow = [&](llvm::function_ref<Placement(unsigned)> of, Placement ofResult) {
    SmallVector<Placement> &row = table.rows.emplace_back();
    for (unsigned number : numbers)
      row.push_back(of(number));
    row.push_back(ofResult);
  };
  auto none = Placement::replicated();
  addRow([&](unsigned) { return none; }, none);
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    auto splitBy = [&](unsigned number) {
      const auto *it = llvm::find(loops[number], loop);
      return it == loops[number].end() ? none : Placement::split(it - loops[number].begin());
    };
    if (llvm::is_contained(loops[init], loop)) {
      addRow(splitBy, splitBy(init));
      continue;
    }
    // Splits of constants say nothing about the extent of the loop.
    if (llvm::none_of(numbers, [&](unsigned number) {
          return number != init && llvm::is_contained(loops[number], loop) &&
                 !getSplat(op->getOperand(number));
        }))
      continue;
    auto partial = Placement::partial(reduceKind);
    addRow([&](unsigned number) { return number == init ? partial : splitBy(number); }, partial);
  }
  for (ReduceKind kind : kKinds) {
    auto partial = Placement::partial(kind);
    if (partialAlike.contains(partial))
      addRow([&](unsigned) { return partial; }, partial);
  }
  // Of a product of a value with itself both factors would be partial: that is not linear.
  if (kind == StructuredKind::Contraction && op->getOperand(lhs) != op->getOperand(rhs))
    for (unsigned factor : {lhs, rhs}) {
      auto partial = Placement::partial(ReduceKind::Sum);
      addRow([&](unsigned number) { return number == factor || number == init ? partial : none; },
             partial);
    }
  return table;
}
