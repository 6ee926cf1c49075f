//===- ReshardPlan.h - what one slice of a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESHARDPLAN_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESHARDPLAN_H

#include "Slices.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"

namespace tandem {

using fusion::CommonDigit;
using fusion::Segment;
using fusion::SideDigit;

/// One slice of a reshard: how it moves, and the pieces of the local source and target buffers.
struct ReshardPlan : fusion::SliceReshard {
  LocalDims source, target; ///< not for Transfer
  Value owner;              ///< OwnerMoves: the owner's number in the group
};

/// How the slice at `index` moves (the whole value if the result is not streamed), and its pieces.
/// Example: `[didx("x"), -] -> [stream(4), -]` of 8x6 with "x" = 4 at index i is OwnerMoves: owner
/// i sends {2}, {6}, which arrive at {4 @ i, 2}, {6}.
Explained<ReshardPlan> planReshard(fusion::ReshardOp op, const SliceIndex &index,
                                   OpBuilder &builder);
/// The same for one receiver (classifySlices): if the owner sends parts of the slice, the source is
/// the part for the device with this number in the group. Example: `[-, didx("x")] -> [didx("x"),
/// stream(4)]` of 8x4 with "x" = 4 at index i: owner i sends receiver r its {4 @ r, 2}, {1}, which
/// arrive at {2}, {4 @ i}. The receiver may be null if all get the same, or if only the target is
/// needed.
Explained<ReshardPlan> planReshardFor(fusion::ReshardOp op, const SliceIndex &index, Value receiver,
                                      OpBuilder &builder);

/// A stream digit of the operand of a reduction or an all-to-all that counts the devices that get a
/// slice each: the loop that makes the operand hands slice by slice to its owner. Example: the
/// reduce-scatter of 8x6 with "x" = 4, `[stream(4), -]` partial over x to `[didx("x"), -]`.
/// Iteration i computes the partial sums of rows 2i and 2i+1, which device i gets.
struct ScatteredDigit {
  fusion::SliceReshard plan; ///< of the whole reshard: a ReduceScatter or AllToAll
  size_t streamDigit = 0;    ///< its number among the operand's stream digits
  size_t dim = 0;            ///< its dimension
  unsigned localDigit = 0;   ///< its number among the dimension's digits that are not a device's

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

/// The class of one of these reshards if each slice of any of them has one owner, and slices of one
/// number have the same one: they can be exchanged together.
/// Examples with "x" = 4: `[didx("x"), -] -> [stream(4), -]` of 8x6 and `[-, didx("x")] -> [-,
/// stream(4)]` of 4x12 have the common owner, device i of slice i. `[didx("x"), -] -> [stream(2),
/// -]` has none: devices 0 and 1 own slice 0. `[-, didx("x")] -> [didx("x"), stream(4)]` of 8x4, an
/// all-to-all, has one, which sends parts.
FailureOr<fusion::SliceReshard> getCommonOwner(ArrayRef<fusion::ReshardOp> reshards);

/// Whether each of these reshards is among groups of one device.
bool movesNothing(ArrayRef<fusion::ReshardOp> reshards);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESHARDPLAN_H
