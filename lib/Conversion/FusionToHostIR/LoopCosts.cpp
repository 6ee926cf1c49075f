//===- LoopCosts.cpp - what stream loops would take on a machine -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopCosts.h"

#include "Schedule.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tandem;

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

LoopWork LoopCosts::getWork(const StreamGroup &group) const {
  LoopWork work;
  work.slices = group.numSlices();
  for (Operation *op : group.ops) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    std::optional<LoopItem> item;
    if (auto reshard = dyn_cast<fusion::ReshardOp>(op)) {
      item = model.getReshard(reshard.getInput().getType(), type, work.slices,
                              group.accumulators.contains(op));
    } else if (isOfKernel(op)) {
      if (isInner(op, group))
        continue;
      item = model.getElementwise((getBytesRead(op, group) + getLocalBytes(type)) /
                                  static_cast<double>(work.slices));
    } else {
      SmallVector<RankedTensorType> operands;
      for (Type operand : op->getOperandTypes())
        operands.push_back(cast<RankedTensorType>(operand));
      std::optional<unsigned> accumulated;
      if (auto found = group.accumulators.find(op); found != group.accumulators.end())
        accumulated = found->second;
      item = model.getCompute(op, operands, type, work.slices, accumulated);
    }
    if (item)
      work.items.push_back(*item);
  }
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

FailureOr<double> LoopCosts::getSeconds(func::FuncOp func) const {
  FailureOr<SmallVector<StreamGroup>> groups = getStreamGroups(func);
  if (failed(groups))
    return failure();
  LoopPlan plan = model.startPlan();
  for (const StreamGroup &group : *groups) {
    SmallVector<PricedSchedule> schedules = getSchedules(group);
    if (schedules.empty() || !addTo(plan, group, choose(schedules).schedule, getWork(group), model))
      return failure();
  }
  return model.predict(plan);
}
