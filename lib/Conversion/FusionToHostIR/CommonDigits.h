//===- CommonDigits.h - both sides of a reshard in common digits -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_COMMONDIGITS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_COMMONDIGITS_H

#include "ReshardPlan.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Cuts both sides of a reshard, dimension by dimension, into digits of common sizes, outermost
/// first. Example: `didx("x") -> stream(2)` of 24 rows with "x" = 4 gives the digits 2 (part of
/// didx; stream), 2 (part of didx; serial) and 6 (serial on both sides).
class CommonDigits {
public:
  /// With a null `builder`, emits nothing and gives null values.
  CommonDigits(fusion::ReshardOp op, const SliceIndex &index, OpBuilder *builder)
      : op(op), index(index), builder(builder) {}

  /// Appends the digits of a dimension; call for each dimension in order.
  Obstacle read(int64_t dim, SmallVectorImpl<CommonDigit> &digits);

private:
  Obstacle readSides(int64_t dim, SmallVectorImpl<SideDigit> &from, SmallVectorImpl<SideDigit> &to);
  SideDigit cut(SideDigit &side, int64_t size);
  CommonDigit cross(int64_t dim, MutableArrayRef<SideDigit> &from, MutableArrayRef<SideDigit> &to);
  Explained<CommonDigit> cutUnevenly(int64_t dim, ArrayRef<SideDigit> from, ArrayRef<SideDigit> to);

  fusion::ReshardOp op;
  const SliceIndex &index;
  OpBuilder *builder;
  size_t nextStream = 0; // in the target's stream digits
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_COMMONDIGITS_H
