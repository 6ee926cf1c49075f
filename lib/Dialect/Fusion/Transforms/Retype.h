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

/// Changes a value's tensor type (same known extents), and the attribute of a constant.
void retype(Value value, RankedTensorType type);

/// Creates a reshard of `value` to `type` next to `op`, with the schedule annotated on the op if it
/// communicates.
ReshardOp createReshard(OpBuilder &builder, Operation *op, RankedTensorType type, Value value);

/// Updates the function's type from its entry block's arguments and first return's operands.
void updateSignature(func::FuncOp function);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_RETYPE_H
