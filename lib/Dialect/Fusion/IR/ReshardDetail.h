//===- ReshardDetail.h - pieces of the classification of reshards -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_IR_RESHARDDETAIL_H
#define TANDEM_LIB_DIALECT_FUSION_IR_RESHARDDETAIL_H

#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// A reshard that is not supported.
Reshard unsupportedReshard(std::string reason);

/// Adds the row, or the rows of the sequence.
void appendSteps(SmallVectorImpl<ReshardStep> &steps, const Reshard &more);

/// A row, or a sequence of more than one.
Reshard makeReshard(SmallVector<ReshardStep> steps);

/// Per position of the destination's mesh the world rank that holds exactly the piece wanted there,
/// spread evenly over those that do; failure if there is none for some position. Both types are
/// static and decided.
FailureOr<SmallVector<int64_t>> findPieceSources(RankedTensorType from, RankedTensorType to);

/// The rows across two meshes.
Reshard classifyAcrossMeshes(RankedTensorType from, RankedTensorType to);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_RESHARDDETAIL_H
