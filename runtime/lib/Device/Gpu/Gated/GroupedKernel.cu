//===- GroupedKernel.cu - the grouped kernels of one tile of libtandem_gated.so ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled once for each tile; CMakeLists.txt defines the macros. Types and layouts share a
// compilation, because the headers take half of the time of one kernel.
//
//===----------------------------------------------------------------------===//

#include "GroupedMatmul.cuh"
#include "GroupedTable.h"

namespace tandem::gpu::gated {

namespace {

template <typename Type, bool transposeW> constexpr GroupedEntry describe(const char *name) {
  using LayoutW = cute::conditional_t<transposeW, cutlass::layout::ColumnMajor,
                                      cutlass::layout::RowMajor>;
  using Tile = cute::Shape<cute::Int<TANDEM_TILE_M>, cute::Int<TANDEM_TILE_N>, cute::_64>;
  using Cluster = cute::Shape<cute::Int<TANDEM_CLUSTER_M>, cute::Int<TANDEM_CLUSTER_N>, cute::_1>;
  using Kernel = GroupedKernel<Type, LayoutW, Tile, Cluster, TANDEM_PINGPONG>;
  return {{name, std::is_same_v<Type, cutlass::half_t> ? Element::F16 : Element::BF16, transposeW,
           TANDEM_TILE_M, TANDEM_TILE_N, 64, TANDEM_CLUSTER_M, TANDEM_CLUSTER_N},
          Kernel::whyNot, Kernel::load, Kernel::run};
}

} // namespace

extern const GroupedEntry TANDEM_ENTRIES[kEntriesOfTile];
constexpr GroupedEntry TANDEM_ENTRIES[kEntriesOfTile] = {
    describe<cutlass::half_t, true>("f16 nk " TANDEM_TILE_NAME),
    describe<cutlass::half_t, false>("f16 kn " TANDEM_TILE_NAME),
    describe<cutlass::bfloat16_t, true>("bf16 nk " TANDEM_TILE_NAME),
    describe<cutlass::bfloat16_t, false>("bf16 kn " TANDEM_TILE_NAME)};

} // namespace tandem::gpu::gated
