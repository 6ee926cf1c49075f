//===- Placement.h - elements of a device, and of an iteration -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pure functions on types. A *position* is the row-major index of a device in its mesh (not its
// world rank). All functions fail, without a diagnostic, if they need an extent or mesh size that
// is `?`, or if digits do not fit an extent (the encoding's verifier excludes this for known
// extents).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_PLACEMENT_H
#define TANDEM_DIALECT_FUSION_IR_PLACEMENT_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// A digit with its size and stride: incrementing the digit adds `stride` to the index of
/// the dimension. `axis` as in Digit. Example: 8 rows as `didx("x") * stream(2)` with "x" = 4: didx
/// has stride 2, stream stride 1, so device 1, iteration 0 has row 2.
struct ResolvedDigit {
  DigitKind kind;
  StringAttr axis;
  int64_t size;
  int64_t stride;
  /// For a stream digit with a shorter last slice, which is always innermost: the number of indices
  /// that it cuts into `size` slices of `stride`. Otherwise 0. Example: 10 for stream(3) of 10
  /// indices, with slices of 4, 4 and 2.
  int64_t ragged = 0;

  /// The digit's factor of the extent. Example: 3 for stream(3) of 12 indices; 10 for stream(3) of
  /// 10.
  int64_t span() const { return ragged ? ragged : size; }
  bool operator==(const ResolvedDigit &o) const {
    return kind == o.kind && axis == o.axis && size == o.size && stride == o.stride &&
           ragged == o.ragged;
  }
};

/// Whether `count` slices of ceil(extent / count) indices are all nonempty. Example: 5 slices of 48
/// are 10, 10, 10, 10 and 8; 4 slices of 6 would be 2, 2, 2 and 0.
bool isSliceCount(int64_t extent, int64_t count);

/// The digits of a dimension of `extent` indices, outermost first, with the size of bare `stream`
/// filled in. The remaining factor follows as a serial digit, unless it is 1 and there are other
/// digits or the last stream digit is ragged. Example: `didx("x") * stream(3)` of 48 with "x" = 4
/// gives didx (size 4, stride 12), stream (size 3, stride 4), serial (size 4, stride 1).
FailureOr<SmallVector<ResolvedDigit>> resolveDim(DimAxesAttr dim, int64_t extent, MeshAttr mesh);

/// `resolveDim` of every dimension of a decided type. Example: 48x5 as `[didx("x"), -]` with "x" =
/// 4 gives {didx (4, 12), serial (12, 1)} and {serial (5, 1)}.
FailureOr<SmallVector<SmallVector<ResolvedDigit>>> resolveDims(RankedTensorType type);

/// Extents of one device's shard: without the device digits. Dynamic extents stay dynamic. Example:
/// 48x8 as `[didx("x") * stream(3), -]` with "x" = 4 is 12x8.
FailureOr<SmallVector<int64_t>> getLocalShape(RankedTensorType type);

/// Sizes of the stream digits, outermost dimension and digit first: the extents of the stream loop.
/// Iteration i has the row-major digits of i. Example: `[stream(3), stream(2)]` gives {3, 2};
/// iteration 4 is slice 2 of dimension 0 and slice 0 of dimension 1.
FailureOr<SmallVector<int64_t>> getStreamSizes(RankedTensorType type);

/// Elements of a row-major buffer: visits offset + sum(index * stride) for the indices of `shape`
/// in row-major order. Example: offset 3, shape 2x2, strides {6, 1} visits 3, 4, 9, 10.
struct StridedWalk {
  int64_t offset = 0;
  SmallVector<int64_t> shape;
  SmallVector<int64_t> strides;
};

/// The location of the shard at `position` in the row-major logical tensor: visits the elements of
/// the row-major local buffer in order. Becomes the stream program's `Shard`. Example: 8x6 as `[-,
/// didx("x")]` with "x" = 2, position 1, has offset 3, shape 8x3 and strides {6, 1}.
FailureOr<StridedWalk> getShard(RankedTensorType type, int64_t position);

/// The same for a tensor of shape `extents` that was padded to `type` (see fusion-pad-extents): the
/// walk is in the tensor that is not padded. Example: 5x6 padded to 6x6 as `[didx("x"), -]` with
/// "x" = 2, position 1, has offset 18, shape 2x6 and strides {6, 1}.
///
/// Where serial digits are outside of device digits, the walk may visit more indices of a dimension
/// than `getValidShape` says: the buffer has the first ones. Example: 11 padded to 12 as
/// `[serial(2) * didx("x")]`, position 1, has 3, 4, 5, 9 and 10: offset 3, shape 2x3, strides
/// {6, 1}, of which the first 5.
FailureOr<StridedWalk> getShard(RankedTensorType type, ArrayRef<int64_t> extents, int64_t position);

/// Extents of the part of the shard at `position` that is not padding: per dimension the number of
/// local indices, from the first on, that stand for an index below `extents`. Example: 5x6 padded
/// to 6x6 as `[didx("x"), -]` with "x" = 2 has 3x6 at position 0 and 2x6 at position 1.
FailureOr<SmallVector<int64_t>> getValidShape(RankedTensorType type, ArrayRef<int64_t> extents,
                                              int64_t position);

/// The same tensor on a mesh of one device, neither partial nor streamed, also for an undecided
/// type: its type in the unsharded reference. Example: 8x6 as `[didx("x"), -]` becomes 8x6 as `[-,
/// -]` on `#tandem.mesh<"one", []>`.
RankedTensorType eraseParallelAxes(RankedTensorType type);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_PLACEMENT_H
