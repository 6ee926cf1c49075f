//===- SimulatedPricer.h - candidates lowered and simulated -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COMPILER_SIMULATEDPRICER_H
#define TANDEM_LIB_COMPILER_SIMULATEDPRICER_H

#include "mlir/IR/DialectRegistry.h"
#include "tandem/Analysis/Pricer.h"

namespace tandem {

/// Attaches the simulating pricer to the fusion dialect.
void registerSimulatedPricer(mlir::DialectRegistry &registry);

} // namespace tandem

#endif // TANDEM_LIB_COMPILER_SIMULATEDPRICER_H
