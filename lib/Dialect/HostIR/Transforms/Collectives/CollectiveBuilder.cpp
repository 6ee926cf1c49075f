//===- CollectiveBuilder.cpp - builder of expanded collectives --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

CollectiveBuilder::CollectiveBuilder(CollectiveOp op, ChannelOp channel)
    : op(op), channel(channel), b(op), groupSize(channel.groupSize()),
      position(buildGroupPosition(b, op.getLoc(), channel)) {}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Value CollectiveBuilder::constant(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc(), value);
}
Value CollectiveBuilder::add(Value a, int64_t value) { return add(a, constant(value)); }
Value CollectiveBuilder::add(Value a, Value other) {
  return b.createOrFold<arith::AddIOp>(loc(), a, other);
}
Value CollectiveBuilder::sub(Value a, Value other) {
  return b.createOrFold<arith::SubIOp>(loc(), a, other);
}
Value CollectiveBuilder::wrap(Value a) { return mod(a, groupSize); }
Value CollectiveBuilder::mod(Value a, int64_t m) {
  return b.createOrFold<arith::RemUIOp>(loc(), a, constant(m));
}
Value CollectiveBuilder::mul(Value a, int64_t factor) {
  return b.createOrFold<arith::MulIOp>(loc(), a, constant(factor));
}
Value CollectiveBuilder::isLess(Value a, int64_t value) {
  return b.createOrFold<arith::CmpIOp>(loc(), arith::CmpIPredicate::ult, a, constant(value));
}
Value CollectiveBuilder::isEqual(Value a, int64_t value) {
  return b.createOrFold<arith::CmpIOp>(loc(), arith::CmpIPredicate::eq, a, constant(value));
}
Value CollectiveBuilder::both(Value a, Value other) {
  return b.createOrFold<arith::AndIOp>(loc(), a, other);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value CollectiveBuilder::element(Value buffer, Value index) {
  return buildElementView(b, loc(), buffer, getAsOpFoldResult(index));
}
Value CollectiveBuilder::element(Value buffer, int64_t index) {
  return buildElementView(b, loc(), buffer, b.getIndexAttr(index));
}
Value CollectiveBuilder::range(Value buffer, int64_t dim, OpFoldResult offset, int64_t count) {
  return buildRangeView(b, loc(), buffer, dim, offset, count);
}

Value CollectiveBuilder::scratch(ArrayRef<int64_t> shape) {
  auto type = MemRefType::get(shape, cast<MemRefType>(op.getInput().getType()).getElementType());
  return AllocOp::create(b, loc(), type, op.getStream(), IntegerAttr(), IntegerAttr());
}

void CollectiveBuilder::release(Value buffer) {
  DeallocOp::create(b, loc(), buffer, op.getStream());
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void CollectiveBuilder::copy(Value source, Value target) {
  CopyOp::create(b, loc(), source, target, op.getStream());
}

void CollectiveBuilder::accumulate(Value source, Value target) {
  AccumulateOp::create(b, loc(), reduction(), source, target, op.getStream());
}

void CollectiveBuilder::reduceFirst(Value source, Value target) {
  ReduceOp::create(b, loc(), reduction(), source, target, ArrayRef<int64_t>{0}, op.getStream());
}

void CollectiveBuilder::send(Value buffer, Value peer) {
  auto group = GroupOp::create(b, loc(), op.getChannel(), op.getStream());
  auto inside = OpBuilder::atBlockEnd(&group.getBody().emplaceBlock());
  SendOp::create(inside, loc(), buffer, peer);
}

void CollectiveBuilder::receive(Value buffer, Value peer) {
  auto group = GroupOp::create(b, loc(), op.getChannel(), op.getStream());
  auto inside = OpBuilder::atBlockEnd(&group.getBody().emplaceBlock());
  RecvOp::create(inside, loc(), buffer, peer);
}

void CollectiveBuilder::exchange(Value sent, Value to, Value received, Value from) {
  auto group = GroupOp::create(b, loc(), op.getChannel(), op.getStream());
  auto inside = OpBuilder::atBlockEnd(&group.getBody().emplaceBlock());
  RecvOp::create(inside, loc(), received, from);
  SendOp::create(inside, loc(), sent, to);
}

void CollectiveBuilder::ifThen(Value condition, function_ref<void()> then,
                               function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, loc(), condition, /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  then();
  if (!otherwise)
    return;
  b.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

void CollectiveBuilder::loop(int64_t begin, int64_t end, function_ref<void(Value)> body) {
  if (begin >= end)
    return;
  auto loop = scf::ForOp::create(b, loc(), constant(begin), constant(end), constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
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
