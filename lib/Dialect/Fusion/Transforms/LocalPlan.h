//===- LocalPlan.h - how an op could run locally -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_LOCALPLAN_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_LOCALPLAN_H

#include "mlir/IR/Operation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Axes with which an op runs without communication. Where they differ in placement from what an
/// operand has, or from what the result must have, a reshard goes between.
struct LocalPlan {
  SmallVector<AxesAttr> operands; // null for what is no tensor
  SmallVector<AxesAttr> results;
};

/// How `op` could run locally: with `GatherMode::Before` its operands become what its results need,
/// as far as a reshard before the op can do that (a dimension that is contracted in equal pieces
/// stays as it is); with `GatherMode::After` it runs on what is there (`planAfter`). All operands
/// and results are decided. Failure with `reason` if there is no such plan.
FailureOr<LocalPlan> planLocal(Operation *op, GatherMode gather, std::string &reason);

/// The op runs on what is there, and where that does not fit itself on what `chooseFactors` says.
/// Results may be undecided.
FailureOr<LocalPlan> planAfter(Operation *op, std::string &reason);

/// `planAfter` first, then the ways in which one mesh axis splits another dimension of the op, as
/// far as there are any. No reshape.
SmallVector<LocalPlan> listPlansAfter(Operation *op);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_LOCALPLAN_H
