//===- SimulateTest.cpp - times computed by hand: one device ---*- C++ -*-===//
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

TEST(Simulate, CommandsOfAStreamFollowEachOther) {
  ToyProgram program(1);
  program.matmul(0, 0, 2);
  program.matmul(0, 0, 3);
  simulate::Result result = program.simulate(toyMachine());
  EXPECT_NEAR(result.seconds, 5 * kMs, kNear);
  EXPECT_NEAR(result.sequential, 5 * kMs, kNear);
  EXPECT_NEAR(result.ranks[0].shares.compute, 5 * kMs, kNear);
}

TEST(Simulate, MatmulsOfTwoStreamsShareTheDevice) {
  ToyProgram program(1);
  program.matmul(0, 1, 2);
  program.matmul(0, 2, 4);
  simulate::Result result = program.simulate(toyMachine());
  // Half speed each: 2 is done at 4, what is left of 4 (2) alone.
  EXPECT_NEAR(endOf(result, *program.load(), 0, 0), 4 * kMs, kNear);
  EXPECT_NEAR(result.seconds, 6 * kMs, kNear);
}

TEST(Simulate, AnEventOrdersTwoStreams) {
  ToyProgram program(1);
  program.matmul(0, 1, 2);
  program[0].sync(2, 1);
  program.matmul(0, 2, 1);
  EXPECT_NEAR(program.simulate(toyMachine()).seconds, 3 * kMs, kNear);
  // News from another stream take a millisecond.
  machine::Machine slow = toyMachine({{"/launch/streams/device/event", R"([1, "ms", "toy"])"}});
  EXPECT_NEAR(program.simulate(slow).seconds, 4 * kMs, kNear);
}

TEST(Simulate, OldNewsCostNothing) {
  ToyProgram program(1);
  program.matmul(0, 1, 1);
  uint32_t event = program[0].record(1);
  program[0].wait(2, event);
  program.matmul(0, 2, 8);
  program[0].wait(2, event); // was reached long ago
  program.matmul(0, 2, 1);
  machine::Machine slow = toyMachine({{"/launch/streams/device/event", R"([1, "ms", "toy"])"}});
  EXPECT_NEAR(program.simulate(slow).seconds, (1 + 1 + 8 + 1) * kMs, kNear);
}

TEST(Simulate, TheHostIssuesInOrder) {
  ToyProgram program(1);
  program.matmul(0, 1, 1);
  program.matmul(0, 2, 1);
  machine::Machine machine = toyMachine({{"/launch/streams/issue/matmul", R"([4, "ms", "toy"])"},
                                         {"/launch/streams/run", R"([1, "ms", "toy"])"}});
  // Issued at 5 and 9.
  simulate::Result result = program.simulate(machine);
  EXPECT_NEAR(result.seconds, 10 * kMs, kNear);
  EXPECT_NEAR(result.ranks[0].path.issue, 9 * kMs, kNear);
}

TEST(Simulate, WhatARunTakesBesidesItsCommandsGrowsWithThem) {
  machine::Machine machine =
      toyMachine({{"/launch/streams/issue/matmul", R"([1, "ms", "toy"])"},
                  {"/launch/streams/run", R"([[[2000, 1000], [8000, 3000]], "us", "toy"])"}});
  // Of commands of up to 2 ms, of twice as long ones, and of 8 ms or more.
  for (auto [matmuls, run] : {std::pair(1, 1), {3, 2}, {7, 3}, {9, 3}}) {
    ToyProgram program(1);
    for (int i = 0; i < matmuls; ++i)
      program.matmul(0, 1, 1);
    simulate::Result result = program.simulate(machine);
    EXPECT_NEAR(result.seconds, (run + 1 + matmuls) * kMs, kNear) << matmuls;
    EXPECT_NEAR(result.ranks[0].path.issue, (run + 1) * kMs, kNear) << matmuls;
    EXPECT_NEAR(result.begin[0], (run + 1) * kMs, kNear) << matmuls;
    simulate::Options total;
    total.totalOnly = true;
    EXPECT_NEAR(program.simulate(machine, total).seconds, result.seconds, kNear);
  }
  // The run of all ranks is as long as that of the slowest one.
  ToyProgram two(2);
  two.matmul(0, 1, 1);
  for (int i = 0; i < 3; ++i)
    two.matmul(1, 1, 1);
  simulate::Result result = two.simulate(machine);
  EXPECT_NEAR(result.seconds, 6 * kMs, kNear);
  EXPECT_NEAR(result.ranks[0].path.issue, 3 * kMs, kNear);
  EXPECT_EQ(result.slowestRank, 1U);
  ASSERT_EQ(result.path.size(), 3U);
  EXPECT_NEAR(result.path[0].begin, 3 * kMs, kNear);
  EXPECT_NEAR(result.path[2].end, 6 * kMs, kNear);
}

TEST(Simulate, AGraphIsIssuedAtOnce) {
  std::string costs = R"({"kernel":[0,"us","toy"],"matmul":[0,"us","toy"],"copy":[0,"us","toy"],)"
                      R"("message":[0,"us","toy"],"collective":[0,"us","toy"],)"
                      R"("event":[0,"us","toy"],"signal":[0,"us","toy"],)"
                      R"("wait_signal":[0,"us","toy"]})";
  machine::Machine machine =
      toyMachine({{"/launch/streams/issue/matmul", R"([4, "ms", "toy"])"},
                  {"/launch/graph", R"({"issue":)" + costs + R"(,"device":)" + costs +
                                        R"(,"run":[2,"ms","toy"]})"}});
  ToyProgram program(1);
  program.matmul(0, 0, 1);
  program.matmul(0, 0, 1);
  EXPECT_NEAR(program.simulate(machine).seconds, 4 * kMs, kNear);
  simulate::Options streams;
  streams.noGraph = true;
  EXPECT_NEAR(program.simulate(machine, streams).seconds, 9 * kMs, kNear);
}

TEST(Simulate, MemoryBoundCommands) {
  ToyProgram program(1);
  uint32_t a = program.memory(0, 2), b = program.memory(0, 2);
  program[0].copy(0, a, b); // reads 2 MB and writes 2 MB, at 1 GB/s
  EXPECT_NEAR(program.simulate(toyMachine()).seconds, 4 * kMs, kNear);
}

/// A product of bf16, whose rows lie `columns` apart in memory.
double secondsOfProduct(const machine::Machine &machine, int64_t batch, int64_t columns,
                        int64_t rows = 1000, bool accumulates = false) {
  ToyProgram program(1);
  RankSpec &rank = program[0];
  auto matrices = [&](int64_t rows, int64_t apart) {
    uint32_t buffer = rank.arena(static_cast<uint64_t>(batch * rows * apart) * 2);
    return rank.view(buffer, DType::BF16, {batch, rows, 1000}, {rows * apart, apart, 1}, 0);
  };
  uint32_t out = matrices(rows, columns), left = matrices(rows, columns),
           right = matrices(1000, rows == 1 ? 1000 : columns);
  CommandSpec &command = rank.add(sp::CommandKind::matmul, 0, {out, left, right});
  if (accumulates)
    command.flags = static_cast<uint8_t>(sp::CommandFlags::accumulate);
  return program.simulate(machine).seconds;
}

TEST(Simulate, AMatmulLikesRowsAtMultiplesOf16Bytes) {
  EXPECT_NEAR(secondsOfProduct(toyMachine(), 1, 1000), 2 * kMs, kNear);
  EXPECT_NEAR(secondsOfProduct(toyMachine(), 1, 1008), 2 * kMs, kNear);
  EXPECT_NEAR(secondsOfProduct(toyMachine(), 1, 1004), 7 * 2 * kMs, kNear);
  EXPECT_NEAR(secondsOfProduct(toyMachine(), 1, 1004, 1), 2e-3 * kMs, kNear); // one row
  // CPUs do not.
  EXPECT_NEAR(secondsOfProduct(toyMachine({{"/device/sms", R"([1, "1", "toy"])"}}), 1, 1004),
              2 * kMs, kNear);
}

TEST(Simulate, ABatchReadsAllItsFactors) {
  machine::Machine machine = toyMachine({{"/device/memory/elementwise", R"([1, "GB/s", "toy"])"}});
  for (int64_t batch : {1, 3}) // 3 matrices of 2 MB for each, at 1 GB/s
    EXPECT_NEAR(secondsOfProduct(machine, batch, 1000), double(batch) * 6 * kMs, kNear);
  // It also reads what it adds to; but a product that takes longer hides that.
  EXPECT_NEAR(secondsOfProduct(machine, 1, 1000, 1000, /*accumulates=*/true), 8 * kMs, kNear);
  EXPECT_NEAR(
      secondsOfProduct(toyMachine({{"/device/memory/elementwise", R"([10, "GB/s", "toy"])"}}), 1,
                       1000, 1000, /*accumulates=*/true),
      2 * kMs, kNear);
}

TEST(Simulate, AnEpilogueCostsWhatItReads) {
  // A product of f32, and a launch in place that adds a residual.
  ToyProgram program(1);
  program.matmul(0, 0, 1);
  RankSpec &rank = program[0];
  uint32_t out = rank.commands.back().operands[0];
  uint32_t residual = rank.view(rank.arena(4000000), DType::F32, {1000, 1000});
  KernelSpec kernel;
  kernel.code = encodeExpression(2, 1,
                                 {{sp::ExprOp::load, 0, 0, 0, 0},
                                  {sp::ExprOp::load, 1, 0, 0, 0},
                                  {sp::ExprOp::add, 0, 1, 0, 0},
                                  {sp::ExprOp::store, 2, 0, 0, 0}});
  kernel.operandTypes.assign(3, static_cast<uint8_t>(sp::DType::f32));
  kernel.outputs = 1;
  rank.kernels.push_back(kernel);
  rank.launch(0, 0, {out, out, residual});
  std::map<std::string, std::string> changes = {
      {"/device/memory/elementwise", R"([1, "GB/s", "toy"])"},
      {"/launch/streams/device/kernel", R"([5, "ms", "toy"])"}};
  // The product reads 2 matrices of 1000 x 500, and writes one of 1000 x 1000.
  EXPECT_NEAR(program.simulate(toyMachine(changes)).seconds, (8 + 4) * kMs, kNear);
  // Of a bias it reads one row.
  ToyProgram biased(1);
  biased.matmul(0, 0, 1);
  uint32_t sum = biased[0].commands.back().operands[0];
  uint32_t row = biased[0].view(biased[0].arena(4000), DType::F32, {1000, 1000}, {0, 1}, 0);
  biased[0].kernels.push_back(kernel);
  biased[0].launch(0, 0, {sum, sum, row});
  EXPECT_NEAR(biased.simulate(toyMachine(changes)).seconds, (8 + 0.004) * kMs, kNear);
  changes["/device/sms"] = R"([1, "1", "toy"])"; // a CPU
  EXPECT_NEAR(program.simulate(toyMachine(changes)).seconds, (8 + 5 + 12) * kMs, kNear);
}

TEST(Simulate, RanksOfOneNodeMayShareItsCores) {
  ToyProgram program(3);
  for (uint32_t rank = 0; rank < 3; ++rank)
    program.matmul(rank, 0, 2);
  machine::Machine machine = toyMachine({{"/device/cores", R"([2, "1", "toy"])"}});
  simulate::Result result = program.simulate(machine);
  EXPECT_NEAR(result.seconds, 3 * kMs, kNear);
  ASSERT_FALSE(result.utilisation.empty());
  EXPECT_EQ(result.utilisation[0].engine, "cores");
  EXPECT_NEAR(result.utilisation[0].average, 1, 1e-6);
}

TEST(Simulate, CoresShareUnits) {
  // Beside another matmul each takes 1.5 times its time, until the shorter one is over.
  ToyProgram program(2);
  program.matmul(0, 0, 2);
  program.matmul(1, 0, 4);
  machine::Machine machine = toyMachine(
      {{"/device/cores", R"([2, "1", "toy"])"},
       {"/device/contention", R"({"matmul": [1.5, "1", "toy"], "memory": [1, "1", "toy"]})"}});
  EXPECT_NEAR(program.simulate(machine).seconds, 5 * kMs, kNear);
  // Copies do not mind, but slow a matmul.
  uint32_t a = program.memory(0, 3), b = program.memory(0, 3);
  program[0].copy(0, a, b);
  EXPECT_NEAR(program.simulate(machine).seconds, 9 * kMs, kNear);
}

TEST(Simulate, ThePathIsTheWholeTime) {
  ToyProgram program(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    program.matmul(rank, 1, rank == 0 ? 2 : 1);
    program.exchange(rank, 1, static_cast<int>(1 - rank), static_cast<int>(1 - rank), 3);
    program[rank].sync(2, 1);
    program.matmul(rank, 2, 1);
  }
  simulate::Result result = program.simulate(toyMachine());
  EXPECT_NEAR(result.seconds, 6 * kMs, kNear);
  for (const simulate::RankResult &rank : result.ranks) {
    double sum = rank.path.issue + rank.path.latency;
    for (double part : rank.path.byKind)
      sum += part;
    EXPECT_NEAR(sum, 6 * kMs, kNear);
    // Rank 1 waited for rank 0: both paths lead through rank 0's first matmul.
    EXPECT_NEAR(rank.path.byKind[static_cast<size_t>(replay::Kind::Matmul)], 3 * kMs, kNear);
    EXPECT_NEAR(rank.path.byKind[static_cast<size_t>(replay::Kind::Group)], 3 * kMs, kNear);
  }
  ASSERT_EQ(result.path.size(), 3u);
  EXPECT_NEAR(result.path[0].begin, 0, kNear);
  EXPECT_NEAR(result.path[2].end, 6 * kMs, kNear);
}

TEST(Simulate, TwiceTheSameIsTheSame) {
  ToyProgram program(4);
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (uint16_t stream = 1; stream < 4; ++stream) {
      program.exchange(rank, stream, static_cast<int>((rank + stream) % 4),
                       static_cast<int>((rank + 4 - stream) % 4), 1 + stream);
      program.matmul(rank, stream, 1 + rank);
    }
  auto world = program.load();
  machine::Machine machine = toyMachine();
  std::string first = reportJson(*world, machine, program.simulate(machine));
  EXPECT_EQ(first, reportJson(*world, machine, program.simulate(machine)));
}

TEST(Simulate, WhatDoesNotEndIsAnError) {
  ToyProgram program(2);
  program.exchange(0, 1, 1, -1, 1);
  program.exchange(0, 1, -1, 1, 1);
  program.exchange(1, 1, 0, -1, 1);
  program.exchange(1, 1, -1, 0, 1);
  auto result = simulate::simulate(*program.load(), toyMachine());
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("@toy does not finish: rank 0"));
}

TEST(Simulate, TheMachineMustBeLargeEnough) {
  ToyProgram program(5);
  for (uint32_t rank = 0; rank < 5; ++rank)
    program.matmul(rank, 0, 1);
  auto result = simulate::simulate(*program.load(), toyMachine());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(), "the program is for 5 ranks, machine \"toy\" has 4 devices");
}

TEST(Simulate, AnEmptyProgram) {
  ToyProgram program(2);
  simulate::Result result = program.simulate(toyMachine());
  EXPECT_EQ(result.seconds, 0);
  auto world = program.load();
  EXPECT_THAT(report(*world, toyMachine(), result), HasSubstr("0 commands"));
}

} // namespace
} // namespace tandem::test
