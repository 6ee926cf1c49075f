//===- GroupedKernel.cu - one grouped kernel of libtandem_gated.so ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled once for each kernel; CMakeLists.txt defines the macros.
//
//===----------------------------------------------------------------------===//

#include "GroupedMatmul.cuh"
#include "GroupedTable.h"

namespace tandem::gpu::gated {

namespace {

using Type = TANDEM_TYPE; // cutlass::half_t or cutlass::bfloat16_t
using LayoutW = cute::conditional_t<TANDEM_TRANSPOSE_W, cutlass::layout::ColumnMajor,
                                    cutlass::layout::RowMajor>;
using Tile = cute::Shape<cute::Int<TANDEM_TILE_M>, cute::Int<TANDEM_TILE_N>, cute::_64>;
using Cluster = cute::Shape<cute::Int<TANDEM_CLUSTER_M>, cute::Int<TANDEM_CLUSTER_N>, cute::_1>;
using Kernel = GroupedKernel<Type, LayoutW, Tile, Cluster, TANDEM_PINGPONG>;

} // namespace

extern const GroupedEntry TANDEM_ENTRY;
const GroupedEntry TANDEM_ENTRY = {
    {TANDEM_NAME, std::is_same_v<Type, cutlass::half_t> ? Element::F16 : Element::BF16,
     TANDEM_TRANSPOSE_W, TANDEM_TILE_M, TANDEM_TILE_N, 64, TANDEM_CLUSTER_M, TANDEM_CLUSTER_N},
    Kernel::whyNot,
    Kernel::load,
    Kernel::run};

} // namespace tandem::gpu::gated
