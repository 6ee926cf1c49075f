//===- Passes.h - passes on the fusion dialect -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_H
#define TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "tandem/Support/LLVM.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace tandem::fusion {

/// Position of a reshard that may go on either side of an op.
enum class GatherMode { Before, After, Cost };

/// The pass after which `fusion-verify` runs.
enum class VerifyStage { Input, Propagated, Resharded };

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_H
