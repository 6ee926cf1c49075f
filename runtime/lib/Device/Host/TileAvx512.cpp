//===- TileAvx512.cpp - operations on tiles with AVX512 instructions ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileFunctions.inc"

namespace tandem::cpu {
extern const TileFunctions avx512TileFunctions;
constexpr TileFunctions avx512TileFunctions = tile::makeTable("avx512");
} // namespace tandem::cpu
