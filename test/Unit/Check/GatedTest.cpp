//===- GatedTest.cpp - gated matmuls: order, data, SMs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"
#include "Support/GatedSpec.h"

using namespace tandem;
using namespace tandem::check;
using test::GatedSpec;

namespace {

/// Another kernel on stream 2 of each rank, unordered with the gated matmul: a signal that nothing
/// waits for, or a reduction.
GatedSpec withNeighbour(bool isSignal, uint64_t leaves) {
  GatedSpec spec(2, leaves);
  for (RankSpec &rank : spec.ranks) {
    if (isSignal) {
      rank.slots.push_back(1);
      rank.sync(2, 1);
      rank.signal(2, 0, 1 - rank.rank, 2, 1);
    } else {
      uint32_t from = rank.view(rank.arena(32), DType::F32, {2, 4});
      uint32_t to = rank.view(rank.arena(16), DType::F32, {4});
      rank.sync(2, 1);
      rank.copy(2, from, rank.commands[spec.head - 1].operands[1]);
      rank.add(Kind::reduce, 2, {to, from}).value = 1;
    }
    rank.sync(0, 2);
  }
  return spec;
}

} // namespace

TEST(Gated, ACorrectProgram) {
  expectClean(GatedSpec(2));
  expectClean(GatedSpec(4));
}

TEST(Gated, ARowBlockBeforeItsGate) {
  GatedSpec spec(3);
  // The wait for rank 1's rows comes behind their matmul.
  std::swap(spec.part(0, 1), spec.part(0, 2));
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race") || found.count("uninitialized-read"));
}

TEST(Gated, OwnRowsWhereTheyLie) {
  for (uint32_t ranks : {2, 4}) {
    expectClean(GatedSpec(ranks, 2, 0, /*isInPlace=*/true));
    expectClean(GatedSpec(ranks, 2, 2, /*isInPlace=*/true), onGpu());
  }
  // Without the copy nothing is in the place that it would fill.
  GatedSpec spec(3, 2, 0, /*isInPlace=*/true);
  uint32_t others = spec.ranks[0].views[spec.part(0, 2).operands[1]].buffer();
  spec.part(0, 0).operands[1] = spec.ranks[0].view(others, DType::F32, {2, 4});
  expectOnly(spec, {"uninitialized-read"});
  // Rank 1's rows before their gate.
  GatedSpec early(3, 2, 0, /*isInPlace=*/true);
  std::swap(early.part(0, 1), early.part(0, 2));
  std::set<std::string> found = diagnoses(run(early));
  EXPECT_TRUE(found.count("race") || found.count("uninitialized-read"));
}

TEST(Gated, AGateThatNeverOpens) {
  GatedSpec spec(2);
  drop(spec, 1, Kind::signal, 0);
  expectOnly(spec, {"signal-missing"});
}

TEST(Gated, SignalsNeedTheSMsThatItLeaves) {
  // Proven, as there is no limit: one stream signals, and two SMs are left.
  Report report = run(GatedSpec(4), onGpu());
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(report.limits.empty()) << report.limits.front();
  expectClean(GatedSpec(4, 1), onGpu());
  // None are left: the signal waits for the matmul, and the matmul for the peer's signal.
  expectOnly(GatedSpec(4, 0), {"sm-deadlock"}, onGpu());
  // Without a GPU there are no SMs.
  expectClean(GatedSpec(4, 0));
}

TEST(Gated, AFusedExchangeThatPushesNeedsAnSMPerBlock) {
  Report report = run(GatedSpec(4, 12, 12), onGpu());
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(report.limits.empty()) << report.limits.front();
  // One SM is missing: no matmul ends before the peers have pushed.
  expectOnly(GatedSpec(4, 11, 12), {"sm-deadlock"}, onGpu());
  expectClean(GatedSpec(4, 11, 12));
}

TEST(Gated, SaysWhoHoldsTheSMs) {
  Report report = run(GatedSpec(2, 0), onGpu());
  ASSERT_EQ(report.findings.size(), 1u);
  const Finding &finding = report.findings[0];
  EXPECT_NE(finding.message.find("kernels that wait hold the SMs that rank"), std::string::npos)
      << finding.message;
  ASSERT_EQ(finding.notes.size(), 2u);
  EXPECT_NE(finding.notes[0].find("(wait_signal "), std::string::npos) << finding.notes[0];
  EXPECT_NE(finding.notes[0].find("holds SMs and waits for"), std::string::npos)
      << finding.notes[0];
  EXPECT_NE(finding.notes[1].find("waits for SMs"), std::string::npos) << finding.notes[1];
}

TEST(Gated, AStreamWithASignalNeedsAnSM) {
  EXPECT_TRUE(run(withNeighbour(true, 2), onGpu()).limits.empty());
  EXPECT_EQ(run(withNeighbour(true, 1), onGpu()).limits,
            std::vector<std::string>{"SMs: other kernels than signals, waits and copies may run "
                                     "beside a gated matmul, or more of these than the SMs that it "
                                     "leaves"});
}

TEST(Gated, ACopyOfNarrowRowsNeedsAnSM) {
  // Of rows of 16 bytes by a kernel; of rows of 1 KiB by a copy engine, as that of one piece.
  auto limitsOf = [](int64_t columns, int64_t stride, uint64_t leaves) {
    GatedSpec spec(2, leaves);
    for (RankSpec &rank : spec.ranks) {
      auto view = [&] {
        uint32_t buffer = rank.arena(static_cast<uint64_t>(4 * stride * 4));
        return rank.view(buffer, DType::F32, {4, columns}, {stride, 1}, 0);
      };
      rank.copy(2, view(), view());
      rank.sync(0, 2);
    }
    return run(spec, onGpu()).limits;
  };
  EXPECT_TRUE(limitsOf(4, 8, 2).empty());
  EXPECT_FALSE(limitsOf(4, 8, 1).empty());
  EXPECT_TRUE(limitsOf(4, 4, 1).empty());
  EXPECT_TRUE(limitsOf(256, 512, 1).empty());
}

TEST(Gated, AnotherKernelBesideItIsNotProven) {
  Report report = run(withNeighbour(false, 2), onGpu());
  EXPECT_TRUE(report.findings.empty());
  ASSERT_EQ(report.limits.size(), 1u);
  EXPECT_EQ(report.limits[0].rfind("SMs: other kernels than signals", 0), 0u) << report.limits[0];
}

//===----------------------------------------------------------------------===//
// Rows that go to peers
//===----------------------------------------------------------------------===//

TEST(Gated, StoresToPeers) {
  for (uint32_t ranks : {2, 4, 8})
    expectClean(test::EpilogueSpec(ranks));
}

TEST(Gated, StoresToPeersNeedNoSMsOfOthers) {
  // It waits for nothing, so it leaves none.
  Report report = run(test::EpilogueSpec(4), onGpu());
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(report.limits.empty()) << report.limits.front();
}

TEST(Gated, ASignalBeforeThePut) {
  // In a gated matmul the reader refuses it; of the commands alone the checker finds the race.
  test::EpilogueSpec spec(2);
  for (test::RankSpec &rank : spec.ranks)
    rank.commands.erase(rank.commands.begin() + spec.head);
  expectClean(spec);
  for (test::RankSpec &rank : spec.ranks)
    std::swap(rank.commands[1], rank.commands[2]);
  EXPECT_TRUE(diagnoses(run(spec)).count("race"));
}

TEST(Gated, RowsThatAreNotAwaited) {
  test::EpilogueSpec spec(3);
  drop(spec, 0, Kind::wait_signal, 0);
  EXPECT_TRUE(diagnoses(run(spec)).count("race"));
  test::EpilogueSpec silent(3);
  drop(silent, 1, Kind::signal, 0);
  silent.ranks[1].commands[silent.head].aux -= 1;
  expectOnly(silent, {"signal-missing"});
}

TEST(Gated, RowsInThePlaceOfAnother) {
  test::EpilogueSpec spec(3);
  // Rank 1 stores to the place of rank 0.
  spec.part(1, 1).operands[0] =
      spec.ranks[1].view(2 + 1, DType::F32, {2, 4}, 0); // the symmetric buffer
  EXPECT_FALSE(run(spec).findings.empty());
}
