//===- GatherByCost.cpp - on which side of an op reshards take less -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GatherByCost.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static RankedTensorType withAxes(Value value, AxesAttr axes) {
  auto type = cast<RankedTensorType>(value.getType());
  return RankedTensorType::get(type.getShape(), type.getElementType(), axes);
}

/// The reshards before the op, the op, the reshards behind it: one slice of each.
static LoopWork getWork(Operation *op, const LocalPlan &plan, const CostModel &model) {
  LoopWork work;
  work.slices = getNumSlices(cast<RankedTensorType>(op->getResult(0).getType())).value_or(1);
  auto add = [&](RankedTensorType from, RankedTensorType to) {
    if (samePlacement(getAxes(from), getAxes(to)))
      return;
    bool oneOwner = work.slices > 1 && classifyReshard(from, to).kind == ReshardKind::AllGather &&
                    slicesHaveOneOwner(from, to);
    work.items.push_back(model.getReshard(from, to, work.slices, oneOwner));
  };
  SmallVector<RankedTensorType> operands;
  for (auto [operand, axes] : llvm::zip_equal(op->getOperands(), plan.operands)) {
    auto type = cast<RankedTensorType>(operand.getType());
    operands.push_back(axes ? withAxes(operand, axes) : type);
    add(type, operands.back());
  }
  for (auto [result, axes] : llvm::zip_equal(op->getResults(), plan.results)) {
    RankedTensorType made = withAxes(result, axes);
    if (std::optional<LoopItem> item = model.getCompute(op, operands, made, work.slices))
      work.items.push_back(*item);
    add(made, cast<RankedTensorType>(result.getType()));
  }
  return work;
}

static double predict(const LoopWork &work, const CostModel &model) {
  LoopPlan plan = model.startPlan();
  model.addPipeline(plan, work, 0);
  double seconds = model.predict(plan);
  bool oneGather =
      llvm::count_if(work.items, [](const LoopItem &item) { return item.communicates(); }) == 1;
  if (oneGather && work.items.front().oneOwner) {
    LoopPlan exchange = model.startPlan();
    model.addExchange(exchange, work, 0, /*copiesOwn=*/false);
    seconds = std::min(seconds, model.predict(exchange));
  }
  return seconds;
}

static double predictBest(Operation *op, const LocalPlan &plan, const CostModel &model) {
  LoopWork work = getWork(op, plan, model);
  double best = predict(work, model);
  if (work.slices == 1 && !op->hasAttr(kScheduleAttrName))
    for (int64_t count : {2, 4, 8})
      best = std::min(best, predict(model.cut(work, count), model));
  return best;
}

GatherCosts fusion::compareGather(Operation *op, const LocalPlan &before, const LocalPlan &after,
                                  const CostModel &model) {
  GatherCosts costs;
  costs.before = predictBest(op, before, model);
  costs.after = predictBest(op, after, model);
  if (costs.after < (1 - CostModel::kLeastGain) * costs.before)
    costs.mode = GatherMode::After;
  return costs;
}
