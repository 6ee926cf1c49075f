//===- Convert.cpp - narrow floats to f32 and back ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

#include "Tile.h"

#include <algorithm>
#include <cstring>

namespace tandem {

namespace {

/// Elements with a stride that are converted at a time, next to each other.
constexpr int64_t kTile = 256;

template <typename T>
void load(void (*convert)(float *to, const T *from, int64_t n), const void *from, int64_t stride,
          int64_t n, float *to) {
  const auto *p = static_cast<const T *>(from);
  if (stride == 1 || n == 1)
    return convert(to, p, n);
  T dense[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    int64_t count = std::min(kTile, n - i);
    for (int64_t e = 0; e < count; ++e)
      dense[e] = p[(i + e) * stride];
    convert(to + i, dense, count);
  }
}

template <typename T>
void store(void (*convert)(T *to, const float *from, int64_t n), const float *from, void *to,
           int64_t stride, int64_t n) {
  auto *p = static_cast<T *>(to);
  if (stride == 1 || n == 1)
    return convert(p, from, n);
  T dense[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    int64_t count = std::min(kTile, n - i);
    convert(dense, from + i, count);
    for (int64_t e = 0; e < count; ++e)
      p[(i + e) * stride] = dense[e];
  }
}

/// Of the best instruction set of this machine.
const cpu::TileFunctions &conversions() {
  static const cpu::TileFunctions &best = *cpu::tileFunctions().front();
  return best;
}

} // namespace

float roundedToOdd(double x) {
  auto nearest = static_cast<float>(x);
  double back = nearest;
  auto bits = __builtin_bit_cast(uint32_t, nearest);
  bool isBelow = back<x, isAbove = back> x;
  if ((isBelow || isAbove) && (bits & 1) == 0)
    bits += isBelow == (x > 0) ? 1U : ~0U;
  return __builtin_bit_cast(float, bits);
}

void loadAsF32(DType type, const void *from, int64_t stride, int64_t n, float *to) {
  switch (type) {
  case DType::F32:
    if (stride == 1)
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    for (int64_t i = 0; stride != 1 && i < n; ++i)
      to[i] = static_cast<const float *>(from)[i * stride];
    return;
  case DType::BF16:
    return load(conversions().loadBF16, from, stride, n, to);
  case DType::F16:
    return load(conversions().loadF16, from, stride, n, to);
  case DType::F8E4M3FN:
    return load(conversions().loadF8E4M3FN, from, stride, n, to);
  case DType::F8E5M2:
    return load(conversions().loadF8E5M2, from, stride, n, to);
  default:
    return; // not computed in f32
  }
}

void storeFromF32(DType type, const float *from, void *to, int64_t stride, int64_t n) {
  switch (type) {
  case DType::F32:
    if (stride == 1)
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    for (int64_t i = 0; stride != 1 && i < n; ++i)
      static_cast<float *>(to)[i * stride] = from[i];
    return;
  case DType::BF16:
    return store(conversions().storeBF16, from, to, stride, n);
  case DType::F16:
    return store(conversions().storeF16, from, to, stride, n);
  case DType::F8E4M3FN:
    return store(conversions().storeF8E4M3FN, from, to, stride, n);
  case DType::F8E5M2:
    return store(conversions().storeF8E5M2, from, to, stride, n);
  default:
    return; // not computed in f32
  }
}

} // namespace tandem
