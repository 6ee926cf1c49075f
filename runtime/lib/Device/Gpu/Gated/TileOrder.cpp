//===- TileOrder.cpp - in which order kernels take tiles of gated matmuls ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileOrder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tandem::gpu::gated {

namespace {

/// Most rows of a row group: their part of A stays in the L2 cache while W streams through.
constexpr int64_t kMostRows = 2048;
/// Fewest rows of a row group where rows arrive later: each row group reads all of W.
constexpr int64_t kLeastRows = 1024;

/// Clusters of the first and of the other row groups. `gates`: how many each cluster needs, in
/// order.
std::pair<int64_t, int64_t> rowGroupsOf(const std::vector<uint32_t> &gates, int64_t rowsOfCluster) {
  int64_t most = std::max<int64_t>(1, kMostRows / rowsOfCluster);
  int64_t least = std::max<int64_t>(1, kLeastRows / rowsOfCluster);
  auto begin = gates.begin();
  auto endOfRun = [&](std::vector<uint32_t>::const_iterator at) {
    return std::find_if(at, gates.end(), [&](uint32_t other) { return other != *at; });
  };
  auto second = begin == gates.end() ? begin : endOfRun(begin);
  if (second == gates.end())
    return {0, most};
  int64_t first = second - begin, together = endOfRun(second) - second, groupRows = together;
  if (together > most) {
    int64_t groups = (together + most - 1) / most;
    groupRows = (together + groups - 1) / groups;
  } else if (together < least) {
    groupRows = together * ((least + together - 1) / together);
  }
  return {first <= most ? first : first % groupRows, groupRows};
}

} // namespace

TileOrder tileOrder(const std::vector<program::GatedBlock> &blocks, int64_t m, int64_t slice,
                    int32_t slices, int32_t tileM, int32_t clusterM) {
  TileOrder result;
  int64_t rowsOfCluster = int64_t(tileM) * clusterM;
  auto clusters = static_cast<size_t>((m + rowsOfCluster - 1) / rowsOfCluster);
  auto perRow = static_cast<size_t>(slices);
  result.needs.resize(clusters * static_cast<size_t>(clusterM) * perRow);
  std::vector<size_t> last(clusters); // the last block that a cluster needs
  for (size_t number = 0; number < blocks.size(); ++number) {
    const program::GatedBlock &block = blocks[number];
    if (block.rows == 0 || block.k == 0)
      continue;
    auto first = static_cast<size_t>(block.firstRow / tileM);
    auto end = static_cast<size_t>((block.firstRow + block.rows - 1) / tileM) + 1;
    for (size_t row = first; row < end; ++row) {
      for (int64_t k = block.firstK / slice; k * slice < block.firstK + block.k; ++k) {
        uint16_t &needs = result.needs[row * perRow + static_cast<size_t>(k)];
        needs = std::max(needs, static_cast<uint16_t>(block.gates));
      }
      size_t cluster = row / static_cast<size_t>(clusterM);
      last[cluster] = std::max(last[cluster], number);
    }
  }
  result.order.resize(clusters);
  std::iota(result.order.begin(), result.order.end(), uint16_t(0));
  std::sort(result.order.begin(), result.order.end(),
            [&](uint16_t a, uint16_t b) { return std::pair(last[a], a) < std::pair(last[b], b); });
  std::vector<uint32_t> gates;
  for (uint16_t cluster : result.order)
    gates.push_back(blocks.empty() ? 0 : blocks[last[cluster]].gates);
  auto [firstGroupRows, groupRows] = rowGroupsOf(gates, rowsOfCluster);
  result.firstGroupRows = static_cast<int32_t>(firstGroupRows * clusterM);
  result.groupRows = static_cast<int32_t>(groupRows * clusterM);
  return result;
}

} // namespace tandem::gpu::gated
