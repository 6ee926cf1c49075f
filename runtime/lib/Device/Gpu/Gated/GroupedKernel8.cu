//===- GroupedKernel8.cu - grouped kernels of 8 bits, of one tile ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// As GroupedKernel.cu, for the tiles of GroupedTiles8.txt.
//
//===----------------------------------------------------------------------===//

#include "GroupedEntry.cuh"

namespace tandem::gpu::gated {

extern const GroupedEntry TANDEM_ENTRIES[kGrouped8OfTile];
constexpr GroupedEntry TANDEM_ENTRIES[kGrouped8OfTile] = {
    describeGrouped<cutlass::float_e4m3_t, cutlass::float_e4m3_t, true>(
        "e4m3 nk " TANDEM_TILE_NAME),
    describeGrouped<cutlass::float_e5m2_t, cutlass::float_e4m3_t, true>(
        "e5m2-e4m3 nk " TANDEM_TILE_NAME)};

} // namespace tandem::gpu::gated
