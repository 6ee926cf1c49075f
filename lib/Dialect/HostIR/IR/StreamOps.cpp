//===- StreamOps.cpp - streams and the order between them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

bool hostir::isSameStream(Value a, Value b) {
  if (a == b)
    return true;
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  if (isa_and_present<MainStreamOp>(first) && isa_and_present<MainStreamOp>(second))
    return true;
  auto left = dyn_cast_if_present<WorkerStreamOp>(first);
  auto right = dyn_cast_if_present<WorkerStreamOp>(second);
  return left && right && left.getIndex() == right.getIndex();
}

// The last op before `op` in its block with side effects.
static Operation *previousCommand(Operation *op) {
  for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode())
    if (!isMemoryEffectFree(before))
      return before;
  return nullptr;
}

LogicalResult SyncOp::canonicalize(SyncOp op, PatternRewriter &rewriter) {
  if (isSameStream(op.getWaiter(), op.getSignaler())) {
    rewriter.eraseOp(op);
    return success();
  }
  // No command since the same sync.
  auto before = dyn_cast_if_present<SyncOp>(previousCommand(op));
  if (!before || !isSameStream(before.getWaiter(), op.getWaiter()) ||
      !isSameStream(before.getSignaler(), op.getSignaler()))
    return failure();
  rewriter.eraseOp(op);
  return success();
}
