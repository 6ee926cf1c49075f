//===- SplitAllReduce.h - an all-reduce as two reshards ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPLITALLREDUCE_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPLITALLREDUCE_H

#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Splits an all-reduce along one mesh axis into a reduce-scatter and an all-gather, on the
/// cheapest dimension, if this pays: the reduce-scatter can overlap its producer slice by slice.
/// Without a pricer, in a deterministic function, sums of floats are split on the first dimension
/// that can be. Skips all-reduces with stream digits
/// or an annotation. Returns whether it was split; `op` is then erased.
bool splitAllReduce(ReshardOp op, Pricer *pricer);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPLITALLREDUCE_H
