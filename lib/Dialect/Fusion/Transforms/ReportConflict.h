//===- ReportConflict.h - an error with both sources of axes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REPORTCONFLICT_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REPORTCONFLICT_H

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Reports an error at the op, with notes at both sources and their origins, back to annotated
/// types. `origins`: the value that decided another value's axes (null: default axes).
LogicalResult reportConflict(Operation *op, const AxesConflict &conflict,
                             const llvm::DenseMap<Value, Value> &origins);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REPORTCONFLICT_H
