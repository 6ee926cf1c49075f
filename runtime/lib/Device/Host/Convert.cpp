//===- Convert.cpp - f16 and bf16 to f32 and back ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

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

void loadF16(const uint16_t *from, int64_t stride, int64_t n, float *to) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = __builtin_bit_cast(_Float16, from[i * stride]);
}

void storeF16(const float *from, uint16_t *to, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i * stride] = __builtin_bit_cast(uint16_t, static_cast<_Float16>(from[i]));
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
#if defined(__x86_64__)
    if (stride == 1 && haveF16C())
      return loadF16Vector(p, n, to);
#endif
    return loadF16(p, stride, n, to);
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
#if defined(__x86_64__)
    if (stride == 1 && haveF16C())
      return storeF16Vector(from, n, p);
#endif
    return storeF16(from, p, stride, n);
  }
  default:
    return; // not computed in f32
  }
}

} // namespace tandem
