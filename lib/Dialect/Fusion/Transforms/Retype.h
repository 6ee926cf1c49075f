//===- Retype.h - changing the types of values in place -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_RETYPE_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_RETYPE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Gives a value another tensor type of the same extents (where known); a constant's attribute
/// follows.
void retype(Value value, RankedTensorType type);

/// Makes the function's type what its entry block's arguments and its first return's operands have.
void updateSignature(func::FuncOp function);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_RETYPE_H
