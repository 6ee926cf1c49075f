//===- TileOrderTest.cpp - in which order kernels take tiles ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gated/TileOrder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::gpu::gated {
namespace {

using program::GatedBlock;
using testing::ElementsAre;

/// `count` blocks of as many rows, from row `first` on and from the top after the last one. Each
/// but the first `open` ones waits for one more gate.
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

/// Rows of the first and of the other bands.
std::pair<int32_t, int32_t> bands(const std::vector<GatedBlock> &blocks, int64_t m,
                                  int32_t tileM = 128, int32_t clusterM = 2) {
  TileOrder found = order(blocks, m, tileM, clusterM);
  EXPECT_EQ(found.band % clusterM, 0);
  EXPECT_EQ(found.firstBand % clusterM, 0);
  return {found.firstBand * tileM, found.band * tileM};
}

TEST(GpuTileOrder, RowsThatArriveTogetherAreABand) {
  using Rows = std::pair<int32_t, int32_t>;
  // Two ranks: neither band has rows of both.
  EXPECT_EQ(bands(blocksOf(2048, 1024), 2048), Rows(0, 1024));
  EXPECT_EQ(bands(blocksOf(8192, 4096), 8192), Rows(0, 2048));
  // Bands of at most 2048 rows that end where blocks do.
  EXPECT_EQ(bands(blocksOf(6144, 3072), 6144), Rows(0, 1536));
  // Small blocks share a band, except the first one.
  EXPECT_EQ(bands(blocksOf(2048, 256), 2048), Rows(256, 1024));
  EXPECT_EQ(bands(blocksOf(4096, 512), 4096), Rows(512, 1024));
  // Own rows in slices, all open.
  EXPECT_EQ(bands(blocksOf(2048, 256, 0, 4), 2048), Rows(0, 1024));
  EXPECT_EQ(bands(blocksOf(10240, 1280, 0, 2), 10240), Rows(0, 1280));
  EXPECT_EQ(bands(blocksOf(3840, 1280, 0, 2), 3840, 256, 1), Rows(0, 1280));
  // No gates: as large as the cache bears. Tiles larger than a band are bands.
  EXPECT_EQ(bands(blocksOf(8192, 1024, 0, 8), 8192), Rows(0, 2048));
  EXPECT_EQ(bands({}, 8192), Rows(0, 2048));
  EXPECT_EQ(bands(blocksOf(16384, 8192), 16384, 4096, 1), Rows(0, 4096));
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
  // The first cluster has to wait, too.
  EXPECT_EQ(found.firstBand, 0);
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

} // namespace
} // namespace tandem::gpu::gated
