//===- GroupedTable.cpp - the grouped kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupedTable.h"

namespace tandem::gpu::gated {

// The build writes a line TANDEM_TILE(entries) for each tile.
#define TANDEM_TILE(entries) extern const GroupedEntry entries[kEntriesOfTile];
#include "GroupedKernels.inc"
#undef TANDEM_TILE

static const GroupedEntry *const kTiles[] = {
#define TANDEM_TILE(entries) entries,
#include "GroupedKernels.inc"
#undef TANDEM_TILE
};
static constexpr uint32_t kCount = sizeof(kTiles) / sizeof(kTiles[0]) * kEntriesOfTile;

static const GroupedEntry &entry(uint32_t kernel) {
  return kTiles[kernel / kEntriesOfTile][kernel % kEntriesOfTile];
}

/// Rows of a tile. The last tile of a group has half of its rows for nothing on average, and so has
/// that of a cluster along M. Example: 300 rows per group and tiles of 128 waste 18 %; 256, 30 %.
static int tileRows(const GroupedMatmul &matmul) {
  int64_t average = matmul.groups > 0 ? matmul.m / matmul.groups : 0;
  if (average <= 64 || matmul.n <= 128)
    return 64;
  return average < 1024 || matmul.n <= 256 ? 128 : 256;
}

static uint32_t choose(Element element, bool transposeW, const GroupedMatmul *matmul) {
  const int rows = tileRows(*matmul);
  uint32_t best = kCount;
  for (uint32_t i = 0; i < kCount; ++i) {
    const KernelInfo &info = entry(i).info;
    if (info.element != element || info.transposeW != transposeW || entry(i).whyNot(*matmul))
      continue;
    if (info.tileM * info.clusterM == rows)
      return i;
    best = i;
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
