//===- StreamReshard.cpp - slices for a reshard and what is beside it -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/Transforms/StreamReshard.h"

#include "Retype.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static int64_t getGroupSize(const Reshard &reshard, MeshAttr mesh) {
  int64_t size = 1;
  for (StringAttr axis : reshard.axes)
    size *= mesh.axisSize(axis);
  return size;
}

/// With more devices, one slice per owner is fine enough, and pricing more would take several times
/// as long.
static constexpr int64_t kFewDevices = 16;

SmallVector<StreamFactor> fusion::getStreamFactors(ReshardOp op, bool oneSided) {
  RankedTensorType from = op.getInput().getType(), to = op.getType();
  Reshard reshard = classifyReshard(from, to);
  bool gathers = reshard.kind == ReshardKind::AllGather;
  bool reduces =
      reshard.kind == ReshardKind::AllReduce || reshard.kind == ReshardKind::ReduceScatter;
  if ((!gathers && !reduces) || getAxes(from).hasStream() || getAxes(to).hasStream())
    return {};
  int64_t group = getGroupSize(reshard, getAxes(to).getMesh());
  SmallVector<StreamFactor> factors;
  if (reshard.axes.size() == 1)
    for (int64_t each : {1, 2, 4}) {
      if (each > 1 && (!oneSided || group > kFewDevices))
        break;
      if (gathers)
        factors.push_back({reshard.fromDim, group * each, 1, /*toOwners=*/false, each});
      if (reshard.kind == ReshardKind::ReduceScatter)
        factors.push_back({reshard.toDim, group * each, 1, /*toOwners=*/true, each});
    }
  for (int64_t dim = 0; dim < to.getRank(); ++dim)
    for (int64_t count : {2, 4, 8}) {
      bool split = gathers ? dim == reshard.fromDim : dim == reshard.toDim;
      factors.push_back({dim, count, split ? group : 1});
    }
  return factors;
}

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
  if (!producer || !isElementwise(producer))
    return success();
  // All types of an elementwise op are equal.
  for (Value operand : producer->getOperands())
    if (isa<RankedTensorType>(operand.getType()) && failed(slice(operand, dim, factor, pieces)))
      return failure();
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
  Reshard reshard = classifyReshard(op.getInput().getType(), op.getType());
  bool gathers = reshard.kind == ReshardKind::AllGather;
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
