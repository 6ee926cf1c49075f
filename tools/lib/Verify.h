//===- Verify.h - gathered results against the reference -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_VERIFY_H
#define TANDEM_RUN_VERIFY_H

#include "KernelLibrary.h"
#include "Tensor.h"

#include <memory>
#include <optional>

namespace tandem::run {

/// The shards of one argument on all ranks.
using Placement = std::vector<Shard>;

/// The logical tensor, put together piece by piece from what each rank holds. Replicas must be
/// equal to the last bit, the terms of a partial argument are reduced in f64 and rounded once, and
/// every element (of every term) must be held by a rank. An error names the argument, the rank and
/// the first index. Refers to the arguments of its constructor.
class Assembly {
public:
  Assembly(const ArgumentInfo &info, const Placement &placement);
  /// `count` elements of a rank, from its local element `begin` on. Once for each.
  void add(uint32_t rank, int64_t begin, int64_t count, const std::byte *from);
  /// The tensor, or the first error.
  Expected<Tensor> finish();

private:
  const ArgumentInfo &info;
  const Placement &placement;
  std::vector<Tensor> terms;
  std::vector<std::vector<uint8_t>> held; ///< by term and element: 0 or 1
  Status problem;
};

/// How a result compares.
struct Comparison {
  bool exact = false;      ///< must agree to the last bit
  double tolerance = 0;    ///< of the error
  double error = 0;        ///< ||out - ref|| / ||ref||
  int64_t firstWrong = -1; ///< logical element; -1: within the tolerance
};

/// What lies on the way from the inputs to a result.
struct Path {
  /// Not only moved: matmuls, reductions, accumulations or kernels.
  bool computed = false;
  /// The least precise type of what was read and written; what a kernel rounds to inside of itself
  /// does not show.
  DType loosest = DType::F32;
  bool multipliesFp8 = false; ///< a matmul of 8-bit floats
};

/// The paths of a program's results, in order, from which buffers its commands read and write.
std::vector<Path> pathsToResults(const Program &program);

/// Tolerances of the design, by the path's loosest type: f32 1e-5, f16 1e-3, bf16 8e-3, f8E4M3FN
/// 0.13, f8E5M2 0.25 (the last two only where they are computed, not where they are read), at least
/// 5e-4 for matmuls of 8-bit floats, twice that if `reducedWire`; i32 and what is not computed to
/// the last bit.
Comparison compare(const Tensor &out, const Tensor &reference, const Path &path, bool reducedWire);

/// Runs the reference on device cpu. `inputs` are the logical tensors of the input arguments, in
/// order; gives the results, in order. `extent`: of the dimensions that vary.
Expected<std::vector<Tensor>> runReference(std::shared_ptr<const Program> reference,
                                           std::vector<Tensor> &inputs,
                                           const KernelList &kernels = {},
                                           std::optional<int64_t> extent = {});

/// The rank that holds logical element `element` (of a term, if one is named), the lowest if
/// several do.
int rankOf(const Placement &placement, int64_t element, std::optional<uint32_t> term = {});

} // namespace tandem::run

#endif // TANDEM_RUN_VERIFY_H
