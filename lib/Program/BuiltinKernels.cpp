//===- BuiltinKernels.cpp - kernels that the runtime supplies ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/BuiltinKernels.h"

#include "ProgramImpl.h"

#include <algorithm>

namespace tandem::program {

Expected<GroupedMatmul> describeGroupedMatmul(std::string_view config, uint32_t outputs,
                                              const std::vector<Layout> &operands) {
  if (!config.empty() && config != kTransposeB)
    return invalid("expected no config or \"{}\", found \"{}\"", kTransposeB, config);
  if (outputs != 1 || operands.size() != 4)
    return invalid("expected a result and 3 inputs, found {} results of {} operands", outputs,
                   operands.size());
  const Layout &y = operands[0], &x = operands[1], &w = operands[2], &ends = operands[3];
  if (!areFactors(x.dtype, w.dtype) || !isProductType(y.dtype, x.dtype) || x.dtype == DType::F64 ||
      ends.dtype != DType::I32)
    return invalid("expected factors of f32, f16 or bf16 and a result of these or f32, or factors "
                   "of 8 bits and a result of f32, f16 or bf16, and ends of i32; found {}, {}, {} "
                   "and {}",
                   toString(x.dtype), toString(w.dtype), toString(y.dtype), toString(ends.dtype));
  if (y.rank < 2 || x.rank != y.rank || w.rank != 3 || ends.rank != y.rank - 1)
    return invalid("expected [b..., M, N] = [b..., M, K] * [G, K, N] by [b..., G], found {}, {}, "
                   "{} and {}",
                   y.str(), x.str(), w.str(), ends.str());
  GroupedMatmul found;
  found.transposeB = !config.empty();
  const unsigned batch = y.rank - 2u;
  bool fits = true;
  for (unsigned d = 0; d < batch; ++d) {
    found.batches *= y.shape[d];
    fits = fits && x.shape[d] == y.shape[d] && ends.shape[d] == y.shape[d];
  }
  found.rows = y.shape[batch];
  found.columns = y.shape[batch + 1];
  found.depth = x.shape[batch + 1];
  found.groups = w.shape[0];
  fits = fits && x.shape[batch] == found.rows && ends.shape[batch] == found.groups &&
         w.shape[found.transposeB ? 1 : 2] == found.columns &&
         w.shape[found.transposeB ? 2 : 1] == found.depth;
  if (!fits)
    return invalid("expected equal extents of equal dimensions, found {} = {} * {} by {}", y.str(),
                   x.str(), w.str(), ends.str());
  return found;
}

} // namespace tandem::program
