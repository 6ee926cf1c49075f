//===- StreamReshard.cpp - slices for a reshard and the compute next to it -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/Transforms/StreamReshard.h"

#include "Retype.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {

/// Appends digits to a dimension of a value, and to dimensions of the same factor in the loop.
class Slicer {
public:
  explicit Slicer(bool passesThrough) : passesThrough(passesThrough) {}

  /// `pieces`: adds a serial digit first if the value is whole along the resharded dimension.
  LogicalResult slice(Value value, int64_t dim, const StreamFactor &factor, int64_t pieces);

private:
  LogicalResult followUsers(Value value, int64_t dim, const StreamFactor &factor, int64_t pieces);
  LogicalResult followProducer(Value value, int64_t dim, const StreamFactor &factor,
                               int64_t pieces);
  LogicalResult followGathers(Operation *op, int64_t dim, const StreamFactor &factor,
                              int64_t pieces);

  /// Whether non-elementwise ops take slices of their operands.
  bool passesThrough;
  llvm::SmallDenseMap<Value, int64_t> seen;
};

} // namespace

static LogicalResult appendDigits(Value value, int64_t dim, const StreamFactor &factor,
                                  int64_t pieces) {
  auto type = cast<RankedTensorType>(value.getType());
  AxesAttr axes = getAxes(type);
  if (!axes || axes.hasStream())
    return failure();
  auto local = getLocalShape(type);
  if (failed(local) || (*local)[dim] % (pieces * factor.count) != 0)
    return failure();
  SmallVector<DimAxesAttr> dims(axes.getDims());
  SmallVector<Digit> digits(dims[dim].getDigits());
  // Other digits stay; block-cyclic layouts are not sliced.
  if (llvm::any_of(digits, [](const Digit &digit) { return !digit.isDevice(); }) ||
      (pieces > 1 && !digits.empty()))
    return failure();
  if (pieces > 1)
    digits.push_back(Digit{DigitKind::Serial, StringAttr(), pieces});
  digits.push_back(Digit{DigitKind::Stream, StringAttr(), factor.count / factor.perOwner});
  if (factor.perOwner > 1)
    digits.push_back(Digit{DigitKind::Stream, StringAttr(), factor.perOwner});
  dims[dim] = DimAxesAttr::get(value.getContext(), digits);
  retype(value, RankedTensorType::get(type.getShape(), type.getElementType(), axes.withDims(dims)));
  return success();
}

LogicalResult Slicer::slice(Value value, int64_t dim, const StreamFactor &factor, int64_t pieces) {
  auto [known, added] = seen.try_emplace(value, dim);
  if (!added)
    return success(known->second == dim);
  if (failed(appendDigits(value, dim, factor, pieces)))
    return failure();
  return success(succeeded(followProducer(value, dim, factor, pieces)) &&
                 succeeded(followUsers(value, dim, factor, pieces)));
}

LogicalResult Slicer::followProducer(Value value, int64_t dim, const StreamFactor &factor,
                                     int64_t pieces) {
  Operation *producer = value.getDefiningOp();
  if (!producer)
    return success();
  if (!isElementwise(producer))
    return followGathers(producer, dim, factor, pieces);
  // All types of an elementwise op are equal.
  for (Value operand : producer->getOperands())
    if (isa<RankedTensorType>(operand.getType()) && failed(slice(operand, dim, factor, pieces)))
      return failure();
  return success();
}

/// Of an op whose result is sliced: slices operands that are gathered along the same dimension.
/// Example: the scales of rows, next to the rows.
LogicalResult Slicer::followGathers(Operation *op, int64_t dim, const StreamFactor &factor,
                                    int64_t pieces) {
  std::optional<AxesRule> rule = getAxesRule(op);
  if (!passesThrough || factor.alone || !rule || !isLocalComputation(op) || rule->regroups() ||
      op->getNumResults() != 1)
    return success();
  int64_t along = rule->results[0][dim];
  for (OpOperand &operand : op->getOpOperands()) {
    auto gather = operand.get().getDefiningOp<ReshardOp>();
    const auto &factors = rule->operands[operand.getOperandNumber()];
    const auto *there = llvm::find(factors, along);
    if (!gather || there == factors.end())
      continue;
    Reshard reshard = classifyReshard(gather);
    if (reshard.kind == ReshardKind::AllGather && reshard.fromDim == there - factors.begin() &&
        failed(slice(operand.get(), there - factors.begin(), factor, pieces)))
      return failure();
  }
  return success();
}

LogicalResult Slicer::followUsers(Value value, int64_t dim, const StreamFactor &factor,
                                  int64_t pieces) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (!isLocalComputation(user))
      continue;
    if (isElementwise(user)) {
      for (Value result : user->getResults())
        if (failed(slice(result, dim, factor, pieces)))
          return failure();
      continue;
    }
    AxesRule rule = *getAxesRule(user);
    if (!passesThrough || rule.regroups())
      continue;
    int64_t along = rule.operands[use.getOperandNumber()][dim];
    // The op combines over the dimension or needs all of it: it reads slices and produces none.
    if (along == AxesRule::kNone || rule.factors[along] != FactorKind::Parallel)
      continue;
    const int64_t *there = llvm::find(rule.results[0], along);
    if (user->getNumResults() != 1 || there == rule.results[0].end() ||
        failed(slice(user->getResult(0), there - rule.results[0].begin(), factor, pieces)))
      return failure();
  }
  return success();
}

LogicalResult fusion::streamReshard(ReshardOp op, const StreamFactor &factor) {
  Reshard reshard = classifyReshard(op);
  bool gathers = reshard.kind == ReshardKind::AllGather ||
                 (reshard.kind == ReshardKind::AllToAll && !factor.toOwners);
  bool scatters = reshard.kind == ReshardKind::ReduceScatter && factor.dim == reshard.toDim;
  // The producer writes its slices for this reshard alone.
  if (!gathers && (!op.getInput().hasOneUse() || !op.getInput().getDefiningOp() ||
                   failed(Slicer(false).slice(op.getInput(), factor.dim, factor, factor.pieces))))
    return failure();
  if (!factor.toOwners && failed(Slicer(gathers).slice(op.getResult(), factor.dim, factor,
                                                       scatters ? 1 : factor.pieces)))
    return failure();
  return success();
}
