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

/// Makes an all-reduce along one mesh axis a reduce-scatter and an all-gather, on the dimension
/// with which the producer and the two take least, if that is worth it: the reduce-scatter can
/// overlap the producer slice by slice. One with stream digits or an annotation stays.
/// Returns whether it has been split; the op is erased then.
bool splitAllReduce(ReshardOp op, Pricer &pricer);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPLITALLREDUCE_H
