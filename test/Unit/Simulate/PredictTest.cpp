//===- PredictTest.cpp - one rank of many alike ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Predict.h"
#include "ToyMachine.h"

#include <gtest/gtest.h>

namespace tandem::machine {
namespace {

using test::kMs;
using test::toyMachine;
using test::ToyProgram;

constexpr double kMb = 1e6;

double ms(const Machine &machine, const Plan &plan) { return predict(machine, plan) / kMs; }

TEST(Predict, AnEmptyPlanTakesNothing) { EXPECT_EQ(predict(toyMachine(), Plan()), 0); }

TEST(Predict, StreamsAreInOrderAndSyncsWait) {
  Plan plan;
  plan.compute(0, Cost::Matmul, 1 * kMs);
  plan.sync(1, 0);
  plan.message(1, 2 * kMb, false);
  plan.compute(0, Cost::Matmul, 3 * kMs);
  plan.sync(0, 1);
  plan.compute(0, Cost::Matmul, 1 * kMs);
  // The message of 2 ms runs beside the second matmul.
  EXPECT_NEAR(ms(toyMachine(), plan), 5, 1e-6);
}

TEST(Predict, ComputationsShareTheDevice) {
  Plan plan;
  plan.compute(0, Cost::Matmul, 2 * kMs);
  plan.compute(1, Cost::Matmul, 1 * kMs);
  // Both at half speed until 2 ms, then one alone.
  EXPECT_NEAR(ms(toyMachine(), plan), 3, 1e-6);
}

TEST(Predict, MessagesShareThePort) {
  Plan plan;
  plan.message(1, 1 * kMb, false);
  plan.message(2, 1 * kMb, false);
  EXPECT_NEAR(ms(toyMachine(), plan), 2, 1e-6);
  EXPECT_NEAR(ms(toyMachine({{"/links/node/sharing", "[0.5, \"1\", \"toy\"]"}}), plan), 4, 1e-6);
}

TEST(Predict, OneCopyEngineTakesTurns) {
  Plan plan;
  plan.put(1, 1 * kMb, false);
  plan.put(2, 1 * kMb, false);
  plan.waitSignal(0, 0);
  plan.compute(0, Cost::Matmul, 3 * kMs);
  EXPECT_NEAR(ms(toyMachine(), plan), 4, 1e-6);
}

TEST(Predict, SmsOfACollectiveAreMissing) {
  Machine machine = toyMachine();
  machine.collectives.mover = Mover::Sm;
  machine.collectives.sms = machine.sms / 2;
  CollectiveCost cost = machine.collectiveCost(CollectiveKind::AllGather, 2, 1, 4 * kMb);
  Plan plan;
  plan.collective(1, cost);
  plan.compute(0, Cost::Matmul, 3 * kMs);
  // 4 ms at half speed are 2, then 1 more.
  EXPECT_NEAR(ms(machine, plan), cost.seconds / kMs + 3 - cost.seconds / kMs / 2, 1e-6);
}

TEST(Predict, RanksOfANodeShareItsCores) {
  Machine machine = toyMachine();
  machine.cores = 2;
  Plan plan;
  plan.ranksPerNode = 4;
  plan.compute(0, Cost::Matmul, 1 * kMs);
  EXPECT_NEAR(ms(machine, plan), 2, 1e-6);
}

// The same loop as a program and as a plan: what the compiler predicts is what the simulator says.
TEST(Predict, AgreesWithTheSimulator) {
  const uint32_t ranks = 4;
  for (double computing : {0.5, 1.0, 3.0}) {
    ToyProgram program(ranks);
    Plan plan;
    plan.ranksPerNode = ranks;
    for (uint32_t r = 0; r < ranks; ++r) {
      for (uint16_t w = 1; w <= 2; ++w)
        program[r].sync(w, 0);
      program.matmul(r, 1, computing);
      for (uint32_t d = 1; d < ranks; ++d) {
        auto stream = static_cast<uint16_t>(1 + d % 2);
        program.exchange(r, stream, static_cast<int>((r + ranks - d) % ranks),
                         static_cast<int>((r + d) % ranks), 1);
        program.matmul(r, stream, computing);
      }
      for (uint16_t w = 1; w <= 2; ++w)
        program[r].sync(0, w);
    }
    plan.fork(2);
    plan.compute(1, Cost::Matmul, computing * kMs);
    for (uint32_t d = 1; d < ranks; ++d) {
      plan.message(1 + d % 2, kMb, false);
      plan.compute(1 + d % 2, Cost::Matmul, computing * kMs);
    }
    plan.join(2);
    Machine machine = toyMachine();
    double simulated = program.simulate(machine).seconds / kMs;
    EXPECT_NEAR(ms(machine, plan), simulated, 0.01 * simulated) << computing;
  }
}

} // namespace
} // namespace tandem::machine
