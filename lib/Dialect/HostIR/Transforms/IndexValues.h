//===- IndexValues.h - arithmetic on known numbers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_INDEXVALUES_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_INDEXVALUES_H

#include "mlir/IR/Operation.h"
#include "tandem/Support/LLVM.h"
#include <optional>

namespace tandem::hostir {

/// The number that an `arith` op on integers or indices gives, if `valueOf` knows its operands.
/// Never changes the IR, as folding might. Nothing for other ops, for division by zero, and where a
/// result does not fit.
std::optional<int64_t> evaluateIndexOp(Operation *op,
                                       function_ref<std::optional<int64_t>(Value)> valueOf);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_INDEXVALUES_H
