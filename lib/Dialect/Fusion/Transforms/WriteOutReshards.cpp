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
using namespace mlir::tandem;
using namespace mlir::tandem::fusion;

FailureOr<int64_t> fusion::writeOutReshard(ReshardOp op) {
  RankedTensorType from = op.getInput().getType(), to = op.getType();
  Reshard reshard = classifyReshard(from, to);
  if (!reshard.isSupported())
    return op.emitOpError() << reshard.reason;
  if (reshard.kind != ReshardKind::Sequence ||
      (op.getSchedule() && op.getSchedule()->getKind() == ScheduleKind::Hierarchical))
    return 1;
  OpBuilder builder(op);
  Value value = op.getInput();
  ScheduleAttr schedule = op.getScheduleAttr();
  Location loc = op.getLoc();
  for (auto [number, step] : llvm::enumerate(reshard.steps)) {
    std::string text = std::to_string(number + 1) + " of " + std::to_string(reshard.steps.size()) +
                       ": " + describeReshard(step);
    StringAttr row = builder.getStringAttr(text);
    ReshardOp part = op;
    if (number + 1 == reshard.steps.size())
      op.getInputMutable().assign(value);
    else
      part = ReshardOp::create(builder, loc, withAxes(from, step.to), value, schedule, false, row);
    part.setRowAttr(row);
    part->setLoc(NameLoc::get(row, loc));
    // A word on how data moves is no word where none does.
    if (step.isLocal())
      part.removeScheduleAttr();
    value = part.getResult();
  }
  return static_cast<int64_t>(reshard.steps.size());
}
