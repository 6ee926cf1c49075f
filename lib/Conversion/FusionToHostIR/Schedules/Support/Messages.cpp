//===- Messages.cpp - groups of a send and a receive ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Messages.h"

using namespace mlir;
using namespace tandem;

void MessageGroup::emit(ProgramBuilder &program, Location loc, ArrayRef<Exchanged> pieces) const {
  OpBuilder &builder = program.getBuilder();
  auto group = hostir::GroupOp::create(builder, loc, channel, stream);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&group.getBody());
  for (auto [out, in] : pieces) {
    hostir::RecvOp::create(builder, loc, in, from);
    hostir::SendOp::create(builder, loc, out, to);
  }
}

GatherHops::GatherHops(const GatherLoop &gather, LoopEmitter &body, ArrayRef<Value> places)
    : gather(gather), body(body), places(places) {
  if (places.empty())
    for (fusion::ReshardOp reshard : gather.gathers)
      this->places.push_back(body.program.getBuffer(reshard.getResult()));
}

FailureOr<Value> GatherHops::getPlace(size_t i, const SliceIndex &slice) const {
  OpBuilder &builder = body.getBuilder();
  FailureOr<ReshardPlan> plan = planReshardFor(gather.gathers[i], slice, Value(), builder);
  if (failed(plan))
    return failure();
  return makeView(builder, gather.getLoc(), places[i], plan->target, true);
}

FailureOr<Value> GatherHops::getSource(size_t i, const SliceIndex &slice, bool isOwn,
                                       Value receiver) const {
  if (!isOwn)
    return getPlace(i, slice);
  fusion::ReshardOp reshard = gather.gathers[i];
  return getPart(i, body.program.getBuffer(reshard.getInput()), slice, receiver);
}

FailureOr<Value> GatherHops::getPart(size_t i, Value shard, const SliceIndex &slice,
                                     Value receiver) const {
  OpBuilder &builder = body.getBuilder();
  FailureOr<ReshardPlan> plan = planReshardFor(gather.gathers[i], slice, receiver, builder);
  if (failed(plan))
    return failure();
  return makeView(builder, gather.getLoc(), shard, plan->source, true);
}

LogicalResult GatherHops::emitSlice(Value owner, bool isOwn, Value number, const SliceIndex &theirs,
                                    const MessageGroup &group, ArrayRef<Value> from,
                                    ArrayRef<Value> to) const {
  Location loc = gather.getLoc();
  // Slices of one number have one shape on every device.
  SliceIndex mine = gather.digits.getIndex(body.getBuilder(), loc, owner, number, isOwn);
  for (unsigned digit : gather.loop.raggedDigits)
    mine.digits[digit].front().isShort = theirs.digits[digit].front().isShort;
  SmallVector<Exchanged> pieces;
  for (size_t i = 0; i < gather.gathers.size(); ++i) {
    FailureOr<Value> out =
        isOwn || to.empty() ? getSource(i, mine, isOwn, group.to) : getPart(i, from[i], mine);
    FailureOr<Value> in = to.empty() ? getPlace(i, theirs) : getPart(i, to[i], theirs);
    if (failed(out) || failed(in))
      return failure();
    pieces.push_back({*out, *in});
  }
  group.emit(body.program, loc, pieces);
  return success();
}

LogicalResult GatherHops::emit(Value owner, Value nextOwner, bool isOwn, SliceNumbers numbers,
                               const MessageGroup &group, ArrayRef<Value> from,
                               ArrayRef<Value> to) const {
  return gather.digits.forEachSlice(body, gather.getLoc(), nextOwner, /*isFirst=*/false, numbers,
                                    onMain, [&](Value number, const SliceIndex &theirs, Value) {
                                      return emitSlice(owner, isOwn, number, theirs, group, from,
                                                       to);
                                    });
}
