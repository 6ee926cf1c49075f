//===- StreamReshard.h - slices for a reshard and the compute next to it -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_TRANSFORMS_STREAMRESHARD_H
#define TANDEM_DIALECT_FUSION_TRANSFORMS_STREAMRESHARD_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"
#include <tuple>

namespace tandem::fusion {

/// Slices of a reshard: `count` along dimension `dim`.
struct StreamFactor {
  int64_t dim = 0, count = 1;
  /// Shards of the dimension on all devices: each slice has a part of each (for a gather: of each
  /// owner). 1: a slice is one range of indices.
  int64_t pieces = 1;
  /// For a reduction: a slice belongs to one device's shard and goes to that device; the result is
  /// not sliced.
  bool toOwners = false;
  /// How many of `count` slices belong to one device's shard, as a separate digit.
  int64_t perOwner = 1;
  /// Other gathers that lead to the sliced dimension stay whole.
  bool alone = false;

  bool operator==(const StreamFactor &other) const {
    return std::tie(dim, count, pieces, toOwners, perOwner, alone) ==
           std::tie(other.dim, other.count, other.pieces, other.toOwners, other.perOwner,
                    other.alone);
  }
};

/// Writes the factor into the types of the reshard's result, of the reduced value, and of the ops
/// computed slice by slice with it: consumers of a gather, the producer of a reduction. For a
/// reshard in a stream loop, the neighbours keep their types. Fails, with types half changed, if an
/// op cannot be sliced: try it on a copy.
LogicalResult streamReshard(ReshardOp op, const StreamFactor &factor);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_TRANSFORMS_STREAMRESHARD_H
