//===- ScatteredSlices.cpp - slices that are handed to one owner each -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

/// The digits of the sources in the operand of an all-to-all: the result has them as digits too.
/// Nothing if a source has several blocks of a dimension: these are no neighbours in the result.
static std::optional<SmallVector<ScatteredDigit::Source, 1>>
getSources(RankedTensorType from, const fusion::SliceReshard &plan) {
  SmallVector<ScatteredDigit::Source, 1> sources;
  fusion::AxesAttr axes = fusion::getAxes(from);
  for (auto [dim, dimAxes] : llvm::enumerate(axes.getDims())) {
    unsigned local = 0;
    auto digits = fusion::resolveDim(dimAxes, from.getDimSize(dim), axes.getMesh());
    if (failed(digits))
      return std::nullopt;
    for (const fusion::ResolvedDigit &digit : *digits) {
      if (digit.kind != fusion::DigitKind::Device) {
        ++local;
        continue;
      }
      const StringAttr *axis = llvm::find(plan.axes, digit.axis);
      if (axis == plan.axes.end())
        continue;
      int64_t inner = 1;
      for (StringAttr other : llvm::make_range(axis + 1, plan.axes.end()))
        inner *= plan.groupMesh.axisSize(other);
      bool isOutermost = local == 0 || (!sources.empty() && sources.back().dim == dim &&
                                        sources.back().localDigit + 1 == local);
      if (!isOutermost)
        return std::nullopt;
      sources.push_back({dim, local++, digit.size, inner});
    }
  }
  return sources;
}

std::optional<ScatteredDigit> tandem::getScatteredDigit(fusion::ReshardOp op) {
  RankedTensorType from = op.getInput().getType();
  auto streams = fusion::getStreamSizes(op.getResult().getType());
  if (failed(streams) || !streams->empty())
    return std::nullopt;
  FailureOr<fusion::SliceReshard> plan = classifySlices(op);
  if (failed(plan) || plan->groupSize() == 1 ||
      (plan->kind != fusion::ReshardKind::ReduceScatter &&
       plan->kind != fusion::ReshardKind::AllToAll))
    return std::nullopt;

  // Where the owners' digits stand, next to each other: their dimension, and what adding 1 to
  // the last one adds to the index.
  const CommonDigit *last = nullptr;
  for (const CommonDigit &digit : plan->digits)
    if (digit.target.isDevice() && !digit.source.isDevice())
      last = &digit;
  if (!last || last->crosses())
    return std::nullopt;
  int64_t dim = last->dim, stride = 1;
  for (const CommonDigit *digit = last + 1; digit != plan->digits.end(); ++digit)
    stride *= digit->dim == dim ? digit->target.size : 1;

  ScatteredDigit found;
  if (plan->kind == fusion::ReshardKind::AllToAll) {
    auto sources = getSources(from, *plan);
    if (!sources)
      return std::nullopt;
    found.sources = std::move(*sources);
  }
  fusion::AxesAttr axes = fusion::getAxes(from);
  for (auto [i, dimAxes] : llvm::enumerate(axes.getDims())) {
    auto digits = fusion::resolveDim(dimAxes, from.getDimSize(i), axes.getMesh());
    if (failed(digits))
      return std::nullopt;
    unsigned local = 0;
    for (const fusion::ResolvedDigit &digit : *digits) {
      bool isStream = digit.kind == fusion::DigitKind::Stream;
      if (isStream && !digit.ragged && static_cast<int64_t>(i) == dim && digit.stride == stride &&
          digit.size == plan->groupSize()) {
        found.dim = i;
        found.localDigit = local;
        found.plan = std::move(*plan);
        return found;
      }
      found.streamDigit += isStream;
      local += digit.kind != fusion::DigitKind::Device;
    }
  }
  return std::nullopt;
}
