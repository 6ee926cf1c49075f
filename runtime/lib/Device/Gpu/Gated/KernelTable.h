//===- KernelTable.h - the kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_KERNELTABLE_H
#define TANDEM_LIB_DEVICE_GPU_GATED_KERNELTABLE_H

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

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_KERNELTABLE_H
