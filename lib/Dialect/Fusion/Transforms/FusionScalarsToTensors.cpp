//===- FusionScalarsToTensors.cpp - scalars become tensors of rank 0 -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "Retype.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "tandem/Support/ElementTypes.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONSCALARSTOTENSORS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// `value` in the shape, mesh and axes of `like`, each element the one of `value`.
static Value broadcastLike(Operation *op, Value value, RankedTensorType like) {
  OpBuilder builder(op);
  auto element = cast<RankedTensorType>(value.getType()).getElementType();
  auto type = RankedTensorType::get(like.getShape(), element, like.getEncoding());
  return BroadcastOp::create(builder, op->getLoc(), type, value, ArrayRef<int64_t>{});
}

/// Whether the value is a scalar until now; it becomes a tensor then.
static bool convertValue(Value value) {
  if (!isElementType(value.getType()))
    return false;
  value.setType(RankedTensorType::get({}, value.getType()));
  return true;
}

/// Converts an op whose operands are converted.
static LogicalResult convertOp(Operation *op) {
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    if (!splat.getDynamicSizes().empty())
      return op->emitOpError() << "expected a static shape, found " << splat.getType()
                               << " (a fusion.broadcast of a tensor without dimensions takes it)";
    splat.replaceAllUsesWith(broadcastLike(op, splat.getInput(), splat.getType()));
    op->erase();
    return success();
  }
  if (op->getNumResults() != 1)
    return success();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    Attribute value = constant.getValue();
    if (convertValue(constant))
      constant.setValueAttr(
          DenseElementsAttr::get(cast<RankedTensorType>(constant.getType()), value));
    return success();
  }
  if (!OpTrait::hasElementwiseMappableTraits(op))
    return success();
  // A scalar operand of an op on tensors (the condition of a select) is broadcast.
  if (auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType())) {
    for (OpOperand &operand : op->getOpOperands()) {
      auto other = dyn_cast<RankedTensorType>(operand.get().getType());
      if (other && other.getRank() == 0 && type.getRank() != 0)
        operand.set(broadcastLike(op, operand.get(), type));
    }
    return success();
  }
  if (convertValue(op->getResult(0)) ||
      llvm::none_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>))
    return success();
  return op->emitOpError() << "expected tensors and numbers of a fusion's element types, found "
                           << op->getResult(0).getType();
}

/// A function without tensors is no fusion. It is left alone, with its control flow.
static bool computesOnTensors(func::FuncOp function) {
  auto isTensor = [](Type type) { return isa<RankedTensorType>(type); };
  return llvm::any_of(function.getArgumentTypes(), isTensor) ||
         function
             .walk([&](Operation *op) {
               return llvm::any_of(op->getResultTypes(), isTensor) ? WalkResult::interrupt()
                                                                   : WalkResult::advance();
             })
             .wasInterrupted();
}

namespace {
struct FusionScalarsToTensorsPass
    : public fusion::impl::FusionScalarsToTensorsBase<FusionScalarsToTensorsPass> {
  using FusionScalarsToTensorsBase::FusionScalarsToTensorsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !computesOnTensors(function))
      return markAllAnalysesPreserved();
    PassLog logger("fusion-scalars-to-tensors", log);
    for (BlockArgument argument : function.getArguments()) {
      if (!convertValue(argument))
        continue;
      ++numArguments;
      logger(function.getLoc(), [&](raw_ostream &os) {
        os << "argument " << argument.getArgNumber() << " becomes " << argument.getType();
      });
    }
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
      if (failed(convertOp(&op)))
        return signalPassFailure();
    if (llvm::any_of(function.getFunctionType().getInputs(), isElementType) ||
        llvm::any_of(function.getFunctionType().getResults(), isElementType))
      updateSignature(function);
  }
};
} // namespace
