//===- SharingTest.cpp - activities that share resources ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sharing.h"

#include <gtest/gtest.h>
#include <random>

namespace tandem::simulate {
namespace {

constexpr double kAny = 1e30;

TEST(Sharing, OneActivityHasTheWholeResource) {
  Sharing sharing;
  Sharing::Use use{sharing.addResource(10), 1};
  sharing.start(50, kAny, &use, 1, 7, 1.0);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 6.0);
  EXPECT_EQ(sharing.finishNext(), 7u);
  EXPECT_DOUBLE_EQ(sharing.consumed(use.resource), 50);
}

TEST(Sharing, TwoHaveHalfEachUntilOneIsOver) {
  Sharing sharing;
  Sharing::Use use{sharing.addResource(10), 1};
  sharing.start(10, kAny, &use, 1, 1, 0);
  sharing.start(30, kAny, &use, 1, 2, 0);
  // 5 a second each: the first ends at 2; the other has 20 left, at 10 a second.
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 2);
  EXPECT_EQ(sharing.finishNext(), 1u);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 4);
  EXPECT_EQ(sharing.finishNext(), 2u);
}

TEST(Sharing, ALaterOneSlowsTheFirst) {
  Sharing sharing;
  Sharing::Use use{sharing.addResource(10), 1};
  sharing.start(20, kAny, &use, 1, 1, 0);
  sharing.start(20, kAny, &use, 1, 2, 1);
  // 10 done by 1, the other 10 at 5 a second.
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 3);
  sharing.finishNext();
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 4);
}

// Two of four cores busy: a third of the way from alone to contention 2.5.
TEST(Sharing, ContentionGrowsWithThoseBeside) {
  Sharing sharing;
  Sharing::Use cores{sharing.addResource(4), 1, 2.5};
  for (uint32_t tag = 0; tag < 2; ++tag)
    sharing.start(2, 1, &cores, 1, tag, 0);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 3);
  sharing.finishNext();
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 3);
  sharing.finishNext();
  // Eight on four: half a core each, all cores busy. What is not slowed is done earlier.
  for (uint32_t tag = 0; tag < 7; ++tag)
    sharing.start(2, 1, &cores, 1, tag, 10);
  Sharing::Use other{cores.resource, 1};
  sharing.start(2, 1, &other, 1, 7, 10);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 14);
  EXPECT_EQ(sharing.finishNext(), 7u);
}

TEST(Sharing, TheNarrowestResourceDecides) {
  Sharing sharing;
  Sharing::Use uses[] = {{sharing.addResource(10), 1}, {sharing.addResource(4), 1}};
  sharing.start(8, kAny, uses, 2, 1, 0);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 2);
}

TEST(Sharing, DemandAndItsOwnLimit) {
  Sharing sharing;
  Sharing::Use use{sharing.addResource(10), 5};
  sharing.start(8, kAny, &use, 1, 1, 0); // 2 a second
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 4);
  sharing.finishNext();
  sharing.start(8, 1, &use, 1, 2, 4);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 12);
}

TEST(Sharing, SharingMayCost) {
  Sharing sharing;
  Sharing::Use use{sharing.addResource(10, 0.5), 1};
  sharing.start(10, kAny, &use, 1, 1, 0);
  sharing.start(10, kAny, &use, 1, 2, 0);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 4);
}

TEST(Sharing, CapacityChangesOnTheWay) {
  Sharing sharing;
  Sharing::Use use{sharing.addResource(10), 1};
  sharing.start(20, kAny, &use, 1, 1, 0);
  sharing.setCapacity(use.resource, 5, 1);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 3);
}

TEST(Sharing, EqualEndsComeInTheOrderOfTheirStart) {
  Sharing sharing;
  std::vector<Sharing::Use> uses;
  for (uint32_t i = 0; i < 20; ++i)
    uses.push_back({sharing.addResource(1), 1});
  for (uint32_t i = 0; i < 20; ++i)
    sharing.start(3, kAny, &uses[i], 1, i, 0);
  for (uint32_t i = 0; i < 20; ++i)
    EXPECT_EQ(sharing.finishNext(), i);
}

// No resource is given away twice, whatever comes and goes, and all that was started ends.
class RandomLoad : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Sharing, RandomLoad, testing::Range(0U, 5U));

TEST_P(RandomLoad, NeverExceedsACapacity) {
  std::mt19937 random(GetParam());
  Sharing sharing;
  std::vector<Sharing::Resource> resources;
  for (int i = 0; i < 6; ++i)
    resources.push_back(sharing.addResource(1 + static_cast<double>(i)));
  double now = 0, total = 0;
  size_t started = 0, ended = 0;
  while (ended < 400) {
    bool start = started < 400 && (random() % 2 || started == ended);
    if (start) {
      Sharing::Resource a = resources[random() % 6], b = resources[random() % 6];
      Sharing::Use uses[] = {{a, 1}, {b, 1}};
      sharing.start(1 + static_cast<double>(random() % 5), kAny, uses, a == b ? 1 : 2, 0, now);
      ++started;
    } else {
      double next = sharing.nextEnd();
      ASSERT_GE(next, now - 1e-9);
      now = std::max(now, next);
      sharing.finishNext();
      ++ended;
    }
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_LE(sharing.consumed(resources[static_cast<size_t>(i)]), now * (1 + i) * (1 + 1e-9));
    total += sharing.consumed(resources[static_cast<size_t>(i)]);
  }
  EXPECT_GT(total, 0);
  EXPECT_EQ(sharing.nextEnd(), std::numeric_limits<double>::infinity());
}

} // namespace
} // namespace tandem::simulate
