//===- GatedTest.cpp - times of gated matmuls ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyMachine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using testing::HasSubstr;

const char *const kLaunch = R"([1, "ms", "toy"])";

/// Two parts of a millisecond each at the library's rate. Rank 1 puts a megabyte (a millisecond)
/// `late` milliseconds after the start; the second part waits for its signal.
ToyProgram gated(double late, uint64_t leaves = 0) {
  ToyProgram program(2);
  for (RankSpec &rank : program.spec.ranks)
    rank.slots = {1};
  if (late > 0)
    program.matmul(1, 0, late);
  program.put(1, 0, 0, 1);
  program[1].signal(0, 0, 0, 0, 1);
  RankSpec &rank = program[0];
  rank.symmetric(4000000);
  uint32_t out = rank.arena(2000 * 1000 * 4), a = rank.arena(2000 * 500 * 4);
  uint32_t w = rank.view(rank.arena(500 * 1000 * 4), DType::F32, {500, 1000});
  auto part = [&](uint64_t row) {
    uint32_t y = rank.view(out, DType::F32, {1000, 1000}, row * 1000 * 4);
    uint32_t x = rank.view(a, DType::F32, {1000, 500}, row * 500 * 4);
    rank.add(sp::CommandKind::matmul, 0, {y, x, w});
  };
  CommandSpec &head = rank.add(sp::CommandKind::gated_matmul, 0);
  head.aux = 3;
  head.value = leaves;
  part(0);
  rank.waitSignal(0, 0, 0, 1);
  part(1000);
  return program;
}

machine::Machine withKernels(double efficiency) {
  return toyMachine(
      {{"/device/gated_matmul", R"({"source": "toy", "points": [[2000, 1000, 500, )" +
                                    std::to_string(efficiency) + "], [2000, 1000, 500000, 0.1]]}"},
       {"/launch/streams/device/matmul", kLaunch},
       {"/launch/streams/device/wait_signal", kLaunch}});
}

TEST(SimulateGated, OneLaunchAndTheRateOfItsKernel) {
  // A launch, then two parts of a millisecond at half the rate. The gate has been open for long.
  ToyProgram program = gated(0);
  simulate::Result result = program.simulate(withKernels(0.5));
  EXPECT_NEAR(result.seconds, (1 + 2 + 2) * kMs, kNear);
  EXPECT_EQ(result.ungated, replay::kNone);
  EXPECT_NEAR(result.ranks[0].sequential, 5 * kMs, kNear);
}

TEST(SimulateGated, SmsThatAreLeftDoNotMultiply) {
  // The toy has 100.
  simulate::Result result = gated(0, 50).simulate(withKernels(0.5));
  EXPECT_NEAR(result.seconds, (1 + 4 + 4) * kMs, kNear);
}

TEST(SimulateGated, TheRateDependsOnTheShape) {
  machine::Machine machine = withKernels(0.5);
  auto efficiency = [&](double k) {
    return machine.matmulSeconds(DType::F32, 1, 2000, 1000, k) /
           machine.gatedMatmulSeconds(DType::F32, 2000, 1000, k, 0);
  };
  EXPECT_NEAR(efficiency(500), 0.5, 1e-6);
  EXPECT_NEAR(efficiency(500000), 0.1, 1e-6);
  double between = efficiency(20000);
  EXPECT_GT(between, 0.1);
  EXPECT_LT(between, 0.5);
  EXPECT_LT(efficiency(100000), between);
}

TEST(SimulateGated, APartBeginsWhenItsGateOpens) {
  // Rank 1: a launch, 6 of a matmul and 1 of a put.
  ToyProgram program = gated(6);
  simulate::Result result = program.simulate(withKernels(1));
  EXPECT_NEAR(result.seconds, (1 + 6 + 1 + 1) * kMs, kNear);
  uint32_t head = 0;
  EXPECT_NEAR(result.end[head + 1], (1 + 1) * kMs, kNear);       // the first part
  EXPECT_NEAR(result.begin[head + 3], (1 + 6 + 1) * kMs, kNear); // the second one
}

TEST(SimulateGated, WithoutKernelsItsPartsAreLaunched) {
  ToyProgram program = gated(0);
  machine::Machine machine = toyMachine({{"/launch/streams/device/matmul", kLaunch},
                                         {"/launch/streams/device/wait_signal", kLaunch}});
  simulate::Result result = program.simulate(machine);
  // Launch and part, wait, launch and part.
  EXPECT_NEAR(result.seconds, (1 + 1 + 1 + 1 + 1) * kMs, kNear);
  ASSERT_NE(result.ungated, replay::kNone);
  EXPECT_THAT(simulate::report(*program.load(), machine, result),
              HasSubstr("no kernels for gated matmuls on this machine: the parts of rank 0"));
}

TEST(SimulateGated, TheMachineFileIsChecked) {
  auto errorOf = [](const std::string &value) {
    return machine::Machine::parse(toyMachineText({{"/device/gated_matmul", value}}), "toy.json")
        .status()
        .message();
  };
  auto ofPoints = [&](const std::string &points) {
    return errorOf(R"({"source": "toy", "points": )" + points + "}");
  };
  EXPECT_EQ(ofPoints("[[1, 1, 1, 0.9]]"), "");
  EXPECT_EQ(errorOf("{}"), "toy.json: device.gated_matmul.source: missing");
  EXPECT_EQ(ofPoints("[]"), "toy.json: device.gated_matmul.points: expected at least one point");
  EXPECT_EQ(ofPoints("[[1, 1, 1, 1], [1, 1, 1, 3]]"),
            "toy.json: device.gated_matmul.points[1]: expected an efficiency from 0.01 to 2, "
            "found 3");
  EXPECT_THAT(ofPoints("[[1, 1, 0.9]]"), HasSubstr("expected [m, n, k, value], all above 0"));
  EXPECT_THAT(errorOf(R"({"speed": [1, "1", "toy"]})"), HasSubstr("unknown field"));
}

} // namespace
} // namespace tandem::test
