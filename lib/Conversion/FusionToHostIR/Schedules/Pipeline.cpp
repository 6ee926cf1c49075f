//===- Pipeline.cpp - collective, then compute, slice by slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

namespace {

/// Per slice: each op of the group in order on the iteration's stream, reshards as collectives. A
/// group that is not streamed has one slice, on the main stream: the plain sequence. Always matches
/// where its reshards can be lowered.
class Pipeline : public Schedule {
  fusion::ScheduleKind getKind() const override { return fusion::ScheduleKind::Pipeline; }

  LogicalResult matches(const StreamGroup &group,
                        function_ref<InFlightDiagnostic()> why) const override {
    for (fusion::ReshardOp reshard : group.reshards())
      if (failed(planReshard(reshard, getSymbolicIndex(reshard), nullptr, why)))
        return failure();
    return success();
  }

  LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const override {
    LoopEmitter body(group, program);
    if (group.streamSizes.empty()) {
      for (Operation *op : group.ops)
        if (failed(body.prepare(op)) ||
            failed(body.emitSlice(op, nullptr, program.getMainStream())))
          return failure();
      return success();
    }
    Location loc = group.ops.front()->getLoc();
    if (failed(body.prepare()))
      return failure();
    int64_t slices = group.numSlices();
    int64_t streams = program.getNumStreams(group.schedule, slices);
    program.fork(loc, streams);
    auto iteration = [&](Value i) -> LogicalResult {
      Value stream = program.getStream(loc, i, streams);
      SliceIndex index = getSliceIndex(program.getBuilder(), loc, group.streamSizes, i);
      return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
        return body.emitSlices(group.ops, slice, stream, /*isStreamUsed=*/false);
      });
    };
    if (failed(program.loop(loc, 0, slices, iteration)))
      return failure();
    program.join(loc, streams);
    return body.finish();
  }

  bool addTo(LoopPlan &plan, const StreamGroup &group, const LoopWork &work,
             const CostModel &model) const override {
    model.addPipeline(plan, work, group.schedule.getStreams());
    return true;
  }

  ScheduleCost cost(const StreamGroup &group) const override {
    ScheduleCost cost;
    int64_t slices = group.numSlices();
    for (Operation *op : group.ops) {
      auto reshard = dyn_cast<fusion::ReshardOp>(op);
      if (!reshard) {
        cost.computeOps += slices;
        continue;
      }
      auto plan = planReshard(reshard, getSymbolicIndex(reshard), nullptr,
                              [&] { return reshard.emitError(); });
      if (failed(plan) || plan->kind == ReshardKind::Copy)
        continue;
      cost.steps += slices;
      cost.exposedSteps += 1;
      // A ring moves (P-1)/P of the gathered (or scattered) bytes over each link, an all-reduce
      // twice that.
      int64_t bytes =
          getNumBytes(plan->kind == ReshardKind::ReduceScatter ? reshard.getInput().getType()
                                                               : reshard.getResult().getType());
      int64_t group = plan->groupSize();
      cost.bytesSent +=
          bytes / group * (group - 1) * (plan->kind == ReshardKind::AllReduce ? 2 : 1);
    }
    return cost;
  }
};

} // namespace

const Schedule &tandem::getPipelineSchedule() {
  static const Pipeline schedule;
  return schedule;
}
