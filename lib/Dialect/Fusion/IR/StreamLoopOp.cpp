//===- StreamLoopOp.cpp - fusion.stream_loop and fusion.yield -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Program/Capabilities.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Whether two types differ only in stream digits.
static bool differInStreamsOnly(Type outside, Type inside) {
  auto from = dyn_cast<RankedTensorType>(outside), to = dyn_cast<RankedTensorType>(inside);
  if (!from || !to || from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType())
    return false;
  AxesAttr fromAxes = fusion::getAxes(from), toAxes = fusion::getAxes(to);
  return fromAxes == toAxes || samePlacement(fromAxes, toAxes);
}

LogicalResult StreamLoopOp::verifyBoundary(TypeRange outside, TypeRange inside, StringRef what,
                                           StringRef partner) {
  if (outside.size() != inside.size())
    return emitOpError() << "expected as many " << partner << "s as " << what << "s, found "
                         << inside.size() << " and " << outside.size();
  for (auto [i, types] : llvm::enumerate(llvm::zip_equal(outside, inside)))
    if (auto [mine, partners] = types; !differInStreamsOnly(mine, partners))
      return emitOpError() << "expected " << what << ' ' << i << " and its " << partner
                           << " to differ only in stream digits, found " << mine << " and "
                           << partners;
  return success();
}

LogicalResult StreamLoopOp::verify() {
  if (getSchedule().has_value() != getSource().has_value())
    return emitOpError("expected a schedule with its source, or neither");
  DictionaryAttr thresholds = getThresholds().value_or(DictionaryAttr::get(getContext()));
  for (NamedAttribute entry : thresholds) {
    bool isKnown = false;
    program::Thresholds().forEach(
        [&](StringRef name, int64_t &, bool) { isKnown |= name == entry.getName(); });
    auto number = dyn_cast<IntegerAttr>(entry.getValue());
    if (!isKnown || !number || !number.getType().isInteger(64) || number.getInt() < 1)
      return emitOpError() << "expected known thresholds and positive numbers, found "
                           << entry.getName() << " = " << entry.getValue();
  }
  Block &body = getBody().front();
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError() << "expected fusion.yield at the end of the body, found '"
                         << body.getTerminator()->getName() << "'";
  if (failed(verifyBoundary(getInputs().getTypes(), body.getArgumentTypes(), "operand",
                            "block argument")) ||
      failed(verifyBoundary(getResults().getTypes(), yield.getOperandTypes(), "result",
                            "yielded value")))
    return failure();
  llvm::SmallDenseSet<Value> seen;
  for (Value value : yield.getOperands())
    if (!value.getDefiningOp() || !seen.insert(value).second)
      return yield.emitOpError("expected distinct values that ops of the loop define");
  for (Operation &op : body.without_terminator()) {
    auto reshard = dyn_cast<ReshardOp>(&op);
    if (reshard && reshard.getScheduleAttr())
      return reshard.emitOpError("expected the schedule on the loop around the reshard");
    if (!reshard && !isLocalComputation(&op) && !op.hasTrait<OpTrait::ConstantLike>())
      return op.emitOpError("expected a reshard, an op that computes locally, or a constant in a "
                            "stream loop");
  }
  return success();
}

SmallVector<ReshardOp> StreamLoopOp::getReshards() {
  return llvm::to_vector(getBody().getOps<ReshardOp>());
}
