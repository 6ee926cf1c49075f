//===- WriteOutReshards.cpp - reshards that are several rows of the table -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteOutReshards.h"

#include "mlir/IR/Builders.h"
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
  for (const ReshardStep &step : ArrayRef(reshard.steps).drop_back()) {
    auto part = ReshardOp::create(builder, op.getLoc(), withAxes(from, step.to), value,
                                  op.getScheduleAttr(), false, StringAttr());
    value = part.getResult();
  }
  op.getInputMutable().assign(value);
  return static_cast<int64_t>(reshard.steps.size());
}
