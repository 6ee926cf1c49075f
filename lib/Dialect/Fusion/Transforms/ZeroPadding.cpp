//===- ZeroPadding.cpp - where the padding of a dimension is 0 --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ZeroPadding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// The factor of a dimension that is one piece, but for pieces of extent 1: these have no room for
/// another index, whatever the extent of the dimension.
static std::optional<int64_t> getFactor(ArrayRef<int64_t> factors, ArrayRef<DimPiece> pieces,
                                        int64_t dim) {
  if (pieces.empty())
    return dim < static_cast<int64_t>(factors.size()) ? factors[dim] : AxesRule::kNone;
  std::optional<int64_t> found, unit;
  for (auto [piece, factor] : llvm::zip_equal(pieces, factors)) {
    if (piece.dim != dim)
      continue;
    if (piece.extent == 1) {
      unit = factor;
      continue;
    }
    if (found)
      return std::nullopt;
    found = factor;
  }
  return found ? found : unit;
}

/// Whether a factor is a whole dimension on the other side too.
static bool isWholeDim(ArrayRef<DimPiece> pieces, ArrayRef<int64_t> factors, int64_t factor) {
  const int64_t *it = llvm::find(factors, factor);
  return it != factors.end() &&
         getFactor(factors, pieces, pieces[it - factors.begin()].dim) == factor;
}

std::optional<int64_t> fusion::getOperandFactor(const AxesRule &rule, unsigned operand,
                                                int64_t dim) {
  if (!rule.regroups())
    return getFactor(rule.operands[operand], {}, dim);
  std::optional<int64_t> factor =
      getFactor(rule.operands[operand], rule.operandPieces[operand], dim);
  if (!factor || !isWholeDim(rule.resultPieces[0], rule.results[0], *factor))
    return std::nullopt;
  return factor;
}

std::optional<int64_t> fusion::getResultFactor(const AxesRule &rule, unsigned result, int64_t dim) {
  if (!rule.regroups())
    return getFactor(rule.results[result], {}, dim);
  std::optional<int64_t> factor = getFactor(rule.results[result], rule.resultPieces[result], dim);
  if (!factor || !isWholeDim(rule.operandPieces[0], rule.operands[0], *factor))
    return std::nullopt;
  return factor;
}

bool fusion::followsPadding(Operation *op, const AxesRule &rule, int64_t factor) {
  auto attention = dyn_cast<AttentionOp>(op);
  return rule.factors[factor] == FactorKind::Parallel &&
         (!attention || !attention.getZigzag() || factor != attention.getType().getRank() - 2);
}

bool fusion::givesPadding(Operation *op, unsigned result, int64_t dim) {
  if (isa<ReshardOp>(op))
    return true;
  std::optional<AxesRule> rule = getAxesRule(op);
  if (!rule || isa<CallOp>(op))
    return false;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    return elements && elements.isSplat();
  }
  std::optional<int64_t> factor = getResultFactor(*rule, result, dim);
  if (!factor)
    return false;
  // A dimension that is only repeated takes any extent.
  if (*factor == AxesRule::kNone)
    return isa<BroadcastOp>(op);
  return followsPadding(op, *rule, *factor);
}

//===----------------------------------------------------------------------===//
// Zeros
//===----------------------------------------------------------------------===//

/// Whether an elementwise op gives exactly 0 if its operands are 0 (a select: those that it selects
/// from).
static bool keepsZero(Operation *op) {
  return isa<arith::AddFOp, arith::AddIOp, arith::SubFOp, arith::SubIOp, arith::MulFOp,
             arith::MulIOp, arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp, arith::MinimumFOp,
             arith::MinNumFOp, arith::MinSIOp, arith::NegFOp, arith::ExtFOp, arith::TruncFOp,
             arith::SIToFPOp, arith::SelectOp, math::AbsFOp, math::AbsIOp, math::SqrtOp,
             math::TanhOp, math::ErfOp, math::SinOp, math::ExpM1Op, math::Log1pOp, math::FloorOp,
             math::CeilOp, math::RoundOp, math::TruncOp>(op);
}

static int64_t getRankOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

bool ZeroPadding::isZero(Value value, int64_t dim) const {
  auto it = zeros.find(value);
  return it != zeros.end() && it->second[dim];
}

ZeroPadding::ZeroPadding(func::FuncOp function) {
  for (Value argument : function.getArguments()) {
    zeros[argument].assign(getRankOf(argument), true);
    given[argument] = true;
  }
  function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (OpResult result : op->getResults()) {
      given[result] = hasGivenElements(result);
      SmallVector<bool> list;
      for (int64_t dim = 0; dim < getRankOf(result); ++dim)
        list.push_back(compute(result, dim));
      zeros[result] = std::move(list);
    }
  });
}

bool ZeroPadding::hasGivenElements(OpResult result) const {
  Operation *op = result.getOwner();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto floats = dyn_cast<DenseFPElementsAttr>(constant.getValue());
    // The iterator visits each element of a splat, of which there may be millions.
    if (floats && floats.isSplat())
      return floats.getSplatValue<APFloat>().isFinite();
    return !floats || llvm::all_of(floats, [](const APFloat &value) { return value.isFinite(); });
  }
  return isa<ReshardOp, PermuteOp, ReshapeOp, SliceOp, BroadcastOp, ConcatOp, arith::NegFOp,
             arith::ExtFOp, math::AbsFOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return given.lookup(operand); });
}

bool ZeroPadding::compute(OpResult result, int64_t dim) const {
  Operation *op = result.getOwner();
  if (isa<ReshardOp>(op))
    return isZero(op->getOperand(0), dim);
  if (!givesPadding(op, result.getResultNumber(), dim))
    return true; // 0 is appended
  if (isa<arith::ConstantOp>(op))
    return matchPattern(op, m_AnyZeroFloat()) || matchPattern(op, m_Zero());
  std::optional<AxesRule> rule = getAxesRule(op);
  int64_t factor = *getResultFactor(*rule, result.getResultNumber(), dim);
  if (factor == AxesRule::kNone)
    return false;
  // None: the operand has no such dimension.
  auto isOperandZero = [&](unsigned operand) -> std::optional<bool> {
    Value value = op->getOperand(operand);
    for (int64_t d = 0; d < getRankOf(value); ++d)
      if (getOperandFactor(*rule, operand, d) == factor)
        return isZero(value, d);
    return std::nullopt;
  };
  // A product of 0 and what is finite.
  auto isProductZero = [&](unsigned a, unsigned b) {
    bool isZeroA = isOperandZero(a).value_or(false), isZeroB = isOperandZero(b).value_or(false);
    return (isZeroA && (isZeroB || given.lookup(op->getOperand(b)))) ||
           (isZeroB && given.lookup(op->getOperand(a)));
  };
  if (isElementwise(op)) {
    if (isa<arith::MulFOp, arith::MulIOp>(op) && isProductZero(0, 1))
      return true;
    for (unsigned i = isa<arith::SelectOp>(op) ? 1 : 0; i < op->getNumOperands(); ++i)
      if (!isOperandZero(i).value_or(false))
        return false;
    return keepsZero(op) && op->getNumOperands() > 0;
  }
  if (isa<MatmulOp>(op))
    return isProductZero(0, 1) && (op->getNumOperands() < 3 || isOperandZero(2).value_or(false));
  if (isa<GroupedMatmulOp>(op))
    return isProductZero(0, 1);
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getKind() != ReduceKind::Sum)
    return false;
  return isa<ReduceOp, PermuteOp, ReshapeOp, SliceOp, BroadcastOp>(op) &&
         isOperandZero(0).value_or(false);
}
