//===- ReshapeGroups.h - which dimensions a reshape splits and merges -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_IR_RESHAPEGROUPS_H
#define TANDEM_LIB_DIALECT_FUSION_IR_RESHAPEGROUPS_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Dimensions [fromBegin, fromEnd) of one shape hold the same elements as [toBegin, toEnd) of the
/// other.
struct ReshapeGroup {
  int64_t fromBegin, fromEnd, toBegin, toEnd;
};

/// The finest groups that cover both shapes, in order. Fails if dynamic extents leave them open, or
/// the numbers of elements differ. Example: 8x6x5 and 2x24x5 have the groups 8x6 -> 2x24 and 5
/// -> 5.
FailureOr<SmallVector<ReshapeGroup>> getReshapeGroups(ArrayRef<int64_t> from, ArrayRef<int64_t> to);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_RESHAPEGROUPS_H
