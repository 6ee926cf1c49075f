//===- WriteOutReshards.h - reshards that are several rows of the table -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_WRITEOUTRESHARDS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_WRITEOUTRESHARDS_H

#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Replaces a reshard that is a sequence of rows by one reshard per row, unless its schedule takes
/// it whole. An error at the op if it is no row at all. Returns the number of reshards that it is
/// now.
FailureOr<int64_t> writeOutReshard(ReshardOp op);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_WRITEOUTRESHARDS_H
