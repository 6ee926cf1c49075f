//===- GroupedEntry.cuh - a grouped kernel as an entry of the table ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For the compilation of one tile, whose macros CMakeLists.txt defines.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDENTRY_CUH
#define TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDENTRY_CUH

#include "GroupedMatmul.cuh"
#include "KernelTable.h"

namespace tandem::gpu::gated {

template <class X, class W, bool transposeW>
constexpr GroupedEntry describeGrouped(const char *name) {
  constexpr int tileK = 128 / sizeof(X); // 128 bytes of K, a row of shared memory
  using LayoutW =
      cute::conditional_t<transposeW, cutlass::layout::ColumnMajor, cutlass::layout::RowMajor>;
  using Tile = cute::Shape<cute::Int<TANDEM_TILE_M>, cute::Int<TANDEM_TILE_N>, cute::Int<tileK>>;
  using Cluster = cute::Shape<cute::Int<TANDEM_CLUSTER_M>, cute::Int<TANDEM_CLUSTER_N>, cute::_1>;
  using Kernel = GroupedKernel<X, W, LayoutW, Tile, Cluster, TANDEM_PINGPONG>;
  return {{name, elementOf<X>, elementOf<W>, transposeW, TANDEM_TILE_M, TANDEM_TILE_N, tileK,
           TANDEM_CLUSTER_M, TANDEM_CLUSTER_N},
          Kernel::whyNot,
          Kernel::load,
          Kernel::run};
}

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDENTRY_CUH
