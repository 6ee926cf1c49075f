//===- ReportTest.cpp - what is said, and how ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include <nlohmann/json.hpp>

using namespace tandem;
using namespace tandem::check;

TEST(Report, Json) {
  ProgramSpec spec = exchange(3);
  drop(spec, 1, Kind::send, 0);
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok());
  auto world = replay::World::load(**file);
  ASSERT_TRUE(world.ok());
  auto json = nlohmann::json::parse(toJson(**world, check::check(**world)));
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["ranks"], 3);
  ASSERT_EQ(json["findings"].size(), 1u);
  const auto &finding = json["findings"][0];
  EXPECT_EQ(finding["diagnosis"], "unmatched-recv");
  EXPECT_EQ(finding["severity"], "error");
  EXPECT_EQ(finding["commands"][0]["rank"], 0);
  EXPECT_EQ(finding["commands"][0]["stream"], 2);
  EXPECT_EQ(finding["commands"][0]["kind"], "recv");
  EXPECT_EQ(json["counts"]["unmatched-recv"], 1);
}

TEST(Report, KeepsAFewAndCountsAll) {
  Basic spec(1, 32);
  RankSpec &rank = spec.ranks[0];
  for (uint32_t i = 0; i < 32; ++i)
    rank.copy(0, spec.row[0][i], rank.view(rank.arena(kBytes), DType::F32, {4}));
  CheckOptions options;
  options.maxFindings = 3;
  std::string text;
  Report report = run(spec, options, &text);
  EXPECT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(report.counts[static_cast<unsigned>(Diagnosis::UninitializedRead)], 32u);
  EXPECT_NE(text.find("... and 29 more of kind uninitialized-read"), std::string::npos) << text;
}

TEST(Report, RanksAreNeeded) {
  ProgramSpec spec = exchange(2);
  std::string bytes = spec.encode();
  auto file = ProgramFile::fromMemory(bytes);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(replay::World::load(**file).ok());
}

TEST(Report, ChannelTablesMustAgree) {
  ProgramSpec spec = exchange(2);
  spec.ranks[1].channels[0].name = "another";
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok());
  auto world = replay::World::load(**file);
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().message(), "rank 1: channels or signals differ from those of rank 0");
}

TEST(Report, SameOnAnyNumberOfThreads) {
  ProgramSpec spec = exchange(40);
  for (uint32_t r = 0; r < 40; ++r)
    drop(spec, r, Kind::copy, 0);
  CheckOptions one, four;
  one.threads = 1;
  four.threads = 4;
  std::string a, b;
  run(spec, one, &a);
  run(spec, four, &b);
  EXPECT_EQ(a, b);
}
