//===- ShareReshards.h - one reshard for all who ask for the same pieces -*- C++ -*-===//
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

/// Leaves one reshard of those in a block that bring one value to one placement under one schedule:
/// the first, whoever wrote them. Where their slices differ, those that need none take the others',
/// if all their users can; other slices are another reshard. Reshards of a value and of its
/// permutes and reshapes are one too: the views are made of the resharded value. Calls `shared`
/// with the reshard that stays and the location of each that goes.
void shareReshards(func::FuncOp function, llvm::function_ref<void(ReshardOp, Location)> shared);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SHARERESHARDS_H
