//===- LoopCosts.cpp - what stream loops would take on a machine -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopCosts.h"

#include "Schedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Support/SilenceDiagnostics.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

namespace {
/// Prices loops by formulas for the commands of each schedule.
class CostModelPricer final : public LoopPricer {
public:
  explicit CostModelPricer(std::shared_ptr<const CostModel> model)
      : owned(std::move(model)), model(*owned) {}
  StringRef getName() const override { return model.getName(); }
  FailureOr<double> price(fusion::StreamLoopOp candidate) override;
  double getLeastGain(bool oneSided) const override { return model.getLeastGain(oneSided); }

private:
  LoopWork getWork(const StreamGroup &group) const;
  /// What an iteration does for an op; none if that is a part of another op's kernel, or nothing.
  std::optional<LoopItem> getItem(Operation *op, const StreamGroup &group) const;

  std::shared_ptr<const CostModel> owned;
  const CostModel &model;
};
} // namespace

/// Whether a kernel computes the op: an elementwise one, and not a constant, which is a part of the
/// kernels that use it.
static bool isOfKernel(Operation *op) {
  return fusion::isLocalComputation(op) && !isa<fusion::FusionTensorOpInterface>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>();
}

/// Whether the op's result stays inside the kernel of its consumers.
static bool isInner(Operation *op, const StreamGroup &group) {
  if (!isOfKernel(op) || op->use_empty())
    return false;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    // Ops that are not streamed stand alone in their groups, and feed each other all the same.
    bool together = group.streamSizes.empty() || llvm::is_contained(group.ops, user);
    if (!together || !isOfKernel(user))
      return false;
    auto result = cast<RankedTensorType>(user->getResult(0).getType());
    return result.getShape() == type.getShape() && fusion::getAxes(result) == fusion::getAxes(type);
  });
}

/// Bytes that an elementwise op reads, with what it takes over from those inside its kernel.
static double getBytesRead(Operation *op, const StreamGroup &group) {
  double bytes = 0;
  llvm::SmallPtrSet<Value, 8> seen;
  SmallVector<Operation *> inside{op};
  while (!inside.empty()) {
    for (Value operand : inside.pop_back_val()->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!type || !seen.insert(operand).second ||
          (producer && producer->hasTrait<OpTrait::ConstantLike>()))
        continue;
      if (producer && isInner(producer, group))
        inside.push_back(producer);
      else
        bytes += getLocalBytes(type);
    }
  }
  return bytes;
}

static LoopItem getReshardItem(fusion::ReshardOp op, const StreamGroup &group,
                               const CostModel &model) {
  SilenceDiagnostics silence(op.getContext());
  FailureOr<ReshardPlan> plan =
      planReshard(op, getSymbolicIndex(op), nullptr, [&] { return op.emitError(); });
  bool oneOwner =
      group.accumulators.contains(op) || (succeeded(plan) && plan->kind == ReshardKind::OwnerMoves);
  LoopItem item =
      model.getReshard(op.getInput().getType(), op.getType(), group.numSlices(), oneOwner);
  // Where no collective moves a slice, messages between pairs of devices do.
  bool isTransfer = succeeded(plan) && plan->kind == ReshardKind::Transfer && !plan->staysLocal;
  return isTransfer ? CostModel::inMessages(item) : item;
}

/// How often an iteration runs an op whose result has more stream digits than the loop.
static uint32_t getNumRepeats(Operation *op, const StreamGroup &group) {
  if (!group.digitMaps.contains(op))
    return 1;
  FailureOr<int64_t> slices =
      fusion::getNumSlices(cast<RankedTensorType>(op->getResult(0).getType()));
  int64_t inLoop = group.numSlices();
  return succeeded(slices) && *slices > inLoop ? static_cast<uint32_t>(*slices / inLoop) : 1;
}

std::optional<LoopItem> CostModelPricer::getItem(Operation *op, const StreamGroup &group) const {
  int64_t slices = group.numSlices();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (auto reshard = dyn_cast<fusion::ReshardOp>(op))
    return getReshardItem(reshard, group, model);
  std::optional<LoopItem> item;
  uint32_t repeat = getNumRepeats(op, group);
  if (isOfKernel(op)) {
    if (isInner(op, group))
      return std::nullopt;
    double bytes = getBytesRead(op, group) + getLocalBytes(type);
    item = model.getElementwise(bytes / static_cast<double>(slices * repeat));
  } else {
    SmallVector<RankedTensorType> operands;
    for (Type operand : op->getOperandTypes())
      operands.push_back(cast<RankedTensorType>(operand));
    std::optional<unsigned> accumulated;
    if (auto found = group.accumulators.find(op); found != group.accumulators.end())
      accumulated = found->second;
    item = model.getCompute(op, operands, type, slices * repeat, accumulated);
  }
  if (item)
    item->repeat *= repeat;
  return item;
}

LoopWork CostModelPricer::getWork(const StreamGroup &group) const {
  LoopWork work;
  work.slices = group.numSlices();
  for (Operation *op : group.ops)
    if (std::optional<LoopItem> item = getItem(op, group))
      work.items.push_back(*item);
  return work;
}

FailureOr<double> CostModelPricer::price(fusion::StreamLoopOp candidate) {
  SilenceDiagnostics silence(candidate.getContext());
  FailureOr<StreamGroup> group = getStreamGroup(candidate, [&] { return candidate.emitError(); });
  if (failed(group))
    return failure();
  LoopPlan plan = model.startPlan();
  auto addWhole = [&](ArrayRef<Operation *> ops) {
    StreamGroup whole;
    whole.ops.assign(ops.begin(), ops.end());
    model.addPipeline(plan, getWork(whole), 0);
  };
  addWhole(group->before);
  if (!getSchedule(group->schedule)->addTo(plan, *group, getWork(*group), model))
    return failure();
  addWhole(group->after);
  return model.predict(plan);
}

std::unique_ptr<LoopPricer>
tandem::createLoopPricer(StringRef machine, const CostModel::Options &options, std::string &error) {
  std::shared_ptr<const CostModel> model = CostModel::load(machine, options, error);
  return model ? std::make_unique<CostModelPricer>(std::move(model)) : nullptr;
}
