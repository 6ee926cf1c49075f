//===- LoopCosts.cpp - what stream loops would take on a machine -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopCosts.h"

#include "Schedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Whether a kernel computes the op: an elementwise one, and not a constant, which is a part of the
/// kernels that use it.
static bool isOfKernel(Operation *op) {
  return fusion::isLocalComputation(op) && !isa<fusion::FusionTensorOpInterface>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>();
}

/// Whether the op's result stays inside the kernel of its consumers.
static bool isInner(Operation *op, const StreamGroup &group) {
  if (!isOfKernel(op) || op->use_empty())
    return false;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    // Ops that are not streamed stand alone in their groups, and feed each other all the same.
    bool together = group.streamSizes.empty() || llvm::is_contained(group.ops, user);
    if (!together || !isOfKernel(user))
      return false;
    auto result = cast<RankedTensorType>(user->getResult(0).getType());
    return result.getShape() == type.getShape() && fusion::getAxes(result) == fusion::getAxes(type);
  });
}

/// Bytes that an elementwise op reads, with what it takes over from those inside its kernel.
static double getBytesRead(Operation *op, const StreamGroup &group) {
  double bytes = 0;
  llvm::SmallPtrSet<Value, 8> seen;
  SmallVector<Operation *> inside{op};
  while (!inside.empty()) {
    for (Value operand : inside.pop_back_val()->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!type || !seen.insert(operand).second ||
          (producer && producer->hasTrait<OpTrait::ConstantLike>()))
        continue;
      if (producer && isInner(producer, group))
        inside.push_back(producer);
      else
        bytes += getLocalBytes(type);
    }
  }
  return bytes;
}

static LoopItem getReshardItem(fusion::ReshardOp op, const StreamGroup &group,
                               const CostModel &model) {
  ScopedDiagnosticHandler quiet(op.getContext(), [](Diagnostic &) { return success(); });
  FailureOr<ReshardPlan> plan =
      planReshard(op, getSymbolicIndex(op), nullptr, [&] { return op.emitError(); });
  bool oneOwner =
      group.accumulators.contains(op) || (succeeded(plan) && plan->kind == ReshardKind::OwnerMoves);
  LoopItem item =
      model.getReshard(op.getInput().getType(), op.getType(), group.numSlices(), oneOwner);
  // Where no collective moves a slice, messages between pairs of devices do.
  bool isTransfer = succeeded(plan) && plan->kind == ReshardKind::Transfer && !plan->staysLocal;
  return isTransfer ? CostModel::inMessages(item) : item;
}

/// How often an iteration runs an op whose result has more stream digits than the loop.
static uint32_t getNumRepeats(Operation *op, const StreamGroup &group) {
  if (!group.digitMaps.contains(op))
    return 1;
  FailureOr<int64_t> slices =
      fusion::getNumSlices(cast<RankedTensorType>(op->getResult(0).getType()));
  int64_t inLoop = group.numSlices();
  return succeeded(slices) && *slices > inLoop ? static_cast<uint32_t>(*slices / inLoop) : 1;
}

std::optional<LoopItem> LoopCosts::getItem(Operation *op, const StreamGroup &group) const {
  int64_t slices = group.numSlices();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (auto reshard = dyn_cast<fusion::ReshardOp>(op))
    return getReshardItem(reshard, group, model);
  std::optional<LoopItem> item;
  uint32_t repeat = getNumRepeats(op, group);
  if (isOfKernel(op)) {
    if (isInner(op, group))
      return std::nullopt;
    double bytes = getBytesRead(op, group) + getLocalBytes(type);
    item = model.getElementwise(bytes / static_cast<double>(slices * repeat));
  } else {
    SmallVector<RankedTensorType> operands;
    for (Type operand : op->getOperandTypes())
      operands.push_back(cast<RankedTensorType>(operand));
    std::optional<unsigned> accumulated;
    if (auto found = group.accumulators.find(op); found != group.accumulators.end())
      accumulated = found->second;
    item = model.getCompute(op, operands, type, slices * repeat, accumulated);
  }
  if (item)
    item->repeat *= repeat;
  return item;
}

LoopWork LoopCosts::getWork(const StreamGroup &group) const {
  LoopWork work;
  work.slices = group.numSlices();
  for (Operation *op : group.ops)
    if (std::optional<LoopItem> item = getItem(op, group))
      work.items.push_back(*item);
  return work;
}

/// Appends a group by a schedule; false if it cannot run it or has no model.
static bool addTo(LoopPlan &plan, StreamGroup group, fusion::ScheduleAttr attr,
                  const LoopWork &work, const CostModel &model) {
  const Schedule *schedule = getSchedule(attr.getKind());
  if (!schedule)
    return false;
  group.schedule = attr;
  ScopedDiagnosticHandler quiet(attr.getContext(), [](Diagnostic &) { return success(); });
  if (failed(schedule->matches(group, [&] { return group.ops.front()->emitError(); })))
    return false;
  return schedule->addTo(plan, group, work, model);
}

/// The schedules worth a look, the fallback first.
static SmallVector<fusion::ScheduleAttr> getCandidates(const StreamGroup &group) {
  MLIRContext *context = group.ops.front()->getContext();
  auto plain = [&](fusion::ScheduleKind kind) { return fusion::ScheduleAttr::get(context, kind); };
  SmallVector<fusion::ScheduleAttr> candidates{plain(fusion::ScheduleKind::Pipeline)};
  if (group.reshards().size() != 1 || group.streamSizes.empty())
    return candidates;
  candidates.push_back(plain(fusion::ScheduleKind::Exchange));
  candidates.push_back(plain(fusion::ScheduleKind::Push));
  auto push = [&](int64_t streams, fusion::PeerOrder order, ArrayRef<int64_t> merge) {
    candidates.push_back(fusion::ScheduleAttr::get(context, fusion::ScheduleKind::Push, 1, streams,
                                                   "", order, merge));
  };
  push(2, fusion::PeerOrder::Rotated, {});
  // Few at first (of a reduction: at last), then as many as there have been.
  int64_t devices = group.numSlices();
  bool reduces = group.accumulators.contains(group.reshards().front());
  if (!llvm::isPowerOf2_64(devices) || devices < 4)
    return candidates;
  SmallVector<int64_t> merge{1};
  for (int64_t count = 1; count < devices; count *= 2)
    merge.push_back(count);
  if (reduces)
    std::reverse(merge.begin(), merge.end());
  push(0, fusion::PeerOrder::Xor, merge);
  push(2, fusion::PeerOrder::Xor, merge);
  return candidates;
}

SmallVector<PricedSchedule> LoopCosts::getSchedules(const StreamGroup &group) const {
  LoopWork work = getWork(group);
  SmallVector<PricedSchedule> priced;
  for (fusion::ScheduleAttr schedule : group.scheduleIsNamed
                                           ? SmallVector<fusion::ScheduleAttr>{group.schedule}
                                           : getCandidates(group)) {
    LoopPlan plan = model.startPlan();
    if (addTo(plan, group, schedule, work, model))
      priced.push_back({schedule, model.predict(plan)});
  }
  return priced;
}

PricedSchedule LoopCosts::choose(ArrayRef<PricedSchedule> schedules) {
  PricedSchedule best = schedules.front();
  for (const PricedSchedule &other : schedules)
    if (other.seconds < best.seconds &&
        other.seconds < (1 - CostModel::kLeastGain) * schedules.front().seconds)
      best = other;
  return best;
}

/// A constant that is no part of a kernel is written by one of its own.
static void addConstants(LoopPlan &plan, func::FuncOp func, const CostModel &model) {
  LoopWork work;
  for (auto constant : func.getBody().front().getOps<arith::ConstantOp>())
    if (llvm::any_of(constant->getUsers(),
                     [](Operation *user) { return !user->hasTrait<OpTrait::Elementwise>(); }))
      if (auto type = dyn_cast<RankedTensorType>(constant.getType()))
        work.items.push_back(model.getElementwise(getLocalBytes(type)));
  model.addPipeline(plan, work, 0);
}

FailureOr<double> LoopCosts::getSeconds(func::FuncOp func) const {
  FailureOr<SmallVector<StreamGroup>> groups = getStreamGroups(func);
  if (failed(groups))
    return failure();
  LoopPlan plan = model.startPlan();
  addConstants(plan, func, model);
  for (const StreamGroup &group : *groups) {
    SmallVector<PricedSchedule> schedules = getSchedules(group);
    if (schedules.empty() || !addTo(plan, group, choose(schedules).schedule, getWork(group), model))
      return failure();
  }
  return model.predict(plan);
}
