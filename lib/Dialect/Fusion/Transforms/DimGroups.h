//===- DimGroups.h - dimensions that ops say are one ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_DIMGROUPS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_DIMGROUPS_H

#include "mlir/IR/Value.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/EquivalenceClasses.h"

#include <optional>

namespace tandem::fusion {

/// Dimensions of values, grouped where an op's axes rule has them in one factor. Example: the rows
/// of a matmul's operand and of its result.
class DimGroups {
public:
  using Dim = std::pair<void *, int64_t>;
  static Dim dimOf(Value value, int64_t dim) { return {value.getAsOpaquePointer(), dim}; }

  /// Joins the dimensions that the op says are one. `withCalls`: also those of a `fusion.call`.
  void group(Operation *op, bool withCalls = false);
  Dim leaderOf(Value value, int64_t dim) { return dims.getOrInsertLeaderValue(dimOf(value, dim)); }
  /// None: no op joins it with another.
  std::optional<Dim> findLeader(Value value, int64_t dim) const {
    auto leader = dims.findLeader(dimOf(value, dim));
    return leader == dims.member_end() ? std::nullopt : std::optional<Dim>(*leader);
  }

private:
  void unite(Value a, int64_t dimA, Value b, int64_t dimB) {
    dims.unionSets(dimOf(a, dimA), dimOf(b, dimB));
  }

  llvm::EquivalenceClasses<Dim> dims;
};

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_DIMGROUPS_H
