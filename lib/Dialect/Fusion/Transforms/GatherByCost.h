//===- GatherByCost.h - on which side of an op reshards take less -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_GATHERBYCOST_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_GATHERBYCOST_H

#include "LocalPlan.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Seconds of `op` alone, as a plan runs it: the reshards of its operands, the op, the reshards of
/// its results. Each gets the slices and the schedule of the least price, unless the op names a
/// schedule for them. Infinite if it cannot be lowered.
double priceLocalPlan(Operation *op, const LocalPlan &plan, Pricer &pricer);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_GATHERBYCOST_H
