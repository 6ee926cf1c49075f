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

/// constant + sum of coefficient * value. No term has the coefficient 0.
struct LinearIndex {
  int64_t constant = 0;
  llvm::SmallMapVector<Value, int64_t, 4> terms;

  void add(const LinearIndex &other, int64_t factor);
  /// Quotients and remainders of one number that make it up again become that number.
  void joinDigits();
  bool operator==(const LinearIndex &other) const;
};

/// Looks through sums, differences and products with constants; any other value is a term.
LinearIndex getLinearIndex(OpFoldResult index);

/// One dimension: `size` steps of `stride` elements.
struct BoxDim {
  int64_t size;
  int64_t stride;
  bool operator==(const BoxDim &o) const { return size == o.size && stride == o.stride; }
};

/// The elements that a view takes of a row-major buffer, however its dimensions are split, merged
/// or permuted.
struct StridedBox {
  LinearIndex offset;
  /// The view's dimensions, in its order.
  SmallVector<BoxDim> dims;

  /// The dims that matter: without extents of 1, smallest stride first, those that continue each
  /// other merged. Two views take the same elements iff their offsets and these agree (strides are
  /// nested, as views make them).
  SmallVector<BoxDim> normalized() const;
};

/// The elements that `view` takes of what it is a view of (getViewRoot). Nothing for views that are
/// not understood, and for those without elements, which have no strides.
std::optional<StridedBox> computeBox(Value view);

/// Strides of the view in a buffer that holds the elements of `box` alone, densely, in the order of
/// their addresses. `view` takes the same elements. Nothing if a dimension of the view has no
/// stride there.
std::optional<SmallVector<int64_t>> compactStrides(ArrayRef<BoxDim> normalized,
                                                   ArrayRef<BoxDim> view);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_STRIDEDBOX_H
