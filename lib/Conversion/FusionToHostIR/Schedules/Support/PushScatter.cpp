//===- PushScatter.cpp - reductions and all-to-alls by puts -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EpiloguePush.h"
#include "PushLoop.h"

using namespace mlir;
using namespace tandem;

namespace {

class PushScatter {
public:
  PushScatter(const ScatterLoop &scatter, ProgramBuilder &program, PushedSums sums)
      : scatter(scatter), loc(scatter.getLoc()), sums(sums),
        loop(scatter.loop, scatter.scattered.plan, scatter.digits, loc, program, sums.epilogue,
             /*keeps=*/false),
        body(scatter.loop, program), program(program), builder(program.getBuilder()),
        slot(Value()) {}

  LogicalResult emit(ArrayRef<Batch> batches);

private:
  /// Computes all slices and pushes those of others.
  LogicalResult compute(ArrayRef<Batch> batches);
  /// The same by one matmul that stores the slices of others to them.
  LogicalResult computeAndStore();
  LogicalResult computeFor(Value step, Value distance, SliceNumbers numbers = {});
  LogicalResult computeBatch(Batch batch, Value step);
  LogicalResult computeOwn(Value step);
  void pushTo(Value peer, Value number, const SliceIndex &slice, Value stream);

  const ScatterLoop &scatter;
  Location loc;
  const PushedSums sums;
  PushLoop loop;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Value received;   ///< peers write here
  ReceiveSlot slot; ///< where this device's slices come to, at any peer
};

} // namespace

void PushScatter::pushTo(Value peer, Value number, const SliceIndex &slice, Value stream) {
  Value from = scatter.getComputed(program, slice), to = scatter.getTarget(program, slot, slice);
  loop.puts.put(from, to, peer, stream);
  loop.puts.signal(peer, number, stream);
}

LogicalResult PushScatter::computeFor(Value step, Value distance, SliceNumbers numbers) {
  Value compute = loop.getComputeStream(step), peer = loop.peers.getTarget(distance),
        copies = sums.epilogue ? compute : loop.getCopyStream(distance);
  return scatter.computeFor(
      body, peer, [&](Value) { return compute; },
      [&](Value number, const SliceIndex &slice, Value stream) {
        if (!sums.epilogue)
          hostir::SyncOp::create(builder, loc, copies, stream);
        pushTo(peer, number, slice, copies);
        return success();
      },
      numbers);
}

LogicalResult PushScatter::computeBatch(Batch batch, Value step) {
  Value stream = loop.getComputeStream(step), zero = program.getIndex(0);
  Value first = loop.peers.getFirstTarget(batch.first, batch.count);
  auto computePiece = [&](Value piece, int64_t count, bool) {
    SliceIndex slice = scatter.digits.getIndex(builder, loc, piece, zero, /*isFirst=*/false, count);
    return scatter.emitProducers(body, slice, stream);
  };
  if (failed(loop.peers.forEachPiece(first, batch.count, computePiece)))
    return failure();
  Value copies = loop.getCopyStream(zero);
  hostir::SyncOp::create(builder, loc, copies, stream);
  for (int64_t distance = batch.first + batch.count; distance-- > batch.first;) {
    Value to = distance == 0 ? loop.peers.me : loop.peers.getTarget(program.getIndex(distance));
    SliceIndex slice = scatter.digits.getIndex(builder, loc, to, zero, /*isFirst=*/false);
    if (distance == 0)
      hostir::CopyOp::create(builder, loc, scatter.getComputed(program, slice),
                             scatter.getTarget(program, slot, slice), stream);
    else
      pushTo(to, zero, slice, copies);
  }
  return success();
}

LogicalResult PushScatter::computeOwn(Value step) {
  Value stream = loop.getComputeStream(step);
  if (!sums.byMatmul)
    return scatter.computeOwn(body, loop.peers.me, slot, [&](Value) { return stream; });
  ReceiveSlot result(program.getBuffer(scatter.scatter.getResult()));
  result.term =
      scatter.getSlot(program, received, loop.peers.getSource(program.getIndex(1))).buffer;
  return scatter.computeOwn(body, loop.peers.me, result, [&](Value number) {
    loop.puts.waitForAll(number, stream);
    return stream;
  });
}

LogicalResult PushScatter::compute(ArrayRef<Batch> batches) {
  slot = scatter.getSlot(program, received, loop.peers.me);
  if (batches.empty()) {
    LogicalResult done = loop.forEachTurn([&](SliceNumbers numbers) {
      return program.loop(loc, 1, loop.peers.devices, [&](Value step) {
        Value distance = program.math(loc).sub(program.getIndex(loop.peers.devices), step);
        return computeFor(step, distance, numbers);
      });
    });
    bool isLater = sums.epilogue && sums.byMatmul;
    return failed(done) || isLater ? done : computeOwn(program.getIndex(loop.peers.devices));
  }
  for (auto [number, batch] : llvm::enumerate(batches)) {
    Value step = program.getIndex(number);
    LogicalResult done = batch.count > 1    ? computeBatch(batch, step)
                         : batch.first == 0 ? computeOwn(step)
                                            : computeFor(step, program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

LogicalResult PushScatter::computeAndStore() {
  if (failed(emitEpiloguePush(program, loc, [&] { return compute({}); })))
    return failure();
  // A matmul that waits comes after the kernel.
  return sums.byMatmul ? computeOwn(program.getIndex(loop.peers.devices)) : success();
}

LogicalResult PushScatter::emit(ArrayRef<Batch> batches) {
  received = scatter.allocReceived(program, /*symmetric=*/true);
  if (failed(scatter.prepare(body)) ||
      failed(loop.overlap([&] { return sums.epilogue ? computeAndStore() : compute(batches); })))
    return failure();
  // Waiting begins when all is on its way.
  program.onMesh(loc, scatter.scattered.plan.mesh, [&] {
    if (sums.byMatmul)
      return;
    Value last = program.getIndex(scatter.digits.numSlices() - 1);
    loop.puts.waitForAll(last, program.getMainStream());
    scatter.finish(program, received);
  });
  return success();
}

LogicalResult tandem::emitPushScatter(const ScatterLoop &scatter, ProgramBuilder &program,
                                      ArrayRef<Batch> batches, PushedSums sums) {
  return PushScatter(scatter, program, sums).emit(batches);
}
