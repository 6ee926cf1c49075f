//===- PushReduce.cpp - slices to their owners, who reduce them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Push.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;

namespace {

class PushReduce {
public:
  PushReduce(const StreamGroup &group, const ScatteredDigit &scattered, ProgramBuilder &program)
      : scatter(group, scattered), loc(scatter.scatter.getLoc()),
        loop(group, scattered.plan, scatter.digits, loc, program), body(group, program),
        program(program), builder(program.getBuilder()), devices(loop.digits.devices),
        slices(loop.digits.numSlices()) {}

  LogicalResult prepare();
  /// Computes all slices and pushes those of others.
  LogicalResult compute();
  void reduce();

private:
  LogicalResult computeFor(Value step, Value distance);
  LogicalResult computeOwn(Value step);
  LogicalResult computeBatch(PushLoop::Batch batch, Value step);
  void pushTo(Value peer, Value number, const SliceIndex &slice);

  ScatterLoop scatter;

public:
  Location loc;
  PushLoop loop;

private:
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  int64_t devices, slices;
  Value received; ///< [source, own piece...]: peers write here
  Value place;    ///< this device's part of it
};

} // namespace

LogicalResult PushReduce::prepare() {
  Type element = scatter.scatter.getResult().getType().getElementType();
  received = program.allocSymmetric(loc, scatter.getReceivedShape(), element);
  return scatter.prepare(body);
}

void PushReduce::pushTo(Value peer, Value number, const SliceIndex &slice) {
  Value from = scatter.getComputed(program, slice);
  loop.push(from, scatter.getTarget(program, place, slice), peer, number);
}

LogicalResult PushReduce::computeFor(Value step, Value distance) {
  Value stream = loop.getComputeStream(step), peer = loop.peers.getTarget(distance);
  return program.loop(loc, 0, slices, [&](Value number) {
    SliceIndex index = loop.digits.getIndex(builder, loc, peer, number, /*isFirst=*/false);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
      if (failed(scatter.emitProducers(body, slice, stream)))
        return failure();
      hostir::SyncOp::create(builder, loc, loop.getCopyStream(), stream);
      pushTo(peer, number, slice);
      return success();
    });
  });
}

LogicalResult PushReduce::computeOwn(Value step) {
  Value stream = loop.getComputeStream(step);
  return program.loop(loc, 0, slices, [&](Value number) {
    SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/false);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
      return scatter.emitOwn(body, place, slice, stream);
    });
  });
}

LogicalResult PushReduce::computeBatch(PushLoop::Batch batch, Value step) {
  Value stream = loop.getComputeStream(step), zero = program.getIndex(0);
  Value first = loop.peers.getFirstTarget(batch.first, batch.count);
  if (failed(loop.peers.forEachPiece(
          first, batch.count, [&](Value piece, int64_t count, bool) -> LogicalResult {
            return scatter.emitProducers(body,
                                         loop.digits.getIndex(builder, loc, piece, zero,
                                                              /*isFirst=*/false, count),
                                         stream);
          })))
    return failure();
  hostir::SyncOp::create(builder, loc, loop.getCopyStream(), stream);
  for (int64_t distance = batch.first + batch.count; distance-- > batch.first;) {
    Value to = distance == 0 ? loop.me : loop.peers.getTarget(program.getIndex(distance));
    SliceIndex slice = loop.digits.getIndex(builder, loc, to, zero, /*isFirst=*/false);
    if (distance == 0)
      hostir::CopyOp::create(builder, loc, scatter.getComputed(program, slice),
                             scatter.getTarget(program, place, slice), stream);
    else
      pushTo(to, zero, slice);
  }
  return success();
}

LogicalResult PushReduce::compute() {
  place = scatter.getPlace(program, received, loop.me);
  if (scatter.group.schedule.getMerge().empty()) {
    LogicalResult done = program.loop(loc, 1, devices, [&](Value step) {
      Value distance = arith::SubIOp::create(builder, loc, program.getIndex(devices), step);
      return computeFor(step, distance);
    });
    return succeeded(done) ? computeOwn(program.getIndex(devices)) : done;
  }
  for (auto [number, batch] :
       llvm::enumerate(PushLoop::getReduceBatches(scatter.group.schedule, devices))) {
    Value step = program.getIndex(number);
    LogicalResult done = batch.count > 1    ? computeBatch(batch, step)
                         : batch.first == 0 ? computeOwn(step)
                                            : computeFor(step, program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

void PushReduce::reduce() {
  Value main = program.getMainStream(), last = program.getIndex(slices - 1);
  (void)program.loop(loc, 1, devices, [&](Value distance) {
    loop.waitFor(loop.peers.getSource(distance), last, main);
    return success();
  });
  scatter.reduce(program, received);
}

LogicalResult tandem::emitPushReduce(const StreamGroup &group, const ScatteredDigit &scattered,
                                     ProgramBuilder &program) {
  PushReduce reduce(group, scattered, program);
  if (failed(reduce.prepare()))
    return failure();
  reduce.loop.fork();
  LogicalResult done = success();
  program.onMesh(reduce.loc, scattered.plan.mesh, [&] { done = reduce.compute(); });
  reduce.loop.join();
  // Waiting begins when all is on its way.
  program.onMesh(reduce.loc, scattered.plan.mesh, [&] { reduce.reduce(); });
  return done;
}
