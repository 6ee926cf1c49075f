//===- ReduceBefore.cpp - reductions before nonlinear ops -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReduceBefore.h"

#include "ChooseFactors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static AxesAttr reduced(AxesAttr axes) {
  return axes ? axes.withPartial({}, ReduceKind::Sum) : axes;
}

static bool onOneMesh(ArrayRef<AxesAttr> operands) {
  MeshAttr mesh;
  for (AxesAttr axes : operands) {
    if (axes && mesh && axes.getMesh() != mesh)
      return false;
    if (axes)
      mesh = axes.getMesh();
  }
  return true;
}

/// Whether all tensors are partial over the same mesh axes with the op's own reduction.
static bool areAlike(Operation *op, const AxesRule &rule, ArrayRef<AxesAttr> operands) {
  AxesAttr first;
  for (auto [value, axes] : llvm::zip_equal(op->getOperands(), operands)) {
    if (!isa<RankedTensorType>(value.getType()))
      continue;
    if (!axes || (first && !samePartial(first, axes)))
      return false;
    first = axes;
  }
  return first && (rule.partial == PartialKind::Alike || first.getPartialKind() == rule.reduceKind);
}

/// Whether to reduce before a broadcast, where there are fewer elements; not if the result is
/// annotated partial.
static bool repeats(Operation *op) {
  AxesAttr axes = getAxes(op->getResult(0));
  return op->getNumOperands() == 1 && !(axes && axes.isPartial()) &&
         sizeOf(op->getResult(0).getType()) > sizeOf(op->getOperand(0).getType());
}

/// Only one factor of a product may be partial over a mesh axis. Keeps the larger one, since
/// reducing the smaller one moves less.
static SmallVector<AxesAttr> reduceFactors(Operation *op, const AxesRule &rule,
                                           ArrayRef<AxesAttr> operands) {
  SmallVector<AxesAttr> result(operands);
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, operands.size()));
  auto size = [&](int64_t number) { return sizeOf(op->getOperand(number).getType()); };
  llvm::sort(order,
             [&](int64_t a, int64_t b) { return size(a) != size(b) ? size(a) > size(b) : a < b; });
  AxisSet taken;
  for (int64_t number : order) {
    AxesAttr axes = operands[number];
    if (!axes || !axes.isPartial())
      continue;
    bool fits =
        number != rule.addedOnce && axes.getPartialKind() == rule.reduceKind &&
        llvm::none_of(axes.getPartial(), [&](StringAttr axis) { return taken.contains(axis); });
    if (fits)
      taken.insert(axes.getPartial().begin(), axes.getPartial().end());
    else
      result[number] = reduced(axes);
  }
  return result;
}

SmallVector<AxesAttr> fusion::reduceBefore(Operation *op, ArrayRef<AxesAttr> operands) {
  SmallVector<AxesAttr> result(operands);
  auto isPartial = [](AxesAttr axes) { return axes && axes.isPartial(); };
  std::optional<AxesRule> rule = getAxesRule(op);
  if (!rule || llvm::none_of(operands, isPartial))
    return result;
  // Else slices of several sums would be added before those of one (fusion-split-sums).
  bool isTree = isSameOnAllMeshes(op->getParentOfType<func::FuncOp>());
  if (onOneMesh(operands) && !isTree) {
    if (rule->partial == PartialKind::Product)
      return reduceFactors(op, *rule, operands);
    if (rule->partial != PartialKind::Never && !repeats(op) && areAlike(op, *rule, operands))
      return result;
  }
  llvm::transform(operands, result.begin(), reduced);
  return result;
}

bool fusion::mustReduce(Operation *op, ArrayRef<AxesAttr> operands) {
  return ArrayRef<AxesAttr>(reduceBefore(op, operands)) != operands;
}

namespace {
/// Searches users for places of the mesh axes that a reduction frees.
class Scatter {
public:
  Scatter(AxesAttr axes, RankedTensorType type, AxisSet free)
      : axes(axes), type(type), dims(axes.getDims()), free(std::move(free)) {}

  AxesAttr run(Value value) {
    visit(value, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
    return axes.withDims(dims);
  }

private:
  /// Dimensions from `type.getRank()` on do not belong to the value.
  void visit(Value value, ArrayRef<int64_t> places) {
    SmallVector<Operation *> users(value.user_begin(), value.user_end());
    // Uses are listed in reverse; the first user in the text has priority.
    for (Operation *user : llvm::reverse(users)) {
      if (free.empty() || !seen.insert({user, value}).second)
        continue;
      if (auto reshard = dyn_cast<ReshardOp>(user))
        addCandidate(getAxes(reshard.getType()), places);
      else if (isLocalComputation(user))
        visitUser(user, value, places);
    }
  }

  void visitUser(Operation *user, Value value, ArrayRef<int64_t> places) {
    std::optional<AxesRule> rule = getAxesRule(user);
    if (rule->regroups())
      return;
    // Dimensions of the value for the user's factors.
    SmallVector<int64_t> factors(rule->factors.size(), -1);
    for (auto [operand, dims] : llvm::zip_equal(user->getOperands(), rule->operands))
      for (auto [dim, factor] : llvm::enumerate(dims))
        if (operand == value && factor != AxesRule::kNone && !isOnOneDevice(rule->factors[factor]))
          factors[factor] = places[dim];
    auto placesOf = [&](ArrayRef<int64_t> dims) {
      return llvm::map_to_vector(
          dims, [&](int64_t factor) { return factor == AxesRule::kNone ? -1 : factors[factor]; });
    };
    for (auto [result, dims] : llvm::zip_equal(user->getResults(), rule->results))
      addCandidate(getAxes(result), placesOf(dims));
    for (auto [operand, dims] : llvm::zip_equal(user->getOperands(), rule->operands))
      if (operand != value)
        addCandidate(getAxes(operand), placesOf(dims));
    for (auto [result, dims] : llvm::zip_equal(user->getResults(), rule->results))
      if (isa<RankedTensorType>(result.getType()) && !getAxes(result))
        visit(result, placesOf(dims));
  }

  /// Takes digits of `other` with free mesh axes, if the dimension's own digits stay.
  void addCandidate(AxesAttr other, ArrayRef<int64_t> places) {
    if (!other || other.getMesh() != axes.getMesh())
      return;
    for (auto [digits, place] : llvm::zip_equal(other.getDims(), places)) {
      if (place < 0 || !digits.hasDevice())
        continue;
      auto isOurs = [&, place = place](const Digit &digit) {
        return !digit.isDevice() || free.contains(digit.axis) ||
               llvm::is_contained(dims[place].getDigits(), digit);
      };
      AxisSet others;
      for (const Digit &digit : digits.getDigits())
        if (!isOurs(digit))
          others.insert(digit.axis);
      DimAxesAttr mine = dropDevices(digits, axes.getMesh(), others);
      if (!mine.hasDevice() || !refines(mine, dims[place], type.getDimSize(place), axes.getMesh()))
        continue;
      dims[place] = mine;
      for (const Digit &digit : mine.getDigits())
        if (digit.isDevice())
          free.erase(digit.axis);
    }
  }

  AxesAttr axes;
  RankedTensorType type;
  SmallVector<DimAxesAttr> dims;
  AxisSet free;
  llvm::SmallDenseSet<std::pair<Operation *, Value>> seen;
};
} // namespace

AxesAttr fusion::scatterForUsers(Value value, AxesAttr axes, ArrayRef<AxesAttr> terms) {
  AxisSet free;
  for (AxesAttr term : terms)
    if (term && term.getMesh() == axes.getMesh())
      for (StringAttr axis : term.getPartial())
        if (!llvm::is_contained(axes.getPartial(), axis) &&
            axes.dimOfDeviceAxis(axis.getValue()) < 0)
          free.insert(axis);
  if (free.empty())
    return axes;
  return Scatter(axes, cast<RankedTensorType>(value.getType()), std::move(free)).run(value);
}

void fusion::reduceReturned(func::FuncOp function, ArrayRef<Value> decided, const PassLog &logger) {
  llvm::DenseSet<Value> decidedHere(decided.begin(), decided.end());
  for (auto ret : function.getOps<func::ReturnOp>())
    for (OpOperand &operand : ret->getOpOperands()) {
      AxesAttr axes = getAxes(operand.get());
      if (!axes || !axes.isPartial() || !decidedHere.contains(operand.get()))
        continue;
      OpBuilder builder(ret);
      RankedTensorType type =
          withAxes(cast<RankedTensorType>(operand.get().getType()), reduced(axes));
      operand.set(
          ReshardOp::create(builder, operand.get().getLoc(), type, operand.get(), ScheduleAttr()));
      logger(ret.getLoc(), [&](raw_ostream &os) {
        os << "result " << operand.getOperandNumber() << " of the function is reduced";
      });
    }
}
