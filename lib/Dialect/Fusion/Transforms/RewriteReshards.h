//===- RewriteReshards.h - reshards as other reshards -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REWRITERESHARDS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REWRITERESHARDS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/Explained.h"

namespace tandem::fusion {

/// Replaces a reshard that is a sequence of rows by one reshard per row, unless its schedule takes
/// it whole. Returns the number of reshards that it is
/// now; none if it is no row at all.
Explained<int64_t> writeOutReshard(ReshardOp op);

/// Splits an all-reduce along one mesh axis into a reduce-scatter and an all-gather, on the
/// cheapest dimension, if this pays: the reduce-scatter can overlap its producer slice by slice.
/// Without a pricer, in a deterministic function, sums of floats are split on the first dimension
/// that can be. Skips all-reduces with stream digits or an annotation. Returns whether it was
/// split; `op` is then erased.
bool splitAllReduce(ReshardOp op, Pricer *pricer);

/// Merges the reshards in a block that bring one value to one placement with one schedule; the
/// first one stays. Reshards without slices take those of the others if all their users can;
/// different slices are not merged. Reshards of a value's permutes and reshapes are merged too: the
/// views move after the reshard. Calls `shared` with the remaining reshard and the location of each
/// removed one.
void shareReshards(func::FuncOp function, llvm::function_ref<void(ReshardOp, Location)> shared);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REWRITERESHARDS_H
