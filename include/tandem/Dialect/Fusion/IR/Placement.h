//===- Placement.h - who holds what, and what one iteration handles -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pure functions on types. A *position* is the row-major index of a device in its mesh (not its
// world rank). All functions fail, without a diagnostic, where they need an extent or a mesh size
// that is `?`, or where digits do not suit an extent (which the encoding's verifier excludes for
// extents that it knows).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_PLACEMENT_H
#define TANDEM_DIALECT_FUSION_IR_PLACEMENT_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// A digit with its size and its weight: adding 1 to it adds `weight` to the index of the
/// dimension. `axis` as in Digit.
struct ResolvedDigit {
  DigitKind kind;
  StringAttr axis;
  int64_t size;
  int64_t weight;
  /// Of a stream digit whose slices are not all alike, always the innermost digit: the indices that
  /// it cuts into `size` slices of `weight`, the last one shorter. Otherwise 0.
  int64_t ragged = 0;

  /// What the digit (and a ragged one's slices) contribute to the product that is the extent.
  int64_t span() const { return ragged ? ragged : size; }
  bool operator==(const ResolvedDigit &o) const {
    return kind == o.kind && axis == o.axis && size == o.size && weight == o.weight &&
           ragged == o.ragged;
  }
};

/// Whether `count` slices of ceil(extent / count) indices, the last one shorter, leave none empty.
/// Example: 5 slices of 48 are 10, 10, 10, 10 and 8; of 6 indices 4 slices would be 2, 2, 2 and 0.
bool isSliceCount(int64_t extent, int64_t count);

/// The digits of a dimension of `extent` indices, outermost first; bare `stream` has its size. What
/// they leave over follows as a serial digit, if it is more than 1 or there is no other digit. A
/// ragged stream digit leaves nothing over. Example: `didx("x") * stream(3)` of 48 indices with
/// "x" = 4 is didx of size 4 and weight 12, stream of size 3 and weight 4, serial of size 4 and
/// weight 1.
FailureOr<SmallVector<ResolvedDigit>> resolveDim(DimAxesAttr dim, int64_t extent, MeshAttr mesh);

/// `resolveDim` of every dimension of a decided type.
FailureOr<SmallVector<SmallVector<ResolvedDigit>>> resolveDims(RankedTensorType type);

/// Extents of what one device holds: device digits are taken out. A dynamic extent stays dynamic.
/// Example: 48x8 as `[didx("x") * stream(3), -]` with "x" = 4 is 12x8.
FailureOr<SmallVector<int64_t>> getLocalShape(RankedTensorType type);

/// Extents of what one device holds of one iteration: device and stream digits are taken out. Of
/// ragged slices the largest. Example: 48x8 as `[didx("x") * stream(3), -]` with "x" = 4 is 4x8.
FailureOr<SmallVector<int64_t>> getSliceShape(RankedTensorType type);

/// Sizes of the stream digits, outermost dimension first and outermost digit first within it: the
/// extents of the stream loop. Iteration i of the loop has the row-major digits of i in this grid.
/// Example: `[stream(3), stream(2)]` gives {3, 2}, and iteration 4 is slice 2 of dimension 0 and
/// slice 0 of dimension 1.
FailureOr<SmallVector<int64_t>> getStreamSizes(RankedTensorType type);

/// Product of `getStreamSizes`; 1 without stream digits. Example: 6 for `[stream(3), stream(2)]`.
FailureOr<int64_t> getNumSlices(RankedTensorType type);

/// Elements of a row-major buffer: walking `shape` in row-major order visits offset + sum(index *
/// stride).
struct StridedWalk {
  int64_t offset = 0;
  SmallVector<int64_t> shape;
  SmallVector<int64_t> strides;
};

/// How the piece of the device at `position` lies in the logical, row-major tensor: the walk gives
/// the elements of the local buffer (row-major, of `getLocalShape`) in order. The table `Shard` of
/// the stream program. Example: 8x6 as `[-, didx("x")]` with "x" = 2 at position 1 has offset 3,
/// shape 8x3 and strides {6, 1}.
FailureOr<StridedWalk> getShard(RankedTensorType type, int64_t position);

/// A digit of the local buffer: indices of a dimension of `getLocalShape` are read in these,
/// outermost first. `weight` is in local indices, `ragged` as in ResolvedDigit.
struct LocalDigit {
  bool isStream;
  int64_t size;
  int64_t weight;
  int64_t ragged = 0;
  bool operator==(const LocalDigit &o) const {
    return isStream == o.isStream && size == o.size && weight == o.weight && ragged == o.ragged;
  }
};

/// The local (stream and serial) digits of every dimension. A dimension without any has one serial
/// digit of size 1. Example: 48 as `stream(3) * didx("x")` with "x" = 4 is a local dimension of 12
/// with the digits stream of size 3 and weight 4, serial of size 4 and weight 1.
FailureOr<SmallVector<SmallVector<LocalDigit>>> getLocalDigits(RankedTensorType type);

/// Where slice `iteration` lies in the row-major local buffer: the walk visits its elements in the
/// order of the digits. Dimensions appear digit by digit (a dimension with k serial digits gives k
/// entries), stream digits are fixed. Example: 48x8 as `[stream(3) * didx("x"), -]` with "x" = 4,
/// iteration 1, is at offset 32 with shape 4x8 and strides {8, 1}.
FailureOr<StridedWalk> getLocalSlice(RankedTensorType type, int64_t iteration);

/// Where slice `iteration` lies per dimension, where it is one plain (strided) range of local
/// indices in each; failure where a dimension has serial digits on both sides of a stream digit.
/// Example: 12 local rows as `stream(3)`, iteration 2, are offset 8, size 4, stride 1; as
/// `serial(3) * stream` they are offset 2, size 3, stride 4.
struct SliceBox {
  SmallVector<int64_t> offsets, sizes, strides;
};
FailureOr<SliceBox> getLocalSliceBox(RankedTensorType type, int64_t iteration);

/// Positions of the devices that hold the element at a logical index (one entry per dimension),
/// ascending. Along a partial axis every device holds a term, so all of them are named. Example:
/// row 5 of 8 as `didx("x")` on the mesh ["x" = 2, "y" = 2] is on devices 2 and 3.
FailureOr<SmallVector<int64_t>> ownersOf(RankedTensorType type, ArrayRef<int64_t> index);

/// The same tensor on a mesh of one device (`#tandem.mesh<"one", []>`), not partial and not
/// streamed: the type that a value has in the oracle. An undecided type gets these axes too.
RankedTensorType eraseParallelAxes(RankedTensorType type);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_PLACEMENT_H
