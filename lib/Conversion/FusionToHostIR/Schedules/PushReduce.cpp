//===- PushReduce.cpp - slices to their owners, who reduce them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Push.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

class PushReduce {
public:
  PushReduce(const StreamGroup &group, const ScatteredDigit &scattered, Emitter &emitter)
      : group(group), scatter(group.reshards().front()), loc(scatter.getLoc()),
        scattered(scattered),
        loop(group, scattered.plan,
             getOwnerDigits(group, scattered.streamDigit, scattered.plan.groupSize()), loc,
             emitter),
        emitter(emitter), builder(emitter.getBuilder()), devices(loop.digits.devices),
        slices(loop.digits.numSlices()) {
    llvm::copy_if(group.ops, std::back_inserter(producers),
                  [&](Operation *op) { return op != scatter; });
  }

  LogicalResult prepare();
  /// Computes all slices and pushes those of others.
  LogicalResult compute();
  void reduce();

private:
  LogicalResult computeFor(Value step, Value distance);
  LogicalResult computeOwn(Value step);
  LogicalResult computeBatch(PushLoop::Batch batch, Value step);
  void pushTo(Value peer, Value number, const SliceIndex &slice);
  LogicalResult emitProducers(const SliceIndex &slice, Value stream);
  /// The digits of a slice in its owner's piece.
  LocalDims getTargetDims(const SliceIndex &slice);
  Value getComputed(const SliceIndex &slice);

  const StreamGroup &group;
  fusion::ReshardOp scatter;

public:
  Location loc;

private:
  const ScatteredDigit &scattered;

public:
  PushLoop loop;

private:
  Emitter &emitter;
  OpBuilder &builder;
  int64_t devices, slices;
  SmallVector<Operation *> producers;
  Value received; ///< [source, own piece...]: peers write here
  Value place;    ///< this device's part of it
};

} // namespace

LogicalResult PushReduce::prepare() {
  auto type = cast<RankedTensorType>(scatter.getResult().getType());
  SmallVector<int64_t> piece = *fusion::getLocalShape(type), shape{devices};
  shape.append(piece);
  received = emitter.allocSymmetric(loc, shape, type.getElementType());
  (void)emitter.getOrAllocBuffer(scatter.getResult());
  for (Operation *op : producers)
    if (failed(emitter.prepare(op)))
      return failure();
  return success();
}

LocalDims PushReduce::getTargetDims(const SliceIndex &slice) {
  LocalDims dims = getLocalDims(scatter.getInput().getType(), &slice);
  // The owner has one index of the owners' digit.
  dims[scattered.dim][scattered.localDigit] = {1, emitter.getIndex(0), 0};
  return dims;
}

Value PushReduce::getComputed(const SliceIndex &slice) {
  return makeView(builder, loc, emitter.getBuffer(scatter.getInput()),
                  getLocalDims(scatter.getInput().getType(), &slice), true);
}

LogicalResult PushReduce::emitProducers(const SliceIndex &slice, Value stream) {
  return emitter.emitSlices(group, producers, slice, stream, /*isStreamUsed=*/true);
}

void PushReduce::pushTo(Value peer, Value number, const SliceIndex &slice) {
  loop.push(getComputed(slice), makeView(builder, loc, place, getTargetDims(slice), true), peer,
            number);
}

LogicalResult PushReduce::computeFor(Value step, Value distance) {
  Value stream = loop.getComputeStream(step), peer = loop.peers.getTarget(distance);
  return emitter.loop(loc, 0, slices, [&](Value number) {
    SliceIndex index = loop.digits.getIndex(builder, loc, peer, number, /*isFirst=*/false);
    return emitter.forEachShape(loc, group, index, [&](const SliceIndex &slice) -> LogicalResult {
      if (failed(emitProducers(slice, stream)))
        return failure();
      hostir::SyncOp::create(builder, loc, loop.getCopyStream(), stream);
      pushTo(peer, number, slice);
      return success();
    });
  });
}

LogicalResult PushReduce::computeOwn(Value step) {
  Value stream = loop.getComputeStream(step), value = scatter.getInput();
  // A matmul writes straight into the receive memory.
  bool inPlace = isa<fusion::MatmulOp>(value.getDefiningOp());
  return emitter.loop(loc, 0, slices, [&](Value number) {
    SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/false);
    return emitter.forEachShape(loc, group, index, [&](const SliceIndex &slice) {
      LocalDims dims = getTargetDims(slice);
      if (inPlace)
        emitter.setPlacedSlice(value, {place, dims});
      LogicalResult done = emitProducers(slice, stream);
      emitter.clearPlacedSlices();
      if (!inPlace)
        hostir::CopyOp::create(builder, loc, getComputed(slice),
                               makeView(builder, loc, place, dims, true), stream);
      return done;
    });
  });
}

LogicalResult PushReduce::computeBatch(PushLoop::Batch batch, Value step) {
  Value stream = loop.getComputeStream(step), zero = emitter.getIndex(0);
  Value first = loop.peers.getFirstTarget(batch.first, batch.count);
  if (failed(loop.peers.forEachPiece(
          first, batch.count, [&](Value piece, int64_t count, bool) -> LogicalResult {
            return emitProducers(loop.digits.getIndex(builder, loc, piece, zero,
                                                      /*isFirst=*/false, count),
                                 stream);
          })))
    return failure();
  hostir::SyncOp::create(builder, loc, loop.getCopyStream(), stream);
  for (int64_t distance = batch.first + batch.count; distance-- > batch.first;) {
    Value to = distance == 0 ? loop.me : loop.peers.getTarget(emitter.getIndex(distance));
    SliceIndex slice = loop.digits.getIndex(builder, loc, to, zero, /*isFirst=*/false);
    if (distance == 0)
      hostir::CopyOp::create(builder, loc, getComputed(slice),
                             makeView(builder, loc, place, getTargetDims(slice), true), stream);
    else
      pushTo(to, zero, slice);
  }
  return success();
}

LogicalResult PushReduce::compute() {
  auto type = cast<MemRefType>(received.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)), sizes,
      steps(type.getRank(), builder.getIndexAttr(1));
  offsets[0] = loop.me;
  for (int64_t extent : type.getShape())
    sizes.push_back(builder.getIndexAttr(extent));
  sizes[0] = builder.getIndexAttr(1);
  auto placeType = memref::SubViewOp::inferRankReducedResultType(type.getShape().drop_front(), type,
                                                                 offsets, sizes, steps);
  place = memref::SubViewOp::create(builder, loc, cast<MemRefType>(placeType), received, offsets,
                                    sizes, steps);

  if (group.schedule.getMerge().empty()) {
    LogicalResult done = emitter.loop(loc, 1, devices, [&](Value step) {
      Value distance = arith::SubIOp::create(builder, loc, emitter.getIndex(devices), step);
      return computeFor(step, distance);
    });
    return succeeded(done) ? computeOwn(emitter.getIndex(devices)) : done;
  }
  for (auto [number, batch] :
       llvm::enumerate(PushLoop::getReduceBatches(group.schedule, devices))) {
    Value step = emitter.getIndex(number);
    LogicalResult done = batch.count > 1    ? computeBatch(batch, step)
                         : batch.first == 0 ? computeOwn(step)
                                            : computeFor(step, emitter.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

void PushReduce::reduce() {
  Value main = emitter.getMainStream(), last = emitter.getIndex(slices - 1);
  (void)emitter.loop(loc, 1, devices, [&](Value distance) {
    loop.waitFor(loop.peers.getSource(distance), last, main);
    return success();
  });
  auto kind = fusion::ReduceKindAttr::get(builder.getContext(), scattered.plan.reduction);
  hostir::ReduceOp::create(builder, loc, kind, received, emitter.getBuffer(scatter.getResult()),
                           builder.getDenseI64ArrayAttr({0}), main);
}

LogicalResult tandem::emitPushReduce(const StreamGroup &group, const ScatteredDigit &scattered,
                                     Emitter &emitter) {
  PushReduce reduce(group, scattered, emitter);
  if (failed(reduce.prepare()))
    return failure();
  reduce.loop.fork();
  LogicalResult done = success();
  emitter.onMesh(reduce.loc, scattered.plan.mesh, [&] { done = reduce.compute(); });
  reduce.loop.join();
  // Waiting begins when all is on its way.
  emitter.onMesh(reduce.loc, scattered.plan.mesh, [&] { reduce.reduce(); });
  return done;
}
