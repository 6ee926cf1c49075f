//===- StridedBox.h - which elements a view takes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_STRIDEDBOX_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_STRIDEDBOX_H

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/MapVector.h"
#include <optional>

namespace tandem::hostir {

/// constant + sum of coefficient * value, without coefficients of 0.
struct LinearIndex {
  int64_t constant = 0;
  llvm::SmallMapVector<Value, int64_t, 4> terms;

  void add(const LinearIndex &other, int64_t factor);
  /// Recombines a number from its quotient and remainder.
  void joinDigits();
  bool operator==(const LinearIndex &other) const;
};

/// Expands sums, differences and products with constants; other values become terms.
LinearIndex getLinearIndex(OpFoldResult index);

/// One dimension: `size` steps of `stride` elements.
struct BoxDim {
  int64_t size;
  int64_t stride;
  bool operator==(const BoxDim &o) const { return size == o.size && stride == o.stride; }
};

/// The elements of a row-major buffer that a view covers, however its dimensions are split, merged
/// or permuted.
struct StridedBox {
  LinearIndex offset;
  /// The view's dimensions in order.
  SmallVector<BoxDim> dims;

  /// The dims without extents of 1, smallest stride first, contiguous ones merged. Two views cover
  /// the same elements iff their offsets and normalized dims are equal (their strides are nested).
  SmallVector<BoxDim> normalized() const;
};

/// The elements of the root buffer (getViewRoot) that `view` covers. None for views that cannot be
/// analysed and for empty ones, which have no strides.
std::optional<StridedBox> computeBox(Value view);

/// The strides of a view with the elements of `box` in a dense buffer of these elements, in address
/// order. None if a dimension of the view has no constant stride there.
std::optional<SmallVector<int64_t>> compactStrides(ArrayRef<BoxDim> normalized,
                                                   ArrayRef<BoxDim> view);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_STRIDEDBOX_H
