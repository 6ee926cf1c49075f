//===- ScatteredSlices.cpp - slices that are handed to one owner each -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Support/SilenceDiagnostics.h"

using namespace mlir;
using namespace tandem;

/// The source digits of an all-to-all. Nothing if one of them crosses a digit of the other side.
static std::optional<SmallVector<ScatteredDigit::Source, 1>> getSources(const ReshardPlan &plan) {
  SmallVector<ScatteredDigit::Source, 1> sources;
  std::optional<int64_t> dim;
  unsigned local = 0;
  for (const CommonDigit &digit : plan.digits) {
    if (digit.crosses())
      return std::nullopt;
    if (digit.dim != dim)
      local = 0;
    dim = digit.dim;
    bool isSource = digit.source.isDevice() && !digit.target.isDevice();
    if (isSource) {
      if (digit.source.isPart())
        return std::nullopt;
      int64_t inner = 1;
      const StringAttr *axis = llvm::find(plan.axes, digit.source.axis);
      for (StringAttr other : llvm::make_range(axis + 1, plan.axes.end()))
        inner *= plan.groupMesh.axisSize(other);
      sources.push_back({static_cast<size_t>(digit.dim), local, digit.source.size, inner});
    }
    local += !digit.target.isDevice();
  }
  return sources;
}

std::optional<ScatteredDigit> tandem::getScatteredDigit(fusion::ReshardOp op) {
  RankedTensorType from = op.getInput().getType();
  auto streams = fusion::getStreamSizes(op.getResult().getType());
  if (failed(streams) || !streams->empty())
    return std::nullopt;
  SilenceDiagnostics silence(op.getContext());
  FailureOr<ReshardPlan> plan = planReshard(op, [&] { return op.emitError(); });
  if (failed(plan) || plan->groupSize() == 1 ||
      (plan->kind != SliceMove::ReduceScatter && plan->kind != SliceMove::AllToAll))
    return std::nullopt;

  // Where the owners' digits stand, next to each other: their dimension, and what adding 1 to
  // the last one adds to the index.
  const CommonDigit *last = nullptr;
  for (const CommonDigit &digit : plan->digits)
    if (digit.target.isDevice() && !digit.source.isDevice())
      last = &digit;
  if (!last || last->crosses())
    return std::nullopt;
  int64_t dim = last->dim, weight = 1;
  for (const CommonDigit *digit = last + 1; digit != plan->digits.end(); ++digit)
    weight *= digit->dim == dim ? digit->target.size : 1;

  ScatteredDigit found;
  if (plan->kind == SliceMove::AllToAll) {
    auto sources = getSources(*plan);
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
      if (isStream && !digit.ragged && static_cast<int64_t>(i) == dim && digit.weight == weight &&
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
