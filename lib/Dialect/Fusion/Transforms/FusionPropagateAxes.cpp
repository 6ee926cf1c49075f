//===- FusionPropagateAxes.cpp - fusion-propagate-axes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalPlan.h"
#include "PassLog.h"
#include "PlanPrices.h"
#include "ReduceBefore.h"
#include "Retype.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <deque>

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONPROPAGATEAXES
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static bool isUndecided(Value value) {
  return isa<RankedTensorType>(value.getType()) && !getAxes(value);
}

static SmallVector<AxesAttr> operandAxesOf(Operation *op) {
  return llvm::map_to_vector(op->getOperands(), [](Value value) { return getAxes(value); });
}

static std::string nameOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return "argument " + std::to_string(argument.getArgNumber());
  return "the result of '" + value.getDefiningOp()->getName().getStringRef().str() + "'";
}

/// Reports an error at the op, with notes at both sources and their origins, back to annotated
/// types. `origins`: the value that decided another value's axes (null: default axes).
static LogicalResult reportConflict(Operation *op, const AxesConflict &conflict,
                                    const llvm::DenseMap<Value, Value> &origins) {
  InFlightDiagnostic diag = op->emitOpError() << conflict.reason;
  for (int64_t operand : {conflict.first, conflict.second}) {
    if (operand < 0)
      continue;
    Value value = op->getOperand(operand);
    diag.attachNote(value.getLoc())
        << "operand " << operand << " has " << formatAxes(getAxes(value));
    constexpr int maxNotes = 16;
    for (int i = 0; i < maxNotes && origins.contains(value); ++i) {
      value = origins.lookup(value);
      if (!value) {
        diag.attachNote(op->getOperand(operand).getLoc()) << "... by default";
        break;
      }
      diag.attachNote(value.getLoc())
          << "... from " << nameOf(value) << ", which has " << formatAxes(getAxes(value));
    }
  }
  return diag;
}

/// The one op that the value is computed into, if digits pass through it.
static Operation *getConsumer(Value value) {
  Operation *producer = value.getDefiningOp();
  // Slices of one result would be slices of all.
  if (!producer || isElementwise(producer) || producer->getNumResults() != 1 ||
      getAxes(value).hasStream() || !value.hasOneUse())
    return nullptr;
  if (std::optional<AxesRule> rule = getAxesRule(producer); rule && rule->isOrdered)
    return nullptr;
  Operation *user = *value.getUsers().begin();
  if (!isLocalComputation(user) || isElementwise(user) || getAxesRule(user)->regroups() ||
      user->getNumResults() != 1)
    return nullptr;
  AxesAttr result = getAxes(user->getResult(0));
  return result && result.getMesh() == getAxes(value).getMesh() ? user : nullptr;
}

/// Lets each of `values` be computed in the loop of the one op that is computed from it: it takes
/// the stream digits of that op's result where a dimension is placed alike. All are decided; they
/// stand in program order.
static void takeStreamDigits(ArrayRef<Value> values) {
  for (Value value : llvm::reverse(values)) {
    Operation *user = getConsumer(value);
    if (!user)
      continue;
    AxesAttr axes = getAxes(value), wanted = getAxes(user->getResult(0));
    AxesRule rule = *getAxesRule(user);
    SmallVector<DimAxesAttr> dims(axes.getDims());
    AxesAttr place = axes.getPlacement(), wantedPlace = wanted.getPlacement();
    for (auto [dim, factor] :
         llvm::enumerate(rule.operands[value.getUses().begin()->getOperandNumber()])) {
      const int64_t *it = llvm::find(rule.results[0], factor);
      if (factor == AxesRule::kNone || isOnOneDevice(rule.factors[factor]) ||
          it == rule.results[0].end())
        continue;
      size_t other = it - rule.results[0].begin();
      if (place.getDims()[dim] == wantedPlace.getDims()[other])
        dims[dim] = wanted.getDims()[other];
    }
    retype(value, withAxes(cast<RankedTensorType>(value.getType()), axes.withDims(dims)));
  }
}

namespace {
struct FusionPropagateAxesPass
    : public fusion::impl::FusionPropagateAxesBase<FusionPropagateAxesPass> {
  using FusionPropagateAxesBase::FusionPropagateAxesBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (failed(verifyFits(function)))
      return signalPassFailure();
    if (function.isExternal() || failed(collect(function)) || values.empty())
      return;
    pricer.reset(); // that of the function before
    // Where a sum is added up decides its last bits: then no cost does.
    if (!machine.empty() && !function->hasAttr(kReferenceOfAttrName) &&
        !isDeterministic(function)) {
      std::string error;
      pricer = createPricer(
          &getContext(), {machine, workers, collectives, oneSided, getWorldSize(function)}, error);
      if (!pricer) {
        function.emitError() << error;
        return signalPassFailure();
      }
    }
    PassLog logger("fusion-propagate-axes", log);
    remarks = &logger;
    if (failed(propagate()))
      return signalPassFailure();
    reduceReturned(function, values, logger);
    takeStreamDigits(values);
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
  /// The value that decided another value's axes, for diagnostics; null: default axes.
  llvm::DenseMap<Value, Value> origins;
  /// Worklists: ops with newly decided operands, and with newly decided results.
  std::deque<Operation *> forward, backward;
  /// Ops whose operands do not fit each other. Handled when all else is decided.
  std::deque<Operation *> open;
  /// Elementwise ops with a decided operand and maybe an undecided one, which gets the same axes.
  /// Handled when all else is decided.
  std::deque<Operation *> siblings;
  /// Ops with an undecided operand that only a contraction with a split operand would decide.
  /// Handled when all else is decided.
  std::deque<Operation *> contractions;
  /// Ops whose partial operands must be reduced. Their results are decided when all else is.
  std::deque<Operation *> reductions;
  MeshAttr mesh;
  const PassLog *remarks = nullptr;
  std::shared_ptr<Pricer> pricer; ///< if there is a machine
  unsigned fromOperands = 0, fromUses = 0, replicated = 0;

  /// Finds the undecided values and the function's mesh: that of the first decided value.
  LogicalResult collect(func::FuncOp function) {
    values.clear();
    origins.clear();
    forward.clear();
    backward.clear();
    open.clear();
    siblings.clear();
    contractions.clear();
    reductions.clear();
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
        if (isElementwise(op))
          siblings.push_back(op);
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
    using Pass = FusionPropagateAxesPass;
    using Step = LogicalResult (Pass::*)(Operation *);
    // By priority.
    SmallVector<std::pair<std::deque<Operation *> *, Step>> steps = {
        {&forward, &Pass::goForward},
        {&backward, &Pass::goBackward},
        {&open, &Pass::choose},
        {&siblings, &Pass::decideSiblings},
        {&contractions, &Pass::decideByContraction},
        {&reductions, &Pass::reduceOperands}};
    if (pricer) // the price includes the consumers
      std::swap(steps[1], steps[2]);
    size_t next = 0;
    while (true) {
      auto *step = llvm::find_if(steps, [](const auto &step) { return !step.first->empty(); });
      if (step != steps.end()) {
        Operation *op = step->first->front();
        step->first->pop_front();
        if (failed((this->*step->second)(op)))
          return failure();
        continue;
      }
      while (next < values.size() && !isUndecided(values[next]))
        ++next;
      if (next == values.size())
        return alignElementwise(), success();
      Value value = values[next];
      auto type = cast<RankedTensorType>(value.getType());
      Value sibling = siblingOf(value);
      ++(sibling ? fromUses : replicated);
      if (failed(sibling ? decide(value, whole(getAxes(sibling)), sibling, "the other operand does")
                         : decide(value, AxesAttr::getReplicated(mesh, type.getRank()), Value(),
                                  "by default")))
        return failure();
    }
  }

  LogicalResult decide(Value value, AxesAttr axes, Value from, StringRef why) {
    auto type = cast<RankedTensorType>(value.getType());
    if (failed(axes.verifyFits(type.getShape(), [&] { return emitError(value.getLoc()); })))
      return failure();
    retype(value, withAxes(type, axes));
    origins[value] = from;
    (*remarks)(value.getLoc(), [&](raw_ostream &os) {
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
      if (isElementwise(op))
        siblings.push_back(op);
    };
    if (Operation *op = value.getDefiningOp())
      enqueue(op);
    for (Operation *user : value.getUsers())
      enqueue(user);
    return success();
  }

  /// Operands decide results.
  LogicalResult goForward(Operation *op) {
    // A constant takes the axes of a split operand; else consumers may decide both.
    SmallVector<AxesAttr> operands = operandAxesOf(op);
    bool hasSplit = llvm::any_of(operands, isSharded);
    auto mustWait = [&](Value value) {
      return isUndecided(value) &&
             !(hasSplit && isa_and_present<arith::ConstantOp>(value.getDefiningOp()));
    };
    if (op->getNumOperands() == 0 || llvm::any_of(op->getOperands(), mustWait))
      return success();
    bool isReduced = mustReduce(op, operands);
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      if (!isUndecided(result))
        continue;
      if (isReduced) {
        reductions.push_back(op);
        return success();
      }
      std::optional<AxesConflict> conflict;
      AxesAttr axes = inferResultAxes(op, i, operands, conflict);
      if (conflict) {
        open.push_back(op);
        return success();
      }
      if (axes && axes.isPartial() && hasBias(op)) {
        reductions.push_back(op);
        return success();
      }
      if (axes && failed(decideResult(op, i, axes)))
        return failure();
    }
    return success();
  }

  /// A bias is added once, so the result next to it is reduced first.
  static bool hasBias(Operation *op) { return getAxesRule(op)->addedOnce.has_value(); }

  LogicalResult decideResult(Operation *op, unsigned number, AxesAttr axes) {
    if (hasBias(op))
      axes = whole(axes);
    ++fromOperands;
    Value from = op->getOperand(0);
    for (Value operand : op->getOperands())
      if (AxesAttr other = getAxes(operand); other && isSharded(other) && !isSharded(getAxes(from)))
        from = operand;
    if (isElementwise(op))
      align(op, axes);
    return decide(op->getResult(number), axes, from, "its operands do");
  }

  static AxesAttr whole(AxesAttr axes) { return axes.withPartial({}, ReduceKind::Sum); }

  /// Whether axes contain more than replication.
  static bool isSharded(AxesAttr axes) {
    return axes && (axes.isPartial() ||
                    llvm::any_of(axes.getDims(), [](DimAxesAttr dim) { return dim.hasDevice(); }));
  }

  /// Decides results although the operands do not fit each other, if reshards can fix it.
  LogicalResult choose(Operation *op) {
    if (llvm::none_of(op->getResults(), isUndecided))
      return success();
    std::optional<AxesConflict> conflict;
    SmallVector<AxesAttr> operands = operandAxesOf(op);
    for (unsigned i = 0; i < op->getNumResults() && !conflict; ++i)
      inferResultAxes(op, i, operands, conflict);
    if (!conflict)
      return goForward(op);
    std::string reason;
    FailureOr<LocalPlan> plan = failure();
    if (!isElementwise(op))
      plan = pricer ? planByCost(op, reason) : planAfter(op, reason);
    if (failed(plan)) {
      if (!reason.empty())
        conflict->reason = reason;
      return reportConflict(op, *conflict, origins);
    }
    (*remarks)(op->getLoc(), [&](raw_ostream &os) {
      os << "its operands do not fit each other (" << conflict->reason << ')';
    });
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (isUndecided(result) && failed(decideResult(op, i, plan->results[i])))
        return failure();
    return success();
  }

  /// By the rules, or another plan that sends less, if it is cheaper for the op and its consumers.
  FailureOr<LocalPlan> planByCost(Operation *op, std::string &reason) {
    SmallVector<LocalPlan> plans = listPlansAfter(op);
    if (plans.empty() || op->getNumResults() != 1)
      return planAfter(op, reason);
    double bytes = getBytesReceived(op, plans.front());
    llvm::erase_if(plans, [&](const LocalPlan &plan) {
      return &plan != plans.begin() && getBytesReceived(op, plan) >= bytes;
    });
    if (plans.size() == 1)
      return plans.front();
    double byRule = priceResultAxes(op, plans.front().results.front(), *pricer), least = byRule;
    LocalPlan best = plans.front();
    for (const LocalPlan &plan : ArrayRef(plans).drop_front())
      if (double seconds = priceResultAxes(op, plan.results.front(), *pricer);
          seconds < least && seconds < (1 - pricer->getMargins().gain) * byRule) {
        least = seconds;
        best = plan;
      }
    (*remarks)(op->getLoc(), [&](raw_ostream &os) {
      os << llvm::formatv("result {0}: {1:F1} us, by the rules {2:F1} us on {3}",
                          formatAxes(best.results.front()), least * 1e6, byRule * 1e6,
                          pricer->getMachineName());
    });
    return best;
  }

  /// A nonlinear op: its partial operands are reduced before it (or its result, if a bias is
  /// added), to the placement of its result. This follows from the other operands and the
  /// consumers.
  LogicalResult reduceOperands(Operation *op) {
    SmallVector<AxesAttr> operands = operandAxesOf(op);
    if (llvm::none_of(op->getResults(), isUndecided))
      return success();
    FailureOr<LocalPlan> plan = failure();
    std::optional<AxesConflict> conflict;
    if (isElementwise(op)) {
      AxesAttr axes = inferResultAxes(op, 0, reduceBefore(op, operands), conflict);
      if (!conflict)
        plan = LocalPlan{{}, {axes}};
    } else {
      conflict.emplace();
      plan = planAfter(op, conflict->reason);
    }
    if (failed(plan))
      return reportConflict(op, *conflict, origins);
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      if (!isUndecided(result))
        continue;
      AxesAttr axes = plan->results[i];
      operands.push_back(axes);
      if (failed(decideResult(op, i,
                              scatterForUsers(result, hasBias(op) ? whole(axes) : axes, operands))))
        return failure();
    }
    return success();
  }

  /// Gives all operands of an elementwise op its result's axes.
  void align(Operation *op, AxesAttr axes) {
    OpBuilder builder(op);
    for (OpOperand &operand : op->getOpOperands()) {
      AxesAttr mine = getAxes(operand.get());
      if (!mine || mine == axes)
        continue;
      auto type = cast<RankedTensorType>(operand.get().getType());
      operand.set(createReshard(builder, op, withAxes(type, axes), operand.get()));
      (*remarks)(op->getLoc(), [&](raw_ostream &os) {
        os << "operand " << operand.getOperandNumber() << " is resharded to " << formatAxes(axes);
      });
    }
  }

  /// Consumers may have decided the result and a producer the operand, with different axes.
  void alignElementwise() {
    llvm::SetVector<Operation *> ops;
    for (Value value : values) {
      if (Operation *op = value.getDefiningOp())
        ops.insert(op);
      ops.insert(value.user_begin(), value.user_end());
    }
    for (Operation *op : ops)
      if (isElementwise(op) && op->getNumResults() == 1 && getAxes(op->getResult(0)))
        align(op, getAxes(op->getResult(0)));
  }

  /// Whether contracted dimensions of the operand are split in another operand, and the result
  /// leaves open whether they are reduced or gathered.
  static bool isByContraction(Operation *op, unsigned number, unsigned result) {
    std::optional<AxesRule> rule = getAxesRule(op);
    AxesAttr resultAxes = getAxes(op->getResult(result));
    auto isOpen = [&](const Digit &digit) {
      return digit.isDevice() && !llvm::is_contained(resultAxes.getPartial(), digit.axis);
    };
    for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule->operands))
      if (AxesAttr axes = getAxes(operand))
        for (auto [dim, factor] : llvm::enumerate(dims))
          if (factor != AxesRule::kNone && rule->factors[factor] == FactorKind::Reduction &&
              llvm::is_contained(rule->operands[number], factor) &&
              llvm::any_of(axes.getDims()[dim].getDigits(), isOpen))
            return true;
    return false;
  }

  LogicalResult goBackward(Operation *op) { return decideOperands(op, /*mayContract=*/false); }
  LogicalResult decideByContraction(Operation *op) {
    return decideOperands(op, /*mayContract=*/true);
  }

  /// Decides undecided operands from results.
  LogicalResult decideOperands(Operation *op, bool mayContract) {
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
      if (!mayContract && isByContraction(op, i, *number)) {
        contractions.push_back(op);
        continue;
      }
      AxesAttr axes =
          inferOperandAxes(op, i, *number, getAxes(op->getResult(*number)), operandAxesOf(op));
      if (!axes)
        continue;
      // Arguments are partial only if annotated, constants never.
      if (!operand.getDefiningOp() || isa<arith::ConstantOp>(operand.getDefiningOp()))
        axes = whole(axes);
      ++fromUses;
      if (failed(decide(operand, axes, op->getResult(*number), "what is computed from it does")))
        return failure();
    }
    return success();
  }

  /// Operands of an elementwise op follow the first split one. A partial operand decides no others:
  /// an addend of a sum need not be a partial sum.
  LogicalResult decideSiblings(Operation *op) {
    auto operands = op->getOperands();
    auto it = llvm::find_if(operands, [](Value value) {
      AxesAttr axes = getAxes(value);
      return axes && !axes.isPartial() && isSharded(axes);
    });
    for (Value operand : operands) {
      if (it == operands.end() || !isUndecided(operand))
        continue;
      ++fromUses;
      if (failed(decide(operand, getAxes(*it), *it, "the other operand does")))
        return failure();
    }
    return success();
  }

  /// The other, decided operand of an elementwise op that uses the value; null if there is none.
  static Value siblingOf(Value value) {
    for (Operation *user : value.getUsers())
      if (isElementwise(user))
        for (Value operand : user->getOperands())
          if (getAxes(operand))
            return operand;
    return {};
  }
};
} // namespace
