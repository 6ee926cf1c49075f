//===- PushLoop.cpp - streams, puts and signals of the schedule push -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Push.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;

PushLoop::PushLoop(const StreamGroup &group, const ReshardPlan &plan, OwnerDigits digits,
                   Location loc, ProgramBuilder &program)
    : group(group), program(program), builder(program.getBuilder()), loc(loc), digits(digits),
      me(program.getGroupPosition(loc, plan.mesh, plan.axes)),
      peers(program, loc, me, digits.devices, group.schedule.getOrder()),
      channel(program.getChannel(plan.mesh, plan.axes, hostir::Capability::OneSided)),
      firstSignal(program.takeSignals(digits.devices)) {
  // Worker 0 copies. One compute stream is the main stream, which spares both ends an event.
  computeStreams = std::min(group.schedule.getStreams(), program.getWorkers() - 1);
  computeStreams = std::max<int64_t>(computeStreams, 1);
}

SmallVector<PushLoop::Batch> PushLoop::getGatherBatches(fusion::ScheduleAttr schedule,
                                                        int64_t devices) {
  SmallVector<int64_t> counts(schedule.getMerge());
  if (counts.empty())
    counts.assign(devices, 1);
  SmallVector<Batch> batches;
  int64_t first = 0;
  for (int64_t count : counts) {
    batches.push_back({first, count});
    first += count;
  }
  return batches;
}

SmallVector<PushLoop::Batch> PushLoop::getReduceBatches(fusion::ScheduleAttr schedule,
                                                        int64_t devices) {
  SmallVector<Batch> batches = getGatherBatches(schedule, devices);
  for (Batch &batch : batches)
    batch.first = devices - batch.first - batch.count;
  return batches;
}

Value PushLoop::getCopyStream() const {
  return hostir::WorkerStreamOp::create(builder, loc, program.getIndex(0));
}

Value PushLoop::getComputeStream(Value number) const {
  if (computeStreams == 1)
    return program.getMainStream();
  Value turn =
      arith::RemUIOp::create(builder, loc, number, program.getIndex(computeStreams)).getResult();
  Value worker = arith::AddIOp::create(builder, loc, turn, program.getIndex(1));
  return hostir::WorkerStreamOp::create(builder, loc, worker);
}

static Value countFrom(OpBuilder &builder, Location loc, Value number, int64_t first) {
  Value offset = arith::ConstantIndexOp::create(builder, loc, first);
  return arith::AddIOp::create(builder, loc, number, offset);
}

void PushLoop::push(Value source, Value target, Value peer, Value number) const {
  Value stream = getCopyStream();
  hostir::PutOp::create(builder, loc, source, target, peer, channel, stream);
  Value slot = countFrom(builder, loc, me, firstSignal);
  hostir::SignalOp::create(builder, loc, slot, countFrom(builder, loc, number, 1), peer, channel,
                           stream);
}

void PushLoop::waitFor(Value from, Value number, Value stream) const {
  Value slot = countFrom(builder, loc, from, firstSignal);
  hostir::WaitSignalOp::create(builder, loc, slot, countFrom(builder, loc, number, 1), channel,
                               stream);
}
