//===- GroupedKernel.cu - the grouped kernels of one tile of libtandem_gated.so ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled once for each tile; CMakeLists.txt defines the macros. Types and layouts share a
// compilation, because the headers take half of the time of one kernel.
//
//===----------------------------------------------------------------------===//

#include "GroupedEntry.cuh"

namespace tandem::gpu::gated {

extern const GroupedEntry TANDEM_ENTRIES[kGroupedOfTile];
constexpr GroupedEntry TANDEM_ENTRIES[kGroupedOfTile] = {
    describeGrouped<cutlass::half_t, cutlass::half_t, true>("f16 nk " TANDEM_TILE_NAME),
    describeGrouped<cutlass::half_t, cutlass::half_t, false>("f16 kn " TANDEM_TILE_NAME),
    describeGrouped<cutlass::bfloat16_t, cutlass::bfloat16_t, true>("bf16 nk " TANDEM_TILE_NAME),
    describeGrouped<cutlass::bfloat16_t, cutlass::bfloat16_t, false>("bf16 kn " TANDEM_TILE_NAME)};

} // namespace tandem::gpu::gated
