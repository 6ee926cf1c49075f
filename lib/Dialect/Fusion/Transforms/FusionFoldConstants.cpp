//===- FusionFoldConstants.cpp - known values are constants ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONFOLDCONSTANTS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static bool isEmpty(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && llvm::is_contained(tensor.getShape(), 0);
}

static Value makeConstant(OpBuilder &builder, Location loc, RankedTensorType type,
                          Attribute element) {
  return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, element));
}

/// The single result of an op that is nonempty although its operands are empty; null otherwise.
static Value foldResult(OpBuilder &builder, Operation *op) {
  Location loc = op->getLoc();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  // The other dimensions have elements, so a reduced one has none.
  if (std::optional<AxesRule> rule = getAxesRule(op);
      rule && rule->reduces() && llvm::any_of(op->getOperandTypes(), isEmpty)) {
    if (!rule->addedOnce)
      return makeConstant(builder, loc, type, getIdentity(rule->reduceKind, type.getElementType()));
    SmallVector<int64_t> dims =
        llvm::map_to_vector(rule->operands[*rule->addedOnce], [&](int64_t factor) -> int64_t {
          return llvm::find(rule->results[0], factor) - rule->results[0].begin();
        });
    return BroadcastOp::create(builder, loc, type, op->getOperand(*rule->addedOnce), dims);
  }
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    SmallVector<Value> inputs;
    for (Value input : concat.getInputs())
      if (!isEmpty(input.getType()))
        inputs.push_back(input);
    if (inputs.size() < concat.getInputs().size())
      return ConcatOp::create(builder, loc, type, inputs, concat.getDim());
  }
  return {};
}

/// Whether a reduction of equal elements gives this element, however many there are.
static bool isKept(ReduceKind kind, Attribute element) {
  if (kind != ReduceKind::Sum)
    return true;
  if (auto number = dyn_cast<FloatAttr>(element))
    return number.getValue().isPosZero();
  return cast<IntegerAttr>(element).getValue().isZero();
}

/// The folded result of an op on constants; null if it does not fold.
static Value foldConstants(OpBuilder &builder, Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands()) {
    SplatElementsAttr elements;
    if (!matchPattern(operand, m_Constant(&elements)))
      return {};
    operands.push_back(elements);
  }
  // A constant is partial only if copies of it combine to itself.
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    auto element = cast<SplatElementsAttr>(operands.front()).getSplatValue<Attribute>();
    return isKept(reduce.getKind(), element) ? makeConstant(builder, op->getLoc(), type, element)
                                             : Value();
  }
  SmallVector<OpFoldResult> results;
  if (op->hasTrait<SelectsElements>())
    results.push_back(operands.front());
  else if (!isElementwise(op) || failed(op->fold(operands, results)) || results.size() != 1)
    return {};
  if (auto value = dyn_cast<Value>(results.front()))
    return value.getType() == type ? value : Value();
  auto elements = dyn_cast<SplatElementsAttr>(cast<Attribute>(results.front()));
  return elements ? makeConstant(builder, op->getLoc(), type, elements.getSplatValue<Attribute>())
                  : Value();
}

namespace {
struct FusionFoldConstantsPass
    : public fusion::impl::FusionFoldConstantsBase<FusionFoldConstantsPass> {
  using FusionFoldConstantsBase::FusionFoldConstantsBase;

  void runOnOperation() override {
    PassLog logger("fusion-fold-constants", log);
    unsigned folded = 0;
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa<ReshardOp>(op) || (isLocalComputation(op) && !isa<arith::ConstantOp>(op)))
        ops.push_back(op);
    });
    // Folding an op may allow folding its users, which come later.
    for (Operation *op : ops) {
      OpBuilder builder(op);
      SmallVector<Value> values;
      if (std::optional<AxesRule> rule = getAxesRule(op); rule && rule->isOrdered)
        continue;
      if (llvm::all_of(op->getResultTypes(), isEmpty)) {
        for (Type type : op->getResultTypes()) {
          auto tensor = cast<RankedTensorType>(type);
          values.push_back(makeConstant(builder, op->getLoc(), tensor,
                                        builder.getZeroAttr(tensor.getElementType())));
        }
      } else if (op->getNumResults() == 1) {
        Value value = foldResult(builder, op);
        if (Value known = value ? value : foldConstants(builder, op))
          values.push_back(known);
      }
      if (values.empty())
        continue;
      logger(op->getLoc(), [&](raw_ostream &os) { os << "its result is known"; });
      ++folded;
      op->replaceAllUsesWith(values);
      op->erase();
    }
    if (folded)
      for (Block &block : getOperation().getBody())
        for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
          if (isOpTriviallyDead(&op))
            op.erase();
    logger.summary(getOperation().getLoc(), {{"folded", folded}});
    numFolded += folded;
    if (!folded)
      markAllAnalysesPreserved();
  }
};
} // namespace
