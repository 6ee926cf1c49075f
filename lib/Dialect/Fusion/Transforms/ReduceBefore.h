//===- ReduceBefore.h - partial values before ops that need them whole -*- C++ -*-===//
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

/// The axes of the operands of a local computation (null: undecided, or no tensor) once those are
/// reduced whose terms `op` does not add up: `operands` itself if it can run on all of them as they
/// are. An undecided operand counts as one that is not partial.
SmallVector<AxesAttr> reduceBefore(Operation *op, ArrayRef<AxesAttr> operands);

/// True if `reduceBefore` reduces something.
bool mustReduce(Operation *op, ArrayRef<AxesAttr> operands);

/// `axes`, the axes that `value` is about to get behind a reduction over mesh axes that `terms` are
/// partial over, with those of these axes that are free on dimensions on which what is computed
/// from the value has them: a user that is decided, another operand of a user, or a reshard. A
/// reduction is a reduce-scatter there.
AxesAttr scatterForUsers(Value value, AxesAttr axes, ArrayRef<AxesAttr> terms);

/// Puts a reduction between each returned value that is partial and of `decided` (those that the
/// text leaves open) and the return. The signature is left as it is.
void reduceReturned(func::FuncOp function, ArrayRef<Value> decided, const PassLog &say);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REDUCEBEFORE_H
