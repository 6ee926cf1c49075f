//===- StreamReshard.h - slices for a reshard and what is beside it -*- C++ -*-===//
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

namespace tandem::fusion {

/// Slices that a reshard can be cut into: `count` along dimension `dim`.
struct StreamFactor {
  int64_t dim = 0, count = 1;
  /// Pieces that the dimension consists of on all devices together: each slice has a part of every
  /// one of them (of a gather: from each owner). 1: a slice is one range of indices.
  int64_t pieces = 1;
  /// Of a reduction: a slice is of the piece of one device, to whom it goes; the result has no
  /// slices.
  bool toOwners = false;
  /// Of `count`, so many are of one device's piece, as a digit of their own.
  int64_t perOwner = 1;
};

/// The factors worth a look for a reshard that communicates and is not streamed: of a gather, a
/// slice per owner; of a reduce-scatter, a slice per device that gets it; of a gather or reduction,
/// 2, 4 and 8 slices along each dimension. With `oneSided` messages and at most 16 devices
/// also 2 and 4 slices per owner or receiver: one is too coarse to hide what comes first or last.
/// (Messages of two sides follow each other on their channel, and cost both GPUs.) Slices are
/// alike.
SmallVector<StreamFactor> getStreamFactors(ReshardOp op, bool oneSided);

/// Writes the factor into the types of the reshard's result, of the value that it reduces, and of
/// what is computed beside it slice by slice: consumers of a gather, the producer of a reduction.
/// The reshard is in a stream loop: its neighbours keep their types. Failure, with types half
/// changed, if one of the ops in the way cannot be sliced: try it on a copy.
LogicalResult streamReshard(ReshardOp op, const StreamFactor &factor);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_TRANSFORMS_STREAMRESHARD_H
