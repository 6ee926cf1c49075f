//===- VerifyElementwise.h - which elementwise ops kernels compute -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_VERIFYELEMENTWISE_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_VERIFYELEMENTWISE_H

#include "mlir/IR/Operation.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Success if a kernel can compute the elementwise op, or constant, for its elements (see
/// ElementTypes.h); else an error at the op that says what kernels compute. docs/kernels.md;
/// the counterpart is lib/Target/StreamProgram/Kernels.cpp.
LogicalResult verifyElementwise(Operation *op);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_VERIFYELEMENTWISE_H
