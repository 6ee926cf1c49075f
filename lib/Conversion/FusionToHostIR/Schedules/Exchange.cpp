//===- Exchange.cpp - own slice first, then one peer after another -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Exchange.h"

#include "../Schedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;

namespace {

/// For gathers whose slices have one owner each, the same for all of them. Own slices first,
/// without communication; then at distance d = 1 ... P-1 this device sends its own slices to (me -
/// d) and receives those of (me + d), and computes on them.
///
/// For a reduction that hands each slice to its owner: see ExchangeReduce.cpp.
///
/// Slices of several owners, and those that add up to copies of one result, where a user has named
/// it: slice by slice in order, each in messages from its owners to those who get it, without a
/// collective.
class Exchange : public Schedule {
  fusion::ScheduleKind getKind() const override { return fusion::ScheduleKind::Exchange; }
  LogicalResult matches(const StreamGroup &group,
                        function_ref<InFlightDiagnostic()> why) const override;
  LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const override;
  ScheduleCost cost(const StreamGroup &group) const override;
  bool addTo(LoopPlan &plan, const StreamGroup &group, const LoopWork &work,
             const CostModel &model) const override;
};

} // namespace

LogicalResult Exchange::matches(const StreamGroup &group,
                                function_ref<InFlightDiagnostic()> why) const {
  if (getScatter(group))
    return checkScatter(group, why);
  for (fusion::ReshardOp reshard : group.reshards()) {
    FailureOr<ReshardPlan> plan = planReshard(reshard, getSymbolicIndex(reshard), nullptr, why);
    if (failed(plan))
      return failure();
    // Among one device there is nothing to exchange: emitted as pipeline does.
    if (plan->reduces() && !plan->movesNothing())
      return why() << "schedule exchange reduces slices that have one owner each, in the loop that "
                      "computes them, found other ones; pipeline reduces all";
  }
  // Nobody has asked for it: then a collective is as good.
  if (!group.scheduleIsNamed && failed(getOwnerPlan(group)))
    return why() << "schedule exchange needs a loop of gathers whose slices have one owner each";
  return success();
}

LogicalResult Exchange::emit(const StreamGroup &group, ProgramBuilder &program) const {
  if (std::optional<ScatteredDigit> scattered = getScatter(group))
    return emitExchangeReduce(group, *scattered, program);
  FailureOr<ReshardPlan> symbolic = getOwnerPlan(group);
  if (failed(symbolic))
    return getPipelineSchedule().emit(group, program);
  OpBuilder &builder = program.getBuilder();
  Location loc = group.ops.front()->getLoc();
  OwnerDigits digits = getOwnerDigits(group, *symbolic);
  int64_t devices = digits.devices;
  int64_t slices = digits.numSlices();

  SmallVector<GatherLoop, 1> gathers;
  for (fusion::ReshardOp reshard : group.reshards())
    gathers.emplace_back(group, reshard);
  LoopEmitter body(group, program);
  if (failed(body.prepare()))
    return failure();
  Value me = program.getGroupPosition(loc, symbolic->mesh, symbolic->axes);

  int64_t streams = program.getNumStreams(group.schedule, devices * slices);
  Value channel;
  if (devices > 1)
    channel = program.getChannel(symbolic->mesh, symbolic->axes, hostir::Capability::TwoSided);

  // Own slices: nothing to wait for.
  auto own = [&](Value number) -> LogicalResult {
    Value stream = program.getStream(loc, number, streams);
    SliceIndex index = digits.getIndex(builder, loc, me, number, /*isFirst=*/true);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
      return GatherLoop::emitOwn(gathers, body, slice, stream);
    });
  };
  auto remote = [&](Value distance) -> LogicalResult {
    Value count = program.getIndex(devices);
    Value from = arith::RemUIOp::create(
        builder, loc, arith::AddIOp::create(builder, loc, me, distance).getResult(), count);
    Value behind = arith::SubIOp::create(builder, loc, count, distance);
    Value to = arith::RemUIOp::create(
        builder, loc, arith::AddIOp::create(builder, loc, me, behind).getResult(), count);
    auto exchange = [&](const SliceIndex &slice, const SliceIndex &mine,
                        Value stream) -> LogicalResult {
      SmallVector<std::pair<Value, Value>> pieces; // what is sent, where it is received
      for (GatherLoop &gather : gathers) {
        FailureOr<ReshardPlan> given = gather.getPlan(mine, builder),
                               taken = gather.getPlan(slice, builder);
        if (failed(given) || failed(taken))
          return failure();
        Value source = program.getBuffer(gather.reshard.getInput());
        Value gathered = program.getBuffer(gather.reshard.getResult());
        Value out = makeView(builder, loc, source, given->source, true);
        pieces.push_back({out, makeView(builder, loc, gathered, taken->target, true)});
      }
      auto together = hostir::GroupOp::create(builder, loc, channel, stream);
      {
        OpBuilder::InsertionGuard guard(builder);
        builder.createBlock(&together.getBody());
        for (auto [out, in] : pieces) {
          hostir::RecvOp::create(builder, loc, in, from);
          hostir::SendOp::create(builder, loc, out, to);
        }
      }
      return body.emitSlices(gathers.front().consumers, slice, stream,
                             /*isStreamUsed=*/true);
    };
    auto step = [&](Value number) -> LogicalResult {
      SliceIndex mine = digits.getIndex(builder, loc, me, number, /*isFirst=*/true);
      SliceIndex theirs = digits.getIndex(builder, loc, from, number, /*isFirst=*/false);
      Value iteration = distance;
      if (slices > 1)
        iteration = arith::AddIOp::create(
            builder, loc,
            arith::MulIOp::create(builder, loc, distance, program.getIndex(slices)).getResult(),
            number);
      Value stream = program.getStream(loc, iteration, streams);
      return body.forEachShape(loc, theirs, [&](const SliceIndex &slice) {
        // Slices of one number are of one shape, whoever owns them.
        for (unsigned digit : group.raggedDigits)
          mine.digits[digit].front().isShort = slice.digits[digit].front().isShort;
        return exchange(slice, mine, stream);
      });
    };
    return program.loop(loc, 0, slices, step);
  };

  LogicalResult done = success();
  program.fork(loc, streams);
  program.onMesh(loc, symbolic->mesh, [&] {
    done = program.loop(loc, 0, slices, own);
    if (succeeded(done))
      done = program.loop(loc, 1, devices, remote);
  });
  program.join(loc, streams);
  return succeeded(done) ? body.finish() : done;
}

ScheduleCost Exchange::cost(const StreamGroup &group) const {
  if (std::optional<ScatteredDigit> scattered = getScatter(group)) {
    ScheduleCost cost;
    int64_t devices = scattered->plan.groupSize(), slices = group.numSlices();
    cost.steps = slices - slices / devices;
    cost.bytesSent = getNumBytes(group.reshards().front().getResult().getType()) * (devices - 1);
    cost.computeOps = slices * static_cast<int64_t>(group.ops.size() - 1) + 1;
    // The last slices hide behind the own ones alone.
    cost.exposedSteps = slices / devices;
    return cost;
  }
  FailureOr<ReshardPlan> plan = getOwnerPlan(group);
  if (failed(plan))
    return getPipelineSchedule().cost(group);
  ScheduleCost cost;
  int64_t devices = plan->groupSize(), slices = group.numSlices();
  for (fusion::ReshardOp reshard : group.reshards())
    cost.bytesSent += getNumBytes(reshard.getInput().getType()) * (devices - 1);
  auto computed = static_cast<int64_t>(group.ops.size() - group.reshards().size());
  cost.steps = slices - slices / devices;
  cost.computeOps = slices * computed;
  // The first arrivals hide behind the own slice.
  cost.exposedSteps = computed > 0 ? 0 : cost.steps;
  return cost;
}

bool Exchange::addTo(LoopPlan &plan, const StreamGroup &group, const LoopWork &work,
                     const CostModel &model) const {
  int64_t streams = group.schedule.getStreams();
  if (getScatter(group)) {
    if (!work.items.back().oneOwner)
      return false;
    model.addExchangeReduce(plan, work, streams);
    return true;
  }
  if (failed(getOwnerPlan(group))) {
    LoopWork messages = work;
    for (LoopItem &item : messages.items)
      item = CostModel::inMessages(item);
    model.addPipeline(plan, messages, streams);
    return true;
  }
  if (work.items.empty() || !work.items.front().oneOwner)
    return false;
  bool gatheredIsRead = llvm::any_of(group.reshards(), [&](fusion::ReshardOp reshard) {
    return GatherLoop(group, reshard).gatheredIsRead;
  });
  model.addExchange(plan, work, streams, gatheredIsRead);
  return true;
}

const Schedule &tandem::getExchangeSchedule() {
  static const Exchange schedule;
  return schedule;
}
