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
    first.connect(all);
    second.connect(all);
  }
  RunBoard first{0, 2}, second{1, 2};
};

TEST(RunBoard, TheSameRuns) {
  Boards boards;
  ASSERT_TRUE(boards.first.isComplete());
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
  std::string text(5000, 'x');
  EXPECT_TRUE(boards.first.begin(1, text + "a").ok());
  EXPECT_FALSE(boards.second.begin(1, text + "b").ok());
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

TEST(RunBoard, OneRankHasNoPage) {
  RunBoard alone(0, 1);
  alone.connect({alone.address()});
  EXPECT_TRUE(alone.isComplete());
  EXPECT_TRUE(alone.begin(1, "a").ok());
  EXPECT_TRUE(alone.compare().ok());
}

} // namespace
