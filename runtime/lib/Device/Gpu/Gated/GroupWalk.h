//===- GroupWalk.h - tiles of groups of rows --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows and columns the tiles of a grouped matmul have. The bounds of groups are read by a
// warp, a group per lane. A test runs the same code on the CPU, with an array in place of a warp.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_GROUPWALK_H
#define TANDEM_LIB_DEVICE_GPU_GATED_GROUPWALK_H

#include <cstdint>

#ifdef __CUDACC__
#define TANDEM_WALK __host__ __device__ __forceinline__
#else
#define TANDEM_WALK inline
#endif

namespace tandem::gpu::gated {

/// Rows [ends[g - 1], ends[g]) are group g, after the values of `ends` are made ascending: each
/// counts as the largest one up to it, clamped to [0, rows].
struct WalkShape {
  const int32_t *ends = nullptr;
  int64_t batchEnds = 0; ///< between the ends of two problems
  int batches = 1, groups = 0, rows = 0;
  int columns = 0;   ///< of tiles
  int groupRows = 1; ///< rows of tiles whose columns are taken before the next rows
};

/// A tile: rows [first, min(first + kTileRows, end)) of a problem, and a column of tiles.
struct GroupTile {
  int batch, group, first, end, column;
};

/// Walks the tiles in order: problem, group, row group, column, row. A tile begins at the
/// first row of its group, or kTileRows after the tile above it. All lanes of the warp make each
/// call.
///
/// Warp::Int is a value per lane, int on the GPU. Warp has, as static functions:
///   lane()               the number of each lane, from 0 to kLanes - 1
///   load(from, at, end)  from[at] where at < end, else INT32_MIN
///   min, max             of lanes with lanes
///   scanMax, scanSum     inclusive, over lower lanes
///   fromBelow(v, first)  the value of the lane below; `first` in lane 0
///   get(v, lane)         the value of one lane
///   countAtMost(v, x)    number of lanes whose value is at most x
template <class Warp, int kTileRows> class GroupWalk {
public:
  using Int = typename Warp::Int;

  TANDEM_WALK explicit GroupWalk(const WalkShape &shape) : shape(shape) {}

  /// Finds tile number `tile`, which is not smaller than in the last call. False: there are fewer.
  TANDEM_WALK bool find(int tile, GroupTile &to) {
    while (batch < shape.batches && tile - before >= tiles)
      next();
    if (batch >= shape.batches)
      return false;
    int rest = tile - before, lane = Warp::countAtMost(upTo, rest);
    int begin = Warp::get(begins, lane);
    to.batch = batch;
    to.group = firstGroup + lane;
    to.end = Warp::get(ends, lane);
    const auto tileRows = unsigned(to.end - begin + kTileRows - 1) / kTileRows;
    unsigned inGroup = unsigned(rest - Warp::get(upTo, lane)) + tileRows * unsigned(shape.columns);
    const auto groupRows = unsigned(shape.groupRows);
    unsigned skipped = inGroup / (groupRows * unsigned(shape.columns)) * groupRows;
    unsigned inBand = inGroup - skipped * unsigned(shape.columns);
    unsigned rows = tileRows - skipped < groupRows ? tileRows - skipped : groupRows;
    to.column = int(inBand / rows);
    to.first = begin + int(skipped + inBand % rows) * kTileRows;
    return true;
  }

private:
  /// The next groups, as many as there are lanes.
  TANDEM_WALK void next() {
    before += tiles;
    firstGroup += Warp::kLanes;
    if (firstGroup >= shape.groups) {
      firstGroup = 0;
      lastEnd = 0;
      if (++batch >= shape.batches)
        return;
    }
    Int end =
        Warp::load(shape.ends + batch * shape.batchEnds, Warp::lane() + firstGroup, shape.groups);
    ends = Warp::scanMax(Warp::min(Warp::max(end, lastEnd), shape.rows));
    begins = Warp::fromBelow(ends, lastEnd);
    lastEnd = Warp::get(ends, Warp::kLanes - 1);
    upTo = Warp::scanSum((ends - begins + (kTileRows - 1)) / kTileRows * shape.columns);
    tiles = Warp::get(upTo, Warp::kLanes - 1);
  }

  const WalkShape &shape;
  // Of the groups that were read last, the first of which is firstGroup. At first: of none, and
  // next() reads the first ones.
  int batch = -1, firstGroup = INT32_MAX - Warp::kLanes, lastEnd = 0;
  int before = 0, tiles = 0; ///< tiles of earlier groups; tiles of these groups
  Int begins{}, ends{};      ///< rows
  Int upTo{};                ///< tiles of these groups up to this lane's
};

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_GROUPWALK_H
