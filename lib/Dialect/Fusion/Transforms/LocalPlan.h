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

/// Axes with which an op runs locally. Reshards are needed where the placement of an operand or
/// result differs.
struct LocalPlan {
  SmallVector<AxesAttr> operands; // null if not a tensor
  SmallVector<AxesAttr> results;
};

/// Plans to run `op` locally. `GatherMode::Before` changes the operands to fit the results, as far
/// as possible (equal splits of a contracted dimension stay). `GatherMode::After` runs on the
/// present operands (`planAfter`). All operands and results must be decided. Fails with `reason` if
/// there is no such plan.
FailureOr<LocalPlan> planLocal(Operation *op, GatherMode gather, std::string &reason);

/// Runs the op on the present operands, or as `chooseFactors` decides if these do not fit each
/// other. Results may be undecided.
FailureOr<LocalPlan> planAfter(Operation *op, std::string &reason);

/// `planAfter` first, then variants where a mesh axis splits another dimension of the op. Not for
/// reshapes.
SmallVector<LocalPlan> listPlansAfter(Operation *op);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_LOCALPLAN_H
