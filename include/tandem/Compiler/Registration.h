//===- Registration.h - everything that a tool registers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_REGISTRATION_H
#define TANDEM_COMPILER_REGISTRATION_H

#include "mlir/IR/DialectRegistry.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Registers Tandem's dialects and the upstream dialects of its programs.
void registerTandemDialects(DialectRegistry &registry);

/// Tandem's passes and the pipeline `--tandem-lower`.
void registerTandemPasses();

} // namespace tandem

#endif // TANDEM_COMPILER_REGISTRATION_H
