//===- EraseHints.h - scheduling hints of an op -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ERASEHINTS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ERASEHINTS_H

#include "mlir/IR/Operation.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Erases the hints `fusion.schedule` and `fusion.gather` of an op after its reshards were
/// inserted. Warns about a hint without effect, unless the mesh is one device. `isMended`: a
/// reshard was inserted that could be on the op's other side.
void eraseHints(Operation *op, bool isMended);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_ERASEHINTS_H
