//===- TileBaseline.cpp - operations on tiles for any machine ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tile.h"

#include "tandem/Runtime/HostOps.h"

namespace tandem::cpu {
extern const TileFunctions baselineTileFunctions;
#if defined(__x86_64__)
extern const TileFunctions avx2TileFunctions;
extern const TileFunctions avx512TileFunctions;
#endif
} // namespace tandem::cpu

namespace {
namespace tile {
void loadF16(float *to, const uint16_t *from, int64_t n) {
  tandem::loadAsF32(tandem::DType::F16, from, 1, n, to);
}
void storeF16(uint16_t *to, const float *from, int64_t n) {
  tandem::storeFromF32(tandem::DType::F16, from, to, 1, n);
}
// NOLINTNEXTLINE(readability-identifier-naming): the table names functions as the schema does.
void round_f16(void *result, const void *a, const void *, const void *, int64_t n) {
  constexpr int64_t piece = 64;
  uint16_t halves[piece];
  for (int64_t i = 0; i < n; i += piece) {
    int64_t m = n - i < piece ? n - i : piece;
    storeF16(halves, static_cast<const float *>(a) + i, m);
    loadF16(static_cast<float *>(result) + i, halves, m);
  }
}
} // namespace tile
} // namespace

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
