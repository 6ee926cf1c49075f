//===- PushGather.cpp - gathers by puts, compute on what has arrived -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PushLoop.h"

using namespace mlir;
using namespace tandem;

namespace {

class PushGather {
public:
  PushGather(const GatherLoop &gather, ProgramBuilder &program)
      : gather(gather), loop(gather.loop, gather.plan, gather.digits, gather.getLoc(), program,
                             /*epilogue=*/false, gather.isKept()),
        body(gather.loop, program), program(program), builder(program.getBuilder()),
        loc(gather.getLoc()) {}

  LogicalResult emit(ArrayRef<Batch> batches, std::optional<int64_t> blocks);

private:
  LogicalResult pushOwn(std::optional<int64_t> blocks);
  LogicalResult compute(ArrayRef<Batch> batches);
  LogicalResult computeOwn();
  LogicalResult computeFrom(Value distance, SliceNumbers numbers = {});
  LogicalResult computeBatch(Batch batch, Value number);
  /// For slice `number` of the device at `distance`.
  Value getStream(Value distance, Value number) {
    return loop.getComputeStream(gather.digits.getIteration(program, loc, distance, number));
  }
  /// Waits for slice `number` of a device, which then is in the gathered values. `copies`: as of
  /// `GatherLoop::copyReceived`.
  LogicalResult receive(Value from, Value number, const SliceIndex &slice, Value stream,
                        Value copies = {});

  const GatherLoop &gather;
  PushLoop loop;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  SmallVector<Value> received; ///< peers write here; one for each gather
};

} // namespace

LogicalResult PushGather::pushOwn(std::optional<int64_t> blocks) {
  if (!blocks)
    return loop.forEachTurn([&](SliceNumbers numbers) {
      return loop.puts.putSlices(
          body, gather, received, [&](Value distance) { return loop.getCopyStream(distance); },
          numbers);
    });
  if (loop.peers.devices == 1)
    return success();
  Value stream = loop.getCopyStream(program.getIndex(0));
  return loop.puts.pushSlices(body, gather, received.front(), *blocks, stream);
}

LogicalResult PushGather::receive(Value from, Value number, const SliceIndex &slice, Value stream,
                                  Value copies) {
  loop.puts.waitFor(from, number, stream);
  return gather.copyReceived(body, received, slice, stream, copies);
}

LogicalResult PushGather::computeOwn() {
  return gather.computeOwn(
      body, loop.peers.me, [&](Value number) { return getStream(program.getIndex(0), number); },
      loop.getKeepStream());
}

LogicalResult PushGather::computeFrom(Value distance, SliceNumbers numbers) {
  Value from = loop.peers.getSource(distance);
  return gather.computeFrom(
      body, from, [&](Value number) { return getStream(distance, number); },
      [&](Value number, const SliceIndex &slice, Value stream) {
        return receive(from, number, slice, stream, loop.getKeepStream());
      },
      numbers);
}

LogicalResult PushGather::computeBatch(Batch batch, Value number) {
  Value stream = loop.getComputeStream(number), zero = program.getIndex(0);
  for (int64_t distance = batch.first; distance < batch.first + batch.count; ++distance) {
    Value from = distance == 0 ? loop.peers.me : loop.peers.getSource(program.getIndex(distance));
    SliceIndex slice = gather.digits.getIndex(builder, loc, from, zero, distance == 0);
    if (failed(distance == 0 ? gather.copyOwn(body, loop.peers.me, slice, stream)
                             : receive(from, zero, slice, stream)))
      return failure();
  }
  Value first = loop.peers.getFirstSource(batch.first, batch.count);
  return loop.peers.forEachPiece(
      first, batch.count, [&](Value piece, int64_t count, bool isFirstPiece) {
        SliceIndex slice = gather.digits.getIndex(builder, loc, piece, zero,
                                                  batch.first == 0 && isFirstPiece, count);
        return body.emitSlices(gather.consumers, slice, stream, /*isStreamUsed=*/true);
      });
}

LogicalResult PushGather::compute(ArrayRef<Batch> batches) {
  if (batches.empty()) {
    if (failed(computeOwn()))
      return failure();
    return loop.forEachTurn([&](SliceNumbers numbers) {
      return program.loop(loc, 1, loop.peers.devices,
                          [&](Value distance) { return computeFrom(distance, numbers); });
    });
  }
  for (auto [number, batch] : llvm::enumerate(batches)) {
    LogicalResult done = batch.count > 1    ? computeBatch(batch, program.getIndex(number))
                         : batch.first == 0 ? computeOwn()
                                            : computeFrom(program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

LogicalResult PushGather::emit(ArrayRef<Batch> batches, std::optional<int64_t> blocks) {
  received = gather.allocReceived(program);
  if (failed(body.prepare()))
    return failure();
  // All puts are issued before the first wait: where streams share a queue, no put is queued after
  // a wait.
  LogicalResult done =
      loop.overlap([&] { return failed(pushOwn(blocks)) ? failure() : compute(batches); });
  return succeeded(done) ? body.finish() : done;
}

LogicalResult tandem::emitPushGather(const GatherLoop &gather, ProgramBuilder &program,
                                     ArrayRef<Batch> batches, std::optional<int64_t> blocks) {
  return PushGather(gather, program).emit(batches, blocks);
}
