//===- Constants.cpp - values that are the same on all devices --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Constants.h"

#include "mlir/Analysis/FlatLinearValueConstraints.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

bool Splat::isNeutral(ReduceKind kind) const {
  if (auto real = dyn_cast_if_present<FloatAttr>(number)) {
    APFloat value = real.getValue();
    return kind == ReduceKind::Sum
               ? value.isZero()
               : value.isInfinity() && value.isNegative() == (kind == ReduceKind::Max);
  }
  if (auto integer = dyn_cast_if_present<IntegerAttr>(number)) {
    APInt value = integer.getValue();
    return kind == ReduceKind::Sum   ? value.isZero()
           : kind == ReduceKind::Max ? value.isMinSignedValue()
                                     : value.isMaxSignedValue();
  }
  return false;
}

static std::optional<Splat> getConstantSplat(arith::ConstantOp op) {
  if (auto elements = dyn_cast<DenseElementsAttr>(op.getValue())) {
    if (!elements.isSplat())
      return std::nullopt;
    return Splat{elements.getSplatValue<TypedAttr>()};
  }
  if (isa<FloatAttr, IntegerAttr>(op.getValue()))
    return Splat{op.getValue()};
  return std::nullopt;
}

/// The operand of which every element of the result is a copy: `linalg.fill`, `copy`, `transpose`,
/// `broadcast`. Or the value from outside that the body yields.
static Value getCopied(linalg::LinalgOp op) {
  if (op->getNumResults() != 1 || !op.isAllParallelLoops())
    return {};
  Value yielded = op.getBlock()->getTerminator()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(yielded);
  if (!argument || argument.getOwner() != op.getBlock())
    return yielded.getParentRegion()->isProperAncestor(&op->getRegion(0)) ? yielded : Value();
  return op.getMatchingOpOperand(argument)->get();
}

std::optional<Splat> shardfusion::getSplat(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  return TypeSwitch<Operation *, std::optional<Splat>>(op)
      .Case([](arith::ConstantOp constant) { return getConstantSplat(constant); })
      .Case([](tensor::EmptyOp) { return Splat{}; })
      .Case<tensor::SplatOp, tensor::CastOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp,
            shard::AllGatherOp, shard::AllSliceOp, shard::AllToAllOp>(
          [](Operation *copy) { return getSplat(copy->getOperand(0)); })
      .Case([](scf::IfOp choice) -> std::optional<Splat> {
        if (choice->getNumResults() != 1 || !getLeadInit(choice))
          return std::nullopt;
        std::optional<Splat> first = getSplat(choice.thenYield().getOperand(0)),
                             second = getSplat(choice.elseYield().getOperand(0));
        if (first && second && first->number == second->number)
          return first;
        return std::nullopt;
      })
      .Case([](linalg::LinalgOp structured) -> std::optional<Splat> {
        Value copied = getCopied(structured);
        return copied ? getSplat(copied) : std::nullopt;
      })
      .Default([](Operation *) { return std::nullopt; });
}

/// The grid axes of which `value` is the process's index, or a number that is 0 exactly where the
/// indices of all of them are 0: a sum of indices times positive numbers.
static SmallVector<int16_t> getIndexedAxes(Value value) {
  if (auto index = value.getDefiningOp<shard::ProcessMultiIndexOp>())
    return index.getAxes().size() == 1 ? SmallVector<int16_t>(index.getAxes())
                                       : SmallVector<int16_t>();
  auto apply = value.getDefiningOp<affine::AffineApplyOp>();
  if (!apply)
    return {};
  MLIRContext *context = apply.getContext();
  AffineMap map = apply.getAffineMap();
  SmallVector<AffineExpr> dims, symbols;
  SmallVector<int16_t> axes; // by dimension of the new expression
  for (auto [number, operand] : llvm::enumerate(apply.getMapOperands())) {
    auto result = dyn_cast<OpResult>(operand);
    auto &list = number < map.getNumDims() ? dims : symbols;
    if (auto index = operand.getDefiningOp<shard::ProcessMultiIndexOp>()) {
      if (index.getAxes().empty()) // of all axes
        return {};
      axes.push_back(index.getAxes()[result.getResultNumber()]);
      list.push_back(getAffineDimExpr(axes.size() - 1, context));
      continue;
    }
    auto shape = operand.getDefiningOp<shard::GridShapeOp>();
    auto grid =
        shape ? SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(shape, shape.getGridAttr())
              : shard::GridOp();
    if (!grid || shape.getAxes().empty())
      return {};
    int64_t extent = grid.getShape()[shape.getAxes()[result.getResultNumber()]];
    list.push_back(getAffineConstantExpr(extent, context));
  }
  if (map.getNumResults() != 1)
    return {};
  AffineExpr sum =
      simplifyAffineExpr(map.getResult(0).replaceDimsAndSymbols(dims, symbols), axes.size(), 0);
  SmallVector<int64_t> factors; // of the dimensions, then what is added
  if (failed(getFlattenedAffineExpr(sum, axes.size(), 0, &factors)) ||
      factors.size() != axes.size() + 1 || factors.back() != 0 ||
      llvm::any_of(ArrayRef(factors).drop_back(), [](int64_t factor) { return factor <= 0; }))
    return {};
  return axes;
}

std::optional<LeadInit> shardfusion::getLeadInit(Operation *op) {
  auto choice = dyn_cast<scf::IfOp>(op);
  if (!choice || choice->getNumResults() != 1)
    return std::nullopt;
  auto test = choice.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!test || test.getPredicate() != arith::CmpIPredicate::eq ||
      !matchPattern(test.getRhs(), m_Zero()))
    return std::nullopt;
  SmallVector<int16_t> axes = getIndexedAxes(test.getLhs());
  if (axes.empty())
    return std::nullopt;
  Value init = choice.thenYield().getOperand(0);
  // Values of the branch itself have no meaning outside of it, unless they are constants.
  if (choice.getThenRegion().isAncestor(init.getParentRegion()) && !getSplat(init))
    return std::nullopt;
  std::optional<Splat> others = getSplat(choice.elseYield().getOperand(0));
  if (!others)
    return std::nullopt;
  return LeadInit{init, *others, std::move(axes)};
}
