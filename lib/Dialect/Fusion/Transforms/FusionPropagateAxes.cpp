//===- FusionPropagateAxes.cpp - fusion-propagate-axes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "Retype.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"
#include <deque>

namespace mlir::tandem::fusion {
#define GEN_PASS_DEF_FUSIONPROPAGATEAXES
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace mlir::tandem::fusion

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::fusion;

static bool isUndecided(Value value) {
  return isa<RankedTensorType>(value.getType()) && !getAxes(value);
}

/// Operands and result of an upstream elementwise op have one type.
static bool isElementwise(Operation *op) {
  return isLocalComputation(op) && !isa<FusionTensorOpInterface>(op);
}

static SmallVector<AxesAttr> operandAxesOf(Operation *op) {
  return llvm::map_to_vector(op->getOperands(), [](Value value) { return getAxes(value); });
}

namespace {
struct FusionPropagateAxesPass
    : public fusion::impl::FusionPropagateAxesBase<FusionPropagateAxesPass> {
  using FusionPropagateAxesBase::FusionPropagateAxesBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || failed(collect(function)) || values.empty())
      return;
    PassLog logger("fusion-propagate-axes", log);
    say = &logger;
    if (failed(propagate()))
      return signalPassFailure();
    takeStreamDigits();
    updateSignature(function);
    logger.summary(function.getLoc(), {{"decided by operands", fromOperands},
                                       {"decided by consumers", fromUses},
                                       {"replicated", replicated}});
    numForward += fromOperands;
    numBackward += fromUses;
    numReplicated += replicated;
  }

private:
  /// Undecided tensors in program order, arguments first.
  SmallVector<Value> values;
  llvm::DenseSet<Value> decidedHere;
  /// Ops whose operands, and ops whose results, have been decided since they were looked at last.
  std::deque<Operation *> forward, backward;
  MeshAttr mesh;
  const PassLog *say = nullptr;
  unsigned fromOperands = 0, fromUses = 0, replicated = 0;

  /// Finds the undecided values and the function's mesh: that of the first decided value.
  LogicalResult collect(func::FuncOp function) {
    values.clear();
    decidedHere.clear();
    forward.clear();
    backward.clear();
    mesh = {};
    fromOperands = fromUses = replicated = 0;
    bool isFusion = false;
    auto visit = [&](Value value) {
      if (isUndecided(value))
        values.push_back(value);
      else if (AxesAttr axes = getAxes(value); axes && !mesh)
        mesh = axes.getMesh();
    };
    for (Value argument : function.getArguments())
      visit(argument);
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      isFusion = isFusion || op->getName().getDialectNamespace() == "fusion";
      for (Value result : op->getResults())
        visit(result);
      if (isLocalComputation(op)) {
        forward.push_back(op);
        backward.push_front(op);
      }
    });
    if (mesh || values.empty())
      return success();
    values.clear();
    if (!isFusion)
      return success();
    function.emitOpError() << "expected axes on at least one argument, value or result, found none";
    signalPassFailure();
    return failure();
  }

  LogicalResult propagate() {
    size_t next = 0;
    while (true) {
      if (!forward.empty()) {
        Operation *op = forward.front();
        forward.pop_front();
        if (failed(goForward(op)))
          return failure();
      } else if (!backward.empty()) {
        Operation *op = backward.front();
        backward.pop_front();
        if (failed(goBackward(op)))
          return failure();
      } else {
        while (next < values.size() && !isUndecided(values[next]))
          ++next;
        if (next == values.size())
          return alignElementwise();
        Value value = values[next];
        auto type = cast<RankedTensorType>(value.getType());
        AxesAttr beside = besideOf(value);
        ++(beside ? fromUses : replicated);
        if (failed(beside ? decide(value, beside, "the other operand does")
                          : decide(value, AxesAttr::getReplicated(mesh, type.getRank()),
                                   "nothing says otherwise")))
          return failure();
      }
    }
  }

  LogicalResult decide(Value value, AxesAttr axes, StringRef why) {
    auto type = cast<RankedTensorType>(value.getType());
    if (failed(axes.verifyEncoding(type.getShape(), type.getElementType(),
                                   [&] { return emitError(value.getLoc()); })))
      return failure();
    retype(value, withAxes(type, axes));
    decidedHere.insert(value);
    (*say)(value.getLoc(), [&](raw_ostream &os) {
      if (auto argument = dyn_cast<BlockArgument>(value))
        os << "argument " << argument.getArgNumber();
      else
        os << "result " << cast<OpResult>(value).getResultNumber();
      os << " has " << formatAxes(axes) << ": " << why;
    });
    auto enqueue = [&](Operation *op) {
      if (!isLocalComputation(op))
        return;
      forward.push_back(op);
      backward.push_back(op);
    };
    if (Operation *op = value.getDefiningOp())
      enqueue(op);
    for (Operation *user : value.getUsers())
      enqueue(user);
    return success();
  }

  /// Operands decide results.
  LogicalResult goForward(Operation *op) {
    if (op->getNumOperands() == 0 || llvm::any_of(op->getOperands(), isUndecided))
      return success();
    SmallVector<AxesAttr> operands = operandAxesOf(op);
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      if (!isUndecided(result))
        continue;
      std::optional<AxesConflict> conflict;
      AxesAttr axes = inferResultAxes(op, i, operands, conflict);
      if (conflict)
        return report(op, *conflict);
      if (!axes)
        continue;
      ++fromOperands;
      if (failed(alignOperands(op, axes)) || failed(decide(result, axes, "its operands do")))
        return failure();
    }
    return success();
  }

  /// The operands of an elementwise op all get the type of its result.
  LogicalResult alignOperands(Operation *op, AxesAttr axes) {
    if (!isElementwise(op))
      return success();
    for (OpOperand &operand : op->getOpOperands()) {
      AxesAttr mine = getAxes(operand.get());
      if (!mine || mine == axes)
        continue;
      OpBuilder builder(op);
      auto type = cast<RankedTensorType>(operand.get().getType());
      auto reshard = ReshardOp::create(builder, op->getLoc(), withAxes(type, axes), operand.get(),
                                       ScheduleAttr(), false, StringAttr());
      operand.set(reshard.getResult());
      (*say)(op->getLoc(), [&](raw_ostream &os) {
        os << "operand " << operand.getOperandNumber() << " is resharded to " << formatAxes(axes);
      });
    }
    return success();
  }

  /// Where a result has been decided by its consumers and an operand by its producer, they may
  /// differ.
  LogicalResult alignElementwise() {
    llvm::SetVector<Operation *> ops;
    for (Value value : values) {
      if (Operation *op = value.getDefiningOp())
        ops.insert(op);
      ops.insert(value.user_begin(), value.user_end());
    }
    for (Operation *op : ops)
      if (isElementwise(op) && op->getNumResults() == 1 && getAxes(op->getResult(0)) &&
          failed(alignOperands(op, getAxes(op->getResult(0)))))
        return failure();
    return success();
  }

  /// Results decide operands that nothing else has decided.
  LogicalResult goBackward(Operation *op) {
    std::optional<unsigned> number;
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (getAxes(result)) {
        number = i;
        break;
      }
    if (!number)
      return success();
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (!isUndecided(operand))
        continue;
      AxesAttr axes =
          inferOperandAxes(op, i, *number, getAxes(op->getResult(*number)), operandAxesOf(op));
      if (!axes)
        continue;
      ++fromUses;
      if (failed(decide(operand, axes, "what is computed from it does")))
        return failure();
    }
    return success();
  }

  /// Axes of the other operand of an elementwise op that uses the value; null if there is none.
  AxesAttr besideOf(Value value) {
    for (Operation *user : value.getUsers())
      if (isElementwise(user))
        for (Value operand : user->getOperands())
          if (AxesAttr axes = getAxes(operand))
            return axes;
    return {};
  }

  LogicalResult report(Operation *op, const AxesConflict &conflict) {
    InFlightDiagnostic diag = op->emitOpError() << conflict.reason;
    for (int64_t operand : {conflict.first, conflict.second})
      if (operand >= 0)
        diag.attachNote(op->getOperand(operand).getLoc())
            << "operand " << operand << " has " << formatAxes(getAxes(op->getOperand(operand)));
    return diag;
  }

  /// Lets values that this pass has decided be computed in the loop of what is computed from them:
  /// they take its stream digits where a dimension is placed alike.
  void takeStreamDigits() {
    for (Value value : llvm::reverse(values)) {
      Operation *producer = value.getDefiningOp();
      AxesAttr axes = getAxes(value);
      if (!producer || isElementwise(producer) || axes.hasStream() || !value.hasOneUse())
        continue;
      Operation *user = *value.getUsers().begin();
      if (!isLocalComputation(user) || isElementwise(user) || user->getNumResults() != 1 ||
          !getAxes(user->getResult(0)) || getAxes(user->getResult(0)).getMesh() != axes.getMesh())
        continue;
      unsigned number = value.getUses().begin()->getOperandNumber();
      std::optional<AxesRule> rule = getAxesRule(user);
      if (isa<ReshapeOp>(user))
        continue;
      AxesAttr wanted = getAxes(user->getResult(0));
      SmallVector<DimAxesAttr> dims(axes.getDims());
      AxesAttr place = axes.getPlacement(), wantedPlace = wanted.getPlacement();
      for (auto [dim, factor] : llvm::enumerate(rule->operands[number])) {
        const int64_t *it = llvm::find(rule->results[0], factor);
        if (factor == AxesRule::kNone || rule->factors[factor] == FactorKind::Whole ||
            it == rule->results[0].end())
          continue;
        size_t other = it - rule->results[0].begin();
        if (place.getDims()[dim] == wantedPlace.getDims()[other])
          dims[dim] = wanted.getDims()[other];
      }
      auto type = cast<RankedTensorType>(value.getType());
      retype(value, withAxes(type, axes.withDims(dims)));
    }
  }
};
} // namespace
