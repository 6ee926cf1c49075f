//===- RewriteReshards.cpp - reshards as other reshards ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RewriteReshards.h"

#include "ChooseFactors.h"
#include "Retype.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

//===----------------------------------------------------------------------===//
// One reshard per row of the table
//===----------------------------------------------------------------------===//

/// Axes on the way, so that all parts run in one loop if they can: a dimension that is placed as at
/// the end, else as at the begin, has the digits that it has there.
static AxesAttr withSlices(AxesAttr at, AxesAttr from, AxesAttr to) {
  AxesAttr place = at.getPlacement(), first = from.getPlacement(), last = to.getPlacement();
  SmallVector<DimAxesAttr> dims(at.getDims());
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (at.getMesh() == to.getMesh() && place.getDims()[i] == last.getDims()[i])
      dim = to.getDims()[i];
    else if (at.getMesh() == from.getMesh() && place.getDims()[i] == first.getDims()[i])
      dim = from.getDims()[i];
  }
  return at.withDims(dims);
}

Explained<int64_t> fusion::writeOutReshard(ReshardOp op) {
  RankedTensorType from = op.getInput().getType(), to = op.getType();
  Reshard reshard = classifyReshard(from, to);
  if (!reshard.isSupported())
    return explain(op) << op->getName() << " op " << reshard.reason;
  if (reshard.kind != ReshardKind::Sequence)
    return 1;
  OpBuilder builder(op);
  Value value = op.getInput();
  ScheduleAttr schedule = op.getScheduleAttr();
  Location loc = op.getLoc();
  for (auto [number, step] : llvm::enumerate(reshard.steps)) {
    std::string text = std::to_string(number + 1) + " of " + std::to_string(reshard.steps.size()) +
                       ": " + describeReshard(step);
    ReshardOp part = op;
    if (number + 1 == reshard.steps.size())
      op.getInputMutable().assign(value);
    else
      part = ReshardOp::create(builder, loc,
                               withAxes(from, withSlices(step.to, getAxes(from), getAxes(to))),
                               value, schedule);
    part.setPart(true);
    part->setLoc(NameLoc::get(builder.getStringAttr(text), loc));
    // A word on how data moves is no word where none does.
    if (step.isLocal())
      part.removeScheduleAttr();
    value = part.getResult();
  }
  return static_cast<int64_t>(reshard.steps.size());
}

//===----------------------------------------------------------------------===//
// An all-reduce as two reshards
//===----------------------------------------------------------------------===//

/// The types between reduce-scatter and all-gather, one per dimension that can be split.
static SmallVector<RankedTensorType> getScatteredTypes(ReshardOp op, StringAttr axis) {
  RankedTensorType type = op.getType();
  AxesAttr axes = getAxes(type);
  SmallVector<RankedTensorType> types;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t devices = axes.getMesh().axisSize(axis.getValue());
    if (!axes.getDims()[dim].getDigits().empty() || type.getDimSize(dim) == 0 ||
        type.getDimSize(dim) % devices != 0)
      continue;
    SmallVector<DimAxesAttr> dims(axes.getDims());
    dims[dim] = DimAxesAttr::get(op.getContext(), {Digit::device(axis)});
    types.push_back(withAxes(type, axes.withDims(dims)));
  }
  return types;
}

static Value createReshards(OpBuilder &builder, ReshardOp op, Value input,
                            RankedTensorType scattered) {
  auto create = [&](RankedTensorType type, Value value) {
    return ReshardOp::create(builder, op.getLoc(), type, value, ScheduleAttr());
  };
  return create(op.getType(), scattered ? create(scattered, input) : input);
}

/// Seconds of the producer, the reduction, and the all-gather if any.
static FailureOr<double> price(ReshardOp op, RankedTensorType scattered, Pricer &pricer) {
  Operation *producer = op.getInput().getDefiningOp();
  SmallVector<Type> inputs{op.getInput().getType()};
  if (producer)
    inputs.assign(producer->operand_type_begin(), producer->operand_type_end());
  OpBuilder builder(op.getContext());
  OwningOpRef<func::FuncOp> func(func::FuncOp::create(
      builder, op.getLoc(), "candidate", builder.getFunctionType(inputs, op.getType())));
  Block *body = func->addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value terms = body->getArguments().front();
  if (producer) {
    IRMapping operands;
    operands.map(producer->getOperands(), body->getArguments());
    terms = builder.clone(*producer, operands)->getResult(0);
  }
  func::ReturnOp::create(builder, op.getLoc(), createReshards(builder, op, terms, scattered));
  return pricer.price(*func, Pricer::From::FormLoops);
}

/// The type in between with the least price; null if none is worth it.
static RankedTensorType getCheapest(ReshardOp op, ArrayRef<RankedTensorType> types,
                                    Pricer &pricer) {
  FailureOr<double> whole = price(op, {}, pricer);
  if (failed(whole))
    return {};
  const program::Margins &margins = pricer.getMargins();
  double least = std::min((1 - margins.gain) * *whole, *whole - margins.secondsOfSplit);
  RankedTensorType best;
  for (RankedTensorType scattered : types)
    if (FailureOr<double> seconds = price(op, scattered, pricer);
        succeeded(seconds) && *seconds < least) {
      least = *seconds;
      best = scattered;
    }
  return best;
}

bool fusion::splitAllReduce(ReshardOp op, Pricer *pricer) {
  RankedTensorType from = op.getInput().getType(), to = op.getType();
  Reshard reshard = classifyReshard(from, to);
  Operation *producer = op.getInput().getDefiningOp();
  if (reshard.kind != ReshardKind::AllReduce || reshard.axes.size() != 1 || op.getScheduleAttr() ||
      getAxes(from).hasStream() || getAxes(to).hasStream() ||
      (producer && (producer->getNumResults() != 1 || producer->getNumOperands() == 0 ||
                    !isMemoryEffectFree(producer))))
    return false;
  // Of what any order of addition leaves as it is, the library's all-reduce is the best.
  bool isRounded =
      isa<FloatType>(to.getElementType()) && getAxes(from).getPartialKind() == ReduceKind::Sum;
  if (!pricer && !isRounded)
    return false;
  SmallVector<RankedTensorType> types = getScatteredTypes(op, reshard.axes.front());
  if (types.empty())
    return false;
  RankedTensorType best = pricer ? getCheapest(op, types, *pricer) : types.front();
  if (!best)
    return false;
  OpBuilder builder(op);
  op.replaceAllUsesWith(createReshards(builder, op, op.getInput(), best));
  op.erase();
  return true;
}

//===----------------------------------------------------------------------===//
// One reshard for all users of the same pieces
//===----------------------------------------------------------------------===//

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
    if (op.getPart() || classifyReshard(op).isLocal())
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
      // The schedule is part of the key: reshards with different schedules are not merged.
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
