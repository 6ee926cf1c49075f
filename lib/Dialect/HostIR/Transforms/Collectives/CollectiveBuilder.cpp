//===- CollectiveBuilder.cpp - builder of expanded collectives --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

CollectiveBuilder::CollectiveBuilder(CollectiveOp op, ChannelOp channel)
    : IndexBuilder(OpBuilder(op), op.getLoc()), op(op), groupSize(channel.groupSize()),
      position(buildGroupPosition(*this, getLoc(), channel)) {}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value CollectiveBuilder::element(Value buffer, Value index) {
  return buildElementView(*this, getLoc(), buffer, OpFoldResult(index));
}
Value CollectiveBuilder::element(Value buffer, int64_t index) {
  return buildElementView(*this, getLoc(), buffer, OpFoldResult(getIndexAttr(index)));
}
Value CollectiveBuilder::range(Value buffer, int64_t dim, OpFoldResult offset, int64_t count) {
  return buildRangeView(*this, getLoc(), buffer, dim, offset, count);
}

Value CollectiveBuilder::scratch(ArrayRef<int64_t> shape) {
  return AllocOp::create(*this, shape, typeOf(op.getInput()).getElementType(), op.getStream());
}

void CollectiveBuilder::release(Value buffer) { DeallocOp::create(*this, buffer, op.getStream()); }

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void CollectiveBuilder::copy(Value source, Value target) {
  CopyOp::create(*this, source, target, op.getStream());
}

void CollectiveBuilder::accumulate(Value source, Value target) {
  AccumulateOp::create(*this, reduction(), source, target, op.getStream());
}

void CollectiveBuilder::reduceFirst(Value source, Value target) {
  ReduceOp::create(*this, reduction(), source, target, ArrayRef<int64_t>{0}, op.getStream());
}

void CollectiveBuilder::send(Value buffer, Value peer) {
  auto group = GroupOp::create(*this, op.getChannel(), op.getStream());
  auto inside = OpBuilder::atBlockEnd(&group.getBody().emplaceBlock());
  SendOp::create(inside, getLoc(), buffer, peer);
}

void CollectiveBuilder::receive(Value buffer, Value peer) {
  auto group = GroupOp::create(*this, op.getChannel(), op.getStream());
  auto inside = OpBuilder::atBlockEnd(&group.getBody().emplaceBlock());
  RecvOp::create(inside, getLoc(), buffer, peer);
}

void CollectiveBuilder::exchange(Value sent, Value to, Value received, Value from) {
  auto group = GroupOp::create(*this, op.getChannel(), op.getStream());
  auto inside = OpBuilder::atBlockEnd(&group.getBody().emplaceBlock());
  RecvOp::create(inside, getLoc(), received, from);
  SendOp::create(inside, getLoc(), sent, to);
}

void CollectiveBuilder::ifThen(Value condition, function_ref<void()> then,
                               function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(*this, condition, /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(branch.thenBlock());
  then();
  if (!otherwise)
    return;
  setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

void CollectiveBuilder::loop(int64_t begin, int64_t end, function_ref<void(Value)> body) {
  if (begin >= end)
    return;
  auto loop = scf::ForOp::create(*this, constant(begin), constant(end), constant(1));
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

MemRefType hostir::getSliceType(CollectiveOp op) {
  auto input = cast<MemRefType>(op.getInput().getType());
  switch (op.getKind()) {
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::Scatter:
  case CollectiveKind::AllToAll:
    return MemRefType::get(input.getShape().drop_front(), input.getElementType());
  default:
    return MemRefType::get(input.getShape(), input.getElementType());
  }
}
