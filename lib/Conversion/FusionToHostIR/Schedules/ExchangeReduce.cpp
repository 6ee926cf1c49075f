//===- ExchangeReduce.cpp - slices to their owners in turn, who reduce them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// At distance d = 1 ... P-1 a device computes the slices of the peer at that distance, sends them
// to it and receives its own from the peer at the same distance on the other side; last, the own
// ones, for which nobody waits. What comes from one device has a slot of its own, and one reduction
// combines them all: no partial sum is rounded on its way through other devices.
//
//===----------------------------------------------------------------------===//

#include "Exchange.h"

#include "Peers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;

LogicalResult tandem::emitExchangeReduce(const StreamGroup &group, const ScatteredDigit &scattered,
                                         ProgramBuilder &program) {
  ScatterLoop scatter(group, scattered);
  LoopEmitter body(group, program);
  OpBuilder &builder = program.getBuilder();
  Location loc = scatter.scatter.getLoc();
  const OwnerDigits &digits = scatter.digits;
  int64_t devices = digits.devices, slices = digits.numSlices();
  auto type = MemRefType::get(scatter.getReceivedShape(),
                              scatter.scatter.getResult().getType().getElementType());
  Value received = hostir::AllocOp::create(builder, loc, type, program.getMainStream(),
                                           IntegerAttr(), IntegerAttr());
  if (failed(scatter.prepare(body)))
    return failure();
  const ReshardPlan &plan = scattered.plan;
  Value me = program.getGroupPosition(loc, plan.mesh, plan.axes);
  Value channel = program.getChannel(plan.mesh, plan.axes, hostir::Capability::TwoSided);
  Peers peers(program, loc, me, devices, fusion::PeerOrder::Rotated);
  int64_t streams = program.getNumStreams(group.schedule, devices * slices);

  // The slices for the device at `distance`, or the own ones if it is null.
  auto compute = [&](Value distance, Value step) -> LogicalResult {
    Value owner = distance ? peers.getTarget(distance) : me;
    Value from = distance ? peers.getSource(distance) : me;
    Value place = scatter.getPlace(program, received, from);
    return program.loop(loc, 0, slices, [&](Value number) {
      Value iteration = number;
      if (devices > 1) {
        Value before = arith::MulIOp::create(builder, loc, step, program.getIndex(slices));
        iteration = arith::AddIOp::create(builder, loc, before, number);
      }
      Value stream = program.getStream(loc, iteration, streams);
      SliceIndex index = digits.getIndex(builder, loc, owner, number, /*isFirst=*/false);
      return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
        if (!distance)
          return scatter.emitOwn(body, place, slice, stream);
        if (failed(scatter.emitProducers(body, slice, stream)))
          return failure();
        // Slices of one number lie alike in the pieces of all owners.
        Value out = scatter.getComputed(program, slice);
        Value in = scatter.getTarget(program, place, slice);
        auto together = hostir::GroupOp::create(builder, loc, channel, stream);
        OpBuilder::InsertionGuard guard(builder);
        builder.createBlock(&together.getBody());
        hostir::RecvOp::create(builder, loc, in, from);
        hostir::SendOp::create(builder, loc, out, owner);
        return success();
      });
    });
  };

  LogicalResult done = success();
  program.fork(loc, streams);
  program.onMesh(loc, plan.mesh, [&] {
    done = program.loop(loc, 1, devices, [&](Value distance) {
      Value step = arith::SubIOp::create(builder, loc, distance, program.getIndex(1));
      return compute(distance, step);
    });
    if (succeeded(done))
      done = compute({}, program.getIndex(devices - 1));
  });
  program.join(loc, streams);
  program.onMesh(loc, plan.mesh, [&] { scatter.reduce(program, received); });
  return done;
}
