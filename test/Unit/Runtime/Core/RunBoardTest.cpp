//===- RunBoardTest.cpp - ranks of a host compare their runs ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../../../runtime/lib/Core/RunBoard.h"

#include <atomic>
#include <gtest/gtest.h>
#include <string>
#include <thread>

using namespace tandem;
using core::RunBoard;

namespace {

struct Boards {
  Boards() {
    std::vector<RunBoard::Address> all{first.address(), second.address()};
    EXPECT_TRUE(first.connect(all));
    EXPECT_TRUE(second.connect(all));
  }
  RunBoard first{0, 2}, second{1, 2};
};

TEST(RunBoard, TheSameRuns) {
  Boards boards;
  for (uint64_t run = 1; run <= 3 * RunBoard::kEntries; ++run) {
    EXPECT_TRUE(boards.first.begin(run, std::to_string(run)).ok());
    EXPECT_TRUE(boards.second.begin(run, std::to_string(run)).ok());
  }
  EXPECT_TRUE(boards.first.compare().ok());
}

TEST(RunBoard, TheLaterRankFindsOutFirst) {
  Boards boards;
  EXPECT_TRUE(boards.first.begin(1, "a").ok());
  EXPECT_TRUE(boards.first.begin(2, "b").ok());
  EXPECT_TRUE(boards.second.begin(1, "a").ok());
  EXPECT_TRUE(boards.first.compare().ok());
  EXPECT_EQ(boards.second.begin(2, "c").message(),
            "the ranks disagree on call 2: rank 1 is about to c; rank 0 is about to b");
  EXPECT_EQ(boards.first.compare().message(),
            "the ranks disagree on call 2: rank 0 is about to b; rank 1 is about to c");
}

TEST(RunBoard, LongTextsThatDifferAtTheirEnd) {
  Boards boards;
  std::string text = "x";
  for (int i = 0; i < 500; ++i)
    text += "\u00e9"; // of two bytes
  EXPECT_TRUE(boards.first.begin(1, text + "a").ok());
  std::string message = boards.second.begin(1, text + "b").message();
  // A whole number of characters.
  EXPECT_NE(message.find("rank 0 is about to x\u00e9"), std::string::npos) << message;
  EXPECT_EQ(message.size() % 2,
            std::string("the ranks disagree on call 1: rank 1 is about to x; rank 0 "
                        "is about to x")
                    .size() %
                2);
}

TEST(RunBoard, ARankThatIsFarAheadIsNotCompared) {
  Boards boards;
  for (uint64_t run = 1; run <= RunBoard::kEntries + 1; ++run)
    EXPECT_TRUE(boards.first.begin(run, "a").ok());
  EXPECT_TRUE(boards.second.begin(1, "b").ok()); // overwritten
  EXPECT_FALSE(boards.second.begin(2, "b").ok());
}

// Of two ranks that begin at once, at least one knows it before it goes on.
TEST(RunBoard, OneOfTwoThatBeginAtOnceFindsOut) {
  for (int i = 0; i < 200; ++i) {
    Boards boards;
    std::atomic<int> ready{0};
    bool same[2] = {};
    auto rank = [&](RunBoard &board, const char *what, bool &is) {
      for (++ready; ready < 2;)
        std::this_thread::yield();
      is = board.begin(1, what).ok();
    };
    std::thread other([&] { rank(boards.first, "a", same[0]); });
    rank(boards.second, "b", same[1]);
    other.join();
    EXPECT_FALSE(same[0] && same[1]);
  }
}

TEST(RunBoard, WhatFollowsALineBreakIsOnlyShown) {
  Boards boards;
  EXPECT_TRUE(boards.first.begin(1, "prepare:\na").ok());
  EXPECT_TRUE(boards.second.begin(1, "prepare:\nb").ok());
  EXPECT_TRUE(boards.first.begin(2, "prepare:\na").ok());
  EXPECT_EQ(
      boards.second.begin(2, "run b").message(),
      "the ranks disagree on call 2: rank 1 is about to run b; rank 0 is about to prepare: a");
}

TEST(RunBoard, OneRankHasNoPage) {
  RunBoard alone(0, 1);
  EXPECT_TRUE(alone.connect({alone.address()}));
  EXPECT_TRUE(alone.begin(1, "a").ok());
  EXPECT_TRUE(alone.compare().ok());
}

} // namespace
