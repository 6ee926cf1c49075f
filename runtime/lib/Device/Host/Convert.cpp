//===- Convert.cpp - f16 and bf16 to f32 and back ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {

namespace {

uint32_t bitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float floatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

float fromBF16(uint16_t h) { return floatOf(uint32_t(h) << 16); }

uint16_t toBF16(float x) {
  uint32_t bits = bitsOf(x);
  // A NaN must not round to infinity: keep it, quiet.
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float fromF16(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000u) << 16, exponent = h >> 10 & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 31)
    return floatOf(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) // zero and subnormals: mantissa * 2^-24, exact in f32
    return floatOf(sign | bitsOf(static_cast<float>(mantissa) * 0x1p-24f));
  return floatOf(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t toF16(float x) {
  uint32_t bits = bitsOf(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) // rounds to 2^16 or more
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude <
      0x38800000u) // subnormal in f16: adding 0.5 aligns the mantissa and rounds to even
    return static_cast<uint16_t>(sign | (bitsOf(floatOf(magnitude) + 0.5f) - bitsOf(0.5f)));
  return static_cast<uint16_t>(sign |
                               ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}

#if defined(__x86_64__)
bool haveF16C() {
  static const bool have = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return have;
}

__attribute__((target("avx2,f16c"))) int64_t loadF16Vector(const uint16_t *from, int64_t n,
                                                           float *to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i))));
  return i;
}

__attribute__((target("avx2,f16c"))) int64_t storeF16Vector(const float *from, int64_t n,
                                                            uint16_t *to) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
#endif

} // namespace

void loadAsF32(DType type, const void *from, int64_t stride, int64_t n, float *to) {
  switch (type) {
  case DType::F32: {
    const auto *p = static_cast<const float *>(from);
    if (stride == 1)
      std::memcpy(to, p, static_cast<size_t>(n) * sizeof(float));
    else
      for (int64_t i = 0; i < n; ++i)
        to[i] = p[i * stride];
    return;
  }
  case DType::BF16: {
    const auto *p = static_cast<const uint16_t *>(from);
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i)
        to[i] = fromBF16(p[i]);
    else
      for (int64_t i = 0; i < n; ++i)
        to[i] = fromBF16(p[i * stride]);
    return;
  }
  case DType::F16: {
    const auto *p = static_cast<const uint16_t *>(from);
    int64_t i = 0;
#if defined(__x86_64__)
    if (stride == 1 && haveF16C())
      i = loadF16Vector(p, n, to);
#endif
    for (; i < n; ++i)
      to[i] = fromF16(p[i * stride]);
    return;
  }
  default:
    return; // not computed in f32
  }
}

void storeFromF32(DType type, const float *from, void *to, int64_t stride, int64_t n) {
  switch (type) {
  case DType::F32: {
    auto *p = static_cast<float *>(to);
    if (stride == 1)
      std::memcpy(p, from, static_cast<size_t>(n) * sizeof(float));
    else
      for (int64_t i = 0; i < n; ++i)
        p[i * stride] = from[i];
    return;
  }
  case DType::BF16: {
    auto *p = static_cast<uint16_t *>(to);
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i)
        p[i] = toBF16(from[i]);
    else
      for (int64_t i = 0; i < n; ++i)
        p[i * stride] = toBF16(from[i]);
    return;
  }
  case DType::F16: {
    auto *p = static_cast<uint16_t *>(to);
    int64_t i = 0;
#if defined(__x86_64__)
    if (stride == 1 && haveF16C())
      i = storeF16Vector(from, n, p);
#endif
    for (; i < n; ++i)
      p[i * stride] = toF16(from[i]);
    return;
  }
  default:
    return; // not computed in f32
  }
}

} // namespace tandem
