//===- Peers.cpp - order of a device's peers --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Peers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

Peers::Peers(ProgramBuilder &program, Location loc, MeshAttr mesh, ArrayRef<StringAttr> axes,
             PeerOrder order)
    : program(program), loc(loc), devices(1), me(program.getGroupPosition(loc, mesh, axes)),
      order(order) {
  for (StringAttr axis : axes)
    devices *= mesh.axisSize(axis);
}

Value Peers::rotate(Value coordinate, Value by) const {
  hostir::IndexBuilder math = program.math(loc);
  return math.mod(math.add(coordinate, by), devices);
}

Value Peers::getSource(Value distance) const {
  if (order == PeerOrder::Xor)
    return arith::XOrIOp::create(program.getBuilder(), loc, me, distance);
  return rotate(me, distance);
}

Value Peers::getTarget(Value distance) const {
  if (order == PeerOrder::Xor)
    return getSource(distance);
  return rotate(me, program.math(loc).sub(program.getIndex(devices), distance));
}

bool Peers::areNeighbours(PeerOrder order, int64_t first, int64_t count) {
  return order == PeerOrder::Rotated || (llvm::isPowerOf2_64(count) && first % count == 0);
}

Value Peers::getFirstSource(int64_t first, int64_t count) const {
  if (count == devices)
    return program.getIndex(0);
  Value source = getSource(program.getIndex(first));
  if (order == PeerOrder::Rotated || count == 1)
    return source;
  // The block of `count` coordinates that contains it.
  hostir::IndexBuilder math = program.math(loc);
  return math.sub(source, math.mod(source, count));
}

Value Peers::getFirstTarget(int64_t first, int64_t count) const {
  if (order == PeerOrder::Xor || count == devices)
    return getFirstSource(first, count);
  return getTarget(program.getIndex(first + count - 1));
}

LogicalResult Peers::forEachPiece(Value first, int64_t count, PieceFn body) const {
  if (count == 1 || count == devices || order == PeerOrder::Xor)
    return body(first, count, /*isFirst=*/true);
  OpBuilder &builder = program.getBuilder();
  Value before = program.math(loc).sub(program.getIndex(devices), first);
  auto when = [&](arith::CmpIPredicate predicate, int64_t bound,
                  function_ref<LogicalResult()> then) -> LogicalResult {
    Value holds = program.math(loc).compare(predicate, before, program.getIndex(bound));
    auto branch = scf::IfOp::create(builder, loc, holds, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    return then();
  };
  if (failed(when(arith::CmpIPredicate::uge, count, [&] { return body(first, count, true); })))
    return failure();
  for (int64_t length = 1; length < count; ++length)
    if (failed(when(arith::CmpIPredicate::eq, length, [&]() -> LogicalResult {
          if (failed(body(first, length, true)))
            return failure();
          return body(program.getIndex(0), count - length, false);
        })))
      return failure();
  return success();
}
