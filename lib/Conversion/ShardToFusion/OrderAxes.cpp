//===- OrderAxes.cpp - the order of grid axes that split a dimension -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OrderAxes.h"

#include "Constants.h"
#include "StructuredOp.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

namespace {
/// Dimension `dim` of `value`.
struct Place {
  Value value;
  size_t dim;
};

/// The axes of `outer` are those of `inner`, then `suffix`.
struct Link {
  Operation *op;
  Place outer;
  Place inner;
  GridAxes suffix;
};

class AxisOrders {
public:
  AxisOrders(func::FuncOp function, DenseMap<Value, Layout> &layouts)
      : function(function), layouts(layouts) {}
  LogicalResult run(const DenseMap<Value, SmallVector<GridAxes>> &annotations);

private:
  void addLinks(Operation *op);
  void link(Operation *op, Place outer, Place inner, GridAxes suffix = {});
  /// Writes an order into a layout. Fails if it has another one, or other axes.
  LogicalResult set(Operation *op, Place place, ArrayRef<int16_t> order);
  LogicalResult apply(const Link &link);
  LogicalResult propagate();
  GridAxes &axesOf(Place place) { return layouts.find(place.value)->second.axes[place.dim]; }
  bool isKnown(Place place) {
    return axesOf(place).size() < 2 || known.contains({place.value, place.dim});
  }

  func::FuncOp function;
  DenseMap<Value, Layout> &layouts;
  std::vector<Link> links;
  DenseMap<std::pair<Value, size_t>, SmallVector<unsigned>> users;
  DenseSet<std::pair<Value, size_t>> known;
  std::vector<unsigned> worklist;
};
} // namespace

void AxisOrders::link(Operation *op, Place outer, Place inner, GridAxes suffix) {
  if (!layouts.contains(outer.value) || !layouts.contains(inner.value))
    return;
  // Axes of one device split nothing.
  llvm::erase_if(suffix, [&](int16_t axis) { return !llvm::is_contained(axesOf(outer), axis); });
  auto number = static_cast<unsigned>(links.size());
  users[{outer.value, outer.dim}].push_back(number);
  users[{inner.value, inner.dim}].push_back(number);
  links.push_back({op, outer, inner, std::move(suffix)});
  worklist.push_back(number);
}

void AxisOrders::addLinks(Operation *op) {
  Value result = op->getResult(0);
  auto rank = static_cast<size_t>(cast<RankedTensorType>(result.getType()).getRank());
  if (auto structured = dyn_cast<linalg::LinalgOp>(op)) {
    StructuredOp s = *readStructuredOp(structured);
    DenseMap<unsigned, Place> first;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      bool isInit = i + 1 == op->getNumOperands();
      Value value = isInit ? result : op->getOperand(i);
      if (!isInit && !s.readsTensor(i))
        continue;
      for (auto [dim, loop] : llvm::enumerate(s.loops[i])) {
        if (isInit && s.readsInit)
          link(op, {s.getInit(), dim}, {result, dim});
        if (!layouts.contains(value))
          continue;
        auto [it, inserted] = first.try_emplace(loop, Place{value, dim});
        if (!inserted)
          link(op, {value, dim}, it->second);
      }
    }
    return;
  }
  if (std::optional<Collective> collective = getCollective(op)) {
    GridAxes axes = collective->axes;
    for (size_t dim = 0; dim < rank; ++dim) {
      auto splits = [&](Placement placement) {
        return placement.isSplit() && static_cast<size_t>(placement.getDim()) == dim;
      };
      Place from{collective->input, dim}, to{result, dim};
      if (splits(collective->to) && !splits(collective->from))
        link(op, to, from, axes);
      else
        link(op, from, to, splits(collective->from) && !splits(collective->to) ? axes : GridAxes());
    }
    return;
  }
  auto linkGroups = [&](ArrayRef<ReassociationIndices> groups, bool expands) {
    for (auto [i, group] : llvm::enumerate(groups))
      for (int64_t dim : group) {
        // The one dimension of the group that is split.
        auto outer = static_cast<size_t>(dim);
        Place from{op->getOperand(0), expands ? i : outer}, to{result, expands ? outer : i};
        if (layouts.contains(from.value) && axesOf(from).size() == axesOf(to).size())
          link(op, from, to);
      }
  };
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return linkGroups(expand.getReassociationIndices(), true);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return linkGroups(collapse.getReassociationIndices(), false);
  SmallVector<Value> alike(op->getOperands());
  if (std::optional<LeadInit> lead = getLeadInit(op))
    alike = {lead->init};
  for (Value operand : alike)
    for (size_t dim = 0; dim < rank; ++dim)
      link(op, {operand, dim}, {result, dim});
}

LogicalResult AxisOrders::set(Operation *op, Place place, ArrayRef<int16_t> order) {
  GridAxes &axes = axesOf(place);
  auto sorted = [](ArrayRef<int16_t> list) {
    GridAxes copy(list);
    llvm::sort(copy);
    return copy;
  };
  if (sorted(axes) != sorted(order) || (isKnown(place) && ArrayRef<int16_t>(axes) != order)) {
    auto diag = op->emitOpError() << "expected dimension " << place.dim << " to be split by grid "
                                  << "axes [";
    llvm::interleaveComma(order, diag);
    diag << "], outermost first, found [";
    llvm::interleaveComma(axes, diag);
    return diag << "]";
  }
  if (!isKnown(place)) {
    axes.assign(order.begin(), order.end());
    known.insert({place.value, place.dim});
    llvm::append_range(worklist, users[{place.value, place.dim}]);
  }
  return success();
}

LogicalResult AxisOrders::apply(const Link &link) {
  if (isKnown(link.inner)) {
    GridAxes order = axesOf(link.inner);
    llvm::append_range(order, link.suffix);
    return set(link.op, link.outer, order);
  }
  if (!isKnown(link.outer))
    return success();
  GridAxes order = axesOf(link.outer);
  // The rest is checked when the inner one is known.
  order.truncate(order.size() - std::min(order.size(), link.suffix.size()));
  return set(link.op, link.inner, order);
}

LogicalResult AxisOrders::propagate() {
  for (size_t next = 0; next < worklist.size(); ++next)
    if (failed(apply(links[worklist[next]])))
      return failure();
  worklist.clear();
  return success();
}

LogicalResult AxisOrders::run(const DenseMap<Value, SmallVector<GridAxes>> &annotations) {
  for (Operation &op : function.getBody().front())
    if (op.getNumResults() == 1 && layouts.contains(op.getResult(0)))
      addLinks(&op);
  for (auto &[value, layout] : layouts)
    if (auto it = annotations.find(value); it != annotations.end())
      for (size_t dim = 0; dim < layout.axes.size(); ++dim)
        if (failed(set(function, {value, dim}, it->second[dim])))
          return failure();
  if (failed(propagate()))
    return failure();
  auto forOpenOnes = [&](Value value, llvm::function_ref<LogicalResult(Place)> action) {
    auto it = layouts.find(value);
    for (size_t dim = 0; it != layouts.end() && dim < it->second.axes.size(); ++dim)
      if (!isKnown({value, dim}) && failed(action({value, dim})))
        return failure();
    return success();
  };
  for (BlockArgument argument : function.getArguments()) {
    auto open = [&](Place place) {
      auto diag = emitError(argument.getLoc())
                  << "argument " << argument.getArgNumber() << " of @" << function.getSymName()
                  << ": dimension " << place.dim << " is split by several grid axes (";
      llvm::interleaveComma(axesOf(place), diag);
      diag << "), whose order does not follow from the collectives; add '" << kSplitAxesAttrName
           << "'";
      return LogicalResult(diag);
    };
    if (failed(forOpenOnes(argument, open)))
      return failure();
  }
  // Values that depend on constants only: any order.
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults()) {
      auto decide = [&](Place place) {
        GridAxes order = axesOf(place);
        return success(succeeded(set(&op, place, order)) && succeeded(propagate()));
      };
      if (failed(forOpenOnes(result, decide)))
        return failure();
    }
  return success();
}

LogicalResult shardfusion::orderAxes(func::FuncOp function, DenseMap<Value, Layout> &layouts,
                                     const DenseMap<Value, SmallVector<GridAxes>> &annotations) {
  return AxisOrders(function, layouts).run(annotations);
}
