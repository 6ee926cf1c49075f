//===- TileBaseline.cpp - operations on tiles for any machine ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tile.h"

namespace tandem::cpu {
extern const TileFunctions baselineTileFunctions;
#if defined(__x86_64__)
extern const TileFunctions avx2TileFunctions;
extern const TileFunctions avx512TileFunctions;
#endif
} // namespace tandem::cpu

#include "TileFunctions.inc"

constexpr tandem::cpu::TileFunctions tandem::cpu::baselineTileFunctions =
    tile::makeTable("baseline");

const std::vector<const tandem::cpu::TileFunctions *> &tandem::cpu::tileFunctions() {
  static const std::vector<const TileFunctions *> tables = [] {
    std::vector<const TileFunctions *> found;
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("f16c");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      found.push_back(&avx512TileFunctions);
    if (avx2)
      found.push_back(&avx2TileFunctions);
#endif
    found.push_back(&baselineTileFunctions);
    return found;
  }();
  return tables;
}
