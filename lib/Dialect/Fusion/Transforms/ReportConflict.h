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

/// An error at the op, with a note at each of the two sources and at what it comes from, back to
/// what stands in the text. `origins`: where the axes of a value that propagation has decided come
/// from (null: from nothing).
LogicalResult reportConflict(Operation *op, const AxesConflict &conflict,
                             const llvm::DenseMap<Value, Value> &origins);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_REPORTCONFLICT_H
