//===- MatchingTest.cpp - ends that do not match ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

TEST(Matching, SendDropped) {
  ProgramSpec spec = exchange(3);
  drop(spec, 1, Kind::send, 0);
  expectOnly(spec, {"unmatched-recv"});
}

TEST(Matching, RecvDropped) {
  ProgramSpec spec = exchange(3);
  drop(spec, 2, Kind::recv, 1);
  expectOnly(spec, {"unmatched-send", "result-incomplete"});
}

TEST(Matching, TagDiffers) {
  ProgramSpec spec = exchange(2);
  command(spec, 0, Kind::recv, 0).aux = 7;
  expectOnly(spec, {"unmatched-send", "unmatched-recv"});
}

TEST(Matching, PeerDiffers) {
  ProgramSpec spec = exchange(4);
  command(spec, 0, Kind::send, 0).peer = 2;
  command(spec, 0, Kind::send, 0).aux = 1;
  expectOnly(spec, {"unmatched-send", "unmatched-recv"});
}

TEST(Matching, ChannelDiffers) {
  ProgramSpec spec = exchange(2);
  for (RankSpec &rank : spec.ranks)
    rank.channel({0, 1}, 7, "other");
  for (Kind kind : {Kind::group, Kind::send, Kind::recv})
    command(spec, 1, kind, 0).channel = 1;
  expectOnly(spec, {"unmatched-send", "unmatched-recv"});
}

TEST(Matching, SizeDiffers) {
  ProgramSpec spec = exchange(2);
  RankSpec &rank = spec.ranks[1];
  uint32_t x = command(spec, 1, Kind::send, 0).operands[0];
  command(spec, 1, Kind::send, 0).operands[0] = rank.view(rank.views[x].buffer(), DType::F32, {3});
  expectOnly(spec, {"message-size"});
}

TEST(Matching, TypeDiffers) {
  ProgramSpec spec = exchange(2);
  RankSpec &rank = spec.ranks[0];
  uint32_t x = command(spec, 0, Kind::send, 0).operands[0];
  command(spec, 0, Kind::send, 0).operands[0] = rank.view(rank.views[x].buffer(), DType::I32, {4});
  expectOnly(spec, {"message-type"});
}

TEST(Matching, SameBytesOfAnotherType) {
  ProgramSpec spec = exchange(2);
  RankSpec &rank = spec.ranks[0];
  uint32_t x = command(spec, 0, Kind::send, 0).operands[0];
  command(spec, 0, Kind::send, 0).operands[0] = rank.view(rank.views[x].buffer(), DType::F16, {8});
  expectOnly(spec, {"message-type"});
}

TEST(Matching, ShapesMayDiffer) {
  ProgramSpec spec = exchange(2);
  RankSpec &rank = spec.ranks[0];
  uint32_t x = command(spec, 0, Kind::send, 0).operands[0];
  command(spec, 0, Kind::send, 0).operands[0] =
      rank.view(rank.views[x].buffer(), DType::F32, {2, 2});
  expectClean(spec);
}

TEST(Matching, GroupsDiffer) {
  ProgramSpec spec = exchange(3);
  spec.ranks[2].channels[0].group = {0, 2};
  spec.ranks[2].channels[0].self = 1;
  // Rank 2 talks to nobody.
  auto &commands = spec.ranks[2].commands;
  for (size_t i = commands.size(); i-- > 0;)
    if (commands[i].kind == Kind::group || commands[i].kind == Kind::send ||
        commands[i].kind == Kind::recv)
      commands.erase(commands.begin() + static_cast<ptrdiff_t>(i));
  expectOnly(spec, {"group-mismatch", "unmatched-send", "unmatched-recv", "result-incomplete"});
}

TEST(Matching, GroupOrderDiffers) {
  ProgramSpec spec = gathered(2);
  spec.ranks[1].channels[0].group = {1, 0};
  spec.ranks[1].channels[0].self = 0;
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("group-mismatch"));
}

TEST(Matching, SaysWhoAndWhere) {
  ProgramSpec spec = exchange(3);
  drop(spec, 1, Kind::send, 0);
  std::string text;
  Report report = run(spec, {}, &text);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].message,
            "rank 0 receives from rank 1 with tag 0 on channel c0 \"ch\", without a matching send");
  ASSERT_EQ(report.findings[0].commands.size(), 1u);
  EXPECT_NE(text.find("rank 0 stream 2 command 7 (recv"), std::string::npos) << text;
}
