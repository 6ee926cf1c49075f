//===- PlanPrices.h - prices of the local plans of an op --------*- C++ -*-===//
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

/// Seconds of `op` alone by a plan: its operands' reshards, the op, and its results' reshards. Each
/// reshard gets the cheapest slices and schedule, unless the op names a schedule. Operands and
/// results must be decided. Infinite if it cannot be lowered.
double priceLocalPlan(Operation *op, const LocalPlan &plan, Pricer &pricer);

/// Seconds of `op` with the undecided result set to `axes`, and of its transitive users up to
/// decided results, reshards, and the third non-elementwise op. Infinite if it cannot be lowered.
double priceResultAxes(Operation *op, AxesAttr axes, Pricer &pricer);

/// Bytes that a device receives before it can run `op` by the plan.
double getBytesReceived(Operation *op, const LocalPlan &plan);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PLANPRICES_H
