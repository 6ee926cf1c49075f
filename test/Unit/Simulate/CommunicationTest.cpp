//===- CommunicationTest.cpp - times computed by hand: several devices ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyMachine.h"

#include <gtest/gtest.h>

namespace tandem::test {
namespace {

// Rank 1 receives two chunks one after the other and multiplies each when it is there: the second
// arrives behind the first multiplication.
TEST(SimulateCommunication, PipelineOfTwo) {
  ToyProgram program(2);
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    program.exchange(0, 1, 1, -1, 1, chunk, 0);
    program.exchange(1, 1, -1, 0, 1, 0, chunk);
    program[1].sync(2, 1);
    program.matmul(1, 2, 2);
  }
  simulate::Result result = program.simulate(toyMachine());
  EXPECT_NEAR(result.seconds, 5 * kMs, kNear);
  EXPECT_EQ(result.slowestRank, 1u);
  EXPECT_NEAR(result.ranks[1].shares.exposed, 1 * kMs, kNear);
  EXPECT_NEAR(result.ranks[1].shares.communication, 2 * kMs, kNear);
  EXPECT_NEAR(result.ranks[0].shares.exposed, 2 * kMs, kNear);
  EXPECT_NEAR(result.sequential, 6 * kMs, kNear);
}

TEST(SimulateCommunication, AMessageWaitsForBothEnds) {
  ToyProgram program(2);
  program.matmul(1, 1, 3);
  program.exchange(0, 1, 1, -1, 1);
  program.exchange(1, 1, -1, 0, 1);
  simulate::Result result = program.simulate(toyMachine());
  EXPECT_NEAR(result.ranks[0].shares.total, 4 * kMs, kNear);
  EXPECT_NEAR(result.ranks[0].shares.exposed, 4 * kMs, kNear);
}

TEST(SimulateCommunication, TwoMessagesShareAPort) {
  // 0 sends one megabyte to 1 and two to 2: half of its port each, until the first is through.
  ToyProgram program(3);
  program.exchange(0, 1, 1, -1, 1);
  program.exchange(0, 2, 2, -1, 2);
  program.exchange(1, 1, -1, 0, 1);
  program.exchange(2, 1, -1, 0, 2);
  simulate::Result result = program.simulate(toyMachine());
  EXPECT_NEAR(result.ranks[1].shares.total, 2 * kMs, kNear);
  EXPECT_NEAR(result.ranks[2].shares.total, 3 * kMs, kNear);
  // Ports in: 1 and 2 megabytes in 3 ms; out: 3.
  for (const simulate::Utilisation &engine : result.utilisation)
    if (engine.engine == "link out") {
      EXPECT_NEAR(engine.most, 1, 1e-6);
    }
}

TEST(SimulateCommunication, BothDirectionsDoNotShare) {
  ToyProgram program(2);
  program.exchange(0, 1, 1, 1, 2);
  program.exchange(1, 1, 0, 0, 2);
  EXPECT_NEAR(program.simulate(toyMachine()).seconds, 2 * kMs, kNear);
}

TEST(SimulateCommunication, AMeshHasALinkForEachPair) {
  ToyProgram program(3);
  program.exchange(0, 1, 1, -1, 1);
  program.exchange(0, 2, 2, -1, 1);
  program.exchange(1, 1, -1, 0, 1);
  program.exchange(2, 1, -1, 0, 1);
  machine::Machine mesh = toyMachine({{"/links/node/topology", R"("mesh")"}});
  EXPECT_NEAR(program.simulate(mesh).seconds, 1 * kMs, kNear);
  machine::Machine shared = toyMachine({{"/links/node/topology", R"("shared")"}});
  EXPECT_NEAR(program.simulate(shared).seconds, 2 * kMs, kNear);
}

TEST(SimulateCommunication, ASwitchMayBeNarrowerThanItsPorts) {
  ToyProgram program(4);
  for (uint32_t rank : {0u, 2u}) {
    program.exchange(rank, 1, static_cast<int>(rank + 1), -1, 3);
    program.exchange(rank + 1, 1, -1, static_cast<int>(rank), 3);
  }
  machine::Machine narrow = toyMachine({{"/links/node/core", R"([1.5, "GB/s", "toy"])"}});
  EXPECT_NEAR(program.simulate(narrow).seconds, 4 * kMs, kNear);
}

TEST(SimulateCommunication, CopyEnginesAreFew) {
  ToyProgram program(4);
  for (uint16_t stream = 1; stream < 4; ++stream)
    program.put(0, stream, stream, 1);
  for (uint32_t rank = 1; rank < 4; ++rank)
    program[rank].symmetricBytes = program[0].symmetricBytes;
  machine::Machine one = toyMachine({{"/transports/one_sided/startup", R"([1, "ms", "toy"])"}});
  auto world = program.load();
  simulate::Result result = program.simulate(one);
  // One after the other, each with its startup.
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_NEAR(endOf(result, *world, 0, i), 2 * (i + 1) * kMs, kNear);
  machine::Machine three = toyMachine({{"/transports/one_sided/startup", R"([1, "ms", "toy"])"},
                                       {"/device/copy_engines", R"([3, "1", "toy"])"}});
  // Startups at once, then a third of the port each.
  EXPECT_NEAR(program.simulate(three).seconds, 4 * kMs, kNear);
}

// Gaps at the source cost nothing, nor do rows of other lengths.
TEST(SimulateCommunication, APutIntoMemoryWithGapsMayBeSlower) {
  const std::string rows = R"([[[8192, 1], [9216, 0.5], [10240, 1]], "1", "toy"])";
  for (bool engines : {true, false})
    for (int64_t columns : {2304, 2560})
      for (bool atTarget : {true, false}) {
        ToyProgram program(2);
        RankSpec &spec = program[0];
        const int64_t height = 512, pitch = 2 * columns;
        auto view = [&](uint32_t buffer, bool gaps) {
          return gaps ? spec.view(buffer, DType::F32, {height, columns}, {pitch, 1}, 0)
                      : spec.view(buffer, DType::F32, {height, columns});
        };
        uint64_t bytes = uint64_t(height) * uint64_t(pitch) * 4;
        uint32_t source = view(spec.arena(bytes), !atTarget);
        spec.put(1, 0, view(spec.symmetric(bytes), atTarget), source, 1);
        program[1].symmetricBytes = spec.symmetricBytes;
        machine::Machine machine =
            toyMachine({{"/transports/one_sided/rows", rows},
                        {"/transports/one_sided/startup", R"([1, "ms", "toy"])"},
                        {"/transports/one_sided/mover", engines ? R"("copy")" : R"("host")"}});
        bool slow = engines && atTarget && columns == 2304;
        simulate::Result result = program.simulate(machine);
        double whole = double(bytes) / 2 / 1e6 * kMs;
        double expected = 1 * kMs + (slow ? 2 : 1) * whole;
        EXPECT_NEAR(result.seconds, expected, kNear) << columns << atTarget;
        EXPECT_NEAR(result.sequential, expected, kNear);
      }
}

// A put of a sum is slower if the device puts another slice, or a second sum to the same peer,
// before it waits. With two devices it is not, nor if a matmul has overwritten the sum.
TEST(SimulateCommunication, PutsOfSumsMayBeSlowerByDrift) {
  enum Case {
    Sum,
    SumOfOwn,
    Copied,
    Overwritten,
    TwoRanks,
    ByHost,
    Last,    ///< nothing is put behind it
    Awaited, ///< what follows is behind a wait
    Synced,  ///< behind a wait of another stream
    Again,   ///< so many that a peer gets two
    AgainAwaited,
    TwoLoops ///< what drifts is awaited before another sum is put, which nothing is beside
  };
  for (Case c : {Sum, SumOfOwn, Copied, Overwritten, TwoRanks, ByHost, Last, Awaited, Synced, Again,
                 AgainAwaited, TwoLoops}) {
    ToyProgram program(c == TwoRanks ? 2 : 3);
    RankSpec &spec = program[0];
    uint32_t last = c == TwoRanks ? 1 : 2;
    for (uint32_t rank = 0; rank <= last; ++rank)
      program[rank].slots = {1, 1};
    auto at = [&](uint32_t buffer) { return spec.view(buffer, DType::F32, {kMegabyte}); };
    uint32_t sum = spec.arena(4 * kMegabyte), other = spec.arena(4 * kMegabyte);
    program[1].signal(1, 0, 0, 0, 1);
    program[1].signal(1, 0, 0, 1, 1);
    if (c != SumOfOwn)
      spec.waitSignal(2, 0, 0, 1);
    spec.add(sp::CommandKind::accumulate, 2, {at(sum), at(other)});
    if (c == Copied)
      spec.copy(2, at(other), at(sum));
    if (c == Overwritten)
      spec.copy(2, at(sum), at(other));
    spec.sync(1, 2);
    if (c == Last)
      program.put(0, 1, last, 2);
    auto putSum = [&](uint32_t peer) {
      spec.put(1, 0, at(spec.symmetric(4 * kMegabyte)), at(c == Copied ? other : sum), peer);
    };
    putSum(last);
    if (c == Awaited || c == AgainAwaited)
      spec.waitSignal(1, 0, 1, 1);
    if (c == Synced) {
      spec.waitSignal(2, 0, 1, 1);
      spec.sync(1, 2);
    }
    if (c == Again || c == AgainAwaited) {
      putSum(1);
      putSum(2);
    }
    // Of something else.
    if (c != Again && c != AgainAwaited && c != Last)
      program.put(0, 1, 1, 2);
    if (c == TwoLoops) {
      spec.waitSignal(1, 0, 1, 1);
      program.put(0, 1, 1, 2);
      putSum(1);
    }
    program[1].symmetricBytes = program[last].symmetricBytes = spec.symmetricBytes;
    auto seconds = [&](const char *drift) {
      return program
          .simulate(toyMachine(
              {{"/transports/one_sided/drift", drift},
               {"/transports/one_sided/mover", c == ByHost ? R"("host")" : R"("copy")"}}))
          .seconds;
    };
    double slower = c == Sum || c == Copied || c == TwoLoops ? 1 : c == Again ? 3 : 0;
    EXPECT_NEAR(seconds(R"([0.5, "1", "toy"])") - seconds(R"([1, "1", "toy"])"), slower * kMs,
                kNear)
        << c;
  }
}

TEST(SimulateCommunication, CopiesDisturbAMatmul) {
  ToyProgram program(2);
  program.put(0, 1, 1, 3);
  program[1].symmetricBytes = program[0].symmetricBytes;
  for (uint32_t rank = 0; rank < 2; ++rank)
    program.matmul(rank, 2, 3);
  machine::Machine machine = toyMachine({{"/device/copy_interference", R"([1.5, "1", "toy"])"}});
  // 2 ms of work in the 3 ms of the copy, the third alone; on both ends of it.
  simulate::Result result = program.simulate(machine);
  EXPECT_NEAR(result.ranks[0].shares.total, 4 * kMs, kNear);
  EXPECT_NEAR(result.ranks[1].shares.total, 4 * kMs, kNear);
}

machine::Machine changingEngines(const std::string &startMs, const std::string &changeMs) {
  return toyMachine({{"/launch/streams/engine_start", "[" + startMs + R"(, "ms", "toy"])"},
                     {"/launch/streams/engine_change", "[" + changeMs + R"(, "ms", "toy"])"}});
}

// The engine begins a put some time after the run or the kernel that it waits for; no matmul beside
// it waits.
TEST(SimulateCommunication, APutBehindOtherWorkChangesEngines) {
  ToyProgram program(2);
  program.put(0, 1, 1, 2);
  program[0].slots = program[1].slots = {1, 1};
  program[0].signal(1, 0, 1, 0, 1);
  program.put(0, 1, 1, 2);
  program.matmul(0, 2, 4);
  program[0].sync(1, 2);
  program.put(0, 1, 1, 2);
  program[0].signal(1, 0, 1, 1, 1);
  program[1].symmetricBytes = program[0].symmetricBytes;
  program[1].waitSignal(0, 0, 1, 1);
  auto world = program.load();
  simulate::Result result = program.simulate(changingEngines("0.5", "1"));
  // Put, signal, put, matmul, record, wait, put.
  EXPECT_NEAR(endOf(result, *world, 0, 0), 2.5 * kMs, kNear);
  EXPECT_NEAR(endOf(result, *world, 0, 2), 4.5 * kMs, kNear);
  EXPECT_NEAR(endOf(result, *world, 0, 3), 4 * kMs, kNear);
  EXPECT_NEAR(endOf(result, *world, 0, 6), 7 * kMs, kNear);
  EXPECT_NEAR(result.seconds, 7 * kMs, kNear);
  // What was over long ago costs nothing.
  EXPECT_NEAR(program.simulate(changingEngines("0.5", "0.25")).seconds, 6.5 * kMs, kNear);
  EXPECT_NEAR(program.simulate(toyMachine()).seconds, 6 * kMs, kNear);
}

// Stream 2 waits for the first put. The record of it takes no time, and is no other work.
TEST(SimulateCommunication, APutBehindARecordOfAPutDoesNotChangeEngines) {
  ToyProgram program(2);
  program.put(0, 1, 1, 2);
  program[0].sync(2, 1);
  program.put(0, 1, 1, 2);
  program[0].record(1);
  program.put(0, 1, 1, 2);
  program[1].symmetricBytes = program[0].symmetricBytes;
  EXPECT_NEAR(program.simulate(changingEngines("0.5", "3")).seconds, 6.5 * kMs, kNear);
}

TEST(SimulateCommunication, APutBehindAMatmulOfItsStreamChangesEngines) {
  ToyProgram program(2);
  program.matmul(0, 1, 1);
  program.put(0, 1, 1, 2);
  program[1].symmetricBytes = program[0].symmetricBytes;
  EXPECT_NEAR(program.simulate(changingEngines("3", "0.5")).seconds, 3.5 * kMs, kNear);
}

// A fork at the start of the run is the start of the run.
TEST(SimulateCommunication, APutBehindAForkWaitsForTheStartOnly) {
  ToyProgram program(2);
  program[0].sync(1, 0);
  program.put(0, 1, 1, 2);
  program[1].symmetricBytes = program[0].symmetricBytes;
  EXPECT_NEAR(program.simulate(changingEngines("0.5", "3")).seconds, 2.5 * kMs, kNear);
}

// The one engine is free for another stream's put while a first one changes to it.
TEST(SimulateCommunication, AChangeTakesNoEngine) {
  ToyProgram program(2);
  program.put(0, 1, 1, 2);
  program.matmul(0, 2, 1);
  program[0].sync(3, 2);
  program.put(0, 3, 1, 2);
  program[1].symmetricBytes = program[0].symmetricBytes;
  EXPECT_NEAR(program.simulate(changingEngines("3", "0.5")).seconds, 5.5 * kMs, kNear);
}

TEST(SimulateCommunication, SignalsRelease) {
  ToyProgram program(2);
  program.put(0, 1, 1, 2);
  program[0].slots = program[1].slots = {1};
  program[1].symmetricBytes = program[0].symmetricBytes;
  program[0].signal(1, 0, 1, 0, 1);
  program[1].waitSignal(1, 0, 0, 1);
  program.matmul(1, 1, 1);
  machine::Machine machine =
      toyMachine({{"/launch/streams/device/signal", R"([100, "us", "toy"])"},
                  {"/launch/streams/device/wait_signal", R"([200, "us", "toy"])"}});
  simulate::Result result = program.simulate(machine);
  EXPECT_NEAR(result.seconds, 3.3 * kMs, kNear);
  EXPECT_NEAR(result.ranks[1].shares.exposed, 2.3 * kMs, kNear);
}

TEST(SimulateCommunication, ARingOfMessages) {
  ToyProgram program(4);
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (uint32_t step = 0; step < 3; ++step) {
      program.exchange(rank, 1, static_cast<int>((rank + 1) % 4), static_cast<int>((rank + 3) % 4),
                       1, step, step);
      program[rank].sync(2, 1);
      program.matmul(rank, 2, 2);
    }
  // Steps of 1 ms, hidden behind multiplications of 2.
  machine::Machine machine =
      toyMachine({{"/transports/two_sided/startup", R"([0.5, "ms", "toy"])"}});
  EXPECT_NEAR(program.simulate(machine).seconds, (1.5 + 3 * 2) * kMs, kNear);
}

TEST(SimulateCommunication, ARingCollective) {
  ToyProgram program(4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    program.matmul(rank, 1, 1 + rank);
    program.collective(rank, 1, CollectiveKind::AllGather, 1, 4);
  }
  machine::Machine machine =
      toyMachine({{"/transports/collectives/startup", R"([10, "us", "toy"])"},
                  {"/transports/collectives/step", R"([20, "us", "toy"])"}});
  // It begins when the last has come, at 4 ms; 3 steps, 3 MB through each port.
  simulate::Result result = program.simulate(machine);
  EXPECT_NEAR(result.seconds, (4 + 0.01 + 0.06 + 3) * kMs, kNear);
  EXPECT_NEAR(result.ranks[0].shares.total, result.seconds, kNear);
  EXPECT_NEAR(result.ranks[0].shares.exposed, result.seconds - 1 * kMs, kNear);
}

TEST(SimulateCommunication, ALibraryPacksWhatHasGaps) {
  auto seconds = [](int64_t apart) {
    ToyProgram program(2);
    for (uint32_t r = 0; r < 2; ++r) {
      RankSpec &rank = program[r];
      uint32_t in = rank.view(rank.arena(1000000), DType::F32, {500, 500});
      uint32_t out =
          rank.view(rank.arena(4008000), DType::F32, {2, 500, 500}, {500 * apart, apart, 1}, 0);
      rank.collective(0, 0, CollectiveKind::AllGather, out, in);
    }
    return program.simulate(toyMachine()).seconds;
  };
  // A megabyte from the other rank; then 2 are read and written at 1 GB/s.
  EXPECT_NEAR(seconds(1000), (1 + 4) * kMs, kNear);
  // Rows that do not begin at multiples of 16 bytes.
  EXPECT_NEAR(seconds(1001), (1 + 7 * 4) * kMs, kNear);
}

TEST(SimulateCommunication, AMessageIsPackedToo) {
  ToyProgram program(2);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = program[r];
    uint32_t view = rank.view(rank.arena(2000000), DType::F32, {500, 500}, {1000, 1}, 0);
    rank.group(0, 0, 1);
    if (r == 0)
      rank.send(0, 0, view, 1, 0);
    else
      rank.recv(0, 0, view, 0, 0);
  }
  // Both copy a megabyte, which is read and written.
  EXPECT_NEAR(program.simulate(toyMachine()).seconds, (2 + 1 + 2) * kMs, kNear);
}

TEST(SimulateCommunication, ACollectiveTakesSms) {
  ToyProgram program(4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    program.collective(rank, 1, CollectiveKind::AllGather, 1, 4);
    program.matmul(rank, 2, 2);
  }
  machine::Machine machine = toyMachine({{"/transports/collectives/mover", R"("sm")"},
                                         {"/transports/collectives/sms", R"([50, "1", "toy"])"}});
  // Half speed for 3 ms, and half a millisecond is left.
  EXPECT_NEAR(program.simulate(machine).seconds, 3.5 * kMs, kNear);
  // A quarter of the speed: 1.25 ms are left.
  machine.smInterference = 2;
  EXPECT_NEAR(program.simulate(machine).seconds, 4.25 * kMs, kNear);
}

TEST(SimulateCommunication, BetweenNodes) {
  std::map<std::string, std::string> changes = {
      {"/nodes", R"("any")"},
      {"/devices_per_node", "2"},
      {"/links/network",
       R"({"topology":"switch","latency":[100,"us","toy"],"bandwidth":[0.5,"GB/s","toy"]})"},
      {"/transports/collectives/network_step", R"([0, "us", "toy"])"},
      {"/transports/collectives/network_bandwidth", R"([0.5, "GB/s", "toy"])"}};
  ToyProgram program(4);
  program.exchange(0, 1, 1, -1, 1);
  program.exchange(1, 1, -1, 0, 1);
  program.exchange(2, 1, 1, -1, 1);
  program.exchange(1, 2, -1, 2, 1);
  auto world = program.load();
  simulate::Result result = program.simulate(toyMachine(changes));
  EXPECT_NEAR(result.ranks[0].shares.total, 1 * kMs, kNear);
  EXPECT_NEAR(result.ranks[2].shares.total, 2.1 * kMs, kNear);

  ToyProgram gather(4);
  for (uint32_t rank = 0; rank < 4; ++rank)
    gather.collective(rank, 1, CollectiveKind::AllGather, 1, 4);
  // 3 MB through a port of the node (3 ms); half of 4 MB come from the other node, through 2 ports.
  machine::CollectiveCost cost =
      toyMachine(changes).collectiveCost(CollectiveKind::AllGather, 4, 2, 1e6);
  EXPECT_NEAR(cost.networkBytes, 1e6, 1);
  EXPECT_NEAR(gather.simulate(toyMachine(changes)).seconds, 3 * kMs, kNear);
}

TEST(SimulateCommunication, WhatIfLinksWereTwiceAsWide) {
  ToyProgram program(2);
  program.exchange(0, 1, 1, 1, 2);
  program.exchange(1, 1, 0, 0, 2);
  machine::Machine machine = toyMachine();
  EXPECT_TRUE(machine.scale("link.bandwidth", 2).ok());
  EXPECT_NEAR(program.simulate(machine).seconds, 1 * kMs, kNear);
}

TEST(SimulateCommunication, AMessageToOneself) {
  ToyProgram program(1);
  program.exchange(0, 1, 0, 0, 1);
  EXPECT_NEAR(program.simulate(toyMachine()).seconds, 2 * kMs, kNear); // read and written
}

} // namespace
} // namespace tandem::test
