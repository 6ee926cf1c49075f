//===- AlignElementwise.cpp - one type all round an elementwise op -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlignElementwise.h"

#include "Retype.h"
#include "mlir/IR/Builders.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

bool fusion::isElementwise(Operation *op) {
  return isLocalComputation(op) && !isa<FusionTensorOpInterface>(op);
}

/// The truth value `operand` with `axes`: its op once more.
static LogicalResult computeAgain(OpOperand &operand, AxesAttr axes, Twins &twins,
                                  llvm::function_ref<void(Operation *, unsigned)> aligned) {
  Operation *producer = operand.get().getDefiningOp();
  if (!producer || !isElementwise(producer))
    return operand.getOwner()->emitOpError()
           << "expected operand " << operand.getOperandNumber() << " with axes " << formatAxes(axes)
           << ", found " << formatAxes(getAxes(operand.get()))
           << "; truth values do not travel: compare inside";
  Value &known = twins[{operand.get(), axes}];
  if (known) {
    operand.set(known);
    return success();
  }
  OpBuilder builder(producer->getContext());
  builder.setInsertionPointAfter(producer); // ahead of all users
  Operation *twin = builder.clone(*producer);
  known = twin->getResult(0);
  retype(twin->getResult(0), withAxes(cast<RankedTensorType>(operand.get().getType()), axes));
  operand.set(twin->getResult(0));
  return alignOperands(twin, axes, twins, aligned);
}

LogicalResult fusion::alignOperands(Operation *op, AxesAttr axes, Twins &twins,
                                    llvm::function_ref<void(Operation *, unsigned)> aligned) {
  for (OpOperand &operand : op->getOpOperands()) {
    AxesAttr mine = getAxes(operand.get());
    if (!mine || mine == axes)
      continue;
    auto type = cast<RankedTensorType>(operand.get().getType());
    if (type.getElementType().isInteger(1)) {
      if (failed(computeAgain(operand, axes, twins, aligned)))
        return failure();
    } else {
      RankedTensorType wanted = withAxes(type, axes);
      auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
      if (schedule && classifyReshard(type, wanted).isLocal())
        schedule = {};
      OpBuilder builder(op);
      operand.set(
          ReshardOp::create(builder, op->getLoc(), wanted, operand.get(), schedule, StringAttr()));
    }
    aligned(op, operand.getOperandNumber());
  }
  return success();
}
