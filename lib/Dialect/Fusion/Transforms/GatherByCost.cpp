//===- GatherByCost.cpp - on which side of an op reshards take less -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GatherByCost.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

#include <limits>

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

double fusion::priceLocalPlan(Operation *op, const LocalPlan &plan, Pricer &pricer) {
  OpBuilder builder(op->getContext());
  Location loc = op->getLoc();
  auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
  auto reshardTo = [&](Value value, RankedTensorType type) -> Value {
    if (value.getType() == type)
      return value;
    bool isLocal = classifyReshard(cast<RankedTensorType>(value.getType()), type).isLocal();
    return ReshardOp::create(builder, loc, type, value, isLocal ? ScheduleAttr() : schedule, false,
                             StringAttr());
  };
  // Constants become arguments: none of them is resharded in the program either.
  OwningOpRef<func::FuncOp> func(
      func::FuncOp::create(builder, loc, "candidate",
                           builder.getFunctionType(op->getOperandTypes(), op->getResultTypes())));
  builder.setInsertionPointToStart(func->addEntryBlock());
  IRMapping operands;
  for (auto [operand, argument, axes] :
       llvm::zip_equal(op->getOperands(), func->getArguments(), plan.operands)) {
    auto type = cast<RankedTensorType>(operand.getType());
    bool moves = axes && !samePlacement(axes, getAxes(operand));
    operands.map(operand, moves ? reshardTo(argument, withAxes(type, axes)) : argument);
  }
  Operation *copy = builder.clone(*op, operands);
  copy->removeAttr(kScheduleAttrName);
  copy->removeAttr(kGatherAttrName);
  SmallVector<Value> results;
  for (auto [result, axes] : llvm::zip_equal(copy->getResults(), plan.results)) {
    auto type = cast<RankedTensorType>(result.getType());
    if (samePlacement(axes, getAxes(type))) {
      results.push_back(result);
      continue;
    }
    result.setType(withAxes(type, axes));
    results.push_back(reshardTo(result, type));
  }
  func::ReturnOp::create(builder, loc, results);
  FailureOr<double> seconds = pricer.price(*func);
  return succeeded(seconds) ? *seconds : std::numeric_limits<double>::infinity();
}
