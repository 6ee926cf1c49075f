//===- KernelTable.cpp - the kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTable.h"

namespace tandem::gpu::gated {

// The build writes a line TANDEM_TILE(entries) for each tile.
#define TANDEM_TILE(entries) extern const KernelEntry entries[kEntriesOfTile];
#include "GatedKernels.inc"
#undef TANDEM_TILE

static const KernelEntry *const kTiles[] = {
#define TANDEM_TILE(entries) entries,
#include "GatedKernels.inc"
#undef TANDEM_TILE
};
static constexpr uint32_t kCount = sizeof(kTiles) / sizeof(kTiles[0]) * kEntriesOfTile;

static const KernelEntry &entry(uint32_t kernel) {
  return kTiles[kernel / kEntriesOfTile][kernel % kEntriesOfTile];
}

static const Table kTable = {
    kCount, [](uint32_t kernel) { return &entry(kernel).info; },
    [](uint32_t kernel, const Matmul *matmul) { return entry(kernel).whyNot(*matmul); },
    [](uint32_t kernel, const Matmul *matmul, void *stream) {
      return entry(kernel).run(*matmul, stream);
    }};

} // namespace tandem::gpu::gated

extern "C" __attribute__((visibility("default"))) const tandem::gpu::gated::Table *
tandem_gated_kernels(uint32_t version) {
  using namespace tandem::gpu::gated;
  return version == kVersion ? &kTable : nullptr;
}
