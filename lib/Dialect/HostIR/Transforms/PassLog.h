//===- PassLog.h - remarks of a pass ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_PASSLOG_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_PASSLOG_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

/// A remark at `op` that begins with the pass's flag. Uses only the location, since printing the op
/// would be too long.
inline InFlightDiagnostic logger(const Pass &pass, Operation *op) {
  return emitRemark(op->getLoc()) << pass.getArgument() << ": ";
}

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_PASSLOG_H
