//===- LocalPlan.cpp - how an op could run locally -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalPlan.h"

#include "ChooseFactors.h"
#include "ReduceBefore.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static SmallVector<AxesAttr> axesOfOperands(Operation *op) {
  return llvm::map_to_vector(op->getOperandTypes(), [](Type type) { return getAxes(type); });
}

static SmallVector<AxesAttr> resultAxesOf(Operation *op) {
  return llvm::map_to_vector(op->getResultTypes(), [](Type type) { return getAxes(type); });
}

/// True if no operand has a dimension of the factor: the result may have any digits there.
static bool isNew(const AxesRule &rule, int64_t factor) {
  return llvm::none_of(rule.operands,
                       [&](ArrayRef<int64_t> dims) { return llvm::is_contained(dims, factor); });
}

static bool usesAxis(AxesAttr axes, StringAttr axis) {
  return axes.dimOfDeviceAxis(axis.getValue()) >= 0 || llvm::is_contained(axes.getPartial(), axis);
}

/// Result axes of the op on operands with axes `operands`. Keeps the results' present stream digits
/// if the placement is equal, and all present digits of new dimensions.
static FailureOr<SmallVector<AxesAttr>> inferResults(Operation *op, ArrayRef<AxesAttr> operands,
                                                     std::string &reason) {
  SmallVector<AxesAttr> results;
  std::optional<AxesRule> rule = getAxesRule(op);
  for (auto [i, type] : llvm::enumerate(op->getResultTypes())) {
    std::optional<AxesConflict> conflict;
    AxesAttr axes = inferResultAxes(op, i, operands, conflict);
    AxesAttr wanted = getAxes(type);
    if (!axes) {
      reason = conflict ? conflict->reason : "expected decided operands, found none";
      return failure();
    }
    if (wanted && axes.getMesh() == wanted.getMesh()) {
      SmallVector<DimAxesAttr> dims(axes.getDims());
      for (auto [dim, mine, other] : llvm::enumerate(dims, wanted.getDims())) {
        bool free = !rule->regroups() && isNew(*rule, rule->results[i][dim]) &&
                    llvm::none_of(other.getDigits(), [&, axes = axes](const Digit &digit) {
                      return digit.isDevice() && usesAxis(axes, digit.axis);
                    });
        if (free || placementOf(mine, axes.getMesh()) == placementOf(other, axes.getMesh()))
          mine = other;
      }
      axes = axes.withDims(dims);
    }
    results.push_back(axes);
  }
  return results;
}

/// Joins an operand's piecewise axes; returns `before` if no element moves.
static AxesAttr joinPieces(Operation *op, const AxesRule &rule, unsigned operand, AxesAttr pieces,
                           AxesAttr before) {
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  AxesAttr joined = joinAxes(rule.operandPieces[operand], pieces, type.getRank());
  return samePlacement(joined, before) ? before : joined;
}

/// Plans the op on `operands`, changed by `choice`.
static FailureOr<LocalPlan> planChoice(Operation *op, ArrayRef<AxesAttr> operands,
                                       const AxesRule &rule, const FactorChoice &choice,
                                       std::string &reason) {
  LocalPlan plan;
  MLIRContext *context = op->getContext();
  AxisSet split;
  for (DimAxesAttr dim : choice.factors)
    for (const Digit &digit : dim.getDigits())
      if (digit.isDevice())
        split.insert(digit.axis);
  for (auto [number, axes, dims] :
       llvm::enumerate(splitOperandAxes(rule, operands), rule.operands)) {
    plan.operands.push_back(axes);
    if (!axes)
      continue;
    bool moves = axes.getMesh() != choice.mesh;
    SmallVector<DimAxesAttr> digits(axes.getDims());
    for (auto [dim, factor] : llvm::enumerate(dims)) {
      if (factor == AxesRule::kNone) {
        digits[dim] =
            moves ? DimAxesAttr::get(context, {}) : dropDevices(digits[dim], choice.mesh, split);
      } else if (moves || placementOf(digits[dim], choice.mesh) !=
                              placementOf(choice.factors[factor], choice.mesh)) {
        digits[dim] = choice.factors[factor];
      } else {
        // A mesh axis of one device may split another factor.
        AxisSet others = split;
        for (const Digit &digit : choice.factors[factor].getDigits())
          if (digit.isDevice())
            others.erase(digit.axis);
        digits[dim] = dropDevices(digits[dim], choice.mesh, others);
      }
    }
    // Partial sums along a mesh axis that splits a factor are reduced before.
    SmallVector<StringAttr> partial;
    for (StringAttr axis : axes.getPartial())
      if (!moves && !split.contains(axis))
        partial.push_back(axis);
    AxesAttr &planned = plan.operands.back();
    planned = AxesAttr::get(context, choice.mesh, digits, partial,
                            partial.empty() ? ReduceKind::Sum : axes.getPartialKind());
    if (rule.regroups())
      planned = joinPieces(op, rule, number, planned, operands[number]);
  }
  FailureOr<SmallVector<AxesAttr>> results = inferResults(op, plan.operands, reason);
  if (failed(results))
    return failure();
  plan.results = std::move(*results);
  return plan;
}

FailureOr<LocalPlan> fusion::planAfter(Operation *op, std::string &reason) {
  SmallVector<AxesAttr> operands = reduceBefore(op, axesOfOperands(op));
  AxesRule rule = *getAxesRule(op);
  return planChoice(op, operands, rule, chooseFactors(op, rule, operands, resultAxesOf(op)),
                    reason);
}

SmallVector<LocalPlan> fusion::listPlansAfter(Operation *op) {
  SmallVector<AxesAttr> operands = reduceBefore(op, axesOfOperands(op));
  AxesRule rule = *getAxesRule(op);
  SmallVector<LocalPlan> plans;
  std::string ignored;
  for (const FactorChoice &choice : listFactorChoices(op, rule, operands, resultAxesOf(op)))
    if (FailureOr<LocalPlan> plan = planChoice(op, operands, rule, choice, ignored);
        succeeded(plan))
      plans.push_back(std::move(*plan));
  return plans;
}

namespace {
/// Chooses digits per factor of the op's rule.
class BeforePlanner {
public:
  BeforePlanner(Operation *op, std::string &reason)
      : op(op), reason(reason), rule(*getAxesRule(op)), whole(reduceBefore(op, axesOfOperands(op))),
        operands(splitOperandAxes(rule, whole)), results(splitResultAxes(rule, resultAxesOf(op))),
        target(results.front()), mesh(target.getMesh()),
        factors(rule.factors.size(), DimAxesAttr::get(op->getContext(), {})) {}

  FailureOr<LocalPlan> plan() {
    AxisSet contracted;
    chooseReductions(contracted);
    chooseResults(contracted);
    LocalPlan plan;
    choosePartial(plan, contracted);
    FailureOr<SmallVector<AxesAttr>> results = inferResults(op, plan.operands, reason);
    if (failed(results))
      return failure();
    plan.results = std::move(*results);
    return plan;
  }

private:
  /// Digits of a contracted dimension: those that all operands have, and those that make the result
  /// partial as required. If all operands are split but none of these remains, the digits of the
  /// larger operand: moving the smaller one is cheaper than replicated compute.
  void chooseReductions(AxisSet &contracted) {
    for (auto [factor, kind] : llvm::enumerate(rule.factors)) {
      if (kind != FactorKind::Reduction)
        continue;
      factors[factor] = chooseReduction(static_cast<int64_t>(factor));
      for (const Digit &digit : factors[factor].getDigits())
        if (digit.isDevice())
          contracted.insert(digit.axis);
    }
  }

  DimAxesAttr chooseReduction(int64_t factor) {
    struct Side {
      DimAxesAttr digits;
      int64_t size;
    };
    SmallVector<Side> sides;
    int64_t extent = 0;
    for (auto [number, axes, dims] : llvm::enumerate(operands, rule.operands)) {
      const int64_t *it = llvm::find(dims, factor);
      if (!axes || axes.getMesh() != mesh || it == dims.end())
        continue;
      auto type = cast<RankedTensorType>(op->getOperand(number).getType());
      extent = rule.getExtent(type.getShape(), number, it - dims.begin());
      sides.push_back({axes.getDims()[it - dims.begin()], sizeOf(type)});
    }
    DimAxesAttr none = DimAxesAttr::get(op->getContext(), {});
    if (sides.empty())
      return none;
    // Streams first, then the finest split; drop mesh axes that the others lack.
    const Side *best = &sides.front();
    for (const Side &side : sides)
      if (placementOf(side.digits, mesh) == placementOf(best->digits, mesh)
              ? !best->digits.hasStream() && side.digits.hasStream()
              : refines(side.digits, best->digits, extent, mesh) ||
                    (!refines(best->digits, side.digits, extent, mesh) && side.size > best->size))
        best = &side;
    AxisSet lost;
    for (const Digit &digit : best->digits.getDigits()) {
      if (!digit.isDevice() || llvm::is_contained(target.getPartial(), digit.axis))
        continue;
      AxisSet others;
      for (const Digit &other : best->digits.getDigits())
        if (other.isDevice() && other.axis != digit.axis)
          others.insert(other.axis);
      DimAxesAttr alone = dropDevices(best->digits, mesh, others);
      if (!llvm::all_of(
              sides, [&](const Side &side) { return refines(side.digits, alone, extent, mesh); }))
        lost.insert(digit.axis);
    }
    DimAxesAttr kept = dropDevices(best->digits, mesh, lost);
    bool allSplit = llvm::all_of(sides, [](const Side &side) { return side.digits.hasDevice(); });
    if (!kept.hasDevice() && allSplit)
      return best->digits;
    // One operand's stream digits of the contraction apply to all.
    for (const Side &side : sides)
      if (!kept.hasStream() && side.digits.hasStream() &&
          placementOf(side.digits, mesh) == placementOf(kept, mesh))
        return side.digits;
    return kept;
  }

  /// Digits of the results' dimensions without the contraction's mesh axes.
  void chooseResults(const AxisSet &contracted) {
    for (auto [axes, dims] : llvm::zip_equal(results, rule.results)) {
      for (auto [dim, factor] : llvm::enumerate(dims)) {
        if (factor == AxesRule::kNone)
          continue;
        if (isOnOneDevice(rule.factors[factor]))
          continue;
        factors[factor] = dropDevices(axes.getDims()[dim], mesh, contracted);
      }
    }
  }

  /// Partial operands are reduced before, unless the result is partial over the same axes because
  /// of them.
  void choosePartial(LocalPlan &plan, const AxisSet &contracted) {
    AxisSet taken;
    for (auto [number, axes, dims] : llvm::enumerate(operands, rule.operands)) {
      plan.operands.push_back({});
      if (!axes)
        continue;
      SmallVector<DimAxesAttr> digits;
      for (auto [dim, factor] : llvm::enumerate(dims))
        digits.push_back(factor == AxesRule::kNone ? DimAxesAttr::get(op->getContext(), {})
                                                   : factors[factor]);
      SmallVector<StringAttr> partial;
      bool product = rule.partial == PartialKind::Product;
      bool mayBePartial =
          rule.partial != PartialKind::Never && number != rule.addedOnce &&
          axes.getPartialKind() == target.getPartialKind() &&
          (rule.partial == PartialKind::Alike || axes.getPartialKind() == rule.reduceKind);
      for (StringAttr axis : axes.getPartial())
        if (mayBePartial && axes.getMesh() == mesh &&
            llvm::is_contained(target.getPartial(), axis) && !contracted.contains(axis) &&
            (!product || taken.insert(axis).second))
          partial.push_back(axis);
      plan.operands.back() =
          AxesAttr::get(op->getContext(), mesh, digits, partial,
                        partial.empty() ? ReduceKind::Sum : axes.getPartialKind());
      if (rule.regroups())
        plan.operands.back() = joinPieces(op, rule, number, plan.operands.back(), whole[number]);
    }
  }

  Operation *op;
  std::string &reason;
  AxesRule rule;
  SmallVector<AxesAttr> whole, operands, results; // `operands`, `results`: over pieces
  AxesAttr target;
  MeshAttr mesh;
  SmallVector<DimAxesAttr> factors;
};
} // namespace

FailureOr<LocalPlan> fusion::planLocal(Operation *op, GatherMode gather, std::string &reason) {
  // Reduce before the move: fewer bytes are sent to the result's placement.
  if (mustReduce(op, axesOfOperands(op)))
    gather = GatherMode::Before;
  // A reshape that cannot run on the operand's axes moves it to the result's placement.
  std::optional<AxesConflict> conflict;
  if (getAxesRule(op)->regroups())
    (void)inferResultAxes(op, 0, axesOfOperands(op), conflict);
  if (conflict)
    gather = GatherMode::Before;
  return gather == GatherMode::Before ? BeforePlanner(op, reason).plan() : planAfter(op, reason);
}
