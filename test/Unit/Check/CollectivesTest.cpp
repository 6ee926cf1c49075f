//===- CollectivesTest.cpp - collectives that differ between ranks ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

namespace {

/// `kind` over 3 ranks from a stack or slice of the arena to another, on stream 0.
ProgramSpec collective(CollectiveKind kind, uint32_t root = 0) {
  Basic spec(3, 1);
  for (uint32_t r = 0; r < 3; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1, 2});
    uint32_t bufferIn = rank.arena(3 * kBytes), bufferOut = rank.arena(3 * kBytes);
    bool stackIn = kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll ||
                   kind == CollectiveKind::Scatter;
    bool stackOut = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll ||
                    kind == CollectiveKind::Gather;
    for (uint64_t i = 0; i < 3; ++i)
      rank.copy(0, rank.view(bufferIn, DType::F32, {4}, i * kBytes), spec.x[r]);
    test::Shape stack{3, 4}, slice{4};
    uint32_t in = rank.view(bufferIn, DType::F32, stackIn ? stack : slice);
    uint32_t out = rank.view(bufferOut, DType::F32, stackOut ? stack : slice);
    rank.collective(0, channel, kind, out, in).peer = root;
    bool writes = r == root || (kind != CollectiveKind::Reduce && kind != CollectiveKind::Gather);
    rank.copy(0, spec.row[r][0], writes ? rank.view(bufferOut, DType::F32, {4}) : spec.x[r]);
  }
  return spec;
}

} // namespace

TEST(Collectives, Correct) {
  for (int kind = 0; kind < 8; ++kind)
    for (uint32_t root = 0; root < (kind >= 4 ? 3 : 1); ++root)
      expectClean(collective(static_cast<CollectiveKind>(kind), root));
}

TEST(Collectives, KindDiffers) {
  ProgramSpec spec = collective(CollectiveKind::AllReduce);
  command(spec, 1, Kind::collective, 0).op = static_cast<uint8_t>(CollectiveKind::Broadcast);
  expectOnly(spec, {"collective-mismatch"});
}

TEST(Collectives, RootDiffers) {
  ProgramSpec spec = collective(CollectiveKind::Broadcast, 1);
  command(spec, 2, Kind::collective, 0).peer = 0;
  expectOnly(spec, {"collective-mismatch"});
}

TEST(Collectives, ReductionDiffers) {
  ProgramSpec spec = collective(CollectiveKind::AllReduce);
  command(spec, 0, Kind::collective, 0).reduceOp = sp::ReduceOp::max;
  expectOnly(spec, {"collective-mismatch"});
}

TEST(Collectives, ReductionOfAGatherDoesNotCount) {
  ProgramSpec spec = collective(CollectiveKind::AllGather);
  command(spec, 0, Kind::collective, 0).reduceOp = sp::ReduceOp::max;
  expectClean(spec);
}

TEST(Collectives, SizeDiffers) {
  for (CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::Broadcast, CollectiveKind::Reduce}) {
    ProgramSpec spec = collective(kind);
    RankSpec &rank = spec.ranks[2];
    CommandSpec &c = command(spec, 2, Kind::collective, 0);
    uint32_t out = rank.views[c.operands[0]].buffer(), in = rank.views[c.operands[1]].buffer();
    uint32_t newOut = rank.view(out, DType::F32, {5}), newIn = rank.view(in, DType::F32, {5});
    c.operands[0] = newOut;
    c.operands[1] = newIn;
    expectOnly(spec, {"collective-mismatch"});
  }
}

TEST(Collectives, TypeDiffers) {
  ProgramSpec spec = collective(CollectiveKind::AllReduce);
  RankSpec &rank = spec.ranks[1];
  CommandSpec &c = command(spec, 1, Kind::collective, 0);
  uint32_t out = rank.views[c.operands[0]].buffer(), in = rank.views[c.operands[1]].buffer();
  uint32_t newOut = rank.view(out, DType::I32, {4}), newIn = rank.view(in, DType::I32, {4});
  c.operands[0] = newOut;
  c.operands[1] = newIn;
  expectOnly(spec, {"collective-mismatch"});
}

TEST(Collectives, OneRankLacksIt) {
  ProgramSpec spec = gathered(3);
  drop(spec, 1, Kind::collective, 1);
  expectOnly(spec, {"collective-mismatch"});
}

TEST(Collectives, OneRankHasMore) {
  ProgramSpec spec = gathered(3);
  auto &commands = spec.ranks[2].commands;
  size_t at = nth(spec, 2, Kind::collective, 1);
  commands.insert(commands.begin() + static_cast<ptrdiff_t>(at), commands[at]);
  expectOnly(spec, {"collective-mismatch"});
}

TEST(Collectives, OrderDiffers) {
  // all_gather and all_reduce of one communicator, the other way round on rank 0.
  ProgramSpec spec = gathered(2);
  auto &commands = spec.ranks[0].commands;
  size_t gather = nth(spec, 0, Kind::collective, 0), reduce = nth(spec, 0, Kind::collective, 1);
  std::swap(commands[gather], commands[reduce]);
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("collective-mismatch"));
}

TEST(Collectives, MessageSaysBoth) {
  ProgramSpec spec = collective(CollectiveKind::Broadcast, 1);
  command(spec, 2, Kind::collective, 0).peer = 0;
  Report report = run(spec);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(
      report.findings[0].message,
      "channel c0 \"ch\": collective 0 differs in root: rank 0 has broadcast f32[4] -> f32[4] "
      "root rank 1, rank 2 has broadcast f32[4] -> f32[4] root rank 0");
}

TEST(Collectives, ALibraryAddsFloatsInADeterministicProgram) {
  ProgramSpec spec = gathered(2);
  expectClean(spec);
  spec.deterministic = sp::Determinism::bitwise;
  expectOnly(spec, {"order-not-fixed"});
}
