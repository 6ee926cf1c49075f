//===- DimGroups.cpp - dimensions that ops say are one ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DimGroups.h"

#include "ZeroPadding.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static int64_t getRank(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

/// Whether rows read keys up to their own token only, in the usual order: then padding, which comes
/// last, is read by padding only.
static bool readsNoLaterToken(Operation *op) {
  auto attention = dyn_cast<AttentionOp>(op);
  return attention && attention.getCausal() && !attention.getZigzag();
}

void DimGroups::group(Operation *op, bool withCalls) {
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    for (int64_t dim = 0; dim < reshard.getType().getRank(); ++dim)
      unite(reshard.getInput(), dim, reshard.getResult(), dim);
    return;
  }
  std::optional<AxesRule> rule = getAxesRule(op);
  if (!rule || (isa<CallOp>(op) && !withCalls))
    return;
  SmallVector<std::optional<std::pair<Value, int64_t>>> first(rule->factors.size());
  auto visit = [&](Value value, int64_t dim, std::optional<int64_t> factor) {
    if (!factor || *factor == AxesRule::kNone || rule->factors[*factor] == FactorKind::Whole)
      return;
    auto &other = first[*factor];
    if (other)
      unite(other->first, other->second, value, dim);
    else
      other = {value, dim};
  };
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    for (int64_t dim = 0; dim < getRank(operand); ++dim)
      visit(operand, dim, getOperandFactor(*rule, i, dim));
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    for (int64_t dim = 0; dim < getRank(result); ++dim)
      visit(result, dim, getResultFactor(*rule, i, dim));
  if (readsNoLaterToken(op)) {
    auto attention = cast<AttentionOp>(op);
    int64_t tokens = attention.getType().getRank() - 2;
    unite(attention.getQuery(), tokens, attention.getKey(), tokens);
  }
}
