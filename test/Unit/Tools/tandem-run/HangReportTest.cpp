//===- HangReportTest.cpp - notes of ranks, and who holds up whom -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HangReport.h"

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Channel.h"

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;
using namespace tandem::test;

TEST(HangBoard, ANoteThatIsTooLongKeepsItsError) {
  auto board = HangBoard::create(1);
  ASSERT_TRUE(board) << board.status().message();
  RankNote note;
  note.program = 3;
  note.error = std::string(5000, '\1');
  for (uint32_t i = 0; i < 100; ++i)
    note.commands.push_back({"f", 1, 0, i, true, std::string(300, '\1'), 7});
  (*board)->write(0, note);
  RankNote found;
  std::chrono::milliseconds age{};
  ASSERT_TRUE((*board)->read(0, found, age));
  EXPECT_EQ(found.program, 3u);
  EXPECT_EQ(found.error, std::string(4096, '\1'));
  ASSERT_FALSE(found.commands.empty());
  EXPECT_LT(found.commands.size(), 48u);
  EXPECT_EQ(found.commands[0].description, std::string(200, '\1'));
  EXPECT_EQ(found.commands[0].noted, 7u);
}

TEST(HangBoard, ANoteThatItsRankHasOverwritten) {
  auto board = HangBoard::create(1);
  ASSERT_TRUE(board) << board.status().message();
  (*board)->write(0, {3, {{"f", 1, 0, 5, true, "text", 7}}, "why"});
  struct stat info{};
  ASSERT_EQ(::fstat((*board)->fd(), &info), 0);
  std::string whole(static_cast<size_t>(info.st_size), '\0');
  ASSERT_EQ(::pread((*board)->fd(), whole.data(), whole.size(), 0), info.st_size);
  RankNote found;
  std::chrono::milliseconds age{};
  ASSERT_TRUE((*board)->read(0, found, age));
  const char *changes[][2] = {{"\"program\":3", "\"program\":{"},
                              {"\"program\"", "\"programs\""},
                              {"\"why\"", "[[1]]"},
                              {",\"text\",7]", ",7]      "},
                              {"\"text\",7", "\"text\",{"},
                              {"\"text\",7", "7,\"text\""}};
  for (const auto &[from, to] : changes) {
    std::string other = whole;
    size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    other.replace(at, std::strlen(to), to);
    ASSERT_EQ(::pwrite((*board)->fd(), other.data(), other.size(), 0), info.st_size);
    EXPECT_FALSE((*board)->read(0, found, age)) << to;
  }
}

/// Rank 0 receives from rank 1, which copies before it sends. Both have been in their first command
/// for so long.
static nlohmann::json reportOfWait(uint64_t noted, bool frozen) {
  ProgramSpec spec(2);
  spec.name = "f";
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.view(rank.arena(64), DType::F32, {16});
    uint32_t y = rank.view(rank.arena(64), DType::F32, {16});
    uint16_t channel = rank.channel({0, 1}, TwoSided);
    if (r == 1)
      rank.copy(0, y, x);
    rank.group(0, channel, 1);
    if (r == 1)
      rank.send(0, channel, y, 0, 0);
    else
      rank.recv(0, channel, y, 1, 0);
  }
  auto board = HangBoard::create(2);
  EXPECT_TRUE(board);
  for (uint32_t r = 0; r < 2; ++r)
    (*board)->write(r, {0, {{"f", 0, 0, 0, true, "first", noted}}, ""});
  if (frozen)
    (*board)->freeze();
  std::string path = testing::TempDir() + "tandem-hang-report.json";
  Status status =
      writeHangReport(path, **board, {}, [&](size_t) { return ProgramBytes{spec.encode(), ""}; });
  EXPECT_TRUE(status.ok()) << status.message();
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST(HangReport, OnlyASettledWaitHasACause) {
  EXPECT_EQ(reportOfWait(99, false)["held_up_by"], nlohmann::json::array());
  EXPECT_EQ(reportOfWait(100, false)["held_up_by"], nlohmann::json({1}));
  // After a failure nothing moves.
  auto report = reportOfWait(0, true);
  EXPECT_EQ(report["held_up_by"], nlohmann::json({1})) << report;
  EXPECT_EQ(report["ranks"][0]["in_flight"][0]["noted_for_ms"], 0);
}
