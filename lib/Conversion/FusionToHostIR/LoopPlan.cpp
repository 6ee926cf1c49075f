//===- LoopPlan.cpp - the plan of a stream loop -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopPlan.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;

Explained<std::unique_ptr<LoopPlan>> LoopPlan::make(fusion::StreamLoopOp op) {
  if (!op.getScheduleAttr())
    return explain(op) << "expected a schedule; run fusion-select-schedule";
  Explained<StreamLoop> loop = getStreamLoop(op);
  if (failed(loop))
    return loop.explanation();
  return make(std::move(*loop), op.getScheduleAttr());
}

Explained<std::unique_ptr<LoopPlan>> LoopPlan::make(StreamLoop loop,
                                                    fusion::ScheduleAttr attribute) {
  const Schedule *schedule = getSchedule(attribute);
  if (!schedule)
    return loop.explain() << "expected a registered schedule, found " << attribute;
  loop.schedule = attribute;
  auto made = std::unique_ptr<LoopPlan>(new LoopPlan{std::move(loop), {}});
  if (Obstacle why = verifyRules(made->loop))
    return why;
  Explained<SchedulePlan> plan = schedule->match(made->loop);
  if (failed(plan))
    return plan.explanation();
  made->plan = std::move(*plan);
  return made;
}

Explained<const LoopPlan *> LoopPlans::get(fusion::StreamLoopOp op) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto known = plans.find(op);
    if (known != plans.end() && known->second->loop.schedule == op.getScheduleAttr())
      return known->second.get();
  }
  Explained<std::unique_ptr<LoopPlan>> made = LoopPlan::make(op);
  if (failed(made))
    return made.explanation();
  const LoopPlan *plan = made->get();
  set(op, std::move(*made));
  return plan;
}

void LoopPlans::set(fusion::StreamLoopOp op, std::unique_ptr<LoopPlan> plan) {
  std::lock_guard<std::mutex> lock(mutex);
  plans[op] = std::move(plan);
}

/// Reshard results are returned only if the whole function returns them: that may add a copy.
Trial::Trial(fusion::StreamLoopOp loop, ArrayRef<unsigned> returned, StringAttr deterministic) {
  OpBuilder builder(loop.getContext());
  func = func::FuncOp::create(builder, loop.getLoc(), "candidate",
                              builder.getFunctionType(loop.getOperandTypes(), {}));
  if (deterministic)
    (*func)->setAttr(fusion::kDeterministicAttrName, deterministic);
  Block *body = func->addEntryBlock();
  builder.setInsertionPointToStart(body);
  IRMapping operands;
  operands.map(loop.getOperands(), body->getArguments());
  Operation *copy = builder.clone(*loop, operands);
  SmallVector<Value> results;
  for (auto [value, result] :
       llvm::zip_equal(loop.getBody().front().getTerminator()->getOperands(), copy->getResults()))
    if (!value.getDefiningOp<fusion::ReshardOp>() ||
        llvm::is_contained(returned, cast<OpResult>(result).getResultNumber()))
      results.push_back(result);
  func::ReturnOp::create(builder, loop.getLoc(), results);
  func->setType(builder.getFunctionType(loop.getOperandTypes(), ValueRange(results).getTypes()));
}

fusion::StreamLoopOp Trial::getLoop() const {
  func::FuncOp trial = *func;
  return *trial.getOps<fusion::StreamLoopOp>().begin();
}

fusion::StreamLoopOp Trial::replace(fusion::StreamLoopOp op) {
  fusion::StreamLoopOp copy = getLoop();
  copy->dropAllUses();
  copy->moveBefore(op);
  copy->setOperands(op->getOperands());
  op->replaceAllUsesWith(copy);
  op.erase();
  return copy;
}

/// Cuts a reshard of a loop into slices. Failure if the loop cannot have them.
static LogicalResult cut(fusion::StreamLoopOp loop,
                         const std::pair<unsigned, fusion::StreamFactor> &slices) {
  if (failed(fusion::streamReshard(loop.getReshards()[slices.first], slices.second)))
    return failure();
  for (Operation &member : loop.getBody().front().without_terminator())
    if (fusion::isLocalComputation(&member) && failed(fusion::verifyLocal(&member, nullptr)))
      return failure();
  return success();
}

OwningOpRef<fusion::StreamLoopOp>
tandem::makeCut(fusion::StreamLoopOp loop, std::pair<unsigned, fusion::StreamFactor> &slices) {
  for (bool alone : {false, true}) {
    OwningOpRef<fusion::StreamLoopOp> copy(loop.clone());
    slices.second.alone = alone;
    if (succeeded(cut(*copy, slices)))
      return copy;
  }
  return {};
}

fusion::CandidateAttr
tandem::getCandidateAttr(fusion::ScheduleAttr schedule,
                         const std::optional<std::pair<unsigned, fusion::StreamFactor>> &slices) {
  if (!slices)
    return fusion::CandidateAttr::get(schedule);
  const auto &[reshard, factor] = *slices;
  return fusion::CandidateAttr::get(schedule.getContext(), schedule, factor.count, factor.dim,
                                    factor.pieces, factor.perOwner, factor.toOwners, reshard);
}

static bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<func::ReturnOp>(user) ||
           (isa<fusion::ReshapeOp, fusion::ConcatOp>(user) && isReturned(user->getResult(0)));
  });
}

SmallVector<unsigned> tandem::findReturned(fusion::StreamLoopOp loop) {
  SmallVector<unsigned> numbers;
  for (OpResult result : loop.getResults())
    if (isReturned(result))
      numbers.push_back(result.getResultNumber());
  return numbers;
}
