//===- LocalPlan.cpp - how an op could run locally -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalPlan.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::fusion;

using AxisSet = llvm::SmallPtrSet<Attribute, 4>;

static SmallVector<AxesAttr> operandAxesOf(Operation *op) {
  return llvm::map_to_vector(op->getOperandTypes(), [](Type type) { return getAxes(type); });
}

/// `dim` without the device digits of `axes`. Serial digits keep the places of those after them.
static DimAxesAttr dropDevices(DimAxesAttr dim, MeshAttr mesh, const AxisSet &axes) {
  SmallVector<Digit> digits;
  for (const Digit &digit : dim.getDigits()) {
    if (!digit.isDevice() || !axes.contains(digit.axis)) {
      digits.push_back(digit);
      continue;
    }
    if (mesh.axisSize(digit.axis.getValue()) != 1)
      digits.push_back(Digit::serial(digit.axis));
  }
  while (!digits.empty() && digits.back().isSerial())
    digits.pop_back();
  return resolveSymbolicDigits(DimAxesAttr::get(dim.getContext(), digits), mesh);
}

static DimAxesAttr placementOf(DimAxesAttr dim, MeshAttr mesh) {
  return AxesAttr::get(dim.getContext(), mesh, dim, {}, ReduceKind::Sum)
      .getPlacement()
      .getDims()[0];
}

/// True if no operand has a dimension of the factor: the result may split it as it likes.
static bool isNew(const AxesRule &rule, int64_t factor) {
  return llvm::none_of(rule.operands,
                       [&](ArrayRef<int64_t> dims) { return llvm::is_contained(dims, factor); });
}

static bool usesAxis(AxesAttr axes, StringAttr axis) {
  return axes.dimOfDeviceAxis(axis.getValue()) >= 0 || llvm::is_contained(axes.getPartial(), axis);
}

/// Results of the op on operands with `operands`; their dimensions have the stream digits of what
/// the results have now where the placement is the same, and new dimensions all of their digits.
static FailureOr<SmallVector<AxesAttr>> inferResults(Operation *op, ArrayRef<AxesAttr> operands,
                                                     std::string &reason) {
  SmallVector<AxesAttr> results;
  std::optional<AxesRule> rule = getAxesRule(op);
  for (auto [i, type] : llvm::enumerate(op->getResultTypes())) {
    std::optional<AxesConflict> conflict;
    AxesAttr axes = inferResultAxes(op, i, operands, conflict);
    AxesAttr wanted = getAxes(type);
    if (!axes || !wanted) {
      reason = conflict ? conflict->reason : "expected decided operands and results";
      return failure();
    }
    if (axes.getMesh() == wanted.getMesh()) {
      SmallVector<DimAxesAttr> dims(axes.getDims());
      for (auto [dim, mine, other] : llvm::enumerate(dims, wanted.getDims())) {
        bool free = !isa<ReshapeOp>(op) && isNew(*rule, rule->results[i][dim]) &&
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

FailureOr<LocalPlan> fusion::planAfter(Operation *op, std::string &reason) {
  LocalPlan plan;
  SmallVector<AxesAttr> operands = operandAxesOf(op);
  FailureOr<SmallVector<AxesAttr>> results = inferResults(op, operands, reason);
  if (failed(results))
    return failure();
  plan.results = std::move(*results);
  if (isa<ReshapeOp>(op)) {
    plan.operands = operands;
    return plan;
  }
  // A replicated operand beside a split one is sliced: each operand takes the digits that its
  // factor has elsewhere.
  AxesRule rule = *getAxesRule(op);
  SmallVector<DimAxesAttr> factors(rule.factors.size());
  for (auto [axes, dims] : llvm::zip_equal(operands, rule.operands))
    if (axes)
      for (auto [dim, factor] : llvm::enumerate(dims))
        if (factor != AxesRule::kNone &&
            (!factors[factor] || (!factors[factor].hasDevice() && axes.getDims()[dim].hasDevice())))
          factors[factor] = axes.getDims()[dim];
  for (auto [axes, dims] : llvm::zip_equal(operands, rule.operands)) {
    plan.operands.push_back(axes);
    if (!axes)
      continue;
    SmallVector<DimAxesAttr> digits(axes.getDims());
    for (auto [dim, factor] : llvm::enumerate(dims))
      if (factor != AxesRule::kNone &&
          placementOf(digits[dim], axes.getMesh()) != placementOf(factors[factor], axes.getMesh()))
        digits[dim] = factors[factor];
    plan.operands.back() = axes.withDims(digits);
  }
  return plan;
}

static FailureOr<LocalPlan> planReshapeBefore(Operation *op, std::string &reason) {
  AxesAttr from = getAxes(op->getOperand(0)), to = getAxes(op->getResult(0));
  AxesAttr wanted = inferOperandAxes(op, 0, 0, to, {});
  // The result's axes may be more than a reshape can carry, or it runs on what is there and is
  // resharded behind.
  if (!wanted || wanted.getMesh() != from.getMesh())
    return planAfter(op, reason);
  SmallVector<StringAttr> partial;
  for (StringAttr axis : from.getPartial())
    if (llvm::is_contained(to.getPartial(), axis))
      partial.push_back(axis);
  LocalPlan plan;
  plan.operands.push_back(wanted.withPartial(partial, from.getPartialKind()));
  FailureOr<SmallVector<AxesAttr>> results = inferResults(op, plan.operands, reason);
  if (failed(results))
    return failure();
  plan.results = std::move(*results);
  return plan;
}

namespace {
/// Chooses digits per factor of the op's rule.
class BeforePlanner {
public:
  BeforePlanner(Operation *op, std::string &reason)
      : op(op), reason(reason), rule(*getAxesRule(op)), operands(operandAxesOf(op)),
        target(getAxes(op->getResult(0))), mesh(target.getMesh()),
        factors(rule.factors.size(), DimAxesAttr::get(op->getContext(), {})) {}

  FailureOr<LocalPlan> plan() {
    for (AxesAttr axes : operands)
      if (axes && axes.getMesh() != mesh)
        return fail("expected operands and results on one mesh, found \"" + mesh.getName().str() +
                    "\" and \"" + axes.getMesh().getName().str() +
                    "\"; insert a fusion.reshard between them");
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
  LogicalResult fail(std::string text) {
    reason = std::move(text);
    return failure();
  }

  /// Digits of a contracted dimension: what all operands have, or what makes the result partial as
  /// it shall be; else whole.
  void chooseReductions(AxisSet &contracted) {
    for (auto [factor, kind] : llvm::enumerate(rule.factors)) {
      if (kind != FactorKind::Reduction)
        continue;
      bool agree = true;
      DimAxesAttr found, split;
      for (auto [axes, dims] : llvm::zip_equal(operands, rule.operands)) {
        const int64_t *it = llvm::find(dims, static_cast<int64_t>(factor));
        if (!axes || it == dims.end())
          continue;
        DimAxesAttr digits = axes.getDims()[it - dims.begin()];
        agree = agree && (!found || placementOf(found, mesh) == placementOf(digits, mesh));
        if (!found || (!found.hasStream() && digits.hasStream()))
          found = digits;
        if (digits.hasDevice() && !split)
          split = digits;
      }
      if (!agree && split && llvm::all_of(split.getDigits(), [&](const Digit &digit) {
            return !digit.isDevice() || llvm::is_contained(target.getPartial(), digit.axis);
          }))
        found = split;
      else if (!agree)
        found = DimAxesAttr::get(op->getContext(), {});
      factors[factor] = found;
      for (const Digit &digit : found.getDigits())
        if (digit.isDevice())
          contracted.insert(digit.axis);
    }
  }

  /// Digits of the results' dimensions, less the mesh axes that a contraction has used up.
  void chooseResults(const AxisSet &contracted) {
    for (auto [type, dims] : llvm::zip_equal(op->getResultTypes(), rule.results)) {
      AxesAttr axes = getAxes(type);
      for (auto [dim, factor] : llvm::enumerate(dims)) {
        if (factor == AxesRule::kNone)
          continue;
        if (rule.factors[factor] == FactorKind::Whole)
          continue;
        factors[factor] = dropDevices(axes.getDims()[dim], mesh, contracted);
      }
    }
  }

  /// Partial operands are summed up before, unless the result is partial over the same axes too,
  /// for this reason.
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
          rule.partial != PartialKind::Never &&
          static_cast<int64_t>(number) != rule.neverPartialOperand &&
          axes.getPartialKind() == target.getPartialKind() &&
          (rule.partial == PartialKind::Alike || axes.getPartialKind() == rule.reduceKind);
      for (StringAttr axis : axes.getPartial())
        if (mayBePartial && llvm::is_contained(target.getPartial(), axis) &&
            !contracted.contains(axis) && (!product || taken.insert(axis).second))
          partial.push_back(axis);
      plan.operands.back() =
          AxesAttr::get(op->getContext(), mesh, digits, partial,
                        partial.empty() ? ReduceKind::Sum : axes.getPartialKind());
    }
  }

  Operation *op;
  std::string &reason;
  AxesRule rule;
  SmallVector<AxesAttr> operands;
  AxesAttr target;
  MeshAttr mesh;
  SmallVector<DimAxesAttr> factors;
};
} // namespace

FailureOr<LocalPlan> fusion::planBefore(Operation *op, std::string &reason) {
  return isa<ReshapeOp>(op) ? planReshapeBefore(op, reason) : BeforePlanner(op, reason).plan();
}
