//===- ReshardSlices.h - classification of the slices of a reshard -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_RESHARDSLICES_H
#define TANDEM_DIALECT_FUSION_IR_RESHARDSLICES_H

#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Support/Explained.h"

namespace tandem::fusion {

/// Of the op's whole value.
inline Reshard classifyReshard(ReshardOp op) {
  return classifyReshard(op.getInput().getType(), op.getType());
}

/// What a digit is on one side of a reshard.
struct SideDigit {
  int64_t size = 1;
  DigitKind kind = DigitKind::Serial;
  StringAttr axis = {}; ///< of a device digit
  /// Of a stream digit (target only): its number in the type, that of its part, and its value in a
  /// slice, which the classification does not need.
  size_t stream = 0, part = 0;
  Value value = {};
  /// Of a part of a device or stream digit: the indices of it outside and inside of this part.
  int64_t outer = 1, inner = 1;
  /// Of a ragged stream digit: the indices of a slice, and of this slice.
  int64_t chunk = 0, length = 0;

  bool isDevice() const { return kind == DigitKind::Device; }
  bool isStream() const { return kind == DigitKind::Stream; }
  bool isPart() const { return outer > 1 || inner > 1; }
};

/// What one slice of a digit with a last, shorter slice takes of one run of the source's indices.
/// All numbers are of the whole dimension's indices below what is cut off before.
struct Segment {
  int64_t block = 0;       ///< the value of all source parts as one number
  int64_t offset = 0;      ///< where it begins in the source's run
  int64_t targetBlock = 0; ///< the value of all target parts as one number
  int64_t slice = 0;       ///< which slice it belongs to
  int64_t sliceOffset = 0; ///< where it begins in the slice
  int64_t length = 0;
};

/// A digit of both sides of a reshard. Where the digits of the sides cross (blocks of 3 become
/// blocks of 2), it is a run of them: `sourceParts` and `targetParts`, each outermost first and of
/// one product, and `source` and `target` are serial digits of that size.
///
/// Where the target's last digit has a last, shorter slice and the source's digits do not line up
/// with the slices, it is all the rest of the dimension, in `segments`: `target` is that digit and
/// `source` the run that lies together in the source, and what is outside of them are the parts.
struct CommonDigit {
  int64_t dim;
  SideDigit source, target;
  SmallVector<SideDigit, 0> sourceParts = {}, targetParts = {};
  SmallVector<Segment, 0> segments = {};

  /// Of either sort.
  bool crosses() const { return !sourceParts.empty(); }
};

/// How a slice fixes a stream digit, or a part of it: at one of its values, unless it `isWhole`.
struct StreamPart {
  int64_t size;
  bool isWhole = false;
  bool isShort = false; ///< the last slice of a ragged digit, which is shorter
};

/// How a slice of a reshard moves.
struct SliceReshard {
  /// Of any slice: no SendRecv or Sequence; a Permute is a Transfer.
  ReshardKind kind = ReshardKind::Nothing;
  MeshAttr sourceMesh, mesh;
  MeshAttr groupMesh;           ///< whose devices communicate: the source's for Reduce and Gather,
                                ///< else the target's; not for Transfer
  SmallVector<StringAttr> axes; ///< the mesh axes that communicate, in the order in which they
                                ///< number the group; none for Nothing and Transfer
  bool staysLocal = false;      ///< Transfer: every device has what it gets
  int64_t root = -1; ///< Broadcast, Reduce, Gather, Scatter: the world rank of the one device
  ReduceKind reduction = ReduceKind::Sum;
  SmallVector<CommonDigit>
      digits; ///< both sides cut to common sizes, by dimension, outermost first

  /// OwnerMoves: the owner's number in the group is a part of stream digit number `ownerDigit`,
  /// which has `ownerOuter` indices outside of it and `ownerInner` inside.
  size_t ownerDigit = 0;
  int64_t ownerOuter = 1, ownerInner = 1;
  /// OwnerMoves: the owner sends each device of the group another part of the slice, as in an
  /// all-to-all; else all get the same.
  bool isPersonalized = false;

  int64_t groupSize() const {
    int64_t size = 1;
    for (StringAttr axis : axes)
      size *= groupMesh.axisSize(axis);
    return size;
  }
  /// Whether all communication is among groups of one device.
  bool movesNothing() const { return kind != ReshardKind::Transfer && groupSize() == 1; }
  bool reduces() const { return isReduction(kind); }
  /// Position in the group of a device of the group's mesh, where all of its axes communicate.
  int64_t groupPosition(int64_t worldRank) const;
};

/// The classification of classifyReshard, for one slice of the result: in which way its data moves.
/// `streams`: for each stream digit of the result, in order of dimensions, its parts, outermost
/// first. `forReceiver`: a slice that its owner sends in parts is OwnerMoves too (else a Transfer).
/// Examples with "x" = 4: `[didx("x"), -] -> [stream(4), -]` of 8x6 is OwnerMoves, slice i moves
/// from device i to all. `[-, didx("x")] -> [didx("x"), stream(4)]` of 8x4 is OwnerMoves for one
/// receiver: device i sends receiver r its part r of slice i.
Explained<SliceReshard> classifySlices(ReshardOp op, ArrayRef<SmallVector<StreamPart>> streams,
                                       bool forReceiver);
/// Of any slice: each stream digit has one value.
Explained<SliceReshard> classifySlices(ReshardOp op, bool forReceiver = false);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_RESHARDSLICES_H
