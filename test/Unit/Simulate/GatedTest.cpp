//===- GatedTest.cpp - times of gated matmuls ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyMachine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

namespace tandem::test {
namespace {

using testing::HasSubstr;

const char *const kLaunch = R"([1, "ms", "toy"])";

/// Two parts of a millisecond each at the library's rate. Rank 1 puts a megabyte (a millisecond)
/// `late` milliseconds after the start; the second part waits for its signal.
ToyProgram gated(double late, uint64_t leaves = 0, DType type = DType::BF16, int64_t columns = 1000,
                 int64_t depth = 1000) {
  ToyProgram program(2);
  for (RankSpec &rank : program.spec.ranks)
    rank.slots = {1};
  if (late > 0)
    program.matmul(1, 0, late);
  program.put(1, 0, 0, 1);
  program[1].signal(0, 0, 0, 0, 1);
  RankSpec &rank = program[0];
  rank.symmetric(4000000);
  auto bytes = [&](int64_t rows, int64_t columns) {
    return static_cast<uint64_t>(rows * columns) * sizeOf(type);
  };
  uint32_t out = rank.arena(bytes(1000, columns)), a = rank.arena(bytes(1000, depth));
  uint32_t w = rank.view(rank.arena(bytes(depth, columns)), type, {depth, columns});
  auto part = [&](int64_t row) {
    uint32_t y = rank.view(out, type, {500, columns}, bytes(row, columns));
    uint32_t x = rank.view(a, type, {500, depth}, bytes(row, depth));
    rank.add(sp::CommandKind::matmul, 0, {y, x, w});
  };
  CommandSpec &head = rank.add(sp::CommandKind::gated_matmul, 0);
  head.aux = 3;
  head.value = leaves;
  part(0);
  rank.waitSignal(0, 0, 0, 1);
  part(500);
  return program;
}

machine::Machine withKernels(double efficiency) {
  return toyMachine(
      {{"/device/gated_matmul", R"({"source": "toy", "points": [[1000, 1000, 1000, )" +
                                    std::to_string(efficiency) + "], [1000, 1000, 1000000, 0.1]]}"},
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
  // The toy has 100. On 50 the whole product is a wave of tiles of 128 x 192, at 0.97 of the best
  // rate. For it and the rows that come late two waves of 128 x 96 are better, at 0.79.
  simulate::Result result = gated(0, 50).simulate(withKernels(0.5));
  EXPECT_NEAR(result.seconds, (1 + (4 + 4) * 0.97 / 0.79) * kMs, kNear);
}

TEST(SimulateGated, TheRateDependsOnTheShape) {
  machine::Machine machine = withKernels(0.5);
  auto efficiency = [&](double k) {
    return machine.matmulSeconds(DType::BF16, 1, 1000, 1000, k) /
           machine.gatedMatmulSeconds(DType::BF16, 1000, 1000, k, {}, 0);
  };
  EXPECT_NEAR(efficiency(1000), 0.5, 1e-6);
  EXPECT_NEAR(efficiency(1000000), 0.1, 1e-6);
  double between = efficiency(40000);
  EXPECT_GT(between, 0.1);
  EXPECT_LT(between, 0.5);
  EXPECT_LT(efficiency(200000), between);
}

/// 1024 x 1024 x 1024 in two halves of the rows. The views of A, of W and of the result have so
/// many elements from row to row; W is stored [N, K] if `transposed`.
ToyProgram withRows(bool isGated, int64_t ofA, int64_t ofW, int64_t ofOut = 1024,
                    bool transposed = false) {
  ToyProgram program(1);
  RankSpec &rank = program[0];
  auto buffer = [&](int64_t rowStride) {
    return rank.arena(1024 * static_cast<uint64_t>(rowStride) * 2);
  };
  uint32_t a = buffer(ofA), out = buffer(ofOut);
  Shape strides = transposed ? Shape{1, ofW} : Shape{ofW, 1};
  uint32_t w = rank.view(buffer(ofW), DType::BF16, {1024, 1024}, strides, 0);
  if (isGated)
    rank.add(sp::CommandKind::gated_matmul, 0).aux = 2;
  for (uint64_t row : {0, 512}) {
    auto half = [&](uint32_t of, int64_t rowStride) {
      return rank.view(of, DType::BF16, {512, 1024}, {rowStride, 1},
                       row * static_cast<uint64_t>(rowStride) * 2);
    };
    rank.add(sp::CommandKind::matmul, 0, {half(out, ofOut), half(a, ofA), w});
  }
  return program;
}

TEST(SimulateGated, RowsThatDoNotBeginAtLinesAreAsSlowAsInOtherMatmuls) {
  machine::Machine machine = toyMachine(
      {{"/device/gated_matmul", R"({"source": "toy", "points": [[1024, 1024, 1024, 0.5]]})"},
       {"/device/matmul/0/points", "[[512, 1024, 1024, 1]]"},
       {"/device/matmul/0/unaligned",
        R"({"left": [[[16, 1.2], [128, 1]], "1", "toy"], "both": [[[16, 2], [128, 1]], "1", "toy"]})"}});
  for (bool isGated : {true, false}) {
    auto slowdown = [&](int64_t ofA, int64_t ofW, bool transposed = false) {
      ToyProgram program = withRows(isGated, ofA, ofW, 1024, transposed);
      simulate::Result result = program.simulate(machine);
      EXPECT_EQ(result.ungated, replay::kNone);
      return result.seconds / withRows(isGated, 1024, 1024).simulate(machine).seconds;
    };
    EXPECT_NEAR(slowdown(1024 + 64, 1024 + 64), 1, 1e-6);
    EXPECT_NEAR(slowdown(1024 + 8, 1024), 1.2, 1e-6);
    EXPECT_NEAR(slowdown(1024, 1024 + 8), 1, 1e-6);
    EXPECT_NEAR(slowdown(1024 + 8, 1024 + 8), 2, 1e-6);
    EXPECT_NEAR(slowdown(1024 + 8, 1024 + 8, true), 2, 1e-6);
  }
}

TEST(SimulateGated, OwnRowsThatLieApartAreWholeTiles) {
  // The second part has 1000 - `rows` rows, in another buffer than the first one.
  auto hasKernel = [](int64_t rows, bool isFirst) {
    ToyProgram program(2);
    for (RankSpec &rank : program.spec.ranks)
      rank.slots = {1};
    program.put(1, 0, 0, 1);
    program[1].signal(0, 0, 0, 0, 1);
    RankSpec &rank = program[0];
    uint32_t w = rank.view(rank.arena(128 * 64 * 2), DType::BF16, {128, 64});
    uint32_t out = rank.arena(1000 * 64 * 2);
    auto part = [&](int64_t row, int64_t count) {
      uint32_t y = rank.view(out, DType::BF16, {count, 64}, static_cast<uint64_t>(row * 64 * 2));
      uint32_t a = rank.view(rank.arena(1000 * 128 * 2), DType::BF16, {count, 128});
      rank.add(sp::CommandKind::matmul, 0, {y, a, w});
    };
    rank.add(sp::CommandKind::gated_matmul, 0).aux = 3;
    part(isFirst ? 0 : 1000 - rows, rows);
    rank.waitSignal(0, 0, 0, 1);
    part(isFirst ? rows : 0, 1000 - rows);
    return program.simulate(withKernels(1)).ungated == replay::kNone;
  };
  EXPECT_TRUE(hasKernel(256, true));
  EXPECT_TRUE(hasKernel(1000 - 256, false)); // ends at the last row
  EXPECT_FALSE(hasKernel(255, true));
  EXPECT_FALSE(hasKernel(256, false));
}

TEST(SimulateGated, APartBeginsWhenItsGateOpens) {
  // Rank 1: a launch, 6 of a matmul and 1 of a put. The SMs have no more than one tile each: half
  // of the rows take as long as all.
  ToyProgram program = gated(6);
  simulate::Result result = program.simulate(withKernels(1));
  EXPECT_NEAR(result.seconds, (1 + 6 + 1 + 2) * kMs, kNear);
  uint32_t head = 0;
  EXPECT_NEAR(result.end[head + 1], (1 + 1) * kMs, kNear);       // the first part
  EXPECT_NEAR(result.begin[head + 3], (1 + 6 + 1) * kMs, kNear); // the second one
}

TEST(SimulateGated, RowsThatComeLateTakeWholeWaves) {
  // 8 x 21 tiles of 128 x 192 on 100 SMs: two waves. Half of the rows that come when the others are
  // done take one of them.
  auto seconds = [](double late) {
    return gated(late, 0, DType::BF16, 4000).simulate(withKernels(1)).seconds;
  };
  double whole = seconds(0) - kMs;
  EXPECT_NEAR(seconds(20), (1 + 20 + 1) * kMs + whole / 2, kNear);
}

TEST(SimulateGated, PartsOfFewRowsShareTheirTiles) {
  // Four parts of two rows are one row of tiles: one wave, as for eight rows at once.
  auto seconds = [](int64_t parts) {
    ToyProgram program(1);
    program.spec.ranks[0].slots = {1};
    RankSpec &rank = program[0];
    program[0].signal(0, 0, 0, 0, 1);
    uint32_t out = rank.arena(8 * 8000 * 2), a = rank.arena(8 * 1000 * 2);
    uint32_t w = rank.view(rank.arena(1000 * 8000 * 2), DType::BF16, {1000, 8000});
    CommandSpec &head = rank.add(sp::CommandKind::gated_matmul, 0);
    head.aux = static_cast<uint32_t>(parts) + 1;
    rank.waitSignal(0, 0, 0, 1);
    for (int64_t i = 0; i < parts; ++i) {
      int64_t rows = 8 / parts;
      auto first = static_cast<uint64_t>(i * rows);
      uint32_t y = rank.view(out, DType::BF16, {rows, 8000}, first * 8000 * 2);
      uint32_t x = rank.view(a, DType::BF16, {rows, 1000}, first * 1000 * 2);
      rank.add(sp::CommandKind::matmul, 0, {y, x, w});
    }
    return program.simulate(withKernels(1)).seconds;
  };
  EXPECT_NEAR(seconds(4), seconds(1), kNear);
}

TEST(SimulateGated, ALateSliceOfKTakesItsShareOfAWave) {
  // One wave for two milliseconds; the second part of K comes when the first is done.
  ToyProgram program(2);
  for (RankSpec &rank : program.spec.ranks)
    rank.slots = {1};
  program.matmul(1, 0, 6);
  program.put(1, 0, 0, 1);
  program[1].signal(0, 0, 0, 0, 1);
  RankSpec &rank = program[0];
  rank.symmetric(4000000);
  uint32_t out = rank.view(rank.arena(2000000), DType::BF16, {1000, 1000});
  uint32_t a = rank.arena(2000000), w = rank.arena(2000000);
  auto slice = [&](int64_t first, int64_t count) {
    auto at = static_cast<uint64_t>(first);
    CommandSpec &one = rank.add(sp::CommandKind::matmul, 0,
                                {out, rank.view(a, DType::BF16, {1000, count}, {1000, 1}, at * 2),
                                 rank.view(w, DType::BF16, {count, 1000}, at * 1000 * 2)});
    if (first > 0)
      one.flags = static_cast<uint8_t>(sp::CommandFlags::accumulate);
  };
  CommandSpec &head = rank.add(sp::CommandKind::gated_matmul, 0);
  head.aux = 3;
  slice(0, 504);
  rank.waitSignal(0, 0, 0, 1);
  slice(504, 496);
  simulate::Result result = program.simulate(withKernels(1));
  EXPECT_EQ(result.ungated, replay::kNone);
  EXPECT_NEAR(result.seconds, (1 + 6 + 1 + 2 * 0.496) * kMs, kNear);
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

TEST(SimulateGated, WhatNoKernelComputesIsLaunchedInParts) {
  auto ungated = [](DType type, int64_t columns, int64_t depth, bool deterministic = false) {
    ToyProgram program = gated(0, 0, type, columns, depth);
    if (deterministic)
      program.spec.deterministic = sp::Determinism::bitwise;
    return program.simulate(withKernels(0.5)).ungated != replay::kNone;
  };
  EXPECT_FALSE(ungated(DType::BF16, 1000, 1000));
  EXPECT_FALSE(ungated(DType::F16, 1000, 1000));
  EXPECT_TRUE(ungated(DType::F32, 1000, 1000));
  EXPECT_TRUE(ungated(DType::BF16, 1001, 1000));
  EXPECT_TRUE(ungated(DType::BF16, 1000, 1001));
  EXPECT_TRUE(ungated(DType::BF16, 1000, 1000, true));
  // Rows that do not begin at multiples of 16 bytes, of each operand.
  EXPECT_EQ(withRows(true, 1024, 1024).simulate(withKernels(1)).ungated, replay::kNone);
  EXPECT_EQ(withRows(true, 1028, 1024).simulate(withKernels(1)).ungated, 0u);
  EXPECT_EQ(withRows(true, 1024, 1028).simulate(withKernels(1)).ungated, 0u);
  EXPECT_EQ(withRows(true, 1024, 1024, 1028).simulate(withKernels(1)).ungated, 0u);
  // Launch and part, wait, launch and part, at the library's rate.
  ToyProgram program = gated(0, 0, DType::F32, 1000, 1000);
  EXPECT_NEAR(program.simulate(withKernels(0.5)).seconds, (1 + 1 + 1 + 1 + 1) * kMs, kNear);
}

//===----------------------------------------------------------------------===//
// Rows that go to peers
//===----------------------------------------------------------------------===//

/// Rank 0 multiplies 500 rows for rank 1, which waits for them, then its own: a millisecond each at
/// the library's rate. A megabyte goes to rank 1, which takes four milliseconds.
ToyProgram stores(int64_t rowsOfPeer = 500, DType type = DType::BF16) {
  ToyProgram program(2);
  for (RankSpec &rank : program.spec.ranks) {
    rank.slots = {1};
    rank.symmetric(4000000);
  }
  RankSpec &rank = program[0];
  uint32_t place = 0, a = rank.arena(4000000), staged = rank.arena(2000000);
  uint32_t w = rank.view(rank.arena(4000000), type, {1000, 1000});
  CommandSpec &head = rank.add(sp::CommandKind::gated_matmul, 0);
  head.aux = 4;
  uint32_t y = rank.view(staged, type, {rowsOfPeer, 1000});
  uint32_t x = rank.view(a, type, {rowsOfPeer, 1000});
  rank.add(sp::CommandKind::matmul, 0, {y, x, w});
  rank.put(0, 0, rank.view(place, type, {rowsOfPeer, 1000}), y, 1);
  rank.signal(0, 0, 1, 0, 1, /*exclusive=*/true);
  uint32_t own = rank.view(place, type, {500, 1000}, 2000000);
  uint64_t pitch = 1000 * sizeOf(type);
  uint32_t rows = rank.view(a, type, {500, 1000}, static_cast<uint64_t>(rowsOfPeer) * pitch);
  rank.add(sp::CommandKind::matmul, 0, {own, rows, w});
  program[1].waitSignal(0, 0, 0, 1);
  return program;
}

machine::Machine thatStores(double efficiency, bool stores = true, double signal = 0) {
  std::string points = R"("points": [[2000, 1000, 500, )" + std::to_string(efficiency) + "]]";
  std::map<std::string, std::string> changes = {
      {"/device/gated_matmul", R"({"source": "toy", "epilogue_push": [)" +
                                   std::to_string(int(stores)) + R"(, "1", "toy"], )" + points +
                                   "}"},
      {"/links/node/bandwidth", R"([0.25, "GB/s", "toy"])"},
      {"/launch/streams/device/matmul", kLaunch}};
  if (signal > 0)
    changes["/transports/fused_exchange"] =
        R"({"startup": [0, "ms", "toy"], "block_stores": [1, "GB/s", "toy"], "signal": [)" +
        std::to_string(signal) + R"(, "ms", "toy"]})";
  return toyMachine(changes);
}

TEST(SimulateGated, RowsAreOnTheirWayWhileTheyAreComputed) {
  ToyProgram program = stores();
  // The link takes longer: a launch, the rows of the peer, the own ones.
  simulate::Result result = program.simulate(thatStores(1));
  EXPECT_NEAR(result.seconds, (1 + 4 + 1) * kMs, kNear);
  EXPECT_NEAR(result.end[2], (1 + 4) * kMs, kNear); // the put
  EXPECT_EQ(result.ungated, replay::kNone);
  // The matmul takes longer: nothing of the transfer is left.
  result = program.simulate(thatStores(0.1));
  EXPECT_NEAR(result.seconds, (1 + 10 + 10) * kMs, kNear);
  EXPECT_NEAR(result.end[2], (1 + 10) * kMs, kNear);
}

TEST(SimulateGated, TheNextRowsAreComputedWhileASignalTravels) {
  ToyProgram program = stores();
  simulate::Result result = program.simulate(thatStores(0.1, true, 3));
  EXPECT_NEAR(result.end[3], (1 + 10 + 3) * kMs, kNear); // the signal
  EXPECT_NEAR(result.end[5], (1 + 10 + 3) * kMs, kNear); // the peer's wait
  EXPECT_NEAR(result.seconds, (1 + 10 + 10) * kMs, kNear);
}

TEST(SimulateGated, WhereStoresAreNotKnownThePartsAreLaunched) {
  ToyProgram program = stores();
  machine::Machine machine = thatStores(1, false);
  simulate::Result result = program.simulate(machine);
  // Launch and matmul, put, launch and matmul.
  EXPECT_NEAR(result.seconds, (1 + 1 + 4 + 1 + 1) * kMs, kNear);
  EXPECT_THAT(simulate::report(*program.load(), machine, result),
              HasSubstr("no kernels for gated matmuls on this machine, or not for this one: the "
                        "parts of rank 0"));
  // Nor has a kernel blocks of different sizes, or of this type.
  EXPECT_EQ(stores(250).simulate(thatStores(1)).ungated, 0u);
  EXPECT_EQ(stores(500, DType::F32).simulate(thatStores(1)).ungated, 0u);
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
  EXPECT_THAT(
      errorOf(R"({"source": "toy", "points": [[1, 1, 1, 1]], "epilogue_push": [2, "1", "toy"]})"),
      HasSubstr("epilogue_push"));
  EXPECT_THAT(errorOf(R"({"speed": [1, "1", "toy"]})"), HasSubstr("unknown field"));
}

} // namespace
} // namespace tandem::test
