//===- ExchangeTest.cpp - fused exchanges by one kernel ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "Support/ExchangeSpec.h"
#include "Support/GatedSpec.h"

#include <atomic>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <thread>
#include <tuple>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Five runs with other values: x[i] = (rank + 1) * (i + 1) * (run + 1). Every sum is exact.
Status runFive(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  size_t columns = memory[0]->size() / 4;
  uint32_t ranks = context.worldSize();
  std::vector<float> x(columns), y(columns);
  for (int run = 0; run < 5; ++run) {
    for (size_t i = 0; i < columns; ++i)
      x[i] = static_cast<float>((context.rank() + 1) * (i + 1) * static_cast<size_t>(run + 1));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), x.data(), columns * 4));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), memory[1]->data(), columns * 4));
    for (size_t i = 0; i < columns; ++i) {
      auto expected =
          static_cast<float>(ranks * (ranks + 1) / 2 * (i + 1) * static_cast<size_t>(run + 1));
      if (y[i] != expected)
        return Status(Code::Internal, "run " + std::to_string(run) + ", element " +
                                          std::to_string(i) + ": expected " +
                                          std::to_string(expected) + ", found " +
                                          std::to_string(y[i]));
    }
  }
  return Status();
}

TEST(GpuExchange, OneKernelForAllParts) {
  for (const char *graph : {"1", "0"})
    for (bool twoShots : {false, true})
      for (int64_t columns : {2, 6, 64}) { // elements one by one, and in packs of 16 bytes
        Variable variable("TANDEM_GRAPH", graph);
        const char *kernel = columns == 64 ? "launches.exchange_f32_4" : "launches.exchange_f32_1";
        int64_t launched = fakeNumber(kernel), replayed = fakeNumber("graph-launches"),
                raised = fakeNumber("launches.signal_raise"),
                waited = fakeNumber("launches.signal_wait"),
                counted = fakeNumber("launches.run_words");
        takeLog();
        expectAllOk(runRanks(ExchangeSpec(2, twoShots, columns), "peer", runFive));
        if (testsHip()) {
          EXPECT_NE(takeLog().find("one by one: a running kernel of this GPU does not see"),
                    std::string::npos);
          continue;
        }
        EXPECT_GE(fakeNumber(kernel) - launched, 2); // captured once per rank and half
        EXPECT_EQ(fakeNumber("launches.signal_raise"), raised);
        EXPECT_EQ(fakeNumber("launches.signal_wait"), waited);
        EXPECT_EQ(fakeNumber("launches.run_words"), counted); // it counts the runs itself
        EXPECT_EQ(fakeNumber("graph-launches") - replayed, *graph == '1' ? 10 : 0);
        EXPECT_EQ(takeLog().find("one by one"), std::string::npos);
      }
}

using Types = std::vector<DType>;

/// Byte i of rank r is 50 r + i.
static Status runGather(Context &context, Instance &instance, const Types &types, size_t count) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  for (size_t k = 0; k < types.size(); ++k) {
    std::vector<int8_t> mine(count * sizeOf(types[k]));
    for (size_t i = 0; i < mine.size(); ++i)
      mine[i] = static_cast<int8_t>(50 * context.rank() + i);
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[k]->data(), mine.data(), mine.size()));
  }
  TANDEM_RETURN_IF_ERROR(instance.run());
  for (size_t k = 0; k < types.size(); ++k) {
    size_t bytes = count * sizeOf(types[k]);
    std::vector<int8_t> found(context.worldSize() * bytes);
    TANDEM_RETURN_IF_ERROR(
        context.device().download(found.data(), memory[types.size() + k]->data(), found.size()));
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i] != static_cast<int8_t>(50 * (i / bytes) + i % bytes))
        return Status(Code::Internal, fmt::format("value {}, byte {}", k, i));
  }
  return Status();
}

TEST(GpuExchange, BytesAreMoved) {
  // Values of several types, as 8 bits and their scales, are moved as bytes too.
  for (const Types &types : {Types{DType::I8}, Types{DType::I8, DType::F32}})
    for (int64_t count : {5, 48}) {
      std::string kernel = count == 48 ? "launches.exchange_i8_16" : "launches.exchange_i8_1";
      int64_t launched = fakeNumber(kernel.c_str());
      expectAllOk(
          runRanks(gatherSpec(2, types, count), "peer", [&](Context &context, Instance &instance) {
            return runGather(context, instance, types, static_cast<size_t>(count));
          }));
      launched = fakeNumber(kernel.c_str()) - launched;
      EXPECT_EQ(launched > 0, !testsHip()) << count; // there, parts run one by one
    }
}

TEST(GpuExchange, RanksThatShareAGpu) {
  int64_t replayed = fakeNumber("graph-launches");
  for (uint32_t ranks : {4, 8})
    for (bool twoShots : {false, true}) {
      takeLog();
      expectAllOk(runRanks(ExchangeSpec(ranks, twoShots, 64), "peer", runFive));
      EXPECT_EQ(takeLog().find("one by one") == std::string::npos, !testsHip());
    }
  EXPECT_EQ(fakeNumber("graph-launches"), replayed); // which wait in kernels: no graphs
}

TEST(GpuExchange, TheRanksOfAGpuShareItsSms) {
  if (testsHip())
    GTEST_SKIP() << "parts of fused exchanges run one by one";
  // Two GPUs of 132 SMs, of which one is for other kernels if ranks share them.
  for (auto [ranks, blocks, launched] : {std::tuple(2, 200, 132), std::tuple(4, 132, 65),
                                         std::tuple(8, 132, 32), std::tuple(8, 16, 16)}) {
    expectAllOk(runRanks(ExchangeSpec(ranks, false, 64, blocks), "peer", runFive));
    EXPECT_EQ(fakeNumber("blocks.exchange_f32_4"), launched) << ranks << " ranks";
  }
}

TEST(GpuExchange, PushesForAMatmul) {
  // A step for each peer. The stand-in has no gated kernels, so waits and matmuls are commands.
  auto multiply = [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    uint32_t ranks = context.worldSize();
    std::vector<float> a(8), w(12, 1), y(size_t(6) * ranks);
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[1]->data(), w.data(), w.size() * 4));
    for (int run = 0; run < 5; ++run) {
      for (size_t i = 0; i < a.size(); ++i)
        a[i] = static_cast<float>(static_cast<int>(context.rank()) * 100 + run);
      TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), a.data(), a.size() * 4));
      TANDEM_RETURN_IF_ERROR(instance.run());
      TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), memory[2]->data(), y.size() * 4));
      for (size_t i = 0; i < y.size(); ++i)
        if (auto expected = static_cast<float>(4 * (static_cast<int>(i / 6) * 100 + run));
            y[i] != expected)
          return Status(Code::Internal, "run " + std::to_string(run) + ", element " +
                                            std::to_string(i) + ": expected " +
                                            std::to_string(expected) + ", found " +
                                            std::to_string(y[i]));
    }
    return Status();
  };
  for (uint32_t ranks : {2, 4, 8}) { // on two GPUs
    int64_t launched = fakeNumber("launches.exchange_f32_4"),
            raised = fakeNumber("launches.signal_raise");
    takeLog();
    expectAllOk(runRanks(GatedSpec(ranks, 2, 2), "peer", multiply));
    std::string log = takeLog();
    if (testsHip())
      continue;
    EXPECT_GE(fakeNumber("launches.exchange_f32_4") - launched, ranks);
    EXPECT_EQ(fakeNumber("launches.signal_raise"), raised);
    EXPECT_EQ(log.find("fused_exchange"), std::string::npos) << log;
  }
  // Blocks without SMs: copy engines do it.
  takeLog();
  expectAllOk(runRanks(GatedSpec(2, 2, 3), "peer", multiply));
  EXPECT_NE(takeLog().find("its 2 parts run one by one: "), std::string::npos);
}

constexpr uint8_t kByBlocks = 1, kByLL = 2;

/// Ten times three runs in a row with the same values. `shift`: bytes by which this rank's
/// arguments are not aligned.
Status runMany(Context &context, Instance &instance, size_t shift) {
  const auto &arguments = instance.program().arguments();
  auto columns = static_cast<size_t>(arguments[0].localShape[0]);
  std::vector<std::unique_ptr<Memory>> memory;
  for (uint32_t i = 0; i < 2; ++i) {
    TANDEM_ASSIGN_OR_RETURN(auto made,
                            context.device().allocate(columns * 4 + shift, MemoryKind::Plain));
    memory.push_back(std::move(made));
  }
  auto at = [&](uint32_t i) { return static_cast<std::byte *>(memory[i]->data()) + shift; };
  Layout layout = Layout::dense(DType::F32, {static_cast<int64_t>(columns)});
  for (uint32_t i = 0; i < 2; ++i)
    TANDEM_RETURN_IF_ERROR(instance.bind(i, {at(i), layout}, columns * 4));
  std::vector<float> x(columns), y(columns);
  for (int run = 0; run < 10; ++run) {
    for (size_t i = 0; i < columns; ++i)
      x[i] = static_cast<float>((context.rank() + 1) * (i % 97 + static_cast<size_t>(run)));
    TANDEM_RETURN_IF_ERROR(context.device().upload(at(0), x.data(), columns * 4));
    for (int again = 0; again < 3; ++again)
      TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(y.data(), at(1), columns * 4));
    uint32_t ranks = context.worldSize();
    for (size_t i = 0; i < columns; ++i)
      if (auto expected =
              static_cast<float>(ranks * (ranks + 1) / 2 * (i % 97 + static_cast<size_t>(run)));
          y[i] != expected)
        return Status(Code::Internal, "run " + std::to_string(run) + ", element " +
                                          std::to_string(i) + ": expected " +
                                          std::to_string(expected) + ", found " +
                                          std::to_string(y[i]));
  }
  return Status();
}

TEST(GpuExchange, BlocksAndWordsSignal) {
  // Three blocks of 2048 elements; two elements more are no whole unit, so each is moved alone.
  for (const char *graph : {"1", "0"})
    for (uint8_t signals : {kByBlocks, kByLL})
      for (bool twoShots : {false, true})
        for (int64_t columns : {6144, 6146})
          for (size_t shift : {0, 4}) { // of rank 1: it moves elements, rank 0 packs
            if ((*graph == '0' && (columns == 6146 || shift > 0)) ||
                (twoShots && signals == kByLL)) // for one shot
              continue;
            Variable variable("TANDEM_GRAPH", graph);
            std::string wide = signals == kByLL ? "launches.ll_f32_" : "launches.exchange_f32_";
            int64_t packs = fakeNumber((wide + "4").c_str()),
                    elements = fakeNumber((wide + "1").c_str()),
                    counted = fakeNumber("launches.run_words"),
                    raised = fakeNumber("launches.signal_raise");
            takeLog();
            expectAllOk(runRanks(ExchangeSpec(2, twoShots, columns, 3, signals), "peer",
                                 [&](Context &context, Instance &instance) {
                                   return runMany(context, instance,
                                                  context.rank() == 1 ? shift : 0);
                                 }));
            std::string log = takeLog();
            if (testsHip()) {
              EXPECT_NE(log.find("one by one: a running kernel"), std::string::npos) << log;
              continue;
            }
            bool packed = columns == 6144;
            EXPECT_EQ(fakeNumber((wide + "4").c_str()) > packs, packed);
            EXPECT_EQ(fakeNumber((wide + "1").c_str()) > elements, !packed || shift > 0);
            EXPECT_EQ(fakeNumber("launches.signal_raise"), raised);
            EXPECT_EQ(fakeNumber("launches.run_words"), counted); // they count the runs themselves
            EXPECT_EQ(log.find("once per step"), std::string::npos) << log;
            EXPECT_EQ(log.find("not by LL"), std::string::npos) << log;
          }
}

TEST(GpuExchange, SignalsOfRanksThatShareAGpu) {
  for (uint32_t ranks : {4, 8})
    for (uint8_t signals : {kByBlocks, kByLL}) {
      int64_t words = fakeNumber("launches.ll_f32_4");
      takeLog();
      expectAllOk(runRanks(
          ExchangeSpec(ranks, false, 4096, 3, signals), "peer",
          [](Context &context, Instance &instance) { return runMany(context, instance, 0); }));
      std::string log = takeLog();
      for (const char *other : {"once per step", "not by LL"})
        EXPECT_EQ(log.find(other), std::string::npos) << log;
      EXPECT_EQ(fakeNumber("launches.ll_f32_4") > words, signals == kByLL && !testsHip());
    }
}

TEST(GpuExchange, GathersByLL) {
  // 5 elements are no whole unit of 16 bytes; i32 goes by the kernel of f32.
  for (uint32_t ranks : {2, 4})
    for (DType type : {DType::I8, DType::F32, DType::I32})
      for (int64_t count : {5, 48}) {
        std::string kernel = fmt::format("launches.ll_{}_{}", type == DType::I8 ? "i8" : "f32",
                                         count == 5 ? 1 : 16 / sizeOf(type));
        int64_t launched = fakeNumber(kernel.c_str());
        takeLog();
        expectAllOk(runRanks(gatherSpec(ranks, {type}, count, 3, kByLL), "peer",
                             [&](Context &context, Instance &instance) {
                               return runGather(context, instance, {type},
                                                static_cast<size_t>(count));
                             }));
        std::string log = takeLog();
        EXPECT_EQ(fakeNumber(kernel.c_str()) > launched, !testsHip()) << kernel << log;
        EXPECT_EQ(log.find("not by LL"), std::string::npos) << log;
      }
}

TEST(GpuExchange, ValuesOfTwoTypesSignalPerBlock) {
  takeLog();
  Types both{DType::I8, DType::F32};
  expectAllOk(runRanks(gatherSpec(2, both, 48, 3, kByBlocks), "peer",
                       [&](Context &context, Instance &instance) {
                         return runGather(context, instance, both, 48);
                       }));
  EXPECT_EQ(takeLog().find("once per step"), std::string::npos);
}

TEST(GpuExchange, RanksThatDisagreeSignalPerStep) {
  if (testsHip())
    GTEST_SKIP() << "parts of fused exchanges run one by one";
  // Rank 1's program signals per step.
  ExchangeSpec spec(2, false, 64, 2, kByLL);
  spec.ranks[1].commands[spec.head].op = 0;
  takeLog();
  expectAllOk(runRanks(spec, "peer", runFive));
  EXPECT_NE(takeLog().find("1 exchanges signal once per step: member 1 has other kernels"),
            std::string::npos);
  // Rank 1's asks for blocks, or has fewer.
  spec.ranks[1].commands[spec.head].op = kByBlocks;
  expectAllOk(runRanks(spec, "peer", runFive));
  EXPECT_NE(takeLog().find("signals once per step: not all members have its kernel"),
            std::string::npos);
  ExchangeSpec blocks(2, false, 64, 2, kByBlocks);
  blocks.ranks[1].commands[blocks.head].value = 1;
  expectAllOk(runRanks(blocks, "peer", runFive));
  EXPECT_NE(takeLog().find("signals once per step: not all members have its kernel"),
            std::string::npos);
}

TEST(GpuExchange, WhatTheKernelsRefuseRunsOneByOne) {
  auto expectLog = [](const ExchangeSpec &spec, const std::string &why) {
    takeLog();
    expectAllOk(runRanks(spec, "peer", runFive));
    std::string log = takeLog();
    EXPECT_NE(log.find("(fused_exchange of "), std::string::npos) << log;
    EXPECT_NE(log.find("parts run one by one: " + why), std::string::npos) << log;
  };
  // Two shots of ten ranks: 18 waits. The limits are of all steps.
  expectLog(ExchangeSpec(10, true, 20),
            "expected at most 16 waits and 28 signals, found 18 and 18");
}

TEST(GpuExchange, AStallNamesIt) {
  for (uint8_t signals : {uint8_t(0), kByBlocks, kByLL}) {
    const char *graph = signals == kByBlocks ? "0" : "1";
    Variable variable("TANDEM_GRAPH", graph);
    std::atomic<bool> ended{false};
    auto ranks = runRanks(ExchangeSpec(2, false, 16, 2, signals), "peer",
                          [&](Context &context, Instance &instance) -> Status {
                            TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
                            if (context.rank() == 0) {
                              Status status = instance.run();
                              ended = true;
                              return status;
                            }
                            for (int i = 0; i < 4000 && !ended; ++i)
                              std::this_thread::sleep_for(std::chrono::milliseconds(5));
                            return Status();
                          },
                          {std::chrono::seconds(2)});
    EXPECT_NE(ranks[0].message().find("fused_exchange of 5 parts"), std::string::npos)
        << graph << ": " << ranks[0].message();
  }
}

} // namespace
