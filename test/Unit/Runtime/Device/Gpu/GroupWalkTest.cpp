//===- GroupWalkTest.cpp - tiles of grouped matmuls -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The code by which kernels find their tiles, with an array in place of a warp.
//
//===----------------------------------------------------------------------===//

#include "Gated/GroupWalk.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <tuple>
#include <vector>

using namespace tandem::gpu::gated;

namespace {

/// A value per lane of a warp.
template <int kWidth> struct Lanes {
  std::array<int, kWidth> at{};
  Lanes() = default;
  Lanes(int value) { at.fill(value); }
  template <class Function> static Lanes map(const Lanes &a, const Lanes &b, Function function) {
    Lanes out;
    for (int i = 0; i < kWidth; ++i)
      out.at[i] = function(a.at[i], b.at[i]);
    return out;
  }
  friend Lanes operator+(Lanes a, Lanes b) { return map(a, b, std::plus<int>()); }
  friend Lanes operator-(Lanes a, Lanes b) { return map(a, b, std::minus<int>()); }
  friend Lanes operator*(Lanes a, Lanes b) { return map(a, b, std::multiplies<int>()); }
  friend Lanes operator/(Lanes a, Lanes b) { return map(a, b, std::divides<int>()); }
};

template <int kWidth> struct Warp {
  using Int = Lanes<kWidth>;
  static constexpr int kLanes = kWidth;
  static Int lane() {
    Int out;
    for (int i = 0; i < kLanes; ++i)
      out.at[i] = i;
    return out;
  }
  static Int load(const int32_t *from, Int at, int end) {
    for (int &value : at.at)
      value = value < end ? from[value] : INT32_MIN;
    return at;
  }
  static Int min(Int a, Int b) {
    return Int::map(a, b, [](int x, int y) { return std::min(x, y); });
  }
  static Int max(Int a, Int b) {
    return Int::map(a, b, [](int x, int y) { return std::max(x, y); });
  }
  static Int scanMax(Int value) {
    for (int i = 1; i < kLanes; ++i)
      value.at[i] = std::max(value.at[i], value.at[i - 1]);
    return value;
  }
  static Int scanSum(Int value) {
    for (int i = 1; i < kLanes; ++i)
      value.at[i] += value.at[i - 1];
    return value;
  }
  static Int fromBelow(Int value, int first) {
    std::copy_backward(value.at.begin(), value.at.end() - 1, value.at.end());
    value.at[0] = first;
    return value;
  }
  static int get(const Int &value, int lane) { return value.at.at(size_t(lane)); }
  static int countAtMost(const Int &value, int x) {
    return int(std::count_if(value.at.begin(), value.at.end(), [&](int v) { return v <= x; }));
  }
};

using Tile = std::tuple<int, int, int, int, int>; // batch, group, first, end, column

/// The tiles of a grid of `blocks`, of which each steps over the others' tiles, in ascending order.
template <class Walk> std::vector<Tile> tilesOf(const WalkShape &shape, int blocks, int limit) {
  std::vector<std::vector<Tile>> found(static_cast<size_t>(blocks));
  for (int block = 0; block < blocks; ++block) {
    Walk walk(shape);
    GroupTile tile;
    int next = block;
    for (; next <= limit && walk.find(next, tile); next += blocks)
      found[size_t(block)].push_back({tile.batch, tile.group, tile.first, tile.end, tile.column});
    EXPECT_LE(next, limit + blocks) << "more tiles than there can be";
    for (int more = 0; more < 3; ++more)
      EXPECT_FALSE(walk.find(next + more * blocks, tile));
  }
  std::vector<Tile> all;
  for (size_t i = 0;; ++i) {
    const auto &of = found[i % size_t(blocks)];
    if (i / size_t(blocks) >= of.size())
      break;
    all.push_back(of[i / size_t(blocks)]);
  }
  size_t total = 0;
  for (const auto &of : found)
    total += of.size();
  EXPECT_EQ(all.size(), total) << "a block goes on after another one has ended";
  return all;
}

/// What GroupWalk says of the order, written down group by group.
std::vector<Tile> expectedTiles(const WalkShape &shape, int tileRows) {
  std::vector<Tile> all;
  for (int batch = 0; batch < shape.batches; ++batch) {
    int begin = 0;
    for (int group = 0; group < shape.groups; ++group) {
      int end = std::clamp(int(shape.ends[batch * shape.batchEnds + group]), begin,
                           std::max(begin, shape.rows));
      int tiles = (end - begin + tileRows - 1) / tileRows;
      for (int first = 0; first < tiles; first += shape.groupRows)
        for (int column = 0; column < shape.columns; ++column)
          for (int row = first; row < std::min(tiles, first + shape.groupRows); ++row)
            all.push_back({batch, group, begin + row * tileRows, end, column});
      begin = end;
    }
  }
  return all;
}

template <int kWidth, int kTileRows> void check(WalkShape shape, int blocks) {
  auto expected = expectedTiles(shape, kTileRows);
  int64_t most = int64_t(shape.batches) * shape.columns *
                 (shape.rows / kTileRows + std::min(shape.rows, shape.groups));
  EXPECT_LE(int64_t(expected.size()), most);
  auto found = tilesOf<GroupWalk<Warp<kWidth>, kTileRows>>(shape, blocks, int(most));
  ASSERT_EQ(found, expected) << shape.groups << " groups, " << shape.rows << " rows, "
                             << shape.columns << " columns, row group " << shape.groupRows << ", "
                             << blocks << " blocks";
}

/// Each row of each group is in one tile per column, and no other row is.
void checkCover(const WalkShape &shape, int tileRows) {
  std::set<std::tuple<int, int, int>> covered;
  for (auto [batch, group, first, end, column] : expectedTiles(shape, tileRows))
    for (int row = first; row < std::min(first + tileRows, end); ++row) {
      int of = 0; // the first group with row < end
      while (of < shape.groups && shape.ends[batch * shape.batchEnds + of] <= row)
        ++of;
      EXPECT_EQ(of, group);
      EXPECT_TRUE(row >= 0 && row < shape.rows);
      EXPECT_TRUE(covered.insert({batch, row, column}).second);
    }
  size_t count = 0;
  for (int batch = 0; batch < shape.batches; ++batch) {
    int last = 0;
    for (int group = 0; group < shape.groups; ++group)
      last = std::max(last, int(shape.ends[batch * shape.batchEnds + group]));
    count += size_t(std::min(last, shape.rows)) * size_t(shape.columns);
  }
  EXPECT_EQ(covered.size(), count);
}

TEST(GroupWalk, AllEndsOfSmallShapes) {
  // Warps of 2 lanes, so that groups take several steps. Ends from before the first to after the
  // last row, in any order.
  for (int groups = 1; groups <= 4; ++groups)
    for (int rows : {1, 4, 5}) {
      int values = rows + 4, cases = 1;
      for (int g = 0; g < groups; ++g)
        cases *= values;
      for (int number = 0; number < cases; ++number) {
        std::vector<int32_t> ends;
        for (int g = 0, rest = number; g < groups; ++g, rest /= values)
          ends.push_back(rest % values == rows + 3 ? INT32_MIN : rest % values - 1);
        WalkShape shape{ends.data(), groups, 1, groups, rows, 1 + number % 3, 1 + number % 2};
        check<2, 2>(shape, 1 + number % 4);
        if (number % 7 == 0)
          checkCover(shape, 2);
      }
    }
}

TEST(GroupWalk, RandomEnds) {
  std::mt19937 random(7);
  auto below = [&](int end) { return int(random() % unsigned(end)); };
  for (int turn = 0; turn < 150; ++turn) {
    int groups = 1 + below(turn % 4 ? 70 : 520), batches = 1 + below(3), rows = 1 + below(3000);
    std::vector<int32_t> ends;
    for (int batch = 0; batch < batches; ++batch) {
      std::vector<int32_t> of;
      int kind = below(4);
      for (int g = 0; g < groups; ++g)
        of.push_back(kind == 0   ? below(rows + 1)
                     : kind == 1 ? std::min(rows, (g + 1) * rows / groups)
                     : kind == 2 ? int32_t(random())
                                 : (below(2) ? rows : 0));
      if (kind == 0)
        std::sort(of.begin(), of.end());
      ends.insert(ends.end(), of.begin(), of.end());
      ends.resize(ends.size() + 3, 1 << 30); // between problems
    }
    WalkShape shape{ends.data(), groups + 3, batches, groups, rows, 1 + below(9), 1 + below(20)};
    int blocks = 1 + below(140);
    check<32, 64>(shape, blocks);
    check<32, 256>(shape, blocks);
    if (turn % 20 == 0)
      checkCover(shape, 64);
  }
}

TEST(GroupWalk, NoRowsInAnyGroup) {
  std::vector<int32_t> ends(100, 0);
  WalkShape shape{ends.data(), 50, 2, 50, 1000, 4, 8};
  check<32, 128>(shape, 132);
  EXPECT_TRUE(expectedTiles(shape, 128).empty());
}

} // namespace
