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
  PushGather(const StreamGroup &group, const ReshardPlan &plan, Emitter &emitter)
      : gather(group, group.reshards().front()), loc(gather.reshard.getLoc()),
        loop(group, plan, getOwnerDigits(group, plan), loc, emitter), emitter(emitter),
        builder(emitter.getBuilder()), devices(loop.digits.devices),
        slices(loop.digits.numSlices()) {}

  /// Gives the gathered value receive memory, and the results of the loop theirs.
  LogicalResult prepare();
  LogicalResult pushOwn();
  LogicalResult compute();

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

  Emitter &emitter;
  OpBuilder &builder;
  int64_t devices, slices;
  Value received; ///< peers write here
};

} // namespace

LogicalResult PushGather::prepare() {
  Value gathered = gather.reshard.getResult();
  auto type = cast<RankedTensorType>(gathered.getType());
  received = emitter.allocSymmetric(loc, *fusion::getLocalShape(type), type.getElementType());
  // A result of the program lies in the embedder's memory, which peers do not reach.
  if (!emitter.getBuffer(gathered))
    emitter.setBuffer(gathered, received);
  return emitter.prepare(gather.group);
}

LogicalResult PushGather::pushOwn() {
  Value source = emitter.getBuffer(gather.reshard.getInput());
  return emitter.loop(loc, 1, devices, [&](Value distance) {
    Value peer = loop.peers.getTarget(distance);
    return emitter.loop(loc, 0, slices, [&](Value number) {
      SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/true);
      return emitter.forEachShape(
          loc, gather.group, index, [&](const SliceIndex &slice) -> LogicalResult {
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
    if (failed(emitter.loop(loc, 0, slices, [&](Value number) { return computeOwn(number); })))
      return failure();
    return emitter.loop(loc, 1, devices, [&](Value distance) { return computeFrom(distance); });
  }
  for (auto [number, batch] : llvm::enumerate(batches)) {
    LogicalResult done = batch.count > 1    ? computeBatch(batch, emitter.getIndex(number))
                         : batch.first == 0 ? computeOwn(emitter.getIndex(0))
                                            : computeFrom(emitter.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

Value PushGather::getStream(Value step, Value number) {
  if (slices > 1)
    step = arith::AddIOp::create(
        builder, loc,
        arith::MulIOp::create(builder, loc, step, emitter.getIndex(slices)).getResult(), number);
  return loop.getComputeStream(step);
}

LogicalResult PushGather::computeOwn(Value number) {
  Value stream = getStream(emitter.getIndex(0), number);
  SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/true);
  return emitter.forEachShape(loc, gather.group, index, [&](const SliceIndex &slice) {
    return gather.emitOwn(emitter, slice, stream);
  });
}

LogicalResult PushGather::receive(Value from, Value number, const SliceIndex &slice, Value stream) {
  loop.waitFor(from, number, stream);
  Value gathered = emitter.getBuffer(gather.reshard.getResult());
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
  return emitter.loop(loc, 0, slices, [&](Value number) {
    Value stream = getStream(distance, number);
    SliceIndex index = loop.digits.getIndex(builder, loc, from, number, /*isFirst=*/false);
    return emitter.forEachShape(
        loc, gather.group, index, [&](const SliceIndex &slice) -> LogicalResult {
          if (failed(receive(from, number, slice, stream)))
            return failure();
          return emitter.emitSlices(gather.group, gather.consumers, slice, stream,
                                    /*isStreamUsed=*/true);
        });
  });
}

LogicalResult PushGather::computeBatch(PushLoop::Batch batch, Value number) {
  Value stream = loop.getComputeStream(number), zero = emitter.getIndex(0);
  for (int64_t distance = batch.first; distance < batch.first + batch.count; ++distance) {
    Value from = distance == 0 ? loop.me : loop.peers.getSource(emitter.getIndex(distance));
    SliceIndex slice = loop.digits.getIndex(builder, loc, from, zero, distance == 0);
    LogicalResult done =
        distance == 0 ? gather.copyOwn(emitter, slice, stream) : receive(from, zero, slice, stream);
    if (failed(done))
      return failure();
  }
  Value first = loop.peers.getFirstSource(batch.first, batch.count);
  return loop.peers.forEachPiece(
      first, batch.count, [&](Value piece, int64_t count, bool isFirstPiece) {
        SliceIndex slice = loop.digits.getIndex(builder, loc, piece, zero,
                                                batch.first == 0 && isFirstPiece, count);
        return emitter.emitSlices(gather.group, gather.consumers, slice, stream,
                                  /*isStreamUsed=*/true);
      });
}

LogicalResult tandem::emitPushGather(const StreamGroup &group, const ReshardPlan &plan,
                                     Emitter &emitter) {
  PushGather gather(group, plan, emitter);
  if (failed(gather.prepare()))
    return failure();
  gather.loop.fork();
  LogicalResult done = success();
  // All puts are issued before the first wait: where streams share a queue, none stands behind it.
  emitter.onMesh(gather.loc, plan.mesh, [&] {
    done = gather.pushOwn();
    if (succeeded(done))
      done = gather.compute();
  });
  gather.loop.join();
  return succeeded(done) ? emitter.finish(group) : done;
}
