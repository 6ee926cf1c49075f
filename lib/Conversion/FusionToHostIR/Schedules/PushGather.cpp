//===- PushGather.cpp - own slices to the peers, then compute on theirs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Push.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

namespace {

class PushGather {
public:
  PushGather(const StreamGroup &group, const ReshardPlan &plan, ProgramBuilder &program)
      : gather(group, group.reshards().front()), loc(gather.reshard.getLoc()),
        loop(group, plan, getOwnerDigits(group, plan), loc, program), body(group, program),
        program(program), builder(program.getBuilder()), devices(loop.digits.devices),
        slices(loop.digits.numSlices()) {}

  /// Gives the gathered value receive memory, and the results of the loop theirs.
  LogicalResult prepare();
  LogicalResult pushOwn();
  LogicalResult compute();
  LogicalResult finish() { return body.finish(); }

  GatherLoop gather;
  Location loc;
  PushLoop loop;

private:
  LogicalResult computeOwn(Value number);
  LogicalResult computeFrom(Value distance);
  LogicalResult computeBatch(PushLoop::Batch batch, Value number);
  /// Waits for slice `number` of a device, which then is in the gathered value.
  LogicalResult receive(Value from, Value number, const SliceIndex &slice, Value stream);
  Value getStream(Value step, Value number);

  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  int64_t devices, slices;
  Value received; ///< peers write here
};

} // namespace

LogicalResult PushGather::prepare() {
  Value gathered = gather.reshard.getResult();
  auto type = cast<RankedTensorType>(gathered.getType());
  received = program.allocSymmetric(loc, *fusion::getLocalShape(type), type.getElementType());
  // A result of the program lies in the embedder's memory, which peers do not reach.
  if (!program.getBuffer(gathered))
    program.setBuffer(gathered, received);
  return body.prepare();
}

LogicalResult PushGather::pushOwn() {
  Value source = program.getBuffer(gather.reshard.getInput());
  return program.loop(loc, 1, devices, [&](Value distance) {
    Value peer = loop.peers.getTarget(distance);
    return program.loop(loc, 0, slices, [&](Value number) {
      SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/true);
      return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
        FailureOr<ReshardPlan> plan = gather.getPlan(slice, builder);
        if (failed(plan))
          return failure();
        loop.push(makeView(builder, loc, source, plan->source, true),
                  makeView(builder, loc, received, plan->target, true), peer, number);
        return success();
      });
    });
  });
}

LogicalResult PushGather::compute() {
  SmallVector<PushLoop::Batch> batches = PushLoop::getGatherBatches(gather.group.schedule, devices);
  if (gather.group.schedule.getMerge().empty()) {
    if (failed(program.loop(loc, 0, slices, [&](Value number) { return computeOwn(number); })))
      return failure();
    return program.loop(loc, 1, devices, [&](Value distance) { return computeFrom(distance); });
  }
  for (auto [number, batch] : llvm::enumerate(batches)) {
    LogicalResult done = batch.count > 1    ? computeBatch(batch, program.getIndex(number))
                         : batch.first == 0 ? computeOwn(program.getIndex(0))
                                            : computeFrom(program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

Value PushGather::getStream(Value step, Value number) {
  if (slices > 1)
    step = arith::AddIOp::create(
        builder, loc,
        arith::MulIOp::create(builder, loc, step, program.getIndex(slices)).getResult(), number);
  return loop.getComputeStream(step);
}

LogicalResult PushGather::computeOwn(Value number) {
  Value stream = getStream(program.getIndex(0), number);
  SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/true);
  return body.forEachShape(
      loc, index, [&](const SliceIndex &slice) { return gather.emitOwn(body, slice, stream); });
}

LogicalResult PushGather::receive(Value from, Value number, const SliceIndex &slice, Value stream) {
  loop.waitFor(from, number, stream);
  Value gathered = program.getBuffer(gather.reshard.getResult());
  if (gathered == received)
    return success();
  FailureOr<ReshardPlan> plan = gather.getPlan(slice, builder);
  if (failed(plan))
    return failure();
  Value source = makeView(builder, loc, received, plan->target, true);
  Value target = makeView(builder, loc, gathered, plan->target, true);
  hostir::CopyOp::create(builder, loc, source, target, stream);
  return success();
}

LogicalResult PushGather::computeFrom(Value distance) {
  Value from = loop.peers.getSource(distance);
  return program.loop(loc, 0, slices, [&](Value number) {
    Value stream = getStream(distance, number);
    SliceIndex index = loop.digits.getIndex(builder, loc, from, number, /*isFirst=*/false);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
      if (failed(receive(from, number, slice, stream)))
        return failure();
      return body.emitSlices(gather.consumers, slice, stream,
                             /*isStreamUsed=*/true);
    });
  });
}

LogicalResult PushGather::computeBatch(PushLoop::Batch batch, Value number) {
  Value stream = loop.getComputeStream(number), zero = program.getIndex(0);
  for (int64_t distance = batch.first; distance < batch.first + batch.count; ++distance) {
    Value from = distance == 0 ? loop.me : loop.peers.getSource(program.getIndex(distance));
    SliceIndex slice = loop.digits.getIndex(builder, loc, from, zero, distance == 0);
    LogicalResult done =
        distance == 0 ? gather.copyOwn(body, slice, stream) : receive(from, zero, slice, stream);
    if (failed(done))
      return failure();
  }
  Value first = loop.peers.getFirstSource(batch.first, batch.count);
  return loop.peers.forEachPiece(
      first, batch.count, [&](Value piece, int64_t count, bool isFirstPiece) {
        SliceIndex slice = loop.digits.getIndex(builder, loc, piece, zero,
                                                batch.first == 0 && isFirstPiece, count);
        return body.emitSlices(gather.consumers, slice, stream,
                               /*isStreamUsed=*/true);
      });
}

LogicalResult tandem::emitPushGather(const StreamGroup &group, const ReshardPlan &plan,
                                     ProgramBuilder &program) {
  PushGather gather(group, plan, program);
  if (failed(gather.prepare()))
    return failure();
  gather.loop.fork();
  LogicalResult done = success();
  // All puts are issued before the first wait: where streams share a queue, none stands behind it.
  program.onMesh(gather.loc, plan.mesh, [&] {
    done = gather.pushOwn();
    if (succeeded(done))
      done = gather.compute();
  });
  gather.loop.join();
  return succeeded(done) ? gather.finish() : done;
}
