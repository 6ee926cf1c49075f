//===- Passes.h - passes over the hostir dialect -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All passes run on one `hostir.program`, in the order listed in Passes.td; programs of a module
// may run in parallel.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_TRANSFORMS_PASSES_H
#define TANDEM_DIALECT_HOSTIR_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_TRANSFORMS_PASSES_H
