//===- ReshardPlan.h - what one slice of a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESHARDPLAN_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESHARDPLAN_H

#include "Slices.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

namespace mlir::tandem {

enum class ReshardKind {
  Copy,          // same placement
  LocalSlice,    // replicated to split: everyone takes its piece
  AllGather,     // split to replicated
  AllReduce,     // partial to replicated
  ReduceScatter, // partial to split
  AllToAll,      // split on one dimension to split on another
  OwnerMoves,    // split to streamed: each slice has one owner, which has it all
};

/// Label of the digit of a source that takes this device's coordinate on the plan's axis (LocalSlice).
inline constexpr int64_t kDeviceLabel = -200;

/// What one slice of a reshard is: the communication, and the pieces of the local source and target buffers.
struct ReshardPlan {
  ReshardKind kind = ReshardKind::Copy;
  fusion::MeshAttr mesh;
  StringAttr axis; ///< the mesh axis that communicates; null for Copy
  fusion::ReduceKind reduction = fusion::ReduceKind::Sum;
  LocalDims source, target;

  /// OwnerMoves: the owner's coordinate on `axis`. It is a part of stream digit number `ownerDigit`, which has
  /// `ownerOuter` indices outside of it and `ownerInner` inside.
  Value owner;
  size_t ownerDigit = 0;
  int64_t ownerOuter = 1, ownerInner = 1;

  int64_t groupSize() const { return axis ? mesh.axisSize(axis) : 1; }
};

/// Reads both sides of `op` as one list of digits and says what the slice at `index` (the whole value if the result is
/// not streamed) is. With a null `builder` nothing is emitted and indices are null: for asking only. Errors go through
/// `emitError` and say what was found and what is accepted.
FailureOr<ReshardPlan> planReshard(fusion::ReshardOp op, const SliceIndex &index,
                                   OpBuilder *builder,
                                   function_ref<InFlightDiagnostic()> emitError);

/// An index for asking: one part a stream digit of `sizes`, without values.
SliceIndex getSymbolicIndex(ArrayRef<int64_t> sizes);

} // namespace mlir::tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESHARDPLAN_H
