//===- GroupedTable.cpp - the grouped kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTable.h"

#include <cstdlib>

namespace tandem::gpu::gated {

// The build writes a line TANDEM_TILE(entries) for each tile.
#define TANDEM_TILE(entries) extern const GroupedEntry entries[kGroupedOfTile];
#include "GroupedKernels.inc"
#undef TANDEM_TILE
#define TANDEM_TILE(entries) extern const GroupedEntry entries[kGrouped8OfTile];
#include "GroupedKernels8.inc"
#undef TANDEM_TILE

static const GroupedEntry *const kTiles[] = {
#define TANDEM_TILE(entries) entries,
#include "GroupedKernels.inc"
};
static const GroupedEntry *const kTiles8[] = {
#include "GroupedKernels8.inc"
#undef TANDEM_TILE
};
static constexpr uint32_t kCount16 = sizeof(kTiles) / sizeof(kTiles[0]) * kGroupedOfTile,
                          kCount =
                              kCount16 + sizeof(kTiles8) / sizeof(kTiles8[0]) * kGrouped8OfTile;

static const GroupedEntry &entry(uint32_t kernel) {
  if (kernel < kCount16)
    return kTiles[kernel / kGroupedOfTile][kernel % kGroupedOfTile];
  kernel -= kCount16;
  return kTiles8[kernel / kGrouped8OfTile][kernel % kGrouped8OfTile];
}

/// Rows of a tile. The last tile of a group has half of its rows for nothing on average, and so has
/// that of a cluster along M. Example: 300 rows per group and tiles of 128 waste 18 %; 256, 30 %.
static int tileRows(const GroupedMatmul &matmul) {
  int64_t average = matmul.groups > 0 ? matmul.m / matmul.groups : 0;
  if (average <= 64 || matmul.n <= 128)
    return 64;
  return average < 1024 || matmul.n <= 256 ? 128 : 256;
}

/// The kernel whose tile is nearest: of 8 bits there is none for many rows.
static uint32_t choose(const GroupedMatmul *matmul) {
  const int rows = tileRows(*matmul);
  uint32_t best = kCount;
  int least = 0;
  for (uint32_t i = 0; i < kCount; ++i) {
    const GroupedInfo &info = entry(i).info;
    const int distance = std::abs(info.tileM * info.clusterM - rows);
    if (entry(i).whyNot(*matmul) || (best < kCount && distance >= least))
      continue;
    best = i;
    least = distance;
  }
  return best;
}

static const GroupedTable kTable = {
    kCount,
    [](uint32_t kernel) { return &entry(kernel).info; },
    choose,
    [](uint32_t kernel, const GroupedMatmul *matmul) { return entry(kernel).whyNot(*matmul); },
    [](uint32_t kernel) { return entry(kernel).load(); },
    [](uint32_t kernel, const GroupedMatmul *matmul, void *stream) {
      return entry(kernel).run(*matmul, stream);
    }};

} // namespace tandem::gpu::gated

extern "C" __attribute__((visibility("default"))) const tandem::gpu::gated::GroupedTable *
tandem_grouped_kernels(uint32_t version) {
  using namespace tandem::gpu::gated;
  return version == kGroupedVersion ? &kTable : nullptr;
}
