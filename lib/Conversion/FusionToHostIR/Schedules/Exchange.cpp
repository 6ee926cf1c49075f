//===- Exchange.cpp - own slice first, then one peer after another -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/OwnerSlices.h"
#include "Support/Peers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// At distance d = 1 ... P-1 a device computes the slices of the peer at that
/// distance, sends them to it and receives its own from the peer at the same
/// distance on the other side; last, the own ones, for which nobody waits. What
/// comes from one device has a slot of its own, and one reduction combines them
/// all: no partial sum is rounded on its way through other devices.
static LogicalResult emitExchangeReduce(const StreamGroup &group, const ScatteredDigit &scattered,
                                        ProgramBuilder &program) {
  ScatterLoop scatter(group, scattered);
  LoopEmitter body(group, program);
  OpBuilder &builder = program.getBuilder();
  Location loc = scatter.scatter.getLoc();
  const OwnerDigits &digits = scatter.digits;
  int64_t devices = digits.devices, slices = digits.numSlices();
  auto type = MemRefType::get(scatter.getReceivedShape(),
                              scatter.scatter.getResult().getType().getElementType());
  Value received = hostir::AllocOp::create(builder, loc, type, program.getMainStream(),
                                           IntegerAttr(), IntegerAttr());
  if (failed(scatter.prepare(body)))
    return failure();
  const ReshardPlan &plan = scattered.plan;
  Value me = program.getGroupPosition(loc, plan.mesh, plan.axes);
  Value channel = program.getChannel(plan.mesh, plan.axes, hostir::Capability::TwoSided);
  Peers peers(program, loc, me, devices, PeerOrder::Rotated);
  int64_t streams = program.getNumStreams(group.schedule, devices * slices);

  // The slices for the device at `distance`, or the own ones if it is null.
  auto compute = [&](Value distance, Value step) -> LogicalResult {
    Value owner = distance ? peers.getTarget(distance) : me;
    Value from = distance ? peers.getSource(distance) : me;
    Value place = scatter.getPlace(program, received, from);
    return program.loop(loc, 0, slices, [&](Value number) {
      Value iteration = number;
      if (devices > 1) {
        Value before = arith::MulIOp::create(builder, loc, step, program.getIndex(slices));
        iteration = arith::AddIOp::create(builder, loc, before, number);
      }
      Value stream = program.getStream(loc, iteration, streams);
      SliceIndex index = digits.getIndex(builder, loc, owner, number, /*isFirst=*/false);
      return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
        if (!distance)
          return scatter.emitOwn(body, place, slice, stream);
        if (failed(scatter.emitProducers(body, slice, stream)))
          return failure();
        // Slices of one number lie alike in the pieces of all owners.
        Value out = scatter.getComputed(program, slice);
        Value in = scatter.getTarget(program, place, slice);
        auto together = hostir::GroupOp::create(builder, loc, channel, stream);
        OpBuilder::InsertionGuard guard(builder);
        builder.createBlock(&together.getBody());
        hostir::RecvOp::create(builder, loc, in, from);
        hostir::SendOp::create(builder, loc, out, owner);
        return success();
      });
    });
  };

  LogicalResult done = success();
  program.fork(loc, streams);
  program.onMesh(loc, plan.mesh, [&] {
    done = program.loop(loc, 1, devices, [&](Value distance) {
      Value step = arith::SubIOp::create(builder, loc, distance, program.getIndex(1));
      return compute(distance, step);
    });
    if (succeeded(done))
      done = compute({}, program.getIndex(devices - 1));
  });
  program.join(loc, streams);
  program.onMesh(loc, plan.mesh, [&] { scatter.reduce(program, received); });
  return done;
}

//===----------------------------------------------------------------------===//
// Gathers, and the schedule
//===----------------------------------------------------------------------===//

namespace {

/// For gathers whose slices have one owner each, the same for all of them. Own
/// slices first, without communication; then at distance d = 1 ... P-1 this
/// device sends its own slices to (me - d) and receives those of (me + d), and
/// computes on them.
///
/// For a reduction that hands each slice to its owner: see emitExchangeReduce.
///
/// Slices of several owners, and those that add up to copies of one result,
/// where a user has named it: slice by slice in order, each in messages from
/// its owners to those who get it, without a collective.
class Exchange : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    return {"exchange", {{"streams", fusion::ScheduleOption::Kind::Integer}}};
  }
  LogicalResult matches(const StreamGroup &group,
                        function_ref<InFlightDiagnostic()> why) const override;
  LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const override;
  void getCandidates(const StreamGroup &group,
                     SmallVectorImpl<fusion::ScheduleAttr> &candidates) const override {
    if (!group.streamSizes.empty())
      candidates.push_back(getAttr(group.place->getContext()));
  }
  int getFallbackRank(const StreamGroup &group) const override;
};

} // namespace

LogicalResult Exchange::matches(const StreamGroup &group,
                                function_ref<InFlightDiagnostic()> why) const {
  if (getScatter(group))
    return checkScatter(group, why);
  // A collective is as good, unless messages are asked for.
  if (std::string reason; !group.scheduleIsNamed && failed(getOwnerPlan(group, &reason)))
    return why() << "schedule exchange " << reason;
  for (fusion::ReshardOp reshard : group.reshards()) {
    FailureOr<ReshardPlan> plan = planReshard(reshard, getSymbolicIndex(reshard), nullptr, why);
    if (failed(plan))
      return failure();
    // Among one device there is nothing to exchange: emitted as pipeline does.
    if (plan->reduces() && !plan->movesNothing())
      return why() << "schedule exchange reduces slices that have one owner "
                      "each, in the loop that "
                      "computes them, found other ones; pipeline reduces all";
  }
  return success();
}

LogicalResult Exchange::emit(const StreamGroup &group, ProgramBuilder &program) const {
  if (std::optional<ScatteredDigit> scattered = getScatter(group))
    return emitExchangeReduce(group, *scattered, program);
  FailureOr<ReshardPlan> symbolic = getOwnerPlan(group);
  if (failed(symbolic))
    return emitPipeline(group, program, /*sendsMessages=*/true);
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

/// Mesh axes that split another dimension afterwards, or none, also those of
/// one device.
static int64_t countMoved(RankedTensorType from, RankedTensorType to) {
  fusion::AxesAttr fromAxes = fusion::getAxes(from), toAxes = fusion::getAxes(to);
  return llvm::count_if(fromAxes.getMesh().getAxes(), [&](const MeshAxis &axis) {
    return fromAxes.dimOfDeviceAxis(axis.name) != toAxes.dimOfDeviceAxis(axis.name);
  });
}

/// Gathers along one mesh axis: a collective per slice would be a broadcast.
int Exchange::getFallbackRank(const StreamGroup &group) const {
  SmallVector<fusion::ReshardOp> reshards = group.reshards();
  bool suits = llvm::all_of(reshards, [](fusion::ReshardOp op) {
    RankedTensorType from = op.getInput().getType(), to = op.getResult().getType();
    fusion::Reshard reshard = fusion::classifyReshard(from, to);
    return reshard.kind == fusion::ReshardKind::AllGather && reshard.axes.size() == 1 &&
           fusion::slicesHaveOneOwner(from, to) && countMoved(from, to) == 1;
  });
  return suits && !reshards.empty() ? 1 : -1;
}

std::unique_ptr<Schedule> tandem::createExchangeSchedule() { return std::make_unique<Exchange>(); }
