//===- OneSidedTest.cpp - puts, signals, and runs in a row ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include <algorithm>

using namespace tandem;
using namespace tandem::check;

namespace {

/// Rank 0 puts x to each other rank, which waits and copies it to y. Nobody answers, or all do.
ProgramSpec pushedBroadcast(uint32_t ranks, bool answered) {
  Basic spec(ranks, 1);
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < ranks; ++r)
    all.push_back(r);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel(all);
    uint32_t place = rank.view(rank.symmetric(kBytes), DType::F32, {4});
    rank.slots.assign(ranks + 1, 1);
    if (r > 0) {
      rank.waitSignal(0, channel, 0, 1);
      rank.copy(0, spec.row[r][0], place);
      if (answered)
        rank.signal(0, channel, 0, r, 1);
      continue;
    }
    rank.copy(0, spec.row[0][0], spec.x[0]);
    for (uint32_t peer = 1; peer < ranks; ++peer) {
      rank.put(0, channel, place, spec.x[0], peer);
      rank.signal(0, channel, peer, 0, 1);
    }
    for (uint32_t peer = 1; answered && peer < ranks; ++peer)
      rank.waitSignal(0, channel, peer, 1);
  }
  return spec;
}

} // namespace

TEST(OneSided, SignalDropped) {
  ProgramSpec spec = push(3);
  drop(spec, 1, Kind::signal, 0);
  expectOnly(spec, {"signal-missing"});
}

TEST(OneSided, SignalTooLow) {
  ProgramSpec spec = credited();
  command(spec, 0, Kind::signal, 1).value = 1;
  expectOnly(spec, {"signal-missing"});
}

TEST(OneSided, SignalToTheWrongRank) {
  ProgramSpec spec = push(3);
  CommandSpec &signal = command(spec, 0, Kind::signal, 0);
  signal.peer = 3 - signal.peer;
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("signal-missing"));
}

TEST(OneSided, SignalInTheWrongSlot) {
  ProgramSpec spec = push(3);
  command(spec, 0, Kind::signal, 0).aux = 1;
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("signal-missing"));
}

TEST(OneSided, ReadBeforeTheWait) {
  ProgramSpec spec = push(2);
  swapCommands(spec, 0, nth(spec, 0, Kind::wait_signal, 0), nth(spec, 0, Kind::copy, 1));
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race") || found.count("uninitialized-read"));
}

TEST(OneSided, WaitDropped) {
  ProgramSpec spec = push(3);
  drop(spec, 1, Kind::wait_signal, 0);
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race") || found.count("uninitialized-read"));
  EXPECT_TRUE(found.count("overwritten-early"));
}

TEST(OneSided, SignalBeforeItsPut) {
  ProgramSpec spec = push(3);
  swapCommands(spec, 2, nth(spec, 2, Kind::put, 0), nth(spec, 2, Kind::signal, 0));
  // The put is behind all signals to its peer: nothing says that it has arrived, now or later.
  expectOnly(spec, {"race", "overwritten-early"});
}

TEST(OneSided, SignalOnAnotherStream) {
  ProgramSpec spec = push(2);
  command(spec, 0, Kind::signal, 0).stream = 2;
  // In one execution the put comes after the read, too.
  expectOnly(spec, {"race", "overwritten-early", "uninitialized-read"});
}

TEST(OneSided, SignalOnAnotherChannel) {
  ProgramSpec spec = push(2);
  for (RankSpec &rank : spec.ranks)
    rank.channel({0, 1}, 7, "other");
  command(spec, 1, Kind::signal, 0).channel = 1;
  expectOnly(spec, {"race", "overwritten-early"});
}

TEST(OneSided, PutIntoTheWrongSlot) {
  ProgramSpec spec = push(3);
  // Rank 0 writes where rank 1 writes too; its own slot stays empty.
  command(spec, 0, Kind::put, 1).operands[0] = command(spec, 0, Kind::copy, 2).operands[1];
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("uninitialized-read"));
}

TEST(OneSided, TwoPutsIntoOnePlace) {
  // Ranks 1 and 2 both put into slot 1 of rank 0.
  ProgramSpec spec = push(3);
  RankSpec &rank = spec.ranks[2];
  CommandSpec &put = command(spec, 2, Kind::put, 0);
  ASSERT_EQ(put.peer, 0u);
  uint32_t buffer = rank.views[put.operands[0]].buffer();
  uint32_t slot1 = rank.view(buffer, DType::F32, {4}, kBytes);
  command(spec, 2, Kind::put, 0).operands[0] = slot1;
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race"));
  EXPECT_TRUE(found.count("uninitialized-read"));
}

TEST(OneSided, NoCredit) {
  ProgramSpec spec = credited();
  drop(spec, 0, Kind::wait_signal, 0);
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race"));
  EXPECT_TRUE(found.count("overwritten-early"));
}

TEST(OneSided, CreditBeforeTheRead) {
  ProgramSpec spec = credited();
  swapCommands(spec, 1, nth(spec, 1, Kind::copy, 0), nth(spec, 1, Kind::signal, 0));
  expectOnly(spec, {"race"});
}

TEST(OneSided, WaitForTheChunkBefore) {
  ProgramSpec spec = credited();
  command(spec, 1, Kind::wait_signal, 1).value = 1;
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race"));
}

TEST(OneSided, SourceOverwritten) {
  ProgramSpec spec = push(2);
  RankSpec &rank = spec.ranks[0];
  uint32_t staging = rank.view(rank.arena(kBytes), DType::F32, {4});
  uint32_t x = command(spec, 0, Kind::put, 0).operands[1];
  command(spec, 0, Kind::put, 0).operands[1] = staging;
  rank.copy(0, staging, x);
  auto &commands = rank.commands;
  std::rotate(commands.begin(), commands.end() - 1, commands.end());
  expectClean(spec);
  // Stream 2 fills it again.
  rank.copy(2, staging, x);
  std::rotate(commands.begin() + 6, commands.end() - 1, commands.end());
  expectOnly(spec, {"race"});
}

TEST(OneSided, TargetClearsItsPlace) {
  // Rank 1 writes the place that rank 0 puts into: nothing says who comes first.
  ProgramSpec spec = push(2);
  RankSpec &rank = spec.ranks[1];
  uint32_t place = command(spec, 1, Kind::copy, 1).operands[1];
  rank.copy(0, place, command(spec, 1, Kind::put, 0).operands[1]);
  auto &commands = rank.commands;
  std::rotate(commands.begin(), commands.end() - 1, commands.end());
  expectOnly(spec, {"race"});
}

TEST(OneSided, PutBehindTheEnd) {
  ProgramSpec spec = push(2);
  RankSpec &rank = spec.ranks[0];
  CommandSpec &put = command(spec, 0, Kind::put, 0);
  uint32_t wide = rank.symmetric(kBytes);
  spec.ranks[0].symmetricBytes = 128;
  uint32_t view = rank.view(wide, DType::F32, {4});
  command(spec, 0, Kind::put, 0).operands[0] = view;
  (void)put;
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("put-outside"));
}

TEST(OneSided, NobodyReadsWhatIsPut) {
  ProgramSpec spec = push(2);
  drop(spec, 1, Kind::copy, 1);
  expectOnly(spec, {"result-incomplete"});
}

TEST(Runs, BroadcastLapsItsReaders) {
  for (uint32_t ranks : {2, 3, 5}) {
    expectOnly(pushedBroadcast(ranks, false), {"overwritten-early"});
    expectClean(pushedBroadcast(ranks, true));
  }
}

TEST(Runs, OneReaderDoesNotAnswer) {
  ProgramSpec spec = pushedBroadcast(4, true);
  drop(spec, 0, Kind::wait_signal, 1);
  expectOnly(spec, {"overwritten-early"});
}

TEST(Runs, RingOneWay) {
  // Each puts to the next and waits for the one before: nothing comes back within a run or the
  // next.
  Basic spec(4, 1);
  for (uint32_t r = 0; r < 4; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1, 2, 3});
    uint32_t place = rank.view(rank.symmetric(kBytes), DType::F32, {4});
    rank.slots = {1};
    rank.put(0, channel, place, spec.x[r], (r + 1) % 4);
    rank.signal(0, channel, (r + 1) % 4, 0, 1);
    rank.waitSignal(0, channel, 0, 1);
    rank.copy(0, spec.row[r][0], place);
  }
  expectOnly(spec, {"overwritten-early"});
}

TEST(Runs, ShortRingComesBackInTime) {
  // With three ranks it does: run n of rank 0 is tied to run n + 1 of rank 2 ... of rank 0's
  // writer.
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t place = rank.view(rank.symmetric(kBytes), DType::F32, {4});
    rank.slots = {1};
    rank.put(0, channel, place, spec.x[r], 1 - r);
    rank.signal(0, channel, 1 - r, 0, 1);
    rank.waitSignal(0, channel, 0, 1);
    rank.copy(0, spec.row[r][0], place);
  }
  expectClean(spec);
}

TEST(Runs, MessagesTieRanksToo) {
  ProgramSpec spec = pushedBroadcast(2, false);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t token = rank.view(rank.arena(kBytes), DType::F32, {4});
    uint32_t x = rank.view(rank.argument(0, kBytes), DType::F32, {4});
    rank.group(0, 0, 1);
    if (r == 1)
      rank.send(0, 0, x, 0, 0);
    else
      rank.recv(0, 0, token, 1, 0);
  }
  expectClean(spec);
}

TEST(Runs, SignalOfTheNextRun) {
  // Slot 0 of rank 2 is raised to 1 by rank 0 and to 2 by rank 1. Rank 2 waits for 2 only: rank 0
  // may be a run ahead, and its next 1 is more than this run's 2.
  Basic spec(3, 1);
  for (uint32_t r = 0; r < 3; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1, 2});
    rank.slots = {2, 1};
    rank.copy(0, spec.row[r][0], spec.x[r]);
    if (r < 2)
      rank.signal(0, channel, 2, 0, r + 1);
    else
      rank.waitSignal(0, channel, 0, 2);
  }
  expectOnly(spec, {"signal-wrong-run"});
  // An answer to rank 0 keeps it in the run.
  spec.ranks[0].waitSignal(0, 0, 1, 1);
  spec.ranks[2].signal(0, 0, 0, 1, 1);
  expectClean(spec);
}

TEST(Runs, EitherSignalReleases) {
  // Both peers raise one slot to 1: the wait says that one of them has, not which.
  Basic spec(3, 2);
  for (uint32_t r = 0; r < 3; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1, 2});
    uint32_t buffer = rank.symmetric(2 * kBytes);
    uint32_t place[] = {rank.view(buffer, DType::F32, {4}),
                        rank.view(buffer, DType::F32, {4}, kBytes)};
    rank.slots = {1, 1, 1};
    for (uint32_t i = 0; i < 2; ++i)
      if (r != 2)
        rank.copy(0, spec.row[r][i], spec.x[r]);
    if (r < 2) {
      rank.put(0, channel, place[r], spec.x[r], 2);
      rank.signal(0, channel, 2, 0, 1);
      rank.waitSignal(0, channel, 1, 1);
    } else {
      rank.waitSignal(0, channel, 0, 1);
      rank.copy(0, spec.row[r][0], place[0]);
      rank.copy(0, spec.row[r][1], place[1]);
      rank.signal(0, channel, 0, 1, 1);
      rank.signal(0, channel, 1, 1, 1);
    }
  }
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race"));
}
