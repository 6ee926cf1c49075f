//===- Exchange.cpp - own slice first, then one peer after another -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/GatherLoop.h"
#include "Support/Messages.h"
#include "Support/Peers.h"
#include "Support/ScatterLoop.h"
#include "Support/SliceFactors.h"

#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;

/// How many workers compute, one slice after another.
static int64_t countStreams(const StreamLoop &loop, const OwnerDigits &digits,
                            ProgramBuilder &program) {
  return program.getNumStreams(loop.schedule.getInteger("streams"),
                               digits.devices * digits.numSlices());
}

/// In step d = 1 ... P-1 device r computes the slices of device r - d, sends them to it, and
/// receives its own slices from device r + d. The local slices are computed last: no device waits
/// for them. An all-to-all is done then. Of a reduction, the receive memory has a slot for each
/// source, and one reduction combines all slots. So each partial sum is rounded once, before it is
/// sent, and not again on its way through other devices. Example with P = 4: in step 1 device 0
/// computes the slice of device 3 and sends it, while it receives its own slice from device 1;
/// devices 2 and 3 follow in steps 2 and 3.
static LogicalResult emitScatter(const ScatterLoop &scatter, ProgramBuilder &program) {
  LoopEmitter body(scatter.loop, program);
  Location loc = scatter.getLoc();
  const OwnerDigits &digits = scatter.digits;
  const fusion::SliceReshard &plan = scatter.scattered.plan;
  Value received = scatter.allocReceived(program, /*symmetric=*/false);
  if (failed(scatter.prepare(body)))
    return failure();
  Peers peers(program, loc, plan.mesh, plan.axes);
  Value channel = program.getChannel(plan.mesh, plan.axes, hostir::Capability::TwoSided);
  int64_t streams = countStreams(scatter.loop, digits, program);
  auto streamOf = [&](Value step) {
    return [&, step](Value number) {
      return program.getStream(loc, digits.getIteration(program, loc, step, number), streams);
    };
  };

  LogicalResult done = program.overlap(loc, streams, plan.mesh, [&] {
    LogicalResult others = program.loop(loc, 1, digits.devices, [&](Value distance) {
      Value step = program.math(loc).sub(distance, 1);
      Value to = peers.getTarget(distance), from = peers.getSource(distance);
      ReceiveSlot slot = scatter.getSlot(program, received, from);
      return scatter.computeFor(body, to, streamOf(step),
                                [&](Value, const SliceIndex &slice, Value stream) {
                                  // Slices of one number lie alike in the pieces of all owners.
                                  Exchanged piece{scatter.getComputed(program, slice),
                                                  scatter.getTarget(program, slot, slice)};
                                  MessageGroup{channel, to, from, stream}.emit(program, loc, piece);
                                  return success();
                                });
    });
    if (failed(others))
      return failure();
    ReceiveSlot slot = scatter.getSlot(program, received, peers.me);
    return scatter.computeOwn(body, peers.me, slot, streamOf(program.getIndex(digits.devices - 1)));
  });
  program.onMesh(loc, plan.mesh, [&] { scatter.finish(program, received); });
  return done;
}

/// Own slices first, without communication. Then in step d = 1 ... P-1 device r sends its own
/// slices to device r - d, receives those of device r + d, and computes on them.
static LogicalResult emitGather(const GatherLoop &gather, ProgramBuilder &program) {
  LoopEmitter body(gather.loop, program);
  if (failed(body.prepare()))
    return failure();
  Location loc = gather.getLoc();
  const OwnerDigits &digits = gather.digits;
  const fusion::SliceReshard &plan = gather.plan;
  Peers peers(program, loc, plan.mesh, plan.axes);
  Value channel;
  if (digits.devices > 1)
    channel = program.getChannel(plan.mesh, plan.axes, hostir::Capability::TwoSided);
  int64_t streams = countStreams(gather.loop, digits, program);
  auto streamOf = [&](Value step) {
    return [&, step](Value number) {
      return program.getStream(loc, digits.getIteration(program, loc, step, number), streams);
    };
  };
  GatherHops hops(gather, body);
  auto exchangeWith = [&](Value distance) {
    Value from = peers.getSource(distance), to = peers.getTarget(distance);
    return gather.computeFrom(
        body, from, streamOf(distance), [&](Value number, const SliceIndex &theirs, Value stream) {
          MessageGroup group{channel, to, from, stream};
          return hops.emitSlice(peers.me, /*isOwn=*/true, number, theirs, group);
        });
  };

  LogicalResult done = program.overlap(loc, streams, plan.mesh, [&] {
    if (failed(gather.computeOwn(body, peers.me, streamOf(program.getIndex(0)))))
      return failure();
    return program.loop(loc, 1, digits.devices, exchangeWith);
  });
  return succeeded(done) ? body.finish() : done;
}

namespace {

/// Pairwise send and receive, for gathers and reductions whose slices have one owner each.
///
/// Also for other data movement (a reshard without slices, slices of several owners, and those that
/// add up to copies of one result): slice by slice in order, each in messages from its owners to
/// the devices that get it, without a collective. It is chosen by price or by annotation.
class Exchange : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    return {"exchange", {{"streams", fusion::ScheduleOption::Kind::Integer}}};
  }
  Explained<SchedulePlan> match(const StreamLoop &loop) const override;
  void getCandidates(const StreamLoop &loop,
                     SmallVectorImpl<Candidate> &candidates) const override {
    fusion::ScheduleAttr schedule = getAttr(loop.op->getContext());
    candidates.push_back({schedule});
    addSliced(loop, schedule, getOwnerFactor, candidates);
  }
  int getFallbackRank(const StreamLoop &loop) const override;
};

} // namespace

Explained<SchedulePlan> Exchange::match(const StreamLoop &loop) const {
  if (ScatterLoop::isScatterLoop(loop)) {
    Explained<ScatterLoop> scatter = ScatterLoop::match(loop);
    if (failed(scatter))
      return scatter.explanation();
    return SchedulePlan{
        [scatter = *scatter](ProgramBuilder &program) { return emitScatter(scatter, program); }};
  }
  Explained<GatherLoop> gather = GatherLoop::match(loop);
  if (succeeded(gather))
    return SchedulePlan{
        [gather = *gather](ProgramBuilder &program) { return emitGather(gather, program); }};
  for (fusion::ReshardOp reshard : loop.reshards()) {
    Explained<fusion::SliceReshard> plan = classifySlices(reshard);
    if (failed(plan))
      return plan.explanation();
    // Among one device there is nothing to exchange: emitted as pipeline does.
    if (plan->reduces() && !plan->movesNothing())
      return loop.explain()
             << "schedule exchange reduces slices that have one owner each, in the loop that "
                "computes them, found other ones; pipeline reduces all";
  }
  return SchedulePlan{[&loop](ProgramBuilder &program) {
    return emitPipeline(loop, program, /*sendsMessages=*/true);
  }};
}

/// How many mesh axes split another dimension afterwards, or none, also those of one device.
static int64_t countMoved(RankedTensorType from, RankedTensorType to) {
  fusion::AxesAttr fromAxes = fusion::getAxes(from), toAxes = fusion::getAxes(to);
  return llvm::count_if(fromAxes.getMesh().getAxes(), [&](const MeshAxis &axis) {
    return fromAxes.dimOfDeviceAxis(axis.name) != toAxes.dimOfDeviceAxis(axis.name);
  });
}

/// Gathers and all-to-alls along one mesh axis: a collective per slice would be a broadcast or a
/// scatter.
int Exchange::getFallbackRank(const StreamLoop &loop) const {
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  bool suits = llvm::all_of(reshards, [](fusion::ReshardOp op) {
    RankedTensorType from = op.getInput().getType(), to = op.getResult().getType();
    fusion::Reshard reshard = fusion::classifyReshard(from, to);
    return (reshard.kind == fusion::ReshardKind::AllGather ||
            reshard.kind == fusion::ReshardKind::AllToAll) &&
           reshard.axes.size() == 1 && succeeded(getCommonOwner(op)) && countMoved(from, to) == 1;
  });
  return suits && !reshards.empty() && succeeded(GatherLoop::match(loop)) ? 1 : -1;
}

std::unique_ptr<Schedule> tandem::createExchangeSchedule() { return std::make_unique<Exchange>(); }
