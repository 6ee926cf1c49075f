//===- AlignElementwise.h - one type all round an elementwise op -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ALIGNELEMENTWISE_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ALIGNELEMENTWISE_H

#include "mlir/IR/Operation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::fusion {

/// An upstream elementwise op or constant: its operands and results have one type, but for their
/// elements.
bool isElementwise(Operation *op);

/// Truth values computed again: by value and axes. One twin serves all users, or what is shared
/// would be computed once a path.
using Twins = llvm::DenseMap<std::pair<Value, AxesAttr>, Value>;

/// Gives the decided tensor operands of an elementwise op `axes`: each through a reshard before it,
/// with the schedule that stands beside the op. Truth values (i1) do not travel: they are computed
/// again, once for all who want them alike (`twins`), from operands that do. `aligned` is told of
/// every op that has got other operands, with the operand's number. An error at the op if a truth
/// value cannot be computed again, for it is an argument.
LogicalResult alignOperands(Operation *op, AxesAttr axes, Twins &twins,
                            llvm::function_ref<void(Operation *, unsigned)> aligned);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ALIGNELEMENTWISE_H
