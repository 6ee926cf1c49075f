//===- Reshard.h - what a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_RESHARD_H
#define TANDEM_DIALECT_FUSION_IR_RESHARD_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"
#include <string>

namespace tandem::fusion {

/// The rows of the reshard table (docs/fusion.md).
enum class ReshardKind {
  Nothing,       ///< no element changes its devices (stream digits may differ)
  Slice,         ///< replicated -> split: every device keeps a part of what it holds
  AllGather,     ///< split on fromDim -> replicated
  AllReduce,     ///< partial -> replicated
  ReduceScatter, ///< partial -> split on toDim
  AllToAll,      ///< split on fromDim -> split on toDim (or on the same one in other blocks)
  Permute,       ///< every device gets the whole piece of one other device (`sources`)
  SendRecv,      ///< as Permute, to another mesh
  Broadcast,     ///< one device -> replicated on another mesh
  Scatter,       ///< one device -> split on toDim on another mesh
  Gather,        ///< split on fromDim -> one device
  Reduce,        ///< partial -> one device
  Transfer, ///< anything else that only moves data: each device gets what it lacks from its owners
  Sequence, ///< several of the above, one after another: `steps`
  Unsupported, ///< `reason` says what was found and what is accepted
};

StringRef stringifyReshardKind(ReshardKind kind);

/// One row, on one or more mesh axes at once. With several `axes` the group is their product, in
/// row-major order.
struct ReshardStep {
  ReshardKind kind = ReshardKind::Nothing;
  SmallVector<StringAttr>
      axes; ///< mesh axes whose devices talk, in the order of the mesh; empty across meshes
  int64_t fromDim = -1;                    ///< dimension that was split, or -1
  int64_t toDim = -1;                      ///< dimension that is split afterwards, or -1
  ReduceKind reduceKind = ReduceKind::Sum; ///< AllReduce, ReduceScatter, Reduce
  AxesAttr to;                             ///< axes after this step
  /// Permute, SendRecv: per position of the destination's mesh the world rank whose piece it gets
  /// (its own rank: a copy).
  SmallVector<int64_t> sources;
  /// Broadcast, Scatter: the one source; Gather, Reduce: the one destination; a world rank, else
  /// -1.
  int64_t root = -1;

  /// No byte leaves a device.
  bool isLocal() const { return kind == ReshardKind::Nothing || kind == ReshardKind::Slice; }
};

struct Reshard : ReshardStep {
  SmallVector<ReshardStep> steps; ///< Sequence: each a row; the last one leads to the result's axes
  std::string reason;             ///< Unsupported

  bool isSupported() const { return kind != ReshardKind::Unsupported; }
};

/// The row in words: `reduce-scatter by max over gpu onto dimension 1`.
std::string describeReshard(const ReshardStep &step);

/// What turning a value of type `from` into one of type `to` (same shape) is. A total function: it
/// looks at placement, never at stream digits; mesh axes of one device do not matter. What is
/// several rows is a sequence: reductions before the rest, and a transfer for what no other rows
/// lead to. Unsupported is only what means nothing: undecided axes, two shapes, extents or mesh
/// sizes that are not known, and a result that is partial where the operand is not. Linear in the
/// number of devices.
Reshard classifyReshard(RankedTensorType from, RankedTensorType to);

/// True if every stream slice of `to` lies on one device of `from` along each mesh axis that `from`
/// splits and `to` does not: the reshard can move it point to point. False where something is not
/// known.
bool slicesHaveOneOwner(RankedTensorType from, RankedTensorType to);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_RESHARD_H
