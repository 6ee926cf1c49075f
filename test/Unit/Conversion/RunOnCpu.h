//===- RunOnCpu.h - runs a compiled program in the test -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_CONVERSION_RUNONCPU_H
#define TANDEM_TEST_UNIT_CONVERSION_RUNONCPU_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::test {

/// Runs a stream program with one f32 input and one f32 result on CPU ranks, each a thread. Rank r
/// gets `inputs[r]`, of shape `inputShape`; the results, of shape `resultShape`, follow one another
/// in `results`. An error message, or "".
std::string runOnCpu(std::string_view program, const std::vector<int64_t> &inputShape,
                     std::vector<std::vector<float>> &inputs,
                     const std::vector<int64_t> &resultShape, std::vector<float> &results);

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_CONVERSION_RUNONCPU_H
