//===- WriteOutReshards.cpp - reshards that are several rows of the table -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteOutReshards.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Axes on the way, so that all parts run in one loop if they can: a dimension that is placed as at
/// the end, else as at the begin, has the digits that it has there.
static AxesAttr withSlices(AxesAttr at, AxesAttr from, AxesAttr to) {
  AxesAttr place = at.getPlacement(), first = from.getPlacement(), last = to.getPlacement();
  SmallVector<DimAxesAttr> dims(at.getDims());
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (at.getMesh() == to.getMesh() && place.getDims()[i] == last.getDims()[i])
      dim = to.getDims()[i];
    else if (at.getMesh() == from.getMesh() && place.getDims()[i] == first.getDims()[i])
      dim = from.getDims()[i];
  }
  return at.withDims(dims);
}

FailureOr<int64_t> fusion::writeOutReshard(ReshardOp op) {
  RankedTensorType from = op.getInput().getType(), to = op.getType();
  Reshard reshard = classifyReshard(from, to);
  if (!reshard.isSupported())
    return op.emitOpError() << reshard.reason;
  if (reshard.kind != ReshardKind::Sequence ||
      (op.getSchedule() && op.getSchedule()->takesSequences()))
    return 1;
  OpBuilder builder(op);
  Value value = op.getInput();
  ScheduleAttr schedule = op.getScheduleAttr();
  Location loc = op.getLoc();
  for (auto [number, step] : llvm::enumerate(reshard.steps)) {
    std::string text = std::to_string(number + 1) + " of " + std::to_string(reshard.steps.size()) +
                       ": " + describeReshard(step);
    ReshardOp part = op;
    if (number + 1 == reshard.steps.size())
      op.getInputMutable().assign(value);
    else
      part = ReshardOp::create(builder, loc,
                               withAxes(from, withSlices(step.to, getAxes(from), getAxes(to))),
                               value, schedule);
    part.setPart(true);
    part->setLoc(NameLoc::get(builder.getStringAttr(text), loc));
    // A word on how data moves is no word where none does.
    if (step.isLocal())
      part.removeScheduleAttr();
    value = part.getResult();
  }
  return static_cast<int64_t>(reshard.steps.size());
}
