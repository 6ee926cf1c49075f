//===- AlignElementwise.cpp - one type all round an elementwise op -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlignElementwise.h"

#include "Retype.h"
#include "mlir/IR/Builders.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

void fusion::alignOperands(Operation *op, AxesAttr axes,
                           llvm::function_ref<void(Operation *, unsigned)> aligned) {
  for (OpOperand &operand : op->getOpOperands()) {
    AxesAttr mine = getAxes(operand.get());
    if (!mine || mine == axes)
      continue;
    auto type = cast<RankedTensorType>(operand.get().getType());
    RankedTensorType wanted = withAxes(type, axes);
    auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    if (schedule && classifyReshard(type, wanted).isLocal())
      schedule = {};
    OpBuilder builder(op);
    operand.set(ReshardOp::create(builder, op->getLoc(), wanted, operand.get(), schedule));
    aligned(op, operand.getOperandNumber());
  }
}
