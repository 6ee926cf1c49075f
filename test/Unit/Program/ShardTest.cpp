//===- ShardTest.cpp - where a rank's piece lies ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Shard.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace tandem;

using Ints = std::vector<int64_t>;

static Shard makeShard(int64_t offset, Ints shape, Ints strides, Ints local) {
  Shard shard;
  shard.offset = offset;
  shard.shape = std::move(shape);
  shard.strides = std::move(strides);
  shard.local = std::move(local);
  return shard;
}

/// The logical elements, in order; also what the other functions say of them.
static Ints visit(const Shard &shard) {
  Ints elements;
  shard.forEach([&](int64_t local, int64_t logical) {
    EXPECT_EQ(local, static_cast<int64_t>(elements.size()));
    EXPECT_EQ(shard.logicalOf(local), logical);
    elements.push_back(logical);
  });
  EXPECT_EQ(shard.numElements(), static_cast<int64_t>(elements.size()));
  if (!elements.empty()) {
    EXPECT_EQ(shard.last() + shard.offset, *std::max_element(elements.begin(), elements.end()));
  }
  // Every element of the loops is held once, or not at all.
  Shard all = makeShard(shard.offset, shard.shape, shard.strides, {});
  Ints found(elements.size());
  all.forEach([&](int64_t element, int64_t logical) {
    if (std::optional<int64_t> local = shard.localOf(element))
      found.at(*local) = logical;
  });
  EXPECT_EQ(found, elements);
  return elements;
}

TEST(Shard, AllElementsOfItsLoops) {
  EXPECT_EQ(visit(makeShard(3, {2, 2}, {6, 1}, {})), (Ints{3, 4, 9, 10}));
  Shard absent;
  absent.present = false;
  EXPECT_EQ(absent.numElements(), 0);
}

TEST(Shard, LastBlockIsShorter) {
  // Rows 0, 1, 2, 6 and 7 of 8x2.
  EXPECT_EQ(visit(makeShard(0, {2, 3, 2}, {12, 2, 1}, {5, 2})),
            (Ints{0, 1, 2, 3, 4, 5, 12, 13, 14, 15}));
  // Columns 2, 3 and 6 of 2x7.
  EXPECT_EQ(visit(makeShard(2, {2, 2, 2}, {7, 4, 1}, {2, 3})), (Ints{2, 3, 6, 9, 10, 13}));
  // Both: rows 0 and 2, columns 0, 1 and 4 of 3x5.
  EXPECT_EQ(visit(makeShard(0, {2, 2, 2}, {10, 4, 1}, {2, 3})), (Ints{0, 1, 4, 10, 11, 14}));
  // Three loops of one dimension, and extents of 1 between them.
  EXPECT_EQ(visit(makeShard(1, {2, 1, 2, 2}, {16, 9, 8, 1}, {1, 5})), (Ints{1, 2, 9, 10, 17}));
}

TEST(Shard, LargestElementMayComeBeforeTheLast) {
  EXPECT_EQ(visit(makeShard(0, {2, 3}, {1, 5}, {4})), (Ints{0, 5, 10, 1}));
}

TEST(Shard, LoopsThatFitNoDimension) {
  std::vector<std::pair<size_t, size_t>> dims;
  EXPECT_TRUE(makeShard(0, {2, 3}, {6, 1}, {5}).loops(dims));
  EXPECT_FALSE(makeShard(0, {2, 3}, {6, 1}, {7}).loops(dims));
  EXPECT_FALSE(makeShard(0, {2, 2, 3}, {12, 6, 1}, {5}).loops(dims));
  EXPECT_FALSE(makeShard(0, {6}, {1}, {2, 2}).loops(dims));
}
