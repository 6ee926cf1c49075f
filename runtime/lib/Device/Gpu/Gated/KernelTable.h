//===- KernelTable.h - the kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_KERNELTABLE_H
#define TANDEM_LIB_DEVICE_GPU_GATED_KERNELTABLE_H

#include "GroupedLibrary.h"
#include "KernelLibrary.h"

namespace tandem::gpu::gated {

/// Of a tile: f16 and bf16, each with W stored [N, K] and [K, N].
inline constexpr uint32_t kEntriesOfTile = 4;

/// kEntriesOfTile of them are defined by each compilation of Kernel.cu; see Table.
struct KernelEntry {
  KernelInfo info;
  const char *(*whyNot)(const Matmul &matmul);
  const char *(*run)(const Matmul &matmul, void *stream);
};

/// Kernels of a tile, which are defined by each compilation of GroupedKernel.cu: of f16 and bf16,
/// each with W stored [G, N, K] and [G, K, N].
inline constexpr uint32_t kGroupedOfTile = 4;
/// By each compilation of GroupedKernel8.cu: X of f8E4M3FN and f8E5M2.
inline constexpr uint32_t kGrouped8OfTile = 2;

/// See GroupedTable.
struct GroupedEntry {
  GroupedInfo info;
  const char *(*whyNot)(const GroupedMatmul &matmul);
  const char *(*load)();
  const char *(*run)(const GroupedMatmul &matmul, void *stream);
};

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_KERNELTABLE_H
