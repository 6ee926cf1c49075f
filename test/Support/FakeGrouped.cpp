//===- FakeGrouped.cpp - grouped matmuls of GPUs that are threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes the place of the grouped kernels of libtandem_gated.so, if TANDEM_GATED_LIBRARY names this
// library. It has one kernel for each type and layout of W, which takes any extents; as there, W of
// 8 bits is f8E4M3FN and [G, N, K].
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include "Gated/GroupedLibrary.h"

#include <algorithm>
#include <cstring>

namespace {
namespace grouped {

using namespace tandem::gpu::gated;

constexpr auto kF16 = GroupedType::F16, kBF16 = GroupedType::BF16, kE4M3 = GroupedType::F8E4M3FN,
               kE5M2 = GroupedType::F8E5M2;
constexpr GroupedInfo kKernels[] = {
    {"f16 nk", kF16, kF16, true, 64, 128, 64, 1, 1},
    {"f16 kn", kF16, kF16, false, 64, 128, 64, 1, 1},
    {"bf16 nk", kBF16, kBF16, true, 64, 128, 64, 1, 1},
    {"bf16 kn", kBF16, kBF16, false, 64, 128, 64, 1, 1},
    {"e4m3 nk", kE4M3, kE4M3, true, 64, 128, 128, 1, 1},
    {"e5m2-e4m3 nk", kE5M2, kE4M3, true, 64, 128, 128, 1, 1},
};
constexpr uint32_t kCount = sizeof kKernels / sizeof *kKernels;

float get(GroupedType type, const void *data, int64_t i) {
  if (type == kE4M3 || type == kE5M2)
    return tandem::fake::fromFp8(static_cast<const uint8_t *>(data)[i], type == kE4M3 ? 4 : 5);
  uint16_t bits = static_cast<const uint16_t *>(data)[i];
  if (type == kF16)
    return __builtin_bit_cast(_Float16, bits);
  return __builtin_bit_cast(float, uint32_t(bits) << 16);
}

void set(GroupedType type, void *data, int64_t i, float x) {
  if (type == GroupedType::F32) {
    static_cast<float *>(data)[i] = x;
    return;
  }
  auto bits = __builtin_bit_cast(uint32_t, x);
  static_cast<uint16_t *>(data)[i] =
      type == kF16 ? __builtin_bit_cast(uint16_t, static_cast<_Float16>(x))
                   : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void compute(const GroupedInfo &kernel, const GroupedMatmul &p) {
  auto x = [&](int64_t at) { return get(kernel.x, p.x, at); };
  for (int64_t batch = 0; batch < p.batches; ++batch) {
    const int32_t *ends = p.ends + batch * p.batchEnds;
    int64_t group = 0, end = 0; // of the rows so far
    for (int64_t row = 0; row < p.m; ++row) {
      for (; group < p.groups && row >= (end = std::max<int64_t>(end, ends[group])); ++group)
        ;
      for (int64_t column = 0; column < p.n; ++column) {
        float sum = 0;
        for (int64_t k = 0; k < p.k && group < p.groups; ++k)
          sum += x(batch * p.batchX + row * p.strideX + k) *
                 get(kernel.w, p.w,
                     group * p.groupW +
                         (kernel.transposeW ? column * p.strideW + k : k * p.strideW + column));
        set(p.typeY, p.y, batch * p.batchY + row * p.strideY + column, sum);
      }
    }
  }
}

const GroupedTable kTable = {
    kCount,
    [](uint32_t kernel) { return &kKernels[kernel]; },
    [](const GroupedMatmul *matmul) {
      uint32_t kernel = 0;
      while (kernel < kCount &&
             (tandem::fake::number("grouped-refused") || kKernels[kernel].x != matmul->typeX ||
              kKernels[kernel].w != matmul->typeW ||
              kKernels[kernel].transposeW != matmul->transposeW))
        ++kernel;
      return kernel;
    },
    [](uint32_t, const GroupedMatmul *) -> const char * {
      return tandem::fake::number("grouped-refused") ? "N and K must be multiples of 8" : nullptr;
    },
    [](uint32_t) -> const char * {
      ++tandem::fake::number("grouped-loads");
      return nullptr;
    },
    [](uint32_t kernel, const GroupedMatmul *matmul, void *stream) -> const char * {
      ++tandem::fake::number("grouped-runs");
      tandem::fake::add(static_cast<CUstream>(stream),
                        [kernel, matmul = *matmul] { compute(kKernels[kernel], matmul); });
      return nullptr;
    }};

} // namespace grouped
} // namespace

extern "C" __attribute__((visibility("default"))) const tandem::gpu::gated::GroupedTable *
tandem_grouped_kernels(uint32_t version) {
  return version == tandem::gpu::gated::kGroupedVersion ? &grouped::kTable : nullptr;
}
