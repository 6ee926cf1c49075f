//===- GroupedTable.h - the grouped kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDTABLE_H
#define TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDTABLE_H

#include "GroupedLibrary.h"

namespace tandem::gpu::gated {

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

#endif // TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDTABLE_H
