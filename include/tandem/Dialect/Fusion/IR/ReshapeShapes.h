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

/// Shape `to` with its `?` extents inferred from `from`, a shape of the same elements (either side
/// of a `fusion.reshape`). Fails, with `reason`, if the shapes do not split into groups of equal
/// size or an extent is no integer. Example: 8x6 and 2x? give 2x24.
FailureOr<SmallVector<int64_t>> inferReshapedShape(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                                   std::string &reason);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_RESHAPESHAPES_H
