//===- DeadlockTest.cpp - programs that never end ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

namespace {

/// y[0] = x, and what `body` adds on each rank (streams 0 to 2, all joined).
template <typename Body> ProgramSpec makeSpec(uint32_t ranks, Body body) {
  Basic spec(ranks, 1);
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < ranks; ++r)
    all.push_back(r);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel(all);
    rank.channel(all, 7, "second");
    uint32_t out = rank.view(rank.arena(kBytes * ranks), DType::F32, {4});
    rank.copy(0, spec.row[r][0], spec.x[r]);
    rank.sync(1, 0);
    rank.sync(2, 0);
    body(rank, channel, out, spec.x[r]);
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  return spec;
}

void send(RankSpec &rank, uint16_t stream, uint16_t channel, uint32_t view, uint32_t peer) {
  rank.group(stream, channel, 1);
  rank.send(stream, channel, view, peer, 0);
}

void recv(RankSpec &rank, uint16_t stream, uint16_t channel, uint32_t view, uint32_t peer) {
  rank.group(stream, channel, 1);
  rank.recv(stream, channel, view, peer, 0);
}

CheckOptions buffered() {
  CheckOptions options;
  options.bufferedSends = true;
  return options;
}

} // namespace

TEST(Deadlock, RingWithoutGroup) {
  for (uint32_t ranks : {2, 3, 8}) {
    ProgramSpec spec = makeSpec(ranks, [&](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
      send(rank, 1, c, x, (rank.rank + 1) % ranks);
      recv(rank, 1, c, out, (rank.rank + ranks - 1) % ranks);
    });
    expectOnly(spec, {"deadlock"});
    // Only if sends may block.
    expectClean(spec, buffered());
  }
}

TEST(Deadlock, ReceiveFirst) {
  ProgramSpec spec = makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    recv(rank, 1, c, out, 1 - rank.rank);
    send(rank, 1, c, x, 1 - rank.rank);
  });
  expectOnly(spec, {"deadlock"});
  expectOnly(spec, {"deadlock"}, buffered());
}

TEST(Deadlock, OneRankTheOtherWayRoundIsFine) {
  expectClean(makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    if (rank.rank == 0)
      send(rank, 1, c, x, 1);
    recv(rank, 1, c, out, 1 - rank.rank);
    if (rank.rank == 1)
      send(rank, 1, c, x, 0);
  }));
}

TEST(Deadlock, ThroughAnEvent) {
  // The send is on a stream of its own, which waits for the receive's.
  ProgramSpec spec = makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    recv(rank, 1, c, out, 1 - rank.rank);
    rank.sync(2, 1);
    send(rank, 2, c, x, 1 - rank.rank);
  });
  expectOnly(spec, {"deadlock"});
}

TEST(Deadlock, WithoutTheEventItIsFine) {
  expectClean(makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    recv(rank, 1, c, out, 1 - rank.rank);
    send(rank, 2, c, x, 1 - rank.rank);
  }));
}

TEST(Deadlock, TwoCommunicatorsInOtherOrder) {
  ProgramSpec spec = makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    auto first = static_cast<uint16_t>(rank.rank == 0 ? c : c + 1);
    auto second = static_cast<uint16_t>(rank.rank == 0 ? c + 1 : c);
    rank.collective(1, first, CollectiveKind::AllReduce, out, x);
    rank.collective(1, second, CollectiveKind::AllReduce, out, x);
  });
  expectOnly(spec, {"deadlock"});
}

TEST(Deadlock, CollectiveBeforeMessage) {
  ProgramSpec spec = makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    if (rank.rank == 0) {
      rank.collective(1, static_cast<uint16_t>(c + 1), CollectiveKind::AllReduce, out, x);
      send(rank, 1, c, x, 1);
    } else {
      recv(rank, 1, c, out, 0);
      rank.collective(1, static_cast<uint16_t>(c + 1), CollectiveKind::AllReduce, out, x);
    }
  });
  expectOnly(spec, {"deadlock"});
}

TEST(Deadlock, WaitBeforeSignal) {
  ProgramSpec spec = makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t, uint32_t) {
    rank.slots = {1};
    rank.waitSignal(1, c, 0, 1);
    rank.signal(1, c, 1 - rank.rank, 0, 1);
  });
  expectOnly(spec, {"deadlock"});
}

TEST(Deadlock, WaitForOneself) {
  ProgramSpec spec = makeSpec(1, [](RankSpec &rank, uint16_t c, uint32_t, uint32_t) {
    rank.slots = {1};
    rank.waitSignal(1, c, 0, 1);
    rank.signal(1, c, 0, 0, 1);
  });
  expectOnly(spec, {"deadlock"});
}

TEST(Deadlock, CreditBeforeData) {
  ProgramSpec spec = credited();
  // Rank 1 gives the place back only after the second chunk.
  auto &commands = spec.ranks[1].commands;
  std::swap(commands[nth(spec, 1, Kind::signal, 0)], commands[nth(spec, 1, Kind::wait_signal, 1)]);
  expectOnly(spec, {"deadlock"});
}

TEST(Deadlock, MainWaitsTooEarly) {
  // Stream 0 waits for stream 1, whose receive waits for what stream 0 of the other rank sends
  // after.
  ProgramSpec spec = makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    recv(rank, 1, c, out, 1 - rank.rank);
    rank.sync(0, 1);
    send(rank, 0, c, x, 1 - rank.rank);
  });
  expectOnly(spec, {"deadlock"});
}

TEST(Deadlock, GroupsOfOneChannelCrossed) {
  // Each rank sends to the next in the group in which it receives from it.
  ProgramSpec spec = makeSpec(2, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    uint32_t peer = 1 - rank.rank;
    if (rank.rank == 0) {
      send(rank, 1, c, x, peer);
      rank.group(1, c, 1);
      rank.send(1, c, x, peer, 1);
    } else {
      rank.group(1, c, 1);
      rank.recv(1, c, out, peer, 1);
      recv(rank, 1, c, out, peer);
    }
  });
  expectOnly(spec, {"deadlock"});
  expectClean(spec, buffered());
}

TEST(Deadlock, CycleIsNamed) {
  ProgramSpec spec = makeSpec(3, [](RankSpec &rank, uint16_t c, uint32_t out, uint32_t x) {
    recv(rank, 1, c, out, (rank.rank + 1) % 3);
    send(rank, 1, c, x, (rank.rank + 2) % 3);
  });
  Report report = run(spec);
  ASSERT_EQ(report.findings.size(), 1u);
  const Finding &finding = report.findings[0];
  EXPECT_EQ(finding.message, "3 queues wait for each other");
  ASSERT_EQ(finding.notes.size(), 3u);
  EXPECT_EQ(finding.notes[0].find("rank "), 0u);
  EXPECT_NE(finding.notes[0].find("waits for"), std::string::npos);
  EXPECT_NE(finding.notes[0].find("which is queued behind"), std::string::npos);
  EXPECT_EQ(finding.commands.size(), 3u);
}
