//===- PushLoop.cpp - streams, puts and signals of the schedule push -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PushLoop.h"

using namespace mlir;
using namespace tandem;

PeerOrder tandem::getPeerOrder(fusion::ScheduleAttr schedule) {
  return schedule.getWord("order") == "xor" ? PeerOrder::Xor : PeerOrder::Rotated;
}

PushLoop::PushLoop(const StreamLoop &stream, const fusion::SliceReshard &plan,
                   const OwnerDigits &digits, Location loc, ProgramBuilder &program, bool epilogue,
                   bool keeps)
    : peers(program, loc, plan.mesh, plan.axes, getPeerOrder(stream.schedule)),
      puts(peers, plan.mesh, plan.axes), program(program), loc(loc), mesh(plan.mesh),
      slices(digits.numSlices()) {
  // The first workers copy. One compute stream is the main stream, which spares both ends an event.
  int64_t copies = std::min(stream.schedule.getInteger("copies"), peers.devices - 1);
  copyStreams = epilogue ? 0 : std::max<int64_t>(std::min(copies, program.getWorkers()), 1);
  computeStreams =
      std::min(stream.schedule.getInteger("streams"), program.getWorkers() - copyStreams);
  computeStreams = std::max<int64_t>(computeStreams, 1);
  this->keeps = keeps && numBusy() < program.getWorkers();
}

LogicalResult PushLoop::overlap(function_ref<LogicalResult()> body) const {
  return program.overlap(loc, numBusy() + keeps, mesh, body);
}

Value PushLoop::getKeepStream() const { return program.getWorker(loc, keeps ? numBusy() : 0); }

Value PushLoop::getCopyStream(Value distance) const {
  Value worker = program.getIndex(0);
  if (copyStreams > 1)
    worker = program.math(loc).mod(distance, copyStreams);
  return program.getWorker(loc, worker);
}

Value PushLoop::getComputeStream(Value number) const {
  if (computeStreams == 1)
    return program.getMainStream();
  hostir::IndexBuilder math = program.math(loc);
  Value worker = math.add(math.mod(number, computeStreams), copyStreams);
  return program.getWorker(loc, worker);
}

LogicalResult PushLoop::forEachTurn(function_ref<LogicalResult(SliceNumbers)> body) const {
  if (copyStreams <= 1)
    return body({});
  for (int64_t number = 0; number < slices; ++number)
    if (failed(body({number, number + 1})))
      return failure();
  return success();
}
