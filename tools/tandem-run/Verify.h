//===- Verify.h - gathered results against the oracle -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_VERIFY_H
#define TANDEM_RUN_VERIFY_H

#include "Tensor.h"

#include <memory>

namespace tandem::run {

/// The shards of one argument on all ranks.
using Placement = std::vector<Shard>;

/// Number of terms of a partial argument, 1 of any other.
uint32_t termsOf(const Program &program, uint32_t argument);

/// Which term of a partial argument a rank holds: its place among the ranks that hold the same
/// elements. An error where more ranks than terms hold them: the file does not say who is a copy.
Expected<uint32_t> termOfRank(const Placement &placement, uint32_t rank, uint32_t terms,
                              const std::string &name);

/// The logical tensor from what each rank holds. Copies must be equal to the last bit, the terms of
/// a partial argument are reduced in f64 and rounded once, and every element must be held by
/// someone; an error names the argument, the rank and the first index.
Expected<Tensor> assemble(const ArgumentInfo &info, const Placement &placement, uint32_t terms,
                          const std::vector<std::string> &parts);

/// How a result compares.
struct Comparison {
  bool exact = false;      ///< must agree to the last bit
  double tolerance = 0;    ///< of the error
  double error = 0;        ///< ||out - ref|| / ||ref||
  int64_t firstWrong = -1; ///< logical element; -1: within the tolerance
};

/// Tolerances of the design: f32 1e-5, f16 1e-3, bf16 8e-3, twice that if `reducedWire`; i32 and
/// `exact` to the last bit.
Comparison compare(const Tensor &out, const Tensor &reference, bool exact, bool reducedWire);

/// True if a program only moves data: no matmul, reduction, accumulation or kernel.
bool onlyMovesData(const Program &program);

/// Runs the oracle on device cpu. `inputs` are the logical tensors of the input arguments, in
/// order; gives the results, in order.
Expected<std::vector<Tensor>> runOracle(std::shared_ptr<const Program> oracle,
                                        std::vector<Tensor> &inputs);

/// The rank that holds logical element `element`, the lowest if several do.
int rankOf(const Placement &placement, int64_t element);

} // namespace tandem::run

#endif // TANDEM_RUN_VERIFY_H
