//===- Reshard.h - classification of reshards -------------------*- C++ -*-===//
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

inline bool isReduction(ReshardKind kind) {
  return kind == ReshardKind::AllReduce || kind == ReshardKind::ReduceScatter ||
         kind == ReshardKind::Reduce;
}

/// One row of the reshard table, on one or more mesh axes at once. The group is the product of
/// `axes`, row-major.
struct ReshardStep {
  ReshardKind kind = ReshardKind::Nothing;
  SmallVector<StringAttr>
      axes; ///< mesh axes of the communicating devices, in mesh order; empty across meshes
  int64_t fromDim = -1;                    ///< dimension split before, or -1
  int64_t toDim = -1;                      ///< dimension split after, or -1
  ReduceKind reduceKind = ReduceKind::Sum; ///< AllReduce, ReduceScatter, Reduce
  AxesAttr to;                             ///< axes after this step
  /// Permute, SendRecv: per position of the destination mesh, the world rank whose shard it gets
  /// (its own: a copy).
  SmallVector<int64_t> sources;
  /// Broadcast, Scatter: the source's world rank; Gather, Reduce: the destination's; else -1.
  int64_t root = -1;

  /// True if no data leaves a device.
  bool isLocal() const { return kind == ReshardKind::Nothing || kind == ReshardKind::Slice; }
};

struct Reshard : ReshardStep {
  SmallVector<ReshardStep> steps; ///< Sequence: its rows; the last has the result's axes
  std::string reason;             ///< Unsupported

  bool isSupported() const { return kind != ReshardKind::Unsupported; }
  /// Whether a row reduces.
  bool reduces() const {
    return isReduction(kind) ||
           llvm::any_of(steps, [](const ReshardStep &step) { return isReduction(step.kind); });
  }
};

/// The row in words: `reduce-scatter by max over gpu onto dimension 1`.
std::string describeReshard(const ReshardStep &step);

/// Classifies the reshard of `from` to `to` (same shape) by placement only: ignores stream digits
/// and mesh axes of size 1. Gives a sequence if several rows are needed: reductions first, a
/// transfer for the rest. Unsupported: undecided axes, different shapes, unknown extents or mesh
/// sizes, and a result that is partial unlike the operand. Linear in the number of devices.
/// Example: `[didx("x"), -]` to `[-, -]` is AllGather over "x" with fromDim 0.
Reshard classifyReshard(RankedTensorType from, RankedTensorType to);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_RESHARD_H
