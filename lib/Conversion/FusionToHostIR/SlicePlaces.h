//===- SlicePlaces.h - which slices of two values are the same -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICEPLACES_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICEPLACES_H

#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include <optional>

namespace mlir::tandem {

/// Where a stream digit stands: the dimension (of the result, or a factor of the op), weight, size
/// and, of ragged ones, the indices that the slices share.
using Place = std::tuple<int64_t, int64_t, int64_t, int64_t>;

/// The stream digits of a type in the order of the loop: the same digits in another order are
/// another slice. Dimension i runs along `along[i]`.
SmallVector<Place> getPlaces(RankedTensorType type, ArrayRef<int64_t> along);

/// Whether the iteration of `op` that writes slice i of its result reads slice i of `operand`.
bool slicesAgree(Operation *op, OpOperand &operand);

/// Stream digits of `op`'s result as those of `operand` and others on dimensions that the operand
/// does not have: the number of each in the operand, or -1 of the others. Where there are none,
/// slices agree. Nothing if an iteration reads something else than one slice of the operand.
std::optional<SmallVector<int64_t>> matchSlices(Operation *op, OpOperand &operand);

} // namespace mlir::tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SLICEPLACES_H
