//===- TileOrder.h - in which order kernels take tiles of gated matmuls ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_TILEORDER_H
#define TANDEM_LIB_DEVICE_GPU_GATED_TILEORDER_H

#include "tandem/Program/Gated.h"

#include <cstdint>
#include <vector>

namespace tandem::gpu::gated {

/// Tables of a kernel whose clusters have clusterM tiles of tileM rows; see Matmul in
/// KernelLibrary.h.
struct TileOrder {
  std::vector<uint16_t> needs; ///< Matmul::needs
  std::vector<uint16_t> order; ///< Matmul::order
  int32_t band = 1, firstBand = 0;
};

/// Of blocks in the order of computation that cover rows 0 ... m - 1. `slice`: columns of a slice
/// of K, of which there are `slices`. There are at most 65,535 clusters of rows.
///
/// Rows that arrive together are bands of their own, as far as they are enough rows: the tiles of a
/// band run at once, and those of rows that have not arrived would keep their SMs waiting while
/// tiles of rows that are there have none. Rows that are there at the beginning are never in a band
/// with others.
TileOrder tileOrder(const std::vector<program::GatedBlock> &blocks, int64_t m, int64_t slice,
                    int32_t slices, int32_t tileM, int32_t clusterM);

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_TILEORDER_H
