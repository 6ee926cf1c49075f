//===- TileAvx2.cpp - operations on tiles with AVX2 instructions ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileFunctions.inc"

namespace tandem::cpu {
extern const TileFunctions avx2TileFunctions;
constexpr TileFunctions avx2TileFunctions = tile::makeTable("avx2");
} // namespace tandem::cpu
