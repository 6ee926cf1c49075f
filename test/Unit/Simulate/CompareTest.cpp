//===- CompareTest.cpp - simulated beside measured ---*- C++ -*-===//
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

timeline::Timeline timelineOf(ToyProgram &program, const machine::Machine &machine) {
  auto world = program.load();
  return makeTimeline(*world, program.simulate(machine), "simulated", 4);
}

TEST(Compare, SaysWhereTheModelErrs) {
  ToyProgram program(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    program.exchange(rank, 1, static_cast<int>(1 - rank), static_cast<int>(1 - rank), 1);
    program.matmul(rank, 1, 2);
  }
  // "Measured": links of half the speed, matmuls as the model has them.
  machine::Machine slow = toyMachine();
  ASSERT_TRUE(slow.scale("link.bandwidth", 0.5).ok());
  auto comparison = simulate::compare(timelineOf(program, slow), timelineOf(program, toyMachine()));
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  EXPECT_NEAR(comparison->measured, 4 * kMs, 1e-9);
  EXPECT_NEAR(comparison->simulated, 3 * kMs, 1e-9);
  ASSERT_EQ(comparison->kinds.size(), 2u);
  EXPECT_EQ(comparison->kinds[0].what, "matmul");
  EXPECT_EQ(comparison->kinds[0].commands, 2u);
  EXPECT_NEAR(comparison->kinds[0].medianError, 0, 1e-6);
  EXPECT_EQ(comparison->kinds[1].what, "group");
  EXPECT_NEAR(comparison->kinds[1].medianError, 0.5, 1e-6);
  ASSERT_EQ(comparison->ranks.size(), 2u);
  EXPECT_NEAR(comparison->ranks[0].medianError, 0.25, 1e-6);
  EXPECT_THAT(report(*comparison), HasSubstr("median error"));
}

TEST(Compare, WaitsHaveARow) {
  // Stream 2 stands until the message is over: 2 ms measured, 1 ms simulated. What the other wait
  // is for was over before.
  ToyProgram program(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    program.exchange(rank, 1, static_cast<int>(1 - rank), static_cast<int>(1 - rank), 1);
    program[rank].sync(2, 1);
    program.matmul(rank, 2, 2);
    program[rank].sync(2, 1);
    program.matmul(rank, 2, 1);
  }
  machine::Machine slow = toyMachine();
  ASSERT_TRUE(slow.scale("link.bandwidth", 0.5).ok());
  auto comparison = simulate::compare(timelineOf(program, slow), timelineOf(program, toyMachine()));
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  ASSERT_EQ(comparison->kinds.size(), 3u);
  const simulate::Comparison::Row &waits = comparison->kinds[0];
  EXPECT_EQ(waits.what, "wait");
  EXPECT_EQ(waits.commands, 2u);
  EXPECT_NEAR(waits.measured, 4 * kMs, 1e-9);
  EXPECT_NEAR(waits.simulated, 2 * kMs, 1e-9);
  EXPECT_NEAR(waits.medianError, 0.5, 1e-6);
}

TEST(Compare, OtherProgramsAreRefused) {
  ToyProgram one(1), two(1), ranks(2);
  one.matmul(0, 0, 1);
  uint32_t a = two.memory(0, 1), b = two.memory(0, 1);
  two[0].copy(0, a, b);
  machine::Machine machine = toyMachine();
  timeline::Timeline first = timelineOf(one, machine);
  EXPECT_THAT(simulate::compare(first, timelineOf(two, machine)).status().message(),
              HasSubstr("the commands of rank 0 differ"));
  EXPECT_THAT(simulate::compare(first, timelineOf(ranks, machine)).status().message(),
              HasSubstr("1 ranks, not 2"));
  timeline::Timeline named = first;
  named.program = "other";
  EXPECT_THAT(simulate::compare(first, named).status().message(), HasSubstr("@toy, not @other"));
}

} // namespace
} // namespace tandem::test
