//===- TraceTest.cpp - when commands ran, and what profilers see ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "GpuStream.h"
#include "StreamTimes.h"

#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/Gpu.h"

#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Rank 0 multiplies (a while), puts the result to rank 1 and signals; rank 1 waits and copies.
/// The main stream waits for a worker, so records and waits are there as well.
ProgramSpec relay() {
  ProgramSpec spec(2);
  uint32_t a = spec.stacked("a", false, DType::F32, {16, 16});
  uint32_t out = spec.stacked("out", true, DType::F32, {16, 16});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t in = rank.view(rank.argument(a, 1024), DType::F32, {16, 16});
    uint32_t result = rank.view(rank.argument(out, 1024), DType::F32, {16, 16});
    uint32_t space = rank.view(rank.symmetric(1024), DType::F32, {16, 16});
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots = {1, 1};
    rank.sync(1, 0);
    if (r == 0) {
      rank.add(sp::CommandKind::matmul, 1, {result, in, in}); // 2
      rank.put(1, channel, space, result, 1);
      rank.signal(1, channel, 1, 0, 1); // 4
      rank.waitSignal(1, channel, 1, 1);
    } else {
      rank.waitSignal(1, channel, 0, 1); // 2
      rank.copy(1, result, space);
      rank.signal(1, channel, 0, 1, 1); // 4
    }
    rank.sync(0, 1);
  }
  return spec;
}

int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

constexpr int64_t kMillisecond = 1'000'000;
/// What clocks may differ by, on a machine that does other things as well.
constexpr int64_t kNearly = 10 * kMillisecond;

TEST(GpuTrace, TimesAreTheHosts) {
  Knob slow("product-time.0", 60000);
  std::vector<CommandTime> times[2];
  int64_t begin[2] = {}, end[2] = {};
  auto ended = runRanks(relay(), "peer", [&](Context &context, Instance &instance) -> Status {
    uint32_t rank = context.rank();
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    TANDEM_RETURN_IF_ERROR(instance.run()); // a graph
    TANDEM_RETURN_IF_ERROR(instance.trace(true));
    for (int run = 0; run < 2; ++run) {
      TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
      begin[rank] = now();
      TANDEM_RETURN_IF_ERROR(instance.run());
      end[rank] = now();
    }
    times[rank] = instance.times();
    TANDEM_RETURN_IF_ERROR(instance.trace(false));
    return instance.run();
  });
  for (const Status &status : ended)
    ASSERT_TRUE(status.ok()) << status.message();
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(times[rank].size(), rank == 0 ? 8u : 7u);
    int64_t last = 0;
    for (size_t i = 0; i < times[rank].size(); ++i) {
      SCOPED_TRACE("rank " + std::to_string(rank) + ", command " + std::to_string(i));
      EXPECT_GE(times[rank][i].begin, begin[rank] - kNearly);
      EXPECT_LE(times[rank][i].end, end[rank] + kNearly);
      EXPECT_GE(times[rank][i].end, times[rank][i].begin);
      // All are in order but the main stream's wait, which begins early.
      if (i + 1 < times[rank].size()) {
        EXPECT_GE(times[rank][i].end, last - kNearly);
        last = times[rank][i].end;
      }
    }
  }
  // The product takes its time, and the other rank waits for it: on one clock.
  const CommandTime &product = times[0][2], &waited = times[1][2];
  EXPECT_GE(product.end - product.begin, 40 * kMillisecond);
  EXPECT_GE(waited.end - waited.begin, 40 * kMillisecond);
  EXPECT_GE(waited.end, product.end - kNearly);
}

TEST(GpuTrace, RunsInFlightAreNotedInTheirTurn) {
  auto ended = runRanks(relay(), "peer", [&](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    TANDEM_RETURN_IF_ERROR(instance.trace(true));
    for (int run = 0; run < 5; ++run) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kNearly));
      int64_t start = now();
      TANDEM_RETURN_IF_ERROR(instance.enqueue());
      TANDEM_RETURN_IF_ERROR(instance.enqueue());
      TANDEM_RETURN_IF_ERROR(instance.wait());
      if (instance.times()[2].begin < start - kNearly)
        return Status(Code::Internal, "the times of an earlier run");
    }
    return Status();
  });
  for (const Status &status : ended)
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GpuTrace, EventsOfWhatFailsAreGivenBack) {
  auto device = fakeDevice();
  auto *access = dynamic_cast<gpu::GpuAccess *>(device.get());
  ASSERT_NE(access, nullptr);
  std::shared_ptr<gpu::DeviceState> state = access->shared();
  gpu::Driver &driver = *state->driver;
  gpu::StreamHandle stream = nullptr;
  ASSERT_TRUE(driver.createStream(&stream, StreamPriority::Normal).ok());
  int64_t before = fakeNumber("events");
  gpu::StreamTimes times(driver, state->clock);
  CommandTime time;
  for (int i = 0; i < 3; ++i) {
    Status status =
        times.around(stream, &time, [] { return Status(Code::Internal, "does not work"); });
    EXPECT_EQ(status.message(), "does not work");
  }
  EXPECT_EQ(fakeNumber("events") - before, 1); // used again
  EXPECT_TRUE(times.note().ok());
  EXPECT_EQ(time.end, 0); // nothing to note
  for (bool done = false; !done;)
    ASSERT_TRUE(driver.queryStream(stream, &done).ok());
  times.release();
  EXPECT_EQ(fakeNumber("events"), before);
  EXPECT_TRUE(driver.destroyStream(stream).ok());
}

#if __has_include(<nvtx3/nvToolsExt.h>)

TEST(GpuTrace, AProfilerSeesNames) {
  int64_t products = fakeNumber("ranges.matmul #2"), graphs = fakeNumber("ranges.graph of a run");
  auto ended = runRanks(relay(), "peer", [&](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(instance.trace(true)); // command by command
    return instance.run();
  });
  for (const Status &status : ended)
    ASSERT_TRUE(status.ok()) << status.message();
  // Captured when prepared and for the first run, twice each because there are signals, and
  // launched in the second.
  EXPECT_EQ(fakeNumber("ranges.matmul #2") - products, 5);
  EXPECT_EQ(fakeNumber("ranges.graph of a run") - graphs, 2);
  EXPECT_EQ(fakeNumber("open-ranges"), 0);
}

#endif

} // namespace
