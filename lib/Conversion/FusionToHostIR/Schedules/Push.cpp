//===- Push.cpp - one-sided copies to peers, computing on what has arrived -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Push.h"

#include "../Schedule.h"

#include "tandem/Support/SilenceDiagnostics.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem;

namespace {

/// For a gather whose slices have one owner each, and for a reduction whose slices have: one-sided
/// copies by one stream, a signal behind each, and no barrier (docs/schedules.md).
class Push : public Schedule {
  fusion::ScheduleKind getKind() const override { return fusion::ScheduleKind::Push; }
  LogicalResult matches(const StreamGroup &group,
                        function_ref<InFlightDiagnostic()> why) const override;
  LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const override;
  void getCandidates(const StreamGroup &group,
                     SmallVectorImpl<fusion::ScheduleAttr> &candidates) const override;
  bool isOneSided(const StreamGroup &group) const override;
};

} // namespace

/// Whether none of the reshards moves anything.
static bool movesNothing(const StreamGroup &group) {
  return llvm::all_of(group.reshards(), [&](fusion::ReshardOp reshard) {
    SilenceDiagnostics silence(reshard.getContext());
    FailureOr<ReshardPlan> plan = planReshard(reshard, getSymbolicIndex(reshard), nullptr,
                                              [&] { return reshard.emitError(); });
    return succeeded(plan) && plan->movesNothing();
  });
}

/// Whether the schedule's options fit the plan's devices, which own `slices` slices each.
static LogicalResult checkOptions(const StreamGroup &group, const ReshardPlan &plan, int64_t slices,
                                  bool reduces, function_ref<InFlightDiagnostic()> why) {
  fusion::ScheduleAttr schedule = group.schedule;
  int64_t devices = plan.groupSize();
  bool isXor = schedule.getOrder() == fusion::PeerOrder::Xor;
  if (isXor && !llvm::isPowerOf2_64(devices))
    return why() << "schedule push, order xor: expected a number of devices that is a power of 2, "
                    "found "
                 << devices << "; order rotated takes any";
  ArrayRef<int64_t> merge = schedule.getMerge();
  if (merge.empty())
    return success();
  int64_t sum = std::accumulate(merge.begin(), merge.end(), int64_t(0));
  if (sum != devices)
    return why() << "schedule push: expected 'merge' to sum to the " << devices
                 << " devices, the own one among them, found " << sum;
  if (plan.axes.size() != 1)
    return why() << "schedule push: 'merge' takes slices of devices along one mesh axis, found "
                 << plan.axes.size();
  if (slices != 1)
    return why() << "schedule push: expected one slice a device beside 'merge', found " << slices;
  if (!group.digitMaps.empty())
    return why()
           << "schedule push: 'merge' takes slices of one stream digit, found an op of the loop "
              "whose result has others";
  auto batches = reduces ? PushLoop::getReduceBatches(schedule, devices)
                         : PushLoop::getGatherBatches(schedule, devices);
  for (const PushLoop::Batch &batch : batches)
    if (!Peers::areNeighbours(schedule.getOrder(), batch.first, batch.count))
      return why()
             << "schedule push, order xor: expected each number of 'merge' to be a power of 2 "
                "that divides the number of devices "
             << (reduces ? "behind" : "before") << " it, found " << batch.count << " with "
             << batch.first;
  if (reduces || llvm::all_of(merge, [](int64_t count) { return count == 1; }) ||
      (isXor && merge.size() == 1))
    return success();
  // Devices merge different rows, and a library may add in another order where a matmul has more
  // of them. So copies of its result would not be bit-identical.
  StringAttr axis = plan.axes.front();
  for (Operation *op : group.ops) {
    if (!isa<fusion::MatmulOp>(op))
      continue;
    fusion::AxesAttr axes = fusion::getAxes(op->getResult(0).getType());
    if (axes && axes.dimOfDeviceAxis(axis) < 0 && !llvm::is_contained(axes.getPartial(), axis))
      return why() << "schedule push: 'merge' takes matmuls whose results differ between the "
                      "devices along "
                   << axis
                   << ", found a result that is replicated there, whose copies could differ "
                   << "in rounding";
  }
  return success();
}

LogicalResult Push::matches(const StreamGroup &group,
                            function_ref<InFlightDiagnostic()> why) const {
  if (movesNothing(group))
    return getPipelineSchedule().matches(group, why);
  if (size_t count = group.reshards().size(); count != 1)
    return why() << "schedule push takes one reshard in a loop, found " << count;
  if (std::optional<ScatteredDigit> scattered = getScatter(group)) {
    if (failed(checkScatter(group, why)))
      return failure();
    int64_t devices = scattered->plan.groupSize();
    OwnerDigits digits = getOwnerDigits(group, scattered->streamDigit, devices);
    return checkOptions(group, scattered->plan, digits.numSlices(), /*reduces=*/true, why);
  }
  std::string reason;
  FailureOr<ReshardPlan> plan = getOwnerPlan(group, &reason);
  if (failed(plan))
    return why() << "schedule push " << reason;
  return checkOptions(group, *plan, getOwnerDigits(group, *plan).numSlices(), /*reduces=*/false,
                      why);
}

LogicalResult Push::emit(const StreamGroup &group, ProgramBuilder &program) const {
  if (movesNothing(group))
    return getExchangeSchedule().emit(group, program);
  if (std::optional<ScatteredDigit> scattered = getScatter(group))
    return emitPushReduce(group, *scattered, program);
  FailureOr<ReshardPlan> plan = getOwnerPlan(group);
  return succeeded(plan) ? emitPushGather(group, *plan, program) : failure();
}

bool Push::isOneSided(const StreamGroup &group) const { return !movesNothing(group); }

void Push::getCandidates(const StreamGroup &group,
                         SmallVectorImpl<fusion::ScheduleAttr> &candidates) const {
  if (group.streamSizes.empty() || group.reshards().empty())
    return;
  auto add = [&](int64_t streams, fusion::PeerOrder order, ArrayRef<int64_t> merge) {
    candidates.push_back(fusion::ScheduleAttr::get(group.place->getContext(), getKind(), 1, streams,
                                                   "", order, merge));
  };
  add(0, fusion::PeerOrder::Rotated, {});
  add(2, fusion::PeerOrder::Rotated, {});
  // Few at first (of a reduction: at last), then as many as there have been.
  int64_t devices = group.numSlices();
  if (!llvm::isPowerOf2_64(devices) || devices < 4)
    return;
  SmallVector<int64_t> merge{1};
  for (int64_t count = 1; count < devices; count *= 2)
    merge.push_back(count);
  if (getScatter(group))
    std::reverse(merge.begin(), merge.end());
  add(0, fusion::PeerOrder::Xor, merge);
  add(2, fusion::PeerOrder::Xor, merge);
}

const Schedule &tandem::getPushSchedule() {
  static const Push schedule;
  return schedule;
}
