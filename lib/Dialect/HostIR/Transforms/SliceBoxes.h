//===- SliceBoxes.h - boxes within a slice of a buffer ----------*- C++ -*-===//
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

/// The greatest value of an index, if it is known and never negative. Handles constants, indices of
/// loops with constant bounds, device indices, and sums, products, quotients and remainders of
/// these. Does not change the IR.
std::optional<int64_t> getGreatest(Value index);

/// The offset of `box` in a dense buffer of the elements of `slice` (normalized, starting at
/// `begin` of the original buffer), in address order. None unless the box is inside the slice for
/// all values in which the offsets differ.
std::optional<LinearIndex> placeInSlice(const StridedBox &box, const LinearIndex &begin,
                                        ArrayRef<BoxDim> slice);

/// Whether different runs of `block` use disjoint slices while the ops of `outside`, an enclosing
/// block, run once. False if unknown.
bool areSlicesDisjoint(const LinearIndex &begin, ArrayRef<BoxDim> slice, Block *block,
                       Block *outside);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_SLICEBOXES_H
