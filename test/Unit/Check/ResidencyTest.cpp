//===- ResidencyTest.cpp - kernels that wait and hold SMs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

namespace {

CheckOptions sms(unsigned total) {
  CheckOptions options;
  options.sms.total = total;
  return options;
}

/// Each of two ranks waits on stream 1 for what the other signals on stream 2.
ProgramSpec signals() {
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    rank.slots = {1};
    rank.copy(0, spec.row[r][0], spec.x[r]);
    rank.numStreams = 3;
    rank.signal(2, channel, 1 - r, 0, 1);
    rank.waitSignal(1, channel, 0, 1);
  }
  return spec;
}

/// Two collectives of two channels, on two streams; `turned`: rank 1 issues the second one first.
ProgramSpec collectives(bool turned) {
  Basic spec(2, 2);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    rank.numStreams = 3;
    for (int c = 0; c < 2; ++c)
      rank.channel({0, 1});
    for (uint16_t k = 0; k < 2; ++k) {
      uint16_t c = turned && r == 1 ? 1 - k : k;
      uint16_t stream = 1 + c;
      rank.sync(stream, 0);
      rank.collective(stream, c, CollectiveKind::AllReduce, spec.row[r][c], spec.x[r]);
    }
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  return spec;
}

/// Collectives of four channels on four streams: `together` of them at a time, then the next.
ProgramSpec rounds(uint16_t together) {
  constexpr uint16_t channels = 4;
  Basic spec(2, channels);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    rank.numStreams = 1 + channels;
    for (uint16_t c = 0; c < channels; ++c)
      rank.channel({0, 1});
    for (uint16_t first = 0; first < channels; first += together) {
      for (uint16_t c = first; c < first + together; ++c) {
        rank.sync(1 + c, 0);
        rank.collective(1 + c, c, CollectiveKind::AllReduce, spec.row[r][c], spec.x[r]);
      }
      for (uint16_t c = first; c < first + together; ++c)
        rank.sync(0, 1 + c);
    }
  }
  return spec;
}

std::string limitsOf(const Report &report) {
  return report.limits.empty() ? "" : report.limits.front();
}

} // namespace

TEST(Residency, WaitHoldsTheSMOfASignal) {
  expectClean(signals());
  expectOnly(signals(), {"sm-deadlock"}, sms(1));
  expectClean(signals(), sms(58));
  expectClean(signals(), sms(132));
}

TEST(Residency, SaysWhatIsHeld) {
  Report report = run(signals(), sms(1));
  ASSERT_EQ(report.findings.size(), 1u);
  const Finding &finding = report.findings[0];
  EXPECT_NE(finding.message.find("kernels that wait hold the SMs that"), std::string::npos)
      << finding.message;
  ASSERT_EQ(finding.notes.size(), 2u);
  EXPECT_NE(finding.notes[0].find("holds SMs and waits for"), std::string::npos)
      << finding.notes[0];
  EXPECT_NE(finding.notes[1].find("waits for SMs"), std::string::npos) << finding.notes[1];
}

TEST(Residency, FewSMsLeftAreNotDecided) {
  Report report = run(signals(), sms(57));
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(limitsOf(report), "SMs: kernels that wait may hold 1 of 57, which leaves less than 57 "
                              "for those that they wait for");
}

TEST(Residency, CollectivesOfTwoChannels) {
  // Both kernels fit, and leave enough.
  expectClean(collectives(true), sms(132));
  // Only one fits: each rank may begin with another.
  expectOnly(collectives(true), {"sm-deadlock"}, sms(63));
  // The same begin first: none found, but it is not excluded.
  Report report = run(collectives(false), sms(63));
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(limitsOf(report).rfind("SMs: kernels that wait may hold 64 of 63", 0), 0u)
      << limitsOf(report);
}

TEST(Residency, OnlyChannelsAtTheSameTimeCount) {
  expectClean(rounds(1), sms(32 + 57));
  EXPECT_NE(limitsOf(run(rounds(1), sms(32 + 56))), "");
  expectClean(rounds(2), sms(132));
  EXPECT_EQ(limitsOf(run(rounds(2), sms(64 + 56))).rfind("SMs: kernels that wait may hold 64", 0),
            0u);
  EXPECT_EQ(limitsOf(run(rounds(4), sms(132))).rfind("SMs: kernels that wait may hold 128", 0), 0u);
}

TEST(Residency, KernelsOfTheNextRunCount) {
  // The second collective is not awaited, so that of the next run's first channel may run beside
  // it.
  Basic spec(2, 2);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    rank.numStreams = 3;
    for (int c = 0; c < 2; ++c)
      rank.channel({0, 1});
    rank.sync(1, 0);
    rank.collective(1, 0, CollectiveKind::AllReduce, spec.row[r][0], spec.x[r]);
    rank.sync(2, 1);
    rank.collective(2, 1, CollectiveKind::AllReduce, spec.row[r][1], spec.x[r]);
  }
  EXPECT_EQ(limitsOf(run(spec, sms(64 + 56))).rfind("SMs: kernels that wait may hold 64", 0), 0u);
  for (RankSpec &rank : spec.ranks)
    rank.sync(0, 2);
  expectClean(spec, sms(32 + 57));
}

TEST(Residency, CommandsOfOneChannelRunOneAfterAnother) {
  // 32 SMs at most.
  expectClean(gathered(4), sms(32 + 57));
  EXPECT_NE(limitsOf(run(gathered(4), sms(32 + 56))), "");
}

TEST(Residency, NothingWaits) {
  expectClean(doubleBuffered(), sms(1));
  expectClean(exchange(2));
}
