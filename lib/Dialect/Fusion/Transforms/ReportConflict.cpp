//===- ReportConflict.cpp - an error with both sources of axes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReportConflict.h"

#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static std::string nameOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return "argument " + std::to_string(argument.getArgNumber());
  return "the result of '" + value.getDefiningOp()->getName().getStringRef().str() + "'";
}

LogicalResult fusion::reportConflict(Operation *op, const AxesConflict &conflict,
                                     const llvm::DenseMap<Value, Value> &origins) {
  InFlightDiagnostic diag = op->emitOpError() << conflict.reason;
  for (int64_t operand : {conflict.first, conflict.second}) {
    if (operand < 0)
      continue;
    Value value = op->getOperand(operand);
    diag.attachNote(value.getLoc())
        << "operand " << operand << " has " << formatAxes(getAxes(value));
    constexpr int maxNotes = 16;
    for (int i = 0; i < maxNotes && origins.contains(value); ++i) {
      value = origins.lookup(value);
      if (!value) {
        diag.attachNote(op->getOperand(operand).getLoc()) << "... by default";
        break;
      }
      diag.attachNote(value.getLoc())
          << "... from " << nameOf(value) << ", which has " << formatAxes(getAxes(value));
    }
  }
  return diag;
}
