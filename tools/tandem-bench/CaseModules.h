//===- CaseModules.h - the fusions of a case --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_CASEMODULES_H
#define TANDEM_BENCH_CASEMODULES_H

#include "Shapes.h"

namespace tandem::bench {

/// The text of a module with one function: x [M, K] and w [K, N] to y [M, N] over a mesh of `ranks`
/// devices, with the axes and schedule that are asked for. An error where the schedule says what
/// this number of ranks cannot have.
Expected<std::string> fusedText(const Case &shape, uint32_t ranks, const Schedule &schedule);
/// A rank's matmul alone; the inputs of a gather are whole, the result of a reduction stays terms.
std::string matmulText(const Case &shape, uint32_t ranks);
/// The communication alone, as one collective.
std::string communicationText(const Case &shape, uint32_t ranks);
} // namespace tandem::bench

#endif // TANDEM_BENCH_CASEMODULES_H
