//===- Convert.cpp - narrow floats to f32 and back ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

#include <array>

namespace tandem {

namespace {

float fromBF16(uint16_t h) { return __builtin_bit_cast(float, uint32_t(h) << 16); }

uint16_t toBF16(float x) {
  auto bits = __builtin_bit_cast(uint32_t, x);
  // A NaN must not round to infinity: keep it, quiet.
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// `exponent`: bits of the exponent. With 5 they are those of an f16; with 4 there are no
/// infinities, and only the largest magnitude is a NaN.
float fromFp8(uint8_t h, int exponent) {
  const int mantissa = 7 - exponent, bias = (1 << (exponent - 1)) - 1;
  uint32_t size = h & 0x7fu, bits;
  if (size >> mantissa == 0)
    bits = __builtin_bit_cast(uint32_t,
                              static_cast<float>(size) * (exponent == 5 ? 0x1p-16f : 0x1p-9f));
  else if (exponent == 4 ? size == 0x7f : size > 0x7c)
    bits = 0x7fc00000u;
  else if (exponent == 5 && size == 0x7c)
    bits = 0x7f800000u;
  else
    bits = (size << (23 - mantissa)) + (static_cast<uint32_t>(127 - bias) << 23);
  return __builtin_bit_cast(float, bits | uint32_t(h & 0x80u) << 24);
}

/// To nearest even. What would round beyond the largest number is NaN with 4 bits of exponent, else
/// infinite.
uint8_t toFp8(float x, int exponent) {
  const int mantissa = 7 - exponent, bias = (1 << (exponent - 1)) - 1, shift = 23 - mantissa;
  auto bits = __builtin_bit_cast(uint32_t, x);
  auto sign = static_cast<uint8_t>(bits >> 24 & 0x80u);
  uint32_t size = bits & 0x7fffffffu, result;
  if (size > 0x7f800000u) {
    result = exponent == 4 ? 0x7f : 0x7e;
  } else if (size >> 23 < static_cast<uint32_t>(128 - bias)) {
    // In units of the least number: adding a number whose last bit is that unit rounds.
    float rounder = exponent == 5 ? 0x1p7f : 0x1p14f;
    float sum = __builtin_bit_cast(float, size) + rounder;
    result = __builtin_bit_cast(uint32_t, sum) - __builtin_bit_cast(uint32_t, rounder);
  } else {
    uint32_t odd = size >> shift & 1u;
    result = ((size + (1u << (shift - 1)) - 1 + odd) >> shift) -
             (static_cast<uint32_t>(127 - bias) << mantissa);
    result = std::min<uint32_t>(result, exponent == 4 ? 0x7f : 0x7c);
  }
  return static_cast<uint8_t>(sign | result);
}

int exponentBits(DType type) { return type == DType::F8E4M3FN ? 4 : 5; }

/// The values of all bit patterns.
using Fp8Table = std::array<float, 256>;
const Fp8Table &fp8Table(DType type) {
  static const std::array<Fp8Table, 2> tables = [] {
    std::array<Fp8Table, 2> made{};
    for (unsigned i = 0; i < 256; ++i)
      for (int exponent : {4, 5})
        made[static_cast<size_t>(exponent - 4)][i] = fromFp8(static_cast<uint8_t>(i), exponent);
    return made;
  }();
  return tables[static_cast<size_t>(exponentBits(type) - 4)];
}

/// body(i, i * stride) for n elements, in a loop of its own where they are contiguous, which
/// vectorises.
template <typename Body> void forStrided(int64_t n, int64_t stride, Body body) {
  if (stride == 1)
    for (int64_t i = 0; i < n; ++i)
      body(i, i);
  else
    for (int64_t i = 0; i < n; ++i)
      body(i, i * stride);
}

#if defined(__x86_64__)
bool haveF16C() {
  static const bool have = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return have;
}

// The same loops, for machines with an instruction for it.
__attribute__((target("avx2,f16c"))) void loadF16Vector(const uint16_t *from, int64_t n,
                                                        float *to) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = __builtin_bit_cast(_Float16, from[i]);
}

__attribute__((target("avx2,f16c"))) void storeF16Vector(const float *from, int64_t n,
                                                         uint16_t *to) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = __builtin_bit_cast(uint16_t, static_cast<_Float16>(from[i]));
}
#endif

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
  case DType::F32: {
    const auto *p = static_cast<const float *>(from);
    if (stride != 1)
      return forStrided(n, stride, [=](int64_t i, int64_t at) { to[i] = p[at]; });
    std::memcpy(to, p, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  case DType::BF16: {
    const auto *p = static_cast<const uint16_t *>(from);
    return forStrided(n, stride, [=](int64_t i, int64_t at) { to[i] = fromBF16(p[at]); });
  }
  case DType::F16: {
    const auto *p = static_cast<const uint16_t *>(from);
#if defined(__x86_64__)
    if (stride == 1 && haveF16C())
      return loadF16Vector(p, n, to);
#endif
    return forStrided(n, stride,
                      [=](int64_t i, int64_t at) { to[i] = __builtin_bit_cast(_Float16, p[at]); });
  }
  case DType::F8E4M3FN:
  case DType::F8E5M2: {
    const auto *p = static_cast<const uint8_t *>(from);
    const float *table = fp8Table(type).data();
    return forStrided(n, stride, [=](int64_t i, int64_t at) { to[i] = table[p[at]]; });
  }
  default:
    return; // not computed in f32
  }
}

void storeFromF32(DType type, const float *from, void *to, int64_t stride, int64_t n) {
  switch (type) {
  case DType::F32: {
    auto *p = static_cast<float *>(to);
    if (stride != 1)
      return forStrided(n, stride, [=](int64_t i, int64_t at) { p[at] = from[i]; });
    std::memcpy(p, from, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  case DType::BF16: {
    auto *p = static_cast<uint16_t *>(to);
    return forStrided(n, stride, [=](int64_t i, int64_t at) { p[at] = toBF16(from[i]); });
  }
  case DType::F16: {
    auto *p = static_cast<uint16_t *>(to);
#if defined(__x86_64__)
    if (stride == 1 && haveF16C())
      return storeF16Vector(from, n, p);
#endif
    return forStrided(n, stride, [=](int64_t i, int64_t at) {
      p[at] = __builtin_bit_cast(uint16_t, static_cast<_Float16>(from[i]));
    });
  }
  case DType::F8E4M3FN:
  case DType::F8E5M2: {
    auto *p = static_cast<uint8_t *>(to);
    int exponent = exponentBits(type);
    return forStrided(n, stride, [=](int64_t i, int64_t at) { p[at] = toFp8(from[i], exponent); });
  }
  default:
    return; // not computed in f32
  }
}

} // namespace tandem
