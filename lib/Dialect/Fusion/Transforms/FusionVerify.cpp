//===- FusionVerify.cpp - fusion-verify -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "tandem/Support/ElementTypes.h"
#include "llvm/ADT/StringExtras.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONVERIFY
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static bool isUndecided(Type type) { return isa<RankedTensorType>(type) && !getAxes(type); }

/// A function without axes and fusion ops is not a fusion and is ignored.
static bool isForeign(func::FuncOp function) {
  return !function
              .walk([](Operation *op) {
                auto decided = [](Type type) { return getAxes(type) != nullptr; };
                bool ours = op->getName().getDialectNamespace() == "fusion" ||
                            llvm::any_of(op->getOperandTypes(), decided) ||
                            llvm::any_of(op->getResultTypes(), decided);
                return ours ? WalkResult::interrupt() : WalkResult::advance();
              })
              .wasInterrupted();
}

static LogicalResult verifyElements(Operation *op) {
  for (auto [what, types] : {std::pair<StringRef, TypeRange>("operand", op->getOperandTypes()),
                             std::pair<StringRef, TypeRange>("result", op->getResultTypes())})
    for (auto [i, type] : llvm::enumerate(types)) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor)
        continue;
      if (!isElementType(tensor.getElementType()))
        return op->emitOpError() << "expected elements of " << kElementTypes << ", found "
                                 << tensor.getElementType() << " in " << what << ' ' << i;
      AxesAttr axes = getAxes(tensor);
      if (!isReducible(tensor.getElementType()) && axes && axes.isPartial())
        return op->emitOpError()
               << "expected elements that can be reduced, found partial values of "
               << tensor.getElementType() << " in " << what << ' ' << i;
      if (tensor.getElementType().isInteger(1) && axes && axes.isPartial() &&
          axes.getPartialKind() == ReduceKind::Sum)
        return op->emitOpError()
               << "expected i1 to be combined by max (or) or min (and), found partial sums in "
               << what << ' ' << i;
    }
  return success();
}

/// A partial operand is allowed only if the op commutes with its reduction.
static LogicalResult verifyPartial(Operation *op) {
  std::optional<AxesRule> rule = getAxesRule(op);
  if (rule->partial != PartialKind::Never && rule->partial != PartialKind::AlikeSame)
    return success();
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes())) {
    AxesAttr axes = getAxes(type);
    if (!axes || !axes.isPartial() ||
        (rule->partial == PartialKind::AlikeSame && axes.getPartialKind() == rule->reduceKind))
      continue;
    return op->emitOpError()
           << "expected operand " << i
           << " not to be partial, since the operation is not linear, found it partial by '"
           << stringifyReduceKind(axes.getPartialKind()) << "' over " << axes.getPartial().front()
           << "; insert a fusion.reshard before it";
  }
  return success();
}

/// Verifies that the op can be lowered.
static LogicalResult verifySupported(Operation *op) {
  // Conditions are data: a program's commands cannot depend on them.
  if (isElementwise(op))
    for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
      if (!isa<RankedTensorType>(type))
        return op->emitOpError() << "expected a tensor in operand " << i << ", found " << type;
  if (auto tensorOp = dyn_cast<FusionTensorOpInterface>(op))
    return tensorOp.verifySupported();
  SmallVector<StringRef> known;
  for (RegisteredOperationName name : op->getContext()->getRegisteredOperations())
    if (name.hasInterface<FusionTensorOpInterface>() && name.hasTrait<OpTrait::Elementwise>())
      known.push_back(name.getStringRef());
  llvm::sort(known);
  return op->emitOpError() << "expected an elementwise operation that kernels compute, one of "
                           << llvm::join(known, ", ");
}

static LogicalResult verifyDecided(Operation *op) {
  for (auto [what, types] : {std::pair<StringRef, TypeRange>("operand", op->getOperandTypes()),
                             std::pair<StringRef, TypeRange>("result", op->getResultTypes())})
    for (auto [i, type] : llvm::enumerate(types))
      if (isUndecided(type))
        return op->emitOpError() << "expected decided operands and results, found undecided "
                                 << what << ' ' << i;
  return success();
}

static LogicalResult verifyReshard(ReshardOp op) {
  Reshard reshard = classifyReshard(op);
  if (!reshard.isSupported())
    return op.emitOpError() << reshard.reason;
  if (reshard.kind == ReshardKind::Sequence)
    return op.emitOpError() << "expected one row of the reshard table, found "
                            << reshard.steps.size() << " (fusion-insert-reshards writes them out)";
  return success();
}

namespace {
struct FusionVerifyPass : public fusion::impl::FusionVerifyBase<FusionVerifyPass> {
  using FusionVerifyBase::FusionVerifyBase;

  void runOnOperation() override {
    if (failed(verifyFits(getOperation())))
      return signalPassFailure();
    if (getOperation().isExternal() || isForeign(getOperation()))
      return;
    // The unsharded reference has the same arguments and results.
    WalkResult result = getOperation().walk([&](Operation *op) {
      return succeeded(verify(op)) ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult verify(Operation *op) {
    auto isTensor = [](Type type) { return isa<RankedTensorType>(type); };
    if (op == getOperation() || (llvm::none_of(op->getOperandTypes(), isTensor) &&
                                 llvm::none_of(op->getResultTypes(), isTensor)))
      return success();
    if (failed(verifyElements(op)))
      return failure();
    bool local = isLocalComputation(op);
    auto reshard = dyn_cast<ReshardOp>(op);
    if (isa<StreamLoopOp, YieldOp>(op))
      return success();
    if (!local && !reshard && !isa<func::ReturnOp>(op))
      return op->emitOpError() << "expected an operation of a fusion (fusion, elementwise arith "
                                  "and math, return), found '"
                               << op->getName() << "'";
    // fusion-insert-reshards reduces partial operands of the dialect's nonlinear ops.
    bool mayReduce = stage != VerifyStage::Resharded && !isElementwise(op);
    if (local && (failed(verifySupported(op)) || (!mayReduce && failed(verifyPartial(op)))))
      return failure();
    if (stage != VerifyStage::Input && failed(verifyDecided(op)))
      return failure();
    if (stage != VerifyStage::Resharded)
      return success();
    if (reshard)
      return verifyReshard(reshard);
    return local ? verifyLocal(op, [op] { return op->emitOpError(); }) : success();
  }
};
} // namespace
