//===- PredictTest.cpp - one rank of many alike ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Predict.h"
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

TEST(Predict, SyncsThatOrderNothingNewAreNoCommands) {
  Plan plan;
  std::vector<uint32_t> needed, waits, none;
  needed.push_back(plan.sync(1, 0)); // also behind what was there before the run
  waits.push_back(plan.sync(2, 0));  // the same record
  none.push_back(plan.sync(3, 0));   // nothing follows
  plan.compute(1, Cost::Matmul, 1 * kMs);
  needed.push_back(plan.sync(0, 1));
  none.push_back(plan.sync(0, 1));
  plan.compute(2, Cost::Matmul, 1 * kMs);
  needed.push_back(plan.sync(0, 2));
  none.push_back(plan.sync(0, 1));
  none.push_back(plan.sync(2, 0)); // nothing follows
  std::vector<uint8_t> events = plan.countEvents();
  for (uint32_t step : needed)
    EXPECT_EQ(events[step], 2) << step;
  for (uint32_t step : waits)
    EXPECT_EQ(events[step], 1) << step;
  for (uint32_t step : none)
    EXPECT_EQ(events[step], 0) << step;
  // Two hops: to the worker at the start, and back.
  Machine machine = toyMachine();
  machine.streams.device[static_cast<size_t>(Cost::Event)] = 0.25 * kMs;
  Plan one;
  one.fork(1);
  one.compute(1, Cost::Matmul, 1 * kMs);
  one.join(1);
  one.join(1);
  EXPECT_NEAR(ms(machine, one), 1.5, 1e-6);
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
  machine.contention.matmul = 1.5;
  EXPECT_NEAR(ms(machine, plan), 3, 1e-6);
  machine.cores = 8; // 4 of them busy
  EXPECT_NEAR(ms(machine, plan), 1 + 0.5 * 3 / 7, 1e-6);
}

/// An exchange and the matmuls beside it on 4 ranks: what the compiler predicts of a plan is what
/// the simulator says of the same commands.
void expectAgreement(const Machine &machine, double computing) {
  const uint32_t ranks = 4;
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
  double simulated = program.simulate(machine).seconds / kMs;
  EXPECT_NEAR(ms(machine, plan), simulated, 0.01 * simulated) << computing;
}

/// A push of `ranks` slices and matmuls beside it: of a gather, or of a reduction.
void expectPushAgreement(const Machine &machine, bool gathers, double computing) {
  const uint32_t ranks = 4;
  ToyProgram program(ranks);
  Plan plan;
  plan.ranksPerNode = ranks;
  for (uint32_t r = 0; r < ranks; ++r) {
    program[r].slots.assign(ranks, 1);
    if (gathers)
      program[r].sync(1, 0);
    for (uint32_t d = 1; d < ranks; ++d) {
      if (!gathers) {
        program.matmul(r, 0, computing);
        program[r].sync(1, 0);
      }
      program.put(r, 1, (r + d) % ranks, 1);
      program[r].signal(1, 0, (r + d) % ranks, r, 1);
    }
    program.matmul(r, 0, computing);
    for (uint32_t d = 1; d < ranks; ++d) {
      program[r].waitSignal(0, 0, (r + ranks - d) % ranks, 1);
      if (gathers)
        program.matmul(r, 0, computing);
    }
    program[r].sync(0, 1);
  }
  plan.fork(1);
  std::vector<uint32_t> arrived;
  for (uint32_t d = 1; d < ranks; ++d) {
    if (!gathers) {
      plan.compute(0, Cost::Matmul, computing * kMs);
      plan.sync(1, 0);
    }
    plan.put(1, kMb, false);
    arrived.push_back(plan.signal(1));
  }
  plan.compute(0, Cost::Matmul, computing * kMs);
  for (uint32_t signal : arrived) {
    plan.waitSignal(0, signal);
    if (gathers)
      plan.compute(0, Cost::Matmul, computing * kMs);
  }
  plan.join(1);
  double simulated = program.simulate(machine).seconds / kMs;
  EXPECT_NEAR(ms(machine, plan), simulated, 1e-3 * simulated) << gathers << " " << computing;
}

TEST(Predict, APutBehindOtherWorkChangesEngines) {
  Machine machine = toyMachine();
  machine.streams.engineStart = 0.5 * kMs;
  machine.streams.engineChange = 1 * kMs;
  Plan plan;
  plan.put(1, 2 * kMb, false);
  plan.signal(1);
  plan.put(1, 2 * kMb, false);
  plan.compute(2, Cost::Matmul, 4 * kMs);
  plan.sync(1, 2);
  plan.put(1, 2 * kMb, false);
  EXPECT_NEAR(ms(machine, plan), 7, 1e-6);
  machine.streams.engineChange = 0.25 * kMs; // what was over long ago costs nothing
  EXPECT_NEAR(ms(machine, plan), 6.5, 1e-6);
  // A change takes no engine.
  machine.streams.engineStart = 3 * kMs;
  machine.streams.engineChange = 0.5 * kMs;
  Plan two;
  two.put(1, 2 * kMb, false);
  two.compute(2, Cost::Matmul, 1 * kMs);
  two.sync(3, 2);
  two.put(3, 2 * kMb, false);
  EXPECT_NEAR(ms(machine, two), 5.5, 1e-6);
  Plan behind;
  behind.compute(1, Cost::Matmul, 1 * kMs);
  behind.put(1, 2 * kMb, false);
  EXPECT_NEAR(ms(machine, behind), 3.5, 1e-6);
}

TEST(Predict, AgreesWithTheSimulatorOnPushes) {
  Machine machine = toyMachine({{"/launch/streams/engine_start", R"([0.2, "ms", "toy"])"},
                                {"/launch/streams/engine_change", R"([0.3, "ms", "toy"])"},
                                {"/launch/streams/device/event", R"([0.1, "ms", "toy"])"},
                                {"/launch/streams/device/signal", R"([0.2, "ms", "toy"])"},
                                {"/device/copy_interference", R"([1.25, "1", "toy"])"}});
  for (bool gathers : {false, true})
    for (double computing : {0.5, 1.0, 3.0})
      expectPushAgreement(machine, gathers, computing);
}

TEST(Predict, AgreesWithTheSimulator) {
  for (double computing : {0.5, 1.0, 3.0})
    expectAgreement(toyMachine(), computing);
}

TEST(Predict, AgreesWithTheSimulatorOnAHost) {
  Machine machine = toyMachine(
      {{"/device/cores", R"([6, "1", "toy"])"},
       {"/device/contention", R"({"matmul": [1.6, "1", "toy"], "memory": [1.2, "1", "toy"]})"},
       {"/links/node/topology", R"("shared")"},
       {"/links/node/bandwidth", R"([[[100000, 8], [10000000, 2]], "GB/s", "toy"])"},
       {"/transports/two_sided/mover", R"("host")"}});
  for (double computing : {0.5, 1.0, 3.0})
    expectAgreement(machine, computing);
}

} // namespace
} // namespace tandem::machine
