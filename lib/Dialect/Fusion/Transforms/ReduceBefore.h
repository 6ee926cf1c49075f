//===- ReduceBefore.h - reductions before nonlinear ops ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REDUCEBEFORE_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REDUCEBEFORE_H

#include "PassLog.h"
#include "mlir/IR/Operation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace tandem::fusion {

/// Operand axes of a local computation (null: undecided, or no tensor) after reducing the partial
/// operands that `op` cannot accept; `operands` itself if there are none. Undecided operands count
/// as not partial.
SmallVector<AxesAttr> reduceBefore(Operation *op, ArrayRef<AxesAttr> operands);

/// True if `reduceBefore` reduces something.
bool mustReduce(Operation *op, ArrayRef<AxesAttr> operands);

/// Extends `axes` of `value` after a reduction over the mesh axes `terms`: axes freed by the
/// reduction go to the dimensions where users of the value have them (decided users, their other
/// operands, reshards). There the reduction is a reduce-scatter.
AxesAttr scatterForUsers(Value value, AxesAttr axes, ArrayRef<AxesAttr> terms);

/// Inserts a reduction before the return of each partial value in `decided` (values without
/// annotated axes). Keeps the signature.
void reduceReturned(func::FuncOp function, ArrayRef<Value> decided, const PassLog &logger);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REDUCEBEFORE_H
