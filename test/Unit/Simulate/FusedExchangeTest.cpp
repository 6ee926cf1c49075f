//===- FusedExchangeTest.cpp - times of fused exchanges ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"
#include "ToyMachine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using testing::HasSubstr;

constexpr double kNear = 1e-9;

/// A startup of 1 ms, signals of 2 ms, and blocks that store, or read and write, a quarter of a
/// GB/s: 4 of them fill the link and the memory.
const char *const kKernel = R"({"startup": [1, "ms", "toy"], "signal": [2, "ms", "toy"],
    "block_stores": [0.25, "GB/s", "toy"], "block_memory": [0.25, "GB/s", "toy"]})";

machine::Machine withKernel(const std::string &kernel = kKernel) {
  return toyMachine({{"/transports/fused_exchange", kernel},
                     {"/devices_per_node", "32"},
                     {"/launch/streams/device/kernel", R"([4, "ms", "toy"])"},
                     {"/launch/streams/device/wait_signal", R"([7, "ms", "toy"])"}});
}

/// A megabyte of each of two ranks.
ToyProgram exchange(uint64_t blocks, uint32_t ranks = 2, uint8_t signals = 0) {
  ToyProgram program(ranks);
  static_cast<ProgramSpec &>(program.spec) = ExchangeSpec(ranks, false, kMegabyte, blocks, signals);
  return program;
}

TEST(SimulateFusedExchange, OneLaunchAndTheRatesOfItsBlocks) {
  // Launch and startup; then with half the rates a copy (2 MB), a put, its signal, and a reduction
  // that reads 2 MB and writes one.
  simulate::Result result = exchange(2).simulate(withKernel());
  EXPECT_NEAR(result.seconds, (4 + 1 + 4 + 2 + 2 + 6) * kMs, kNear);
  EXPECT_NEAR(result.ranks[0].sequential, result.seconds, kNear);
  EXPECT_EQ(result.unfused, replay::kNone);
  // More blocks do not exceed what the link and the memory can do.
  for (uint64_t blocks : {4, 40})
    EXPECT_NEAR(exchange(blocks).simulate(withKernel()).seconds, (4 + 1 + 2 + 1 + 2 + 3) * kMs,
                kNear);
}

TEST(SimulateFusedExchange, SignalsOfAStepAreRaisedAtOnce) {
  // Three puts, one signal's time, and a reduction of 4 MB to one.
  simulate::Result result = exchange(4, 4).simulate(withKernel());
  EXPECT_NEAR(result.seconds, (4 + 1 + 2 + 3 + 2 + 5) * kMs, kNear);
}

TEST(SimulateFusedExchange, SignalsOfBlocksAndWords) {
  machine::Machine
      without = withKernel(),
      with = withKernel(
          R"({"startup": [1, "ms", "toy"], "signal": [2, "ms", "toy"], "count": [5, "ms", "toy"],
          "block_signal": [0.5, "ms", "toy"], "ll_signal": [0.25, "ms", "toy"],
          "block_stores": [0.25, "GB/s", "toy"], "block_memory": [0.25, "GB/s", "toy"]})");
  EXPECT_NEAR(exchange(2).simulate(with).seconds, (4 + 1 + 4 + 2 + 7 + 6) * kMs, kNear);
  // Blocks do not count each other.
  EXPECT_NEAR(exchange(2, 2, 1).simulate(with).seconds, (4 + 1 + 4 + 2 + 0.5 + 6) * kMs, kNear);
  // Half of each word is a flag.
  EXPECT_NEAR(exchange(2, 2, 2).simulate(with).seconds, (4 + 1 + 4 + 4 + 0.25 + 6) * kMs, kNear);
  // Where nothing is known of them, they have the price of signals per step.
  for (uint8_t signals : {1, 2})
    EXPECT_NEAR(exchange(2, 2, signals).simulate(without).seconds, (4 + 1 + 4 + 2 + 2 + 6) * kMs,
                kNear);
}

TEST(SimulateFusedExchange, WordsFromPeersAreReadAtTheirOwnRate) {
  machine::Machine machine = withKernel(
      R"({"startup": [1, "ms", "toy"], "signal": [2, "ms", "toy"], "block_signal": [0.5, "ms", "toy"],
          "ll_signal": [0.25, "ms", "toy"], "ll_reads": [0.5, "GB/s", "toy"],
          "block_stores": [0.25, "GB/s", "toy"], "block_memory": [0.25, "GB/s", "toy"]})");
  // 2 MB of words from each peer, whose values also count as memory.
  EXPECT_NEAR(exchange(4, 2, 2).simulate(machine).seconds, (4 + 1 + 2 + 2 + 0.25 + 3 + 4) * kMs,
              kNear);
  EXPECT_NEAR(exchange(4, 4, 2).simulate(machine).seconds, (4 + 1 + 2 + 6 + 0.25 + 5 + 12) * kMs,
              kNear);
  EXPECT_NEAR(exchange(4, 4, 1).simulate(machine).seconds, (4 + 1 + 2 + 3 + 0.5 + 5) * kMs, kNear);
}

TEST(SimulateFusedExchange, ItsBlocksTakeSms) {
  // Half of the 100 SMs, for 13 ms.
  ToyProgram program = exchange(50);
  program.matmul(0, 1, 20);
  EXPECT_NEAR(program.simulate(withKernel()).seconds, (13 + 13.5) * kMs, kNear);
}

TEST(SimulateFusedExchange, WithoutAKernelItsPartsAreCommands) {
  ToyProgram program = exchange(4);
  machine::Machine machine = toyMachine({{"/launch/streams/device/kernel", R"([4, "ms", "toy"])"}});
  simulate::Result result = program.simulate(machine);
  // Copy and reduction are launched, the put is not.
  EXPECT_NEAR(result.seconds, (4 + 2 + 1 + 4 + 3) * kMs, kNear);
  ASSERT_NE(result.unfused, replay::kNone);
  EXPECT_THAT(simulate::report(*program.load(), machine, result),
              HasSubstr("no kernel for fused exchanges on this machine"));
}

TEST(SimulateFusedExchange, TheKernelHasLimits) {
  // Each rank waits for all others.
  EXPECT_EQ(exchange(4, 16).simulate(withKernel()).unfused, replay::kNone);
  EXPECT_NE(exchange(4, 18).simulate(withKernel()).unfused, replay::kNone);
  ToyProgram program = exchange(4);
  for (RankSpec &rank : program.spec.ranks)
    for (LayoutSpec &layout : rank.layouts)
      layout.dtype = sp::DType::i32;
  EXPECT_NE(program.simulate(withKernel()).unfused, replay::kNone);
}

TEST(SimulateFusedExchange, RatesHaveDefaults) {
  // An eighth of the link, and the memory rate by the number of SMs.
  machine::Machine machine =
      withKernel(R"({"startup": [1, "us", "toy"], "signal": [2, "us", "toy"]})");
  EXPECT_DOUBLE_EQ(machine.exchange.stores, 1e9 / 8);
  EXPECT_DOUBLE_EQ(machine.exchange.memory, 1e9 / 100);
  EXPECT_FALSE(toyMachine().hasExchangeKernel);
  auto wrong = machine::Machine::parse(
      toyMachineText({{"/transports/fused_exchange", R"({"startup": [1, "us", "toy"]})"}}), "toy");
  EXPECT_EQ(wrong.status().message(), "toy: transports.fused_exchange.signal: missing");
}

} // namespace
} // namespace tandem::test
