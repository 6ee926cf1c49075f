//===- Arguments.h - arguments and where their pieces lie -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_ARGUMENTS_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_ARGUMENTS_H

#include "Rank.h"
#include "tandem/Support/LLVM.h"

namespace tandem::target {

/// An argument of the program, for the index.
struct ArgumentInfo {
  std::string name, axes, mesh;
  bool isResult = false, isPartial = false;
  DType dtype = DType::F32;
  sp::ReduceOp partialOp = sp::ReduceOp::sum;
  uint32_t partialTerms = 1;
  SmallVector<int64_t, 4> shape; ///< logical
  SmallVector<int64_t, 4> localShape;
  SmallVector<uint32_t, 1> varying; ///< dimensions
  bool isMask = false;
  RankedTensorType type;          ///< with axes, maybe padded; null: every rank holds all of it
  std::vector<int32_t> positions; ///< in the type's mesh, per world rank; -1 = outside
};

/// Reads the attributes of the program's arguments.
FailureOr<std::vector<ArgumentInfo>> readArguments(hostir::ProgramOp program, uint32_t numRanks);

/// Finds the shards of `rank`.
LogicalResult findShards(hostir::ProgramOp program, ArrayRef<ArgumentInfo> arguments, uint32_t rank,
                         std::vector<ShardInfo> &shards);

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_ARGUMENTS_H
