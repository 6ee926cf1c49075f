//===- Passes.h - passes of the pipeline itself -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_PASSES_H
#define TANDEM_COMPILER_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

#define GEN_PASS_DECL
#include "tandem/Compiler/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tandem/Compiler/Passes.h.inc"

} // namespace tandem

#endif // TANDEM_COMPILER_PASSES_H
