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
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Support/Explained.h"

namespace tandem {

/// What a digit is on one side of a reshard.
struct SideDigit {
  int64_t size = 1;
  fusion::DigitKind kind = fusion::DigitKind::Serial;
  StringAttr axis = {}; ///< of a device digit
  /// Of a stream digit (target only): which one, and its value.
  size_t stream = 0;
  Value value = {};
  /// Of a part of a device or stream digit: the indices of it outside and inside of this part.
  int64_t outer = 1, inner = 1;
  /// Of a ragged stream digit: as in LocalDigit.
  int64_t chunk = 0, length = 0;

  bool isDevice() const { return kind == fusion::DigitKind::Device; }
  bool isStream() const { return kind == fusion::DigitKind::Stream; }
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

/// What one slice of a reshard is: the communication, and the pieces of the local source and target
/// buffers.
struct ReshardPlan {
  /// Of any slice: no SendRecv or Sequence; a Permute is a Transfer.
  fusion::ReshardKind kind = fusion::ReshardKind::Nothing;
  MeshAttr sourceMesh, mesh;
  MeshAttr groupMesh;           ///< whose devices communicate: the source's for Reduce and Gather,
                                ///< else the target's; not for Transfer
  SmallVector<StringAttr> axes; ///< the mesh axes that communicate, in the order in which they
                                ///< number the group; none for Nothing and Transfer
  bool staysLocal = false;      ///< Transfer: every device has what it gets
  int64_t root = -1; ///< Broadcast, Reduce, Gather, Scatter: the world rank of the one device
  ReduceKind reduction = ReduceKind::Sum;
  SmallVector<CommonDigit>
      digits;               ///< both sides cut to common sizes, by dimension, outermost first
  LocalDims source, target; ///< not for Transfer

  /// OwnerMoves: the owner's number in the group. It is a part of stream digit number
  /// `ownerDigit`, which has `ownerOuter` indices outside of it and `ownerInner` inside.
  Value owner;
  size_t ownerDigit = 0;
  int64_t ownerOuter = 1, ownerInner = 1;
  /// OwnerMoves: the owner hands each device of the group another part of the slice, as in an
  /// all-to-all; else all get the same.
  bool isPersonalized = false;

  int64_t groupSize() const {
    int64_t size = 1;
    for (StringAttr axis : axes)
      size *= groupMesh.axisSize(axis);
    return size;
  }
  /// Whether all communication is among groups of one device.
  bool movesNothing() const { return kind != fusion::ReshardKind::Transfer && groupSize() == 1; }
  bool reduces() const { return isReduction(kind); }
  /// Position in the group of a device of the group's mesh, where all of its axes communicate.
  int64_t groupPosition(int64_t worldRank) const;
};

/// Reads both sides of `op` as one list of digits and says what the slice at `index` (the whole
/// value if the result is not streamed) is. With a null `builder` nothing is emitted and indices
/// are null. Example:
/// `[didx("x"), -] -> [stream(4), -]` of 8x6 with "x" = 4 at index i is OwnerMoves: owner i sends
/// {2}, {6}, which arrive at {4 @ i, 2}, {6}.
Explained<ReshardPlan> planReshard(fusion::ReshardOp op, const SliceIndex &index,
                                   OpBuilder *builder);
/// The same for one receiver: slices that one owner hands out in parts are OwnerMoves too (else a
/// Transfer), and the source is the part for the device with this number in the group. Example:
/// `[-, didx("x")] -> [didx("x"), stream(4)]` of 8x4 with "x" = 4 at index i: owner i sends
/// receiver r its {4 @ r, 2}, {1}, which arrive at {2}, {4 @ i}. The receiver may be
/// null if all get the same, or if only the target is needed.
Explained<ReshardPlan> planReshardFor(fusion::ReshardOp op, const SliceIndex &index, Value receiver,
                                      OpBuilder *builder);
/// The plan of any slice, without indices: what kind of communication it is, and whether it can be
/// lowered.
Explained<ReshardPlan> planReshard(fusion::ReshardOp op);

/// A stream digit of the operand of a reduction or an all-to-all that counts the devices that get a
/// slice each: the loop that makes the operand hands slice by slice to its owner. Example: the
/// reduce-scatter of 8x6 with "x" = 4, `[stream(4), -]` partial over x to `[didx("x"), -]`.
/// Iteration i computes the partial sums of rows 2i and 2i+1, which device i gets.
struct ScatteredDigit {
  ReshardPlan plan;        ///< of the whole reshard: a ReduceScatter or AllToAll
  size_t streamDigit = 0;  ///< its number among the operand's stream digits
  size_t dim = 0;          ///< its dimension
  unsigned localDigit = 0; ///< its number among the dimension's digits that are not a device's

  /// AllToAll: a digit of the result that counts the devices which a slice comes from.
  struct Source {
    size_t dim = 0;
    unsigned localDigit = 0; ///< where it is among the dimension's digits that are not a device's
    int64_t size = 1;
    int64_t inner = 1; ///< the group's number / inner % size is its index
  };
  SmallVector<Source, 1> sources; ///< by dimension, outermost first
};

/// The digit, if `op` reduces and scatters (or exchanges all to all) among several devices, its
/// operand has such a digit, and its result is not streamed. In the example above it is stream
/// digit 0, of dimension 0 and number 0 there. Of `[-, serial(2) * stream(4)]` to `[-, serial(2) *
/// didx("x")]` it is stream digit 0, of dimension 1 and number 1 there. Of `[stream(4), -]` to `[-,
/// didx("x")]` there is none: each device gets a part of each slice.
std::optional<ScatteredDigit> getScatteredDigit(fusion::ReshardOp op);

/// The plan of one of these reshards if each slice of any of them has one owner, and slices of one
/// number have the same one: they can be exchanged together.
/// Examples with "x" = 4: `[didx("x"), -] -> [stream(4), -]` of 8x6 and `[-, didx("x")] -> [-,
/// stream(4)]` of 4x12 have the common owner, device i of slice i. `[didx("x"), -] -> [stream(2),
/// -]` has none: devices 0 and 1 own slice 0. `[-, didx("x")] -> [didx("x"), stream(4)]` of 8x4, an
/// all-to-all, has one, which hands out parts.
FailureOr<ReshardPlan> getCommonOwner(ArrayRef<fusion::ReshardOp> reshards);

/// Whether each of these reshards is among groups of one device.
bool movesNothing(ArrayRef<fusion::ReshardOp> reshards);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESHARDPLAN_H
