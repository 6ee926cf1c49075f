//===- EraseHints.cpp - scheduling hints of an op -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EraseHints.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Whether a reshard of an operand or result satisfies `holds`.
static bool hasReshard(Operation *op, llvm::function_ref<bool(ReshardOp)> holds) {
  auto isOne = [&](Operation *other) {
    auto reshard = dyn_cast_if_present<ReshardOp>(other);
    return reshard && holds(reshard);
  };
  return llvm::any_of(op->getOperands(), [&](Value v) { return isOne(v.getDefiningOp()); }) ||
         llvm::any_of(op->getUsers(), isOne);
}

/// An op's schedule also applies to the reductions of its partial results, which other ops or the
/// text may have requested.
static void scheduleReductions(Operation *op, ScheduleAttr schedule) {
  for (Operation *user : op->getUsers()) {
    auto reshard = dyn_cast<ReshardOp>(user);
    if (!reshard || reshard.getScheduleAttr() || !getAxes(reshard.getInput()).isPartial() ||
        classifyReshard(reshard.getInput().getType(), reshard.getType()).isLocal())
      continue;
    reshard.setScheduleAttr(schedule);
  }
}

void fusion::eraseHints(Operation *op, bool isMended) {
  AxesAttr axes = op->getNumResults() ? getAxes(op->getResult(0)) : AxesAttr();
  bool isAlone = axes && axes.getMesh().numDevices() == 1;
  auto schedule = dyn_cast_if_present<ScheduleAttr>(op->removeDiscardableAttr(kScheduleAttrName));
  if (schedule && !isElementwise(op))
    scheduleReductions(op, schedule);
  if (schedule && !isAlone &&
      !hasReshard(op, [&](ReshardOp reshard) { return reshard.getScheduleAttr() == schedule; }))
    op->emitWarning() << "'" << kScheduleAttrName
                      << "' has no effect: no reshard of this op communicates";
  auto gather = dyn_cast_if_present<StringAttr>(op->removeDiscardableAttr(kGatherAttrName));
  if (!gather || isAlone)
    return;
  // Elementwise ops have reshards only before them.
  bool isHeard = isElementwise(op)
                     ? gather == "before" && hasReshard(op, [](ReshardOp) { return true; })
                     : isMended;
  if (!isHeard)
    op->emitWarning() << "'" << kGatherAttrName
                      << "' has no effect: this op has no reshard on that side";
}
