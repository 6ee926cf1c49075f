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
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tandem::fusion {

/// Reshards the decided tensor operands of an elementwise op to `axes`, with the schedule annotated
/// on the op. Calls `aligned` with the op and the operand's number.
void alignOperands(Operation *op, AxesAttr axes,
                   llvm::function_ref<void(Operation *, unsigned)> aligned);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ALIGNELEMENTWISE_H
