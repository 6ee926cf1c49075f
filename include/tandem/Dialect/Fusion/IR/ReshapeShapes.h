//===- ReshapeShapes.h - extents through a reshape -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_RESHAPESHAPES_H
#define TANDEM_DIALECT_FUSION_IR_RESHAPESHAPES_H

#include "mlir/Support/LLVM.h"
#include "tandem/Support/LLVM.h"

#include <string>

namespace tandem::fusion {

/// Shape `to` with the `?` extents filled that follow from shape `from` of the same elements, in
/// either direction of a `fusion.reshape`. Failure where the shapes do not split and merge in
/// groups of equal size, or an extent would not be a whole number; `reason` then says so.
FailureOr<SmallVector<int64_t>> inferReshapedShape(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                                   std::string &reason);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_RESHAPESHAPES_H
