//===- ExchangeTest.cpp - fused exchanges by one kernel ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "Support/ExchangeSpec.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

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
                waited = fakeNumber("launches.signal_wait");
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
        EXPECT_EQ(fakeNumber("graph-launches") - replayed, *graph == '1' ? 10 : 0);
        EXPECT_EQ(takeLog().find("one by one"), std::string::npos);
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

TEST(GpuExchange, WhatTheKernelsRefuseRunsOneByOne) {
  auto expectLog = [](const ExchangeSpec &spec, const std::string &why) {
    takeLog();
    expectAllOk(runRanks(spec, "peer", runFive));
    std::string log = takeLog();
    EXPECT_NE(log.find("(fused_exchange of "), std::string::npos) << log;
    EXPECT_NE(log.find("parts run one by one: " + why), std::string::npos) << log;
  };
  // Between nine other ranks.
  expectLog(ExchangeSpec(10, false, 20), "expected at most 8 waits and signals in a step, found");
}

TEST(GpuExchange, AStallNamesIt) {
  for (const char *graph : {"1", "0"}) {
    Variable variable("TANDEM_GRAPH", graph);
    std::atomic<bool> ended{false};
    auto ranks = runRanks(
        ExchangeSpec(2), "peer",
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
        std::chrono::seconds(2));
    EXPECT_NE(ranks[0].message().find("fused_exchange of 5 parts"), std::string::npos)
        << graph << ": " << ranks[0].message();
  }
}

} // namespace
