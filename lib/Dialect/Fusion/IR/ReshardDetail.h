//===- ReshardDetail.h - pieces of the classification of reshards -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_IR_RESHARDDETAIL_H
#define TANDEM_LIB_DIALECT_FUSION_IR_RESHARDDETAIL_H

#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// An unsupported reshard.
Reshard unsupportedReshard(std::string reason);

/// Appends the row, or the rows of the sequence.
void appendSteps(SmallVectorImpl<ReshardStep> &steps, const Reshard &more);

/// A row, or a sequence of more than one.
Reshard makeReshard(SmallVector<ReshardStep> steps);

/// Per position of the destination mesh, a world rank that holds exactly the shard needed there,
/// chosen evenly among several. Fails if some position has none. Both types are static and decided.
/// Example: 8 rows from `didx("x")` on devices [0, 1] to `didx("x")` on devices [1, 0]: {0, 1}.
FailureOr<SmallVector<int64_t>> findPieceSources(RankedTensorType from, RankedTensorType to);

/// Cuts both sides of a reshard, dimension by dimension, into digits of common sizes, outermost
/// first. Example: `didx("x") -> stream(2)` of 24 rows with "x" = 4 gives the digits 2 (part of
/// didx; stream), 2 (part of didx; serial) and 6 (serial on both sides).
Explained<SmallVector<CommonDigit>> getCommonDigits(ReshardOp op,
                                                    ArrayRef<SmallVector<StreamPart>> streams);

/// The rows across two meshes.
Reshard classifyAcrossMeshes(RankedTensorType from, RankedTensorType to);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_RESHARDDETAIL_H
