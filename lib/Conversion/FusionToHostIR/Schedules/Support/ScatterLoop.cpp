//===- ScatterLoop.cpp - loops that hand slices to their owners -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScatterLoop.h"

#include "../../OpLowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

ScatterLoop::ScatterLoop(const StreamLoop &loop, ScatteredDigit digit)
    : loop(loop), scatter(loop.reshards().front()), scattered(std::move(digit)),
      digits(loop, scattered.streamDigit, scattered.plan.groupSize()) {
  llvm::copy_if(loop.ops, std::back_inserter(producers),
                [&](Operation *op) { return op != scatter; });
}

bool ScatterLoop::isScatterLoop(const StreamLoop &loop) {
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  return reshards.size() == 1 && loop.accumulators.contains(reshards.front());
}

Explained<ScatterLoop> ScatterLoop::match(const StreamLoop &loop) {
  StringRef name = loop.schedule.getName();
  fusion::ReshardOp scatter = loop.reshards().front();
  if (!scatter.getInput().hasOneUse())
    return loop.explain() << "schedule " << name << ": expected what is "
                          << (getScatteredDigit(scatter)->plan.reduces() ? "reduced" : "sent")
                          << " to have no other users";
  if (loop.accumulators.size() != 1)
    return loop.explain()
           << "schedule " << name
           << ": expected no other op to combine slices in a loop whose slices go to their owners";
  return ScatterLoop(loop, *getScatteredDigit(scatter));
}

Location ScatterLoop::getLoc() const { return scatter.getLoc(); }

SmallVector<int64_t> ScatterLoop::getReceivedShape() const {
  SmallVector<int64_t> shape{digits.devices};
  shape.append(*fusion::getLocalShape(scatter.getResult().getType()));
  return shape;
}

Obstacle ScatterLoop::verifyReduces() const {
  if (reduces())
    return std::nullopt;
  return loop.explain() << "schedule " << loop.schedule.getName()
                        << " adds up on the way, found an all-to-all; exchange and push take it";
}

Value ScatterLoop::allocReceived(ProgramBuilder &program, bool symmetric) const {
  Type element = scatter.getType().getElementType();
  if (!reduces() && !symmetric)
    return program.getOrAllocBuffer(scatter.getResult());
  SmallVector<int64_t> shape =
      reduces() ? getReceivedShape() : *fusion::getLocalShape(scatter.getType());
  if (!symmetric)
    return hostir::AllocOp::create(program.getBuilder(), scatter.getLoc(), shape, element,
                                   program.getMainStream());
  Value received = program.allocSymmetric(scatter.getLoc(), shape, element);
  if (!reduces() && !program.getBuffer(scatter.getResult()))
    program.setBuffer(scatter.getResult(), received);
  return received;
}

ReceiveSlot ScatterLoop::getSlot(ProgramBuilder &program, Value received, Value device) const {
  if (!reduces())
    return {received, device};
  return ReceiveSlot(hostir::buildElementView(program.getBuilder(), scatter.getLoc(), received,
                                              OpFoldResult(device)));
}

LogicalResult ScatterLoop::prepare(LoopEmitter &body) const {
  (void)body.program.getOrAllocBuffer(scatter.getResult());
  for (Operation *producer : producers)
    if (failed(body.prepare(producer)))
      return failure();
  return success();
}

LogicalResult ScatterLoop::emitProducers(LoopEmitter &body, const SliceIndex &slice,
                                         Value stream) const {
  return body.emitSlices(producers, slice, stream, /*isStreamUsed=*/true);
}

Value ScatterLoop::getComputed(ProgramBuilder &program, const SliceIndex &slice) const {
  return makeView(program.getBuilder(), scatter.getLoc(), program.getBuffer(scatter.getInput()),
                  getLocalDims(scatter.getInput().getType(), &slice), true);
}

LocalDims ScatterLoop::getTargetDims(ProgramBuilder &program, ReceiveSlot slot,
                                     const SliceIndex &slice) const {
  hostir::IndexBuilder math = program.math(scatter.getLoc());
  LocalDims dims = getLocalDims(scatter.getInput().getType(), &slice);
  // The owner has one index of the owners' digit.
  dims[scattered.dim][scattered.localDigit] = {1, program.getIndex(0), 0};
  // What was on one device each lies next to each other there.
  for (const ScatteredDigit::Source &source : scattered.sources) {
    Value index = math.div(slot.source, source.inner);
    if (scattered.sources.size() > 1)
      index = math.mod(index, source.size);
    auto &digits = dims[source.dim];
    digits.insert(digits.begin() + source.localDigit, LocalDigit{source.size, index});
  }
  return dims;
}

Value ScatterLoop::getTarget(ProgramBuilder &program, ReceiveSlot slot,
                             const SliceIndex &slice) const {
  return makeView(program.getBuilder(), scatter.getLoc(), slot.buffer,
                  getTargetDims(program, slot, slice), true);
}

bool ScatterLoop::canAdd() const {
  return scattered.plan.reduction == ReduceKind::Sum &&
         !loop.getProducts(scatter.getInput()).empty() &&
         scatter.getType().getElementType().isF32();
}

LogicalResult ScatterLoop::emitOwn(LoopEmitter &body, ReceiveSlot slot, const SliceIndex &slice,
                                   Value stream, bool adds) const {
  ProgramBuilder &program = body.program;
  // A matmul writes straight into the receive memory.
  bool inPlace = body.writesPlace(scatter.getInput());
  SliceBuffer target{slot.buffer, getTargetDims(program, slot, slice)};
  if (adds)
    body.addTo(scatter.getInput(), target);
  else if (slot.term)
    body.writeSumTo(scatter.getInput(), target, {slot.term, target.dims});
  else if (inPlace)
    body.writeTo(scatter.getInput(), target);
  LogicalResult done = emitProducers(body, slice, stream);
  body.clearPlaces();
  if (!inPlace) {
    Value from = getComputed(program, slice), to = getTarget(program, slot, slice);
    hostir::CopyOp::create(program.getBuilder(), scatter.getLoc(), from, to, stream);
  }
  return done;
}

void ScatterLoop::finish(ProgramBuilder &program, Value received) const {
  OpBuilder &builder = program.getBuilder();
  if (!reduces()) {
    if (Value result = program.getBuffer(scatter.getResult()); result != received)
      hostir::CopyOp::create(builder, scatter.getLoc(), received, result, program.getMainStream());
    return;
  }
  auto kind = ReduceKindAttr::get(builder.getContext(), scattered.plan.reduction);
  hostir::ReduceOp::create(builder, scatter.getLoc(), kind, received,
                           program.getBuffer(scatter.getResult()),
                           builder.getDenseI64ArrayAttr({0}), program.getMainStream());
}

LogicalResult ScatterLoop::computeOwn(LoopEmitter &body, Value me, ReceiveSlot slot,
                                      StreamFn getStream, SliceNumbers numbers, bool adds) const {
  return digits.forEachSlice(body, getLoc(), me, /*isFirst=*/false, numbers, getStream,
                             [&](Value, const SliceIndex &slice, Value stream) {
                               return emitOwn(body, slot, slice, stream, adds);
                             });
}

LogicalResult ScatterLoop::computeFor(LoopEmitter &body, Value owner, StreamFn getStream,
                                      TransferFn deliver, SliceNumbers numbers) const {
  return digits.forEachSlice(
      body, getLoc(), owner, /*isFirst=*/false, numbers, getStream,
      [&](Value number, const SliceIndex &slice, Value stream) -> LogicalResult {
        if (failed(emitProducers(body, slice, stream)))
          return failure();
        return deliver(number, slice, stream);
      });
}
