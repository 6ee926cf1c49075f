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
  int32_t groupRows = 1, firstGroupRows = 0;
};

/// Of blocks in the order of computation that cover rows 0 ... m - 1. `slice`: columns of a slice
/// of K, of which there are `slices`. There are at most 65,535 clusters of rows.
///
/// SMs take a row group column by column, so tiles of all its rows run at the same time. Those of
/// rows that have not arrived would keep their SMs waiting while tiles of rows that are there have
/// none. So rows that are there at the beginning share no row group with others, and row groups end
/// where blocks do, if blocks are of one size and whole clusters. Small blocks share a row group.
TileOrder tileOrder(const std::vector<program::GatedBlock> &blocks, int64_t m, int64_t slice,
                    int32_t slices, int32_t tileM, int32_t clusterM);

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_TILEORDER_H
