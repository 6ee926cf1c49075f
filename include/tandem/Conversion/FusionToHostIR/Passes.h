//===- Passes.h - conversion passes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_H
#define TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Support/LLVM.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace tandem {

#define GEN_PASS_DECL
#include "tandem/Conversion/FusionToHostIR/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tandem/Conversion/FusionToHostIR/Passes.h.inc"

/// Registers the schedules with the fusion dialect, which verifies `#fusion.schedule` against them.
void registerSchedules(DialectRegistry &registry);

/// Attaches the lowerings of the fusion dialect's ops to them.
void registerLowerings(DialectRegistry &registry);

} // namespace tandem

#endif // TANDEM_CONVERSION_FUSIONTOHOSTIR_PASSES_H
