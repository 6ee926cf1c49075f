//===- SampleProgram.h - a valid program that has everything ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_PROGRAM_SAMPLEPROGRAM_H
#define TANDEM_TEST_UNIT_PROGRAM_SAMPLEPROGRAM_H

#include "Support/ProgramSpec.h"

#include <functional>
#include <gtest/gtest.h>
#include <string>

namespace tandem::test {

/// Where things are in the sample, to be found by those who break them.
namespace sample {
enum View : uint32_t { x, y, a, b, bias, wide, sym, row, stack, half };
enum Command : uint32_t {
  record,
  wait,
  copy,
  matmul,
  accumulate,
  reduce,
  gather,
  reduceScatter,
  broadcast,
  group,
  send,
  recv,
  put,
  signal,
  waitSignal,
  launch
};
} // namespace sample

/// Two ranks, one command of each kind, all of it valid.
ProgramSpec sampleProgram();

/// A way to break rank 1 of the sample, and what the message must say.
struct Reject {
  std::string name;
  std::function<void(ProgramSpec &, RankSpec &)> breakIt;
  std::string expected;
};

/// Loads rank 1 of the broken sample; fails the test unless it is refused with the message.
void expectRejected(const Reject &reject);
/// The name of its test.
std::string nameOf(const testing::TestParamInfo<Reject> &info);

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_PROGRAM_SAMPLEPROGRAM_H
