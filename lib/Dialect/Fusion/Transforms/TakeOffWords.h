//===- TakeOffWords.h - the user's words beside an op -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_TAKEOFFWORDS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_TAKEOFFWORDS_H

#include "mlir/IR/Operation.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Takes `fusion.schedule` and `fusion.gather` off an op whose reshards stand. A word that none of
/// them has heard is a warning at the op, unless its mesh is one device; `isMended`: a reshard has
/// been put beside the op that could have stood on its other side.
void takeOffWords(Operation *op, bool isMended);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_TAKEOFFWORDS_H
