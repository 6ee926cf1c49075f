//===- MeasuredTest.cpp - the simulator beside what was measured on GPUs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs whose time on 8 H200 is known from a prototype that launched the same operations: the
// rest of the machine file was measured apart from them. The bounds are what the model reaches
// today; docs/simulator.md has the figures.
//
//===----------------------------------------------------------------------===//

#include "ToyMachine.h"

#include <cmath>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

constexpr uint32_t kRanks = 8;

struct PushGather {
  const char *name;
  DType dtype;
  int64_t n, k;                 ///< of a rank's matmul; 8192 rows in all
  std::vector<uint32_t> groups; ///< chunks that one matmul takes, in order of arrival
  uint16_t matmulStreams;
  double measured; ///< s
  double bound;    ///< of the relative error
};

/// All-gather and matmul by one-sided copies from one copy stream in XOR order, a signal behind
/// each, own chunk first, and chunks that have arrived merged into one matmul.
ToyProgram pushGather(const PushGather &shape) {
  ToyProgram program(kRanks);
  int64_t rows = 8192 / kRanks;
  uint64_t slice = static_cast<uint64_t>(rows * shape.k) * sizeOf(shape.dtype);
  for (uint32_t r = 0; r < kRanks; ++r) {
    RankSpec &rank = program[r];
    rank.slots.assign(kRanks, 1);
    uint32_t gathered = rank.symmetric(slice * kRanks);
    uint32_t weight = rank.arena(static_cast<uint64_t>(shape.k * shape.n) * sizeOf(shape.dtype));
    uint32_t out = rank.arena(8192 * static_cast<uint64_t>(shape.n) * sizeOf(shape.dtype));
    uint32_t own = rank.view(rank.arena(slice), shape.dtype, {rows, shape.k});
    uint32_t w = rank.view(weight, shape.dtype, {shape.k, shape.n});
    uint32_t slot = rank.view(gathered, shape.dtype, {rows, shape.k}, slice * r);
    for (uint32_t step = 1; step < kRanks; ++step) {
      rank.put(1, 0, slot, own, r ^ step);
      rank.signal(1, 0, r ^ step, r, 1);
    }
    uint32_t chunk = 0;
    for (uint32_t g = 0; g < shape.groups.size(); ++g) {
      auto stream = static_cast<uint16_t>(2 + g % shape.matmulStreams);
      uint32_t first = ~0U, count = shape.groups[g];
      for (uint32_t i = 0; i < count; ++i, ++chunk) {
        first = std::min(first, r ^ chunk);
        if (chunk > 0)
          rank.waitSignal(stream, 0, r ^ chunk, 1);
      }
      uint32_t a = rank.view(gathered, shape.dtype, {rows * count, shape.k}, slice * first);
      uint32_t c = rank.view(out, shape.dtype, {rows * count, shape.n},
                             static_cast<uint64_t>(first * rows * shape.n) * sizeOf(shape.dtype));
      rank.add(sp::CommandKind::matmul, stream, {c, chunk == count ? own : a, w});
    }
  }
  return program;
}

class Measured : public testing::TestWithParam<PushGather> {};

TEST_P(Measured, PushGatherAndMatmul) {
  const PushGather &shape = GetParam();
  auto machine = machine::Machine::load(std::string(TANDEM_MACHINES) + "/h200x8.json");
  ASSERT_TRUE(machine.ok());
  ToyProgram program = pushGather(shape);
  simulate::Result result = program.simulate(*machine);
  double error = result.seconds / shape.measured - 1;
  RecordProperty("simulated_us", static_cast<int>(result.seconds * 1e6));
  RecordProperty("error_percent", static_cast<int>(std::lround(error * 100)));
  EXPECT_LT(std::abs(error), shape.bound)
      << "simulated " << result.seconds * 1e3 << " ms, measured " << shape.measured * 1e3;
}

INSTANTIATE_TEST_SUITE_P(
    H200, Measured,
    testing::Values(
        PushGather{"n11008", DType::F16, 1376, 4096, {1, 1, 1, 1, 1, 1, 1, 1}, 2, .223e-3, .12},
        PushGather{"n28672", DType::BF16, 3584, 8192, {1, 1, 2, 4}, 1, .676e-3, .12},
        PushGather{"n49152", DType::BF16, 6144, 12288, {1, 2, 5}, 1, 1.664e-3, .08},
        PushGather{"n53248", DType::BF16, 6656, 16384, {1, 2, 5}, 1, 2.435e-3, .08}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace tandem::test
