//===- SlicePlaces.h - slices common to two values --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICEPLACES_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICEPLACES_H

#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"
#include <optional>

namespace tandem {

/// A stream digit of a value.
struct StreamAxis {
  int64_t dim;    ///< of the result, or a factor of the op
  int64_t stride; ///< indices from one slice to the next
  int64_t size;   ///< slices
  int64_t ragged; ///< if the slices differ in size: the number of indices; else 0
  bool operator==(const StreamAxis &other) const {
    return dim == other.dim && stride == other.stride && size == other.size &&
           ragged == other.ragged;
  }
};

/// The stream digits of a type in loop order (another order gives other slices). Dimension i
/// corresponds to `along[i]`. Example: 12x8 as `[stream(3), stream(2)]` along {0, 1} has the axes
/// (0, 4, 3, 0) and (1, 4, 2, 0).
SmallVector<StreamAxis> getStreamAxes(RankedTensorType type, ArrayRef<int64_t> along);

/// A part of one value's stream digit as a part of another value's digit number `digit`: its value
/// / `inner` mod `size`. Negative `digit`: the other has no such digit. Example: for (digit 0, size
/// 2, inner 3), the value 5 of digit 0 gives 5 / 3 mod 2 = 1.
struct DigitPart {
  int64_t digit = -1;
  int64_t size = 1, inner = 1;
  bool operator==(const DigitPart &other) const {
    return digit == other.digit && size == other.size && inner == other.inner;
  }
};

/// The parts of each stream digit of a value, outermost first.
using DigitMap = SmallVector<SmallVector<DigitPart>>;

/// Each digit of `sizes` as itself. Example: {3, 2} is (digit 0, size 3), (digit 1, size 2).
DigitMap getIdentity(ArrayRef<int64_t> sizes);

/// Maps the stream digits of `op`'s result to those of `operand`: the same slices in the same
/// order, where a reshape may merge and split digits. Digits on dimensions that the operand lacks
/// map to none: then several iterations read one slice. None if an iteration does not read exactly
/// one slice of the operand. Example: for the reshape `[stream(6)] of 12 -> [stream(2), stream(3)]
/// of 2x6`, digit 0 is (digit 0, size 2, inner 3) and digit 1 is (digit 0, size 3, inner 1).
std::optional<DigitMap> matchSlices(Operation *op, OpOperand &operand);

/// Whether the iteration that writes slice i of `op`'s result reads slice i of `operand`, digit by
/// digit.
bool slicesAgree(Operation *op, OpOperand &operand);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICEPLACES_H
