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
  EXPECT_EQ(
      report.findings[0].message,
      "on 2 hardware queues the program deadlocks if streams 1, 2 of ranks 0, 1 share a queue");
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

TEST(Queues, RingWithManyCopyStreams) {
  // Each piece goes around on a stream of its own, and each rank begins with another piece.
  constexpr uint32_t kRanks = 4, kPieces = 3;
  auto ring = [](bool rotated) {
    Basic spec(kRanks, 1);
    for (uint32_t r = 0; r < kRanks; ++r) {
      RankSpec &rank = spec.ranks[r];
      uint16_t channel = rank.channel({0, 1, 2, 3});
      rank.slots.assign(kPieces * (kRanks - 1), 1);
      rank.copy(0, spec.row[r][0], spec.x[r]);
      rank.numStreams = 1 + kPieces;
      for (uint32_t i = 0; i < kPieces; ++i) {
        uint32_t piece = rotated ? (r + i) % kPieces : i;
        auto stream = static_cast<uint16_t>(1 + piece);
        for (uint32_t step = 0; step + 1 < kRanks; ++step) {
          rank.signal(stream, channel, (r + 1) % kRanks, piece * (kRanks - 1) + step, 1);
          rank.waitSignal(stream, channel, piece * (kRanks - 1) + step, 1);
        }
      }
    }
    return spec;
  };
  for (bool rotated : {false, true}) {
    expectClean(ring(rotated));
    expectClean(ring(rotated), queues(4));
  }
  expectClean(ring(false), queues(1));
  for (unsigned count : {1, 2, 3})
    expectOnly(ring(true), {"queue-deadlock"}, queues(count));
}

TEST(Queues, EachRankItsOwnFold) {
  // It takes streams 1 and 2 of rank 0 in one queue, and 2 and 3 of rank 1; with two queues for
  // four streams no fold has all three together.
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    rank.slots = {1};
    rank.copy(0, spec.row[r][0], spec.x[r]);
    rank.numStreams = 4;
    rank.waitSignal(static_cast<uint16_t>(1 + r), channel, 0, 1);
    rank.signal(static_cast<uint16_t>(2 + r), channel, 1 - r, 0, 1);
  }
  expectClean(spec);
  Report report = run(spec, queues(2));
  ASSERT_EQ(diagnoses(report), std::set<std::string>{"queue-deadlock"});
  EXPECT_EQ(
      report.findings[0].message,
      "on 2 hardware queues the program deadlocks if streams 1, 2 of rank 0 share a queue and "
      "streams 2, 3 of rank 1 share a queue");
  expectClean(spec, queues(4));
}

TEST(Queues, OnlyRanksWithTooManyStreams) {
  // Rank 1 has as many queues as streams.
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    rank.slots = {1};
    rank.copy(0, spec.row[r][0], spec.x[r]);
    rank.waitSignal(1, channel, 0, 1);
    rank.signal(r == 0 ? 2 : 0, channel, 1 - r, 0, 1);
  }
  expectClean(spec, queues(2));
}

TEST(Queues, TwoInOneQueueAreEnough) {
  // Stream 1 waits for stream 2, which waits for stream 3; all are issued in this order.
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
  expectOnly(spec, {"queue-deadlock"}, queues(3));
}

TEST(Queues, EitherOfTwoSignals) {
  // Only with both signals behind the wait it hangs: three streams in one queue.
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint16_t channel = rank.channel({0});
  rank.slots = {1};
  rank.copy(0, spec.row[0][0], spec.x[0]);
  rank.waitSignal(1, channel, 0, 1);
  rank.signal(2, channel, 0, 0, 1);
  rank.signal(3, channel, 0, 0, 1);
  expectOnly(spec, {"queue-deadlock"}, queues(1));
  // Two queues of at most two streams: it cannot hang, which is not found out.
  Report report = run(spec, queues(2));
  EXPECT_FALSE(report.hasErrors());
  EXPECT_EQ(report.limits.size(), 1u);
  expectClean(spec, queues(4));
}

TEST(Queues, OnlyForGpus) {
  EXPECT_EQ(defaultQueues("cpu-ucx"), 0u);
  EXPECT_EQ(defaultQueues("cuda-nccl"), 8u);
  EXPECT_EQ(defaultQueues("hip-peer"), 8u);
  EXPECT_EQ(defaultSMs("cpu-ucx").total, 0u);
  EXPECT_EQ(defaultSMs("cuda-nccl").total, 132u);
  EXPECT_EQ(defaultSMs("hip-peer").total, 96u);
}
