//===- PlanPrices.h - what the ways to run an op locally take ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PLANPRICES_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PLANPRICES_H

#include "LocalPlan.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Seconds of `op` alone, as a plan runs it: the reshards of its operands, the op, the reshards of
/// its results. Each gets the slices and the schedule of the least price, unless the op names a
/// schedule for them. Operands and results are decided. Infinite if it cannot be lowered.
double priceLocalPlan(Operation *op, const LocalPlan &plan, Pricer &pricer);

/// Seconds of `op`, whose result is undecided and gets `axes`, and of what is computed from it: up
/// to ops with decided results, reshards, and the third op that is not elementwise. Infinite if
/// that cannot be lowered.
double priceResultAxes(Operation *op, AxesAttr axes, Pricer &pricer);

/// Bytes that a device receives before it can run `op` as the plan says.
double getBytesReceived(Operation *op, const LocalPlan &plan);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PLANPRICES_H
