//===- SliceBoxes.h - boxes in the slice of a buffer that a block uses -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_SLICEBOXES_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_SLICEBOXES_H

#include "StridedBox.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

/// The greatest number that an index can be, if it is known to be none below 0: of constants,
/// counters of loops with constant bounds, device indices, and sums, products, quotients and
/// remainders of these. Never changes the IR.
std::optional<int64_t> getGreatest(Value index);

/// Where `box` begins in a buffer that holds the elements of `slice` alone (normalized, beginning
/// at `begin` of the buffer), densely, in the order of their addresses. Nothing unless all of it
/// lies in the slice, whatever the values are in which the two beginnings differ.
std::optional<LinearIndex> placeInSlice(const StridedBox &box, const LinearIndex &begin,
                                        ArrayRef<BoxDim> slice);

/// Whether every run of `block` has a slice of its own, which no other run of it shares an element
/// with, while the ops of `outside`, a block around it, run once. False where that is not known.
bool areSlicesDisjoint(const LinearIndex &begin, ArrayRef<BoxDim> slice, Block *block,
                       Block *outside);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_SLICEBOXES_H
