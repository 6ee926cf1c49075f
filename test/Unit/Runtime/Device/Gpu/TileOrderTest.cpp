//===- TileOrderTest.cpp - in which order kernels take tiles ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gated/TileOrder.h"
#include "Gated/TileRaster.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::gpu::gated {
namespace {

using program::GatedBlock;
using testing::ElementsAre;

/// Blocks of `rows` rows, from row `first` on and, after the last row, from row 0. The first `open`
/// blocks have no gate; each other one waits for one gate more than the block before it.
std::vector<GatedBlock> blocksOf(int64_t m, int64_t rows, int64_t first = 0, uint32_t open = 1) {
  std::vector<GatedBlock> blocks;
  auto count = static_cast<uint32_t>(m / rows);
  for (uint32_t i = 0; i < count; ++i)
    blocks.push_back({(first + i * rows) % m, rows, 0, 64, i < open ? 0 : i - open + 1});
  return blocks;
}

TileOrder order(const std::vector<GatedBlock> &blocks, int64_t m, int32_t tileM, int32_t clusterM) {
  return tileOrder(blocks, m, 64, 1, tileM, clusterM);
}

using Rows = std::pair<int32_t, int32_t>;

/// Rows of the first and of the other row groups.
Rows groups(const std::vector<GatedBlock> &blocks, int64_t m, int32_t tileM = 128,
            int32_t clusterM = 2) {
  TileOrder found = order(blocks, m, tileM, clusterM);
  return {found.firstGroupRows * tileM, found.groupRows * tileM};
}

TEST(GpuTileOrder, RowsThatArriveTogetherAreABand) {
  // Two ranks: neither row group has rows of both.
  EXPECT_EQ(groups(blocksOf(2048, 1024), 2048), Rows(1024, 1024));
  EXPECT_EQ(groups(blocksOf(8192, 4096), 8192), Rows(0, 2048));
  // Row groups of at most 2048 rows that end where blocks do.
  EXPECT_EQ(groups(blocksOf(6144, 3072), 6144), Rows(0, 1536));
  // Small blocks share a row group, except the first one.
  EXPECT_EQ(groups(blocksOf(2048, 256), 2048), Rows(256, 1024));
  EXPECT_EQ(groups(blocksOf(4096, 512), 4096), Rows(512, 1024));
  // Own rows in slices, all open: one row group, if they are not too many for it.
  EXPECT_EQ(groups(blocksOf(2048, 256, 0, 4), 2048), Rows(1024, 1024));
  EXPECT_EQ(groups(blocksOf(4096, 512, 0, 3), 4096), Rows(1536, 1024));
  EXPECT_EQ(groups(blocksOf(4096, 1024, 0, 2), 4096), Rows(2048, 1024));
  // Too many: the rest that is no whole row group comes first.
  EXPECT_EQ(groups(blocksOf(6144, 512, 0, 5), 6144), Rows(512, 1024));
}

TEST(GpuTileOrder, WithoutGatesBandsAreAsLargeAsTheCacheBears) {
  EXPECT_EQ(groups(blocksOf(8192, 1024, 0, 8), 8192), Rows(0, 2048));
  EXPECT_EQ(groups({}, 8192), Rows(0, 2048));
  // Clusters of more rows than that are row groups.
  EXPECT_EQ(groups(blocksOf(16384, 8192), 16384, 4096, 1), Rows(0, 4096));
}

TEST(GpuTileOrder, BlocksNeedNotBeWholeOrEqual) {
  // Three clusters of 256 rows. The second one has rows of two blocks; one block is empty.
  std::vector<GatedBlock> blocks{{0, 300, 0, 64, 0}, {300, 0, 0, 64, 0}, {300, 468, 0, 64, 1}};
  TileOrder found = order(blocks, 768, 128, 2);
  EXPECT_THAT(found.order, ElementsAre(0, 1, 2));
  EXPECT_THAT(found.needs, ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_EQ(found.firstGroupRows * 128, 256);
  EXPECT_TRUE(order({}, 0, 128, 2).order.empty());
}

TEST(GpuTileOrder, ClustersAreTakenAsTheirRowsArrive) {
  // Own rows are the third of four blocks.
  TileOrder found = order(blocksOf(2048, 512, 1024), 2048, 128, 2);
  EXPECT_THAT(found.order, ElementsAre(4, 5, 6, 7, 0, 1, 2, 3));
  EXPECT_THAT(found.needs, ElementsAre(2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(GpuTileOrder, ATileWaitsForAllItsRows) {
  // Blocks of 192 rows: every second tile of 128 has rows of two; M = 384 ends in half a cluster.
  TileOrder found = order(blocksOf(384, 192), 384, 128, 2);
  EXPECT_THAT(found.order, ElementsAre(0, 1));
  EXPECT_THAT(found.needs, ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(found.firstGroupRows, 0); // the first cluster has to wait, too
}

TEST(GpuTileOrder, SlicesOfKHaveTheirGates) {
  std::vector<GatedBlock> blocks;
  for (uint32_t block = 0; block < 2; ++block)
    for (uint32_t slice = 0; slice < 2; ++slice)
      blocks.push_back({block * 128, 128, slice * 64, 64, block == 0 ? 0 : slice + 1});
  TileOrder found = tileOrder(blocks, 256, 64, 2, 128, 1);
  EXPECT_THAT(found.needs, ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(found.order, ElementsAre(0, 1));
}

//===----------------------------------------------------------------------===//
// Which tile comes when: the code of the kernels
//===----------------------------------------------------------------------===//

struct Divmod {
  int by = 1;
  Divmod() = default;
  explicit Divmod(int by) : by(by) {}
  void operator()(int &quotient, int &remainder, int number) const {
    quotient = number / by;
    remainder = number % by;
  }
};

TEST(GpuTileRaster, ColumnsOfARowGroupComeBeforeTheNext) {
  for (int rows = 1; rows <= 9; ++rows)
    for (int columns = 1; columns <= 4; ++columns)
      for (int groupRows = 0; groupRows <= 10; ++groupRows)
        for (int first = 0; first <= 10; ++first) {
          std::vector<std::pair<int, int>> expected, found;
          auto append = [&](int begin, int end) {
            for (int column = 0; column < columns; ++column)
              for (int row = begin; row < end; ++row)
                expected.push_back({row, column});
          };
          append(0, std::min(first, rows));
          for (int begin = first; begin < rows; begin += std::max(1, groupRows))
            append(begin, std::min(rows, begin + std::max(1, groupRows)));
          TileRaster<Divmod> walk(rows, columns, groupRows, first);
          for (int number = 0; number < rows * columns; ++number) {
            auto &[row, column] = found.emplace_back();
            walk.find(number, row, column);
          }
          ASSERT_EQ(found, expected)
              << rows << " x " << columns << ", row groups of " << first << " and " << groupRows;
        }
}

} // namespace
} // namespace tandem::gpu::gated
