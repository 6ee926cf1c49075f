//===- QueuesTest.cpp - streams that share hardware queues ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

namespace {

CheckOptions queues(unsigned count) {
  CheckOptions options;
  options.queues = count;
  return options;
}

/// Each of two ranks waits on stream 1 for what the other signals on stream 2 + i, issued behind.
ProgramSpec waitsInFront(uint32_t streams) {
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    rank.slots = {1};
    rank.copy(0, spec.row[r][0], spec.x[r]);
    rank.numStreams = streams;
    rank.waitSignal(1, channel, 0, 1);
    rank.signal(2, channel, 1 - r, 0, 1);
  }
  return spec;
}

} // namespace

TEST(Queues, WaitInFrontOfTheSignal) {
  ProgramSpec spec = waitsInFront(3);
  expectClean(spec);
  expectOnly(spec, {"queue-deadlock"}, queues(1));
  // Two queues for three streams: streams 1 and 2 may share one.
  expectOnly(spec, {"queue-deadlock"}, queues(2));
  expectClean(spec, queues(3));
  expectClean(spec, queues(8));
}

TEST(Queues, SaysWhichStreams) {
  Report report = run(waitsInFront(4), queues(2));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].message,
            "on 2 hardware queues the program hangs where streams 1, 2 share a queue");
  EXPECT_EQ(report.findings[0].notes.size(), 2u);
}

TEST(Queues, SignalIssuedFirst) {
  ProgramSpec spec = waitsInFront(3);
  for (uint32_t r = 0; r < 2; ++r)
    swapCommands(spec, r, nth(spec, r, Kind::wait_signal, 0), nth(spec, r, Kind::signal, 0));
  for (unsigned count : {1, 2, 3})
    expectClean(spec, queues(count));
}

TEST(Queues, LockstepPull) {
  // Stream 1 + i pulls from peer i as soon as that says "ready"; "ready" is said on the last
  // stream, issued behind the waits.
  constexpr uint32_t kRanks = 4;
  Basic spec(kRanks, 1);
  for (uint32_t r = 0; r < kRanks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1, 2, 3});
    rank.slots.assign(kRanks, 1);
    rank.copy(0, spec.row[r][0], spec.x[r]);
    for (uint32_t i = 1; i < kRanks; ++i)
      rank.waitSignal(static_cast<uint16_t>(i), channel, (r + i) % kRanks, 1);
    for (uint32_t i = 1; i < kRanks; ++i)
      rank.signal(kRanks, channel, (r + i) % kRanks, r, 1);
  }
  expectClean(spec);
  expectOnly(spec, {"queue-deadlock"}, queues(2));
}

TEST(Queues, HangsOnlyWithThreeTogether) {
  // a: stream 1 waits for stream 2 of the other rank, which waits for its stream 3, which is issued
  // last: no two streams in one queue hang, three do.
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint16_t channel = rank.channel({0});
  rank.slots = {1, 1};
  rank.copy(0, spec.row[0][0], spec.x[0]);
  rank.waitSignal(1, channel, 0, 1);
  rank.waitSignal(2, channel, 1, 1);
  rank.signal(2, channel, 0, 0, 1);
  rank.signal(3, channel, 0, 1, 1);
  expectClean(spec);
  expectOnly(spec, {"queue-deadlock"}, queues(2));
}

TEST(Queues, OnlyForGpus) {
  EXPECT_EQ(defaultQueues("cpu-ucx"), 0u);
  EXPECT_EQ(defaultQueues("cuda-nccl"), 8u);
  EXPECT_EQ(defaultQueues("hip-peer"), 8u);
}
