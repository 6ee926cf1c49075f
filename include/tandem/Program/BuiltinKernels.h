//===- BuiltinKernels.h - kernels that the runtime supplies -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of a kernel whose name begins with "tandem." is not of the embedder: devices know what it
// computes, and so does the checker.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_BUILTINKERNELS_H
#define TANDEM_PROGRAM_BUILTINKERNELS_H

#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"

#include <string_view>
#include <vector>

namespace tandem::program {

inline constexpr std::string_view kBuiltinPrefix = "tandem.";
inline bool isBuiltin(std::string_view kernel) {
  return kernel.substr(0, kBuiltinPrefix.size()) == kBuiltinPrefix;
}

/// Matrix products of groups of rows (docs/operators.md).
inline constexpr std::string_view kGroupedMatmul = "tandem.grouped_matmul";
/// The config of one that reads w as [G, N, K]; else it has none.
inline constexpr std::string_view kTransposeB = "transpose_b";

/// A grouped matmul: y[b..., M, N] = x[b..., M, K] * w[G, K, N] of the group that ends[b..., G]
/// (i32) gives each row. Types are those of a matmul (areFactors, isProductType), without f64.
struct GroupedMatmul {
  bool transposeB = false;
  int64_t batches = 1, rows = 0, columns = 0, depth = 0, groups = 0;
};

/// The grouped matmul that a call of kGroupedMatmul is. `operands`: y, x, w and ends.
/// InvalidArgument if their types or shapes do not fit, or `config` is unknown.
Expected<GroupedMatmul> describeGroupedMatmul(std::string_view config, uint32_t outputs,
                                              const std::vector<Layout> &operands);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_BUILTINKERNELS_H
