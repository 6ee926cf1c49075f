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

FailureOr<Value> GatherHops::getPlace(size_t i, const SliceIndex &slice) const {
  OpBuilder &builder = body.getBuilder();
  FailureOr<ReshardPlan> plan = GatherLoop::getSlice(gather.gathers[i], slice, Value(), builder);
  if (failed(plan))
    return failure();
  return makeView(builder, gather.getLoc(), places[i], plan->target, true);
}

FailureOr<Value> GatherHops::getSource(size_t i, const SliceIndex &slice, bool isOwn) const {
  if (!isOwn)
    return getPlace(i, slice);
  fusion::ReshardOp reshard = gather.gathers[i];
  return getPart(i, body.program.getBuffer(reshard.getInput()), slice);
}

FailureOr<Value> GatherHops::getPart(size_t i, Value shard, const SliceIndex &slice) const {
  OpBuilder &builder = body.getBuilder();
  FailureOr<ReshardPlan> plan = GatherLoop::getSlice(gather.gathers[i], slice, Value(), builder);
  if (failed(plan))
    return failure();
  return makeView(builder, gather.getLoc(), shard, plan->source, true);
}

LogicalResult GatherHops::emit(Value owner, Value nextOwner, bool isOwn, SliceNumbers numbers,
                               const MessageGroup &group, ArrayRef<Value> from,
                               ArrayRef<Value> to) const {
  Location loc = gather.getLoc();
  OpBuilder &builder = body.getBuilder();
  auto [first, end] = numbers.of(gather.digits);
  return body.program.loop(loc, first, end, [&](Value number) {
    SliceIndex next = gather.digits.getIndex(builder, loc, nextOwner, number, /*isFirst=*/false);
    return body.forEachShape(loc, next, [&](const SliceIndex &theirs) -> LogicalResult {
      // Slices of one number have one shape on every device.
      SliceIndex mine = gather.digits.getIndex(builder, loc, owner, number, isOwn);
      for (unsigned digit : gather.loop.raggedDigits)
        mine.digits[digit].front().isShort = theirs.digits[digit].front().isShort;
      SmallVector<Exchanged> pieces;
      for (size_t i = 0; i < gather.gathers.size(); ++i) {
        FailureOr<Value> out =
            isOwn || to.empty() ? getSource(i, mine, isOwn) : getPart(i, from[i], mine);
        FailureOr<Value> in = to.empty() ? getPlace(i, theirs) : getPart(i, to[i], theirs);
        if (failed(out) || failed(in))
          return failure();
        pieces.push_back({*out, *in});
      }
      group.emit(body.program, loc, pieces);
      return success();
    });
  });
}
