//===- GatherByCost.h - on which side of an op reshards take less -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_GATHERBYCOST_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_GATHERBYCOST_H

#include "LocalPlan.h"
#include "tandem/Analysis/CostModel.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// What an op and its reshards would take, each way.
struct GatherCosts {
  GatherMode mode = GatherMode::Before; ///< the quicker one; before, unless after is worth it
  double before = 0, after = 0;         ///< s
};

/// Compares the two ways in which `op` could run locally. Where nothing is streamed yet and no
/// schedule is named, each way may have the slices that suit it.
GatherCosts compareGather(Operation *op, const LocalPlan &before, const LocalPlan &after,
                          const CostModel &model);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_GATHERBYCOST_H
