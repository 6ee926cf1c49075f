//===- ShareReshards.h - one reshard for all users of the same pieces -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SHARERESHARDS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SHARERESHARDS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tandem::fusion {

/// Merges the reshards in a block that bring one value to one placement with one schedule; the
/// first one stays. Reshards without slices take those of the others if all their users can;
/// different slices stay apart. Reshards of a value's permutes and reshapes are merged too: the
/// views move after the reshard. Calls `shared` with the remaining reshard and the location of each
/// removed one.
void shareReshards(func::FuncOp function, llvm::function_ref<void(ReshardOp, Location)> shared);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SHARERESHARDS_H
