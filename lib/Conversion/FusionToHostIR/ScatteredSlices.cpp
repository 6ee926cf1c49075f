//===- ScatteredSlices.cpp - slices that a reduction hands to one owner -*- C++ -*-===//
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

std::optional<ScatteredDigit> tandem::getScatteredDigit(fusion::ReshardOp op) {
  RankedTensorType from = op.getInput().getType();
  auto streams = fusion::getStreamSizes(op.getResult().getType());
  if (failed(streams) || !streams->empty())
    return std::nullopt;
  SilenceDiagnostics silence(op.getContext());
  FailureOr<ReshardPlan> plan = planReshard(op, [&] { return op.emitError(); });
  if (failed(plan) || plan->kind != SliceMove::ReduceScatter || plan->groupSize() == 1)
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
