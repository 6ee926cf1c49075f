//===- RunnerTest.cpp - turns and sets of inputs ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "Pool.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <vector>

using namespace tandem;
using namespace tandem::bench;

namespace {

void checkTurns(size_t count, uint32_t sets) {
  SCOPED_TRACE(testing::Message() << count << " candidates, " << sets << " sets");
  // By candidate, what it has read in each round.
  std::vector<std::vector<uint32_t>> read(count);
  std::set<size_t> began;
  for (uint32_t round = 0; round < 60; ++round) {
    for (size_t turn = 0; turn < count; ++turn) {
      Slot slot = slotOf(round, turn, count, sets);
      ASSERT_LT(slot.candidate, count);
      ASSERT_LT(slot.set, sets);
      ASSERT_EQ(read[slot.candidate].size(), round) << "one turn each";
      if (turn > 0 && sets > 1) {
        EXPECT_NE(slot.set, slotOf(round, turn - 1, count, sets).set) << "turn " << turn;
      }
      read[slot.candidate].push_back(slot.set);
    }
    size_t first = slotOf(round, 0, count, sets).candidate;
    began.insert(first);
    if (count > 1) {
      EXPECT_NE(first, slotOf(round + 1, 0, count, sets).candidate);
    }
  }
  EXPECT_GE(began.size(), (count + 1) / 2);
  for (const std::vector<uint32_t> &mine : read) {
    if (sets > 1) {
      EXPECT_EQ(std::adjacent_find(mine.begin(), mine.end()), mine.end()) << "alternates";
    }
    for (uint32_t set = 0; set < sets; ++set)
      EXPECT_EQ(std::count(mine.begin(), mine.end(), set), 60 / sets) << "all alike";
  }
}

} // namespace

TEST(Turns, AlternateSets) {
  for (size_t count = 1; count <= 10; ++count)
    for (uint32_t sets = 1; sets <= 4; ++sets)
      checkTurns(count, sets);
}

TEST(Sets, HaveSeedsOfTheirOwn) {
  std::set<uint64_t> seeds;
  for (uint64_t seed : {0, 1, 7})
    for (uint32_t set = 0; set < 64; ++set)
      EXPECT_TRUE(seeds.insert(seedOf(seed, set)).second);
  EXPECT_EQ(seedOf(7, 0), 7u);
}
