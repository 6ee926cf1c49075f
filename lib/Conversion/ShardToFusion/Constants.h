//===- Constants.h - values that are the same on all devices ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One constant number in all elements needs no placement: each use takes the one that it needs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_SHARDTOFUSION_CONSTANTS_H
#define TANDEM_LIB_CONVERSION_SHARDTOFUSION_CONSTANTS_H

#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "tandem/Support/LLVM.h"

#include <optional>

namespace tandem::shardfusion {

/// All elements have the value `number`; null: no value yet (`tensor.empty`).
struct Splat {
  TypedAttr number;
  /// Whether combining it by `kind` changes nothing. Example: 0 for sums.
  bool isNeutral(ReduceKind kind) const;
};

/// The constant that all elements of `value` (a tensor or a scalar) have, if they have one.
std::optional<Splat> getSplat(Value value);

/// The initial value that `shard-partition` gives to partial sums: `init` on the first device of
/// some grid axes, a constant on the others.
struct LeadInit {
  Value init;
  Splat others;
  SmallVector<int16_t> axes;
};

/// `op` as a LeadInit, if it is one:
/// `scf.if (shard.process_multi_index axes = [axis] == 0) { yield init } else { yield constant }`.
/// Of several axes, the number of the device among them is compared: `affine.apply` of their
/// indices and extents.
std::optional<LeadInit> getLeadInit(Operation *op);

} // namespace tandem::shardfusion

#endif // TANDEM_LIB_CONVERSION_SHARDTOFUSION_CONSTANTS_H
