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
  // By candidate, what it has read in each round, and which ones it has followed.
  std::vector<std::vector<uint32_t>> read(count);
  std::vector<std::set<size_t>> followed(count);
  uint32_t last = sets;
  for (uint32_t round = 0; round < 60; ++round) {
    std::vector<Slot> slots = slotsOf(round, count, sets);
    ASSERT_EQ(slots.size(), count);
    for (size_t turn = 0; turn < count; ++turn) {
      Slot slot = slots[turn];
      ASSERT_LT(slot.candidate, count);
      ASSERT_LT(slot.set, sets);
      ASSERT_EQ(read[slot.candidate].size(), round) << "one turn each";
      if (turn > 0) {
        followed[slot.candidate].insert(slots[turn - 1].candidate);
        if (sets > 1) {
          EXPECT_NE(slot.set, slots[turn - 1].set) << "turn " << turn;
        }
      }
      read[slot.candidate].push_back(slot.set);
    }
    if (sets == 2) {
      EXPECT_NE(slots.front().set, last) << "round " << round;
    }
    last = slots.back().set;
  }
  // All that read the set before.
  for (size_t c = 0; c < count; ++c)
    if (size_t part = c % sets; part > 0) {
      EXPECT_EQ(followed[c].size(), (count - part) / sets + 1) << "candidate " << c;
    }
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
