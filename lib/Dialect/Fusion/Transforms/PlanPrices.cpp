//===- PlanPrices.cpp - prices of the local plans of an op ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanPrices.h"

#include "RewriteReshards.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

#include "llvm/ADT/SetVector.h"
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
    return ReshardOp::create(builder, loc, type, value, isLocal ? ScheduleAttr() : schedule);
  };
  // Constants become arguments: the program does not reshard them either.
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
    bool isDecided = getAxes(type) != nullptr;
    if (isDecided && samePlacement(axes, getAxes(type))) {
      results.push_back(result);
      continue;
    }
    result.setType(withAxes(type, axes));
    results.push_back(isDecided ? reshardTo(result, type) : result);
  }
  func->setType(builder.getFunctionType(func->getArgumentTypes(), ValueRange(results).getTypes()));
  func::ReturnOp::create(builder, loc, results);
  SmallVector<ReshardOp> reshards(func->getOps<ReshardOp>());
  for (ReshardOp reshard : reshards)
    if (failed(writeOutReshard(reshard)))
      return std::numeric_limits<double>::infinity();
  FailureOr<double> seconds = pricer.price(*func, Pricer::From::FormLoops);
  return succeeded(seconds) ? *seconds : std::numeric_limits<double>::infinity();
}

/// `op` and its transitive users in program order.
static SmallVector<Operation *> getForwardSlice(Operation *op) {
  constexpr unsigned kMostOps = 16, kMostTensorOps = 3;
  llvm::SetVector<Operation *> ops;
  ops.insert(op);
  unsigned tensorOps = 1;
  for (size_t next = 0; next < ops.size() && ops.size() < kMostOps; ++next)
    for (Value result : ops[next]->getResults()) {
      if (getAxes(result) || (tensorOps >= kMostTensorOps && !isElementwise(ops[next])))
        continue;
      for (Operation *user : result.getUsers())
        if ((isLocalComputation(user) || isa<ReshardOp>(user)) && ops.insert(user))
          tensorOps += !isElementwise(user) && !isa<ReshardOp>(user);
    }
  SmallVector<Operation *> sorted = ops.takeVector();
  llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

double fusion::priceResultAxes(Operation *op, AxesAttr axes, Pricer &pricer) {
  SmallVector<Operation *> slice = getForwardSlice(op);
  OpBuilder builder(op->getContext());
  OwningOpRef<func::FuncOp> func(
      func::FuncOp::create(builder, op->getLoc(), "candidate", builder.getFunctionType({}, {})));
  Block *body = func->addEntryBlock();
  builder.setInsertionPointToStart(body);
  IRMapping copies;
  SmallVector<Value> results;
  for (Operation *inside : slice) {
    for (Value operand : inside->getOperands()) {
      if (copies.contains(operand))
        continue;
      Operation *producer = operand.getDefiningOp();
      if (producer && producer->hasTrait<OpTrait::ConstantLike>())
        builder.clone(*producer, copies);
      else
        copies.map(operand, body->addArgument(operand.getType(), operand.getLoc()));
    }
    builder.clone(*inside, copies);
    for (Value result : inside->getResults())
      if (!llvm::all_of(result.getUsers(),
                        [&](Operation *user) { return llvm::is_contained(slice, user); }))
        results.push_back(copies.lookup(result));
  }
  Value result = copies.lookup(op->getResult(0));
  result.setType(withAxes(cast<RankedTensorType>(result.getType()), axes));
  func::ReturnOp::create(builder, op->getLoc(), results);
  func->setType(builder.getFunctionType(body->getArgumentTypes(), ValueRange(results).getTypes()));
  FailureOr<double> seconds = pricer.price(*func, Pricer::From::PropagateAxes);
  return succeeded(seconds) ? *seconds : std::numeric_limits<double>::infinity();
}

double fusion::getBytesReceived(Operation *op, const LocalPlan &plan) {
  double bytes = 0;
  for (auto [operand, axes] : llvm::zip_equal(op->getOperands(), plan.operands)) {
    if (!axes || samePlacement(axes, getAxes(operand)))
      continue;
    auto type = cast<RankedTensorType>(operand.getType());
    FailureOr<SmallVector<int64_t>> shape = getLocalShape(withAxes(type, axes));
    double local = succeeded(shape) ? (type.getElementTypeBitWidth() + 7) / 8 : 0;
    for (int64_t extent : succeeded(shape) ? *shape : SmallVector<int64_t>())
      local *= static_cast<double>(extent);
    bytes += local;
  }
  return bytes;
}
