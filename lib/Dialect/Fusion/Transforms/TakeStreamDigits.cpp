//===- TakeStreamDigits.cpp - a value is computed in the loop of its consumer -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TakeStreamDigits.h"

#include "Retype.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// The one op that the value is computed into, if digits pass through it.
static Operation *getConsumer(Value value) {
  Operation *producer = value.getDefiningOp();
  if (!producer || isElementwise(producer) || getAxes(value).hasStream() || !value.hasOneUse())
    return nullptr;
  Operation *user = *value.getUsers().begin();
  if (!isLocalComputation(user) || isElementwise(user) || getAxesRule(user)->regroups() ||
      user->getNumResults() != 1)
    return nullptr;
  AxesAttr result = getAxes(user->getResult(0));
  return result && result.getMesh() == getAxes(value).getMesh() ? user : nullptr;
}

void fusion::takeStreamDigits(ArrayRef<Value> values) {
  for (Value value : llvm::reverse(values)) {
    Operation *user = getConsumer(value);
    if (!user)
      continue;
    AxesAttr axes = getAxes(value), wanted = getAxes(user->getResult(0));
    AxesRule rule = *getAxesRule(user);
    SmallVector<DimAxesAttr> dims(axes.getDims());
    AxesAttr place = axes.getPlacement(), wantedPlace = wanted.getPlacement();
    for (auto [dim, factor] :
         llvm::enumerate(rule.operands[value.getUses().begin()->getOperandNumber()])) {
      const int64_t *it = llvm::find(rule.results[0], factor);
      if (factor == AxesRule::kNone || isOnOneDevice(rule.factors[factor]) ||
          it == rule.results[0].end())
        continue;
      size_t other = it - rule.results[0].begin();
      if (place.getDims()[dim] == wantedPlace.getDims()[other])
        dims[dim] = wanted.getDims()[other];
    }
    retype(value, withAxes(cast<RankedTensorType>(value.getType()), axes.withDims(dims)));
  }
}
