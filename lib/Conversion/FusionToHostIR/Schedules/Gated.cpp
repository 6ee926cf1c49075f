//===- Gated.cpp - one-sided puts, one matmul whose kernel waits for them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/GatherLoop.h"
#include "Support/OneSided.h"
#include "Support/Peers.h"
#include "Support/SliceFactors.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

/// SMs that the kernel leaves to others: a signal needs one, and clusters of thread blocks take two
/// at a time.
static constexpr int64_t kLeft = 2;

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

namespace {

/// Own rows go to the peers and into the own receive memory, which thus becomes the whole left
/// operand of each matmul: own rows first, then those of the others as they arrive.
class GatedGather {
public:
  GatedGather(const GatherLoop &gather, ProgramBuilder &program)
      : gather(gather), reshard(gather.gathers.front()), body(gather.loop, program),
        program(program), builder(program.getBuilder()), loc(gather.getLoc()),
        me(program.getGroupPosition(loc, gather.plan.mesh, gather.plan.axes)),
        peers(program, loc, me, gather.digits.devices, PeerOrder::Rotated),
        puts(program, loc, gather.plan.mesh, gather.plan.axes, me, gather.digits.devices) {}

  LogicalResult emit();

private:
  using SliceBody = function_ref<LogicalResult(Value number, const SliceIndex &slice)>;
  LogicalResult forEachSlice(Value owner, bool isOwn, SliceBody emitSlice);
  LogicalResult pushOwn();
  LogicalResult copyOwn();
  LogicalResult multiply(Operation *matmul);
  LogicalResult copyToResult();

  const GatherLoop &gather;
  fusion::ReshardOp reshard;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  Value me;
  Peers peers;
  OneSided puts;
  Value received; ///< all rows; peers write here
};

} // namespace

LogicalResult GatedGather::forEachSlice(Value owner, bool isOwn, SliceBody emitSlice) {
  return program.loop(loc, 0, gather.digits.numSlices(), [&](Value number) {
    SliceIndex index = gather.digits.getIndex(builder, loc, owner, number, /*isFirst=*/isOwn);
    return body.forEachShape(loc, index,
                             [&](const SliceIndex &slice) { return emitSlice(number, slice); });
  });
}

LogicalResult GatedGather::pushOwn() {
  Value copies = hostir::WorkerStreamOp::create(builder, loc, program.getIndex(0));
  return program.loop(loc, 1, gather.digits.devices, [&](Value distance) {
    Value peer = peers.getTarget(distance);
    return forEachSlice(me, /*isOwn=*/true, [&](Value number, const SliceIndex &slice) {
      FailureOr<ReshardPlan> plan = GatherLoop::getSlice(reshard, slice, peer, builder);
      if (failed(plan))
        return failure();
      Value source = program.getBuffer(reshard.getInput());
      puts.put(makeView(builder, loc, source, plan->source, true),
               makeView(builder, loc, received, plan->target, true), peer, copies);
      puts.signal(peer, number, copies);
      return success();
    });
  });
}

LogicalResult GatedGather::copyOwn() {
  return forEachSlice(me, /*isOwn=*/true, [&](Value, const SliceIndex &slice) {
    FailureOr<ReshardPlan> plan = GatherLoop::getSlice(reshard, slice, me, builder);
    if (failed(plan))
      return failure();
    Value source = program.getBuffer(reshard.getInput());
    hostir::CopyOp::create(builder, loc, makeView(builder, loc, source, plan->source, true),
                           makeView(builder, loc, received, plan->target, true),
                           program.getMainStream());
    return success();
  });
}

LogicalResult GatedGather::multiply(Operation *matmul) {
  Value main = program.getMainStream();
  auto gated = hostir::GatedMatmulOp::create(builder, loc, main, builder.getI64IntegerAttr(kLeft));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&gated.getBody());
  auto multiplyRows = [&](const SliceIndex &slice) {
    FailureOr<ReshardPlan> plan = GatherLoop::getSlice(reshard, slice, Value(), builder);
    if (failed(plan))
      return failure();
    body.readFrom(reshard.getResult(), {received, plan->target});
    LogicalResult done = body.emitSlices({matmul}, slice, main, /*isStreamUsed=*/true);
    body.clearPlaces();
    return done;
  };
  if (failed(forEachSlice(me, /*isOwn=*/true,
                          [&](Value, const SliceIndex &slice) { return multiplyRows(slice); })))
    return failure();
  return program.loop(loc, 1, gather.digits.devices, [&](Value distance) {
    Value from = peers.getSource(distance);
    return forEachSlice(from, /*isOwn=*/false, [&](Value number, const SliceIndex &slice) {
      puts.waitFor(from, number, main);
      return multiplyRows(slice);
    });
  });
}

/// Of a gathered value that the program returns.
LogicalResult GatedGather::copyToResult() {
  Value result = program.getBuffer(reshard.getResult());
  if (result == received)
    return success();
  return program.loop(loc, 0, gather.digits.devices, [&](Value owner) {
    return forEachSlice(owner, /*isOwn=*/false, [&](Value, const SliceIndex &slice) {
      return gather.copyReceived(body, received, slice, program.getMainStream());
    });
  });
}

LogicalResult GatedGather::emit() {
  received = gather.allocReceived(program).front();
  if (failed(body.prepare()))
    return failure();
  program.fork(loc, 1);
  LogicalResult done = success();
  program.onMesh(loc, gather.plan.mesh, [&] {
    done = pushOwn();
    if (succeeded(done))
      done = copyOwn();
    for (Operation *matmul : gather.consumers)
      if (succeeded(done))
        done = multiply(matmul);
    if (succeeded(done))
      done = copyToResult();
  });
  program.join(loc, 1);
  return succeeded(done) ? body.finish() : done;
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

namespace {

/// For gathers of rows that only matmuls of the loop read: each matmul is one kernel that waits for
/// the rows (docs/gated.md).
class Gated : public Schedule {
  fusion::ScheduleInfo getInfo() const override { return {"gated", {}}; }
  FailureOr<SchedulePlan> match(const StreamLoop &loop,
                                function_ref<InFlightDiagnostic()> why) const override;
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;
};

} // namespace

/// Whether the loop's digits cut a matrix into blocks of rows.
static bool isCutByRows(RankedTensorType type, const StreamLoop &loop) {
  fusion::AxesAttr axes = fusion::getAxes(type);
  if (type.getRank() != 2)
    return false;
  size_t streams = 0;
  for (auto [dim, digits] : llvm::enumerate(axes.getDims()))
    for (const fusion::Digit &digit : digits.getDigits()) {
      if (digit.isStream() ? dim != 0 : !digit.isDevice() && dim == 0)
        return false;
      streams += digit.isStream();
    }
  return streams == loop.streamSizes.size();
}

/// What keeps a loop from being gated matmuls; empty: nothing.
static std::string findObstacle(const GatherLoop &gather) {
  const StreamLoop &loop = gather.loop;
  if (gather.gathers.size() != 1)
    return "one gather, found " + std::to_string(gather.gathers.size());
  if (gather.handsOut)
    return "a gather, found an all-to-all";
  fusion::ReshardOp reshard = gather.gathers.front();
  if (!isCutByRows(reshard.getType(), loop))
    return "a gather of blocks of rows of a matrix, found the slices " +
           fusion::formatAxes(fusion::getAxes(reshard.getType()));
  if (gather.consumers.empty())
    return "a matmul of the gathered rows, found none";
  for (Operation *op : gather.consumers) {
    auto matmul = dyn_cast<fusion::MatmulOp>(op);
    if (!matmul)
      return "only matmuls in its loop, found '" + op->getName().getStringRef().str() + "'";
    if (matmul.getLhs() != reshard.getResult() || matmul.getRhs() == reshard.getResult() ||
        matmul.getTransposeA())
      return "matmuls with the gathered rows as rows of their left operand, found another operand";
    if (matmul.getBias())
      return "matmuls without a bias, found one with a bias";
    if (!isCutByRows(matmul.getType(), loop) || loop.accumulators.contains(op) ||
        loop.digitMaps.contains(op))
      return "matmuls whose results are cut into the same blocks of rows, found " +
             fusion::formatAxes(fusion::getAxes(matmul.getType()));
  }
  return "";
}

FailureOr<SchedulePlan> Gated::match(const StreamLoop &loop,
                                     function_ref<InFlightDiagnostic()> why) const {
  std::string reason;
  FailureOr<GatherLoop> gather = GatherLoop::match(loop, reason);
  if (failed(gather))
    return why() << "schedule gated " << reason;
  if (std::string obstacle = findObstacle(*gather); !obstacle.empty())
    return why() << "schedule gated: expected " << obstacle;
  return SchedulePlan{
      [gather = *gather](ProgramBuilder &program) { return GatedGather(gather, program).emit(); },
      /*isOneSided=*/true, /*addsInRankOrder=*/true, /*isGated=*/true};
}

void Gated::getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  // A machine without gated kernels has no price for it.
  fusion::ScheduleAttr schedule = getAttr(loop.place->getContext());
  if (!loop.streamSizes.empty())
    candidates.push_back({schedule});
  addSliced(loop, schedule, getOwnerFactor, candidates);
}

std::unique_ptr<Schedule> tandem::createGatedSchedule() { return std::make_unique<Gated>(); }
