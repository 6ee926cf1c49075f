//===- ShareReshards.cpp - one reshard for all users of the same pieces -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShareReshards.h"

#include "ChooseFactors.h"
#include "Retype.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Sets the reshard's type. Fails if a user requires the old type (elementwise ops, returns) or is
/// not local with the new one.
static bool takeType(ReshardOp op, RankedTensorType type) {
  RankedTensorType old = op.getType();
  if (old == type)
    return true;
  auto isFree = [](Operation *user) { return isLocalComputation(user) && !isElementwise(user); };
  if (!llvm::all_of(op->getUsers(), isFree))
    return false;
  retype(op.getResult(), type);
  auto isLocal = [](Operation *user) { return succeeded(verifyLocal(user, nullptr)); };
  if (llvm::all_of(op->getUsers(), isLocal))
    return true;
  retype(op.getResult(), old);
  return false;
}

/// One of `known` that also fits the users of `op`, after giving both one type; else null.
static ReshardOp findShared(ArrayRef<ReshardOp> known, ReshardOp op) {
  for (ReshardOp other : known)
    if (other.getType() == op.getType())
      return other;
  // Users that need no slices accept any.
  for (ReshardOp other : known) {
    bool isSliced = getAxes(op.getType()).hasStream();
    if (isSliced == getAxes(other.getType()).hasStream())
      continue;
    if (isSliced ? takeType(other, op.getType()) : takeType(op, other.getType()))
      return other;
  }
  return {};
}

namespace {
/// A permute or reshape on the way from a value to the operand of a reshard.
struct View {
  Operation *op;
  AxesAttr axes; ///< of its result, once the value itself is resharded
};

/// A reshard traced through views of its operand to the root value.
struct RootedReshard {
  ReshardOp op;
  Value root;
  AxesAttr axes;           ///< of `root`, resharded
  SmallVector<View> views; ///< from the reshard to the root
};
} // namespace

/// Axes of a view's result, if it runs locally and keeps the slices.
static AxesAttr inferView(Operation *view, AxesAttr axes) {
  std::optional<AxesConflict> conflict;
  return inferResultAxes(view, 0, axes, conflict);
}

/// Whether a local op only gives its operand other dimensions (permute, reshape).
static bool isView(Operation *op) {
  return op->hasTrait<SelectsElements>() && isLocalComputation(op) &&
         sizeOf(op->getResult(0).getType()) == sizeOf(op->getOperand(0).getType());
}

/// Follows permutes and reshapes upward while they could run after the reshard instead.
static RootedReshard findRoot(ReshardOp op) {
  RootedReshard found{op, op.getInput(), getAxes(op.getType()), {}};
  while (auto *view = found.root.getDefiningOp()) {
    if (!isView(view) || view->getBlock() != op->getBlock())
      break;
    AxesAttr axes = inferOperandAxes(view, 0, 0, found.axes, AxesAttr());
    AxesAttr back = axes ? inferView(view, axes) : AxesAttr();
    if (!samePlacement(back, found.axes) || (found.axes.hasStream() && back != found.axes))
      break;
    found.views.push_back({view, found.axes});
    found.root = view->getOperand(0);
    found.axes = axes;
  }
  return found;
}

/// Passes the root's slices `axes` down to the reshard; false if its users cannot take them.
static bool takeSlices(RootedReshard &reshard, AxesAttr axes) {
  SmallVector<View> views = reshard.views;
  AxesAttr below = axes;
  for (View &view : llvm::reverse(views)) {
    AxesAttr result = inferView(view.op, below);
    if (!samePlacement(result, view.axes))
      return false;
    view.axes = below = result;
  }
  if (!takeType(reshard.op, withAxes(reshard.op.getType(), below)))
    return false;
  reshard.views = std::move(views);
  reshard.axes = axes;
  return true;
}

/// Replaces the reshard by its views of `value`, the resharded root.
static void replaceByViews(const RootedReshard &reshard, Value value) {
  OpBuilder builder(reshard.op);
  for (const View &view : llvm::reverse(reshard.views)) {
    Operation *copy = builder.clone(*view.op);
    copy->setOperand(0, value);
    value = copy->getResult(0);
    value.setType(withAxes(cast<RankedTensorType>(value.getType()), view.axes));
  }
  ReshardOp op = reshard.op;
  op.getResult().replaceAllUsesWith(value);
  op.erase();
  for (const View &view : reshard.views) {
    if (!view.op->use_empty())
      break;
    view.op->erase();
  }
}

/// Merges reshards of views of one value into views of one reshard. (A layer's weight gradient
/// reads its input as a matrix, the layer itself with batch dimensions.)
static void shareBehindViews(Block &block, llvm::function_ref<void(ReshardOp, Location)> shared) {
  using Key = std::pair<std::pair<Value, Attribute>, Attribute>;
  llvm::DenseMap<Key, RootedReshard> standing;
  SmallVector<ReshardOp> reshards = llvm::to_vector(block.getOps<ReshardOp>());
  for (ReshardOp op : reshards) {
    if (op.getPart() || classifyReshard(op.getInput().getType(), op.getType()).isLocal())
      continue;
    RootedReshard here = findRoot(op);
    auto [it, isNew] =
        standing.try_emplace({{here.root, here.axes.getPlacement()}, op.getScheduleAttr()}, here);
    RootedReshard &first = it->second;
    if (isNew || (first.views.empty() && here.views.empty()))
      continue;
    // As above: users that need no slices accept any.
    if (here.axes != first.axes && (here.axes.hasStream() || !takeSlices(here, first.axes)))
      continue;
    if (!first.views.empty()) {
      OpBuilder builder(first.op);
      auto type = cast<RankedTensorType>(first.root.getType());
      auto root = ReshardOp::create(builder, first.op.getLoc(), withAxes(type, first.axes),
                                    first.root, first.op.getScheduleAttr());
      replaceByViews(first, root.getResult());
      first = {root, first.root, first.axes, {}};
    }
    shared(first.op, op.getLoc());
    replaceByViews(here, first.op.getResult());
  }
}

void fusion::shareReshards(func::FuncOp function,
                           llvm::function_ref<void(ReshardOp, Location)> shared) {
  // Within a block, the first reshard dominates.
  for (Block &block : function.getBody()) {
    using Key = std::pair<std::pair<Value, Attribute>, Attribute>;
    llvm::DenseMap<Key, SmallVector<ReshardOp, 1>> standing;
    for (ReshardOp op : llvm::make_early_inc_range(block.getOps<ReshardOp>())) {
      // Parts of a written-out sequence stay.
      if (op.getPart())
        continue;
      // The schedule is part of the key: reshards with different schedules stay apart.
      Key key = {{op.getInput(), getAxes(op.getType()).getPlacement()}, op.getScheduleAttr()};
      SmallVector<ReshardOp, 1> &known = standing[key];
      ReshardOp other = findShared(known, op);
      if (!other) {
        known.push_back(op);
        continue;
      }
      shared(other, op.getLoc());
      op.getResult().replaceAllUsesWith(other.getResult());
      op.erase();
    }
    shareBehindViews(block, shared);
  }
}
