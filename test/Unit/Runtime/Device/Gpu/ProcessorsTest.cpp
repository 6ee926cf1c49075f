//===- ProcessorsTest.cpp - contexts whose waiting kernels share a GPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "Support/ExchangeSpec.h"

#include "ChannelInterface.h"

#include <fmt/format.h>
#include <future>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using gpu::HeldProcessors;

namespace {

/// A context's account of a GPU of ten SMs.
struct Account {
  Knob knob{"processors", 10};
  std::unique_ptr<Device> device = fakeDevice();
  std::shared_ptr<gpu::DeviceState> state = dynamic_cast<gpu::GpuAccess &>(*device).shared();

  Expected<HeldProcessors> take(uint64_t instance, uint32_t stream, unsigned most,
                                unsigned least = 1, bool runsFollow = true) {
    return HeldProcessors::take(*state, {state.get(), instance, stream, runsFollow}, most, least);
  }
  unsigned count(uint64_t instance, uint32_t stream, unsigned most, bool runsFollow = true) {
    auto held = take(instance, stream, most, 1, runsFollow);
    return held ? held->count() : 0;
  }
};

TEST(GpuProcessors, OneContextHasAll) {
  Account a;
  auto first = a.take(0, 0, 12);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->count(), 10u);
  EXPECT_EQ(a.count(0, 0, 10), 10u); // behind it
  EXPECT_EQ(a.count(1, 0, 10), 10u); // of a later run
  EXPECT_EQ(a.count(0, 1, 10), 10u); // the compiler knows of both
}

TEST(GpuProcessors, OthersHaveWhatAContextLeaves) {
  Account a, b;
  {
    auto stream0 = a.take(0, 0, 2), stream1 = a.take(0, 1, 3), next = a.take(1, 0, 4);
    ASSERT_TRUE(stream0.ok() && stream1.ok() && next.ok());
    // a has 5 at most; one stays free.
    EXPECT_EQ(b.count(0, 0, 10), 4u);
    auto less = b.take(0, 0, 10, 5);
    EXPECT_EQ(less.status().code(), Code::Unsupported);
    EXPECT_EQ(
        less.status().message(),
        "a kernel that waits needs 5 SMs: of the 10 of " + std::string(b.device->name()) +
            ", which 1 ranks share, kernels of this process that wait at the same time hold 5");
    auto held = b.take(0, 0, 3);
    ASSERT_TRUE(held.ok());
    EXPECT_EQ(b.count(0, 1, 10), 1u);
    EXPECT_EQ(b.count(0, 0, 10), 4u); // behind the one before
    EXPECT_EQ(b.count(1, 7, 10), 4u);
    EXPECT_EQ(a.count(0, 0, 10), 3u); // beside stream 1: 10 - 1 - 3 - 3
    EXPECT_EQ(a.count(2, 0, 10), 6u);
  }
  EXPECT_EQ(b.count(0, 0, 10), 10u);
}

TEST(GpuProcessors, InstancesWithMemoryOfTheirOwnRunAtTheSameTime) {
  Account a;
  auto first = a.take(0, 0, 6, 1, false);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(a.count(1, 0, 10, false), 3u);
  EXPECT_EQ(a.count(0, 0, 10, false), 10u);
}

TEST(GpuProcessors, RanksThatShareAGpuHaveEqualParts) {
  Account a;
  a.state->ranksOfGpu = 2;
  auto first = a.take(0, 0, 10);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->count(), 4u);
  EXPECT_EQ(a.count(0, 1, 10), 0u);
  a.state->ranksOfGpu = 11;
  EXPECT_EQ(a.count(1, 1, 10), 4u); // that it has anyway
  Account b;
  b.state->ranksOfGpu = 11;
  EXPECT_EQ(b.count(0, 0, 10), 0u);
}

/// Runs that add what all ranks have.
Status add(Context &context, Instance &instance, int runs) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  size_t count = memory[0]->size() / 4;
  auto ranks = static_cast<float>(context.worldSize());
  for (int run = 1; run <= runs; ++run) {
    std::vector<float> values(count, static_cast<float>(run));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), values.data(), count * 4));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(values.data(), memory[1]->data(), count * 4));
    for (float value : values)
      if (value != static_cast<float>(run) * ranks)
        return Status(Code::Internal, fmt::format("run {}: found {}", run, value));
  }
  return Status();
}

/// Sums by a kernel of `blocks` blocks on each of two GPUs, or by its parts.
ProgramSpec sums(uint64_t blocks) {
  ExchangeSpec spec(2, false, 64, blocks);
  if (blocks == 0)
    spec.makePlain();
  return std::move(spec);
}

/// Two contexts of each of two ranks, on the same two GPUs, that run at the same time. The first
/// one is ready before the second one is made.
std::pair<std::vector<Status>, std::vector<Status>>
runBoth(const ProgramSpec &first, const ProgramSpec &second, bool secondGraphs = false) {
  // The driver may make a graph only when the other context's kernels have ended.
  RankOptions options;
  options.graphs = false;
  std::atomic<int> ready{0}, go{0};
  auto rendezvous = [](std::atomic<int> &number, int all) {
    for (++number; number < all;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  auto one = std::async(std::launch::async, [&] {
    return runRanks(
        first, "peer",
        [&](Context &context, Instance &instance) {
          ++ready;
          rendezvous(go, 4);
          return add(context, instance, 40);
        },
        options);
  });
  RankOptions withGraphs;
  withGraphs.graphs = secondGraphs;
  while (ready < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::vector<Status> two = runRanks(
      second, "peer",
      [&](Context &context, Instance &instance) {
        rendezvous(go, 4);
        return add(context, instance, 40);
      },
      withGraphs);
  for (const Status &status : two)
    if (!status.ok())
      ++go; // the others do not wait for it
  return {one.get(), two};
}

// The stand-in gives SMs to blocks one by one, as GPUs do: kernels that together need more than
// there are wait for each other for ever.
TEST(GpuProcessors, TwoContextsRunAtTheSameTime) {
  if (testsHip())
    GTEST_SKIP() << "parts of fused exchanges run one by one";
  Knob knob("processors", 12);
  for (uint64_t blocks : {8, 12}) {
    SCOPED_TRACE(fmt::format("{} blocks", blocks));
    takeLog();
    auto [one, two] = runBoth(sums(blocks), sums(blocks));
    expectAllOk(one);
    expectAllOk(two);
    std::string log = takeLog();
    EXPECT_EQ(log.find("one by one: a kernel that waits needs 1 SMs: of the 12 of ") !=
                  std::string::npos,
              blocks == 12)
        << log;
  }
}

TEST(GpuProcessors, ASecondContextMayWaitWithoutKernels) {
  if (testsHip())
    GTEST_SKIP() << "there are no stream memory operations";
  Knob knob("processors", 12);
  int64_t waited = fakeNumber("launches.signal_wait");
  auto [one, two] = runBoth(sums(12), sums(0), /*secondGraphs=*/true);
  expectAllOk(one);
  expectAllOk(two);
  EXPECT_EQ(fakeNumber("launches.signal_wait"), waited); // and it has no graphs
}

TEST(GpuProcessors, ASecondContextThatCannotIsRefused) {
  if (testsHip())
    GTEST_SKIP() << "parts of fused exchanges run one by one";
  Knob knob("processors", 12), none("no-values", 1);
  auto [one, two] = runBoth(sums(12), sums(0), /*secondGraphs=*/true);
  expectAllOk(one);
  for (const Status &status : two) {
    EXPECT_EQ(status.code(), Code::Unsupported);
    EXPECT_NE(status.message().find("channel peer: a kernel that waits needs 1 SMs: of the 12 of "),
              std::string::npos)
        << status.message();
  }
}

} // namespace
