//===- FakeGrouped.cpp - grouped matmuls of GPUs that are threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes the place of the grouped kernels of libtandem_gated.so, if TANDEM_GATED_LIBRARY names this
// library. It has one kernel for each type and layout of W, which takes any extents.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include "Gated/GroupedLibrary.h"

#include <algorithm>
#include <cstring>

namespace {
namespace grouped {

using namespace tandem::gpu::gated;

constexpr KernelInfo kKernels[] = {
    {"f16 nk", Element::F16, true, 64, 128, 64, 1, 1},
    {"f16 kn", Element::F16, false, 64, 128, 64, 1, 1},
    {"bf16 nk", Element::BF16, true, 64, 128, 64, 1, 1},
    {"bf16 kn", Element::BF16, false, 64, 128, 64, 1, 1},
};
constexpr uint32_t kCount = sizeof kKernels / sizeof *kKernels;

float get(Element element, const void *data, int64_t i) {
  uint16_t bits = static_cast<const uint16_t *>(data)[i];
  if (element == Element::F16)
    return __builtin_bit_cast(_Float16, bits);
  return __builtin_bit_cast(float, uint32_t(bits) << 16);
}

void set(Element element, void *data, int64_t i, float x) {
  auto bits = __builtin_bit_cast(uint32_t, x);
  static_cast<uint16_t *>(data)[i] =
      element == Element::F16 ? __builtin_bit_cast(uint16_t, static_cast<_Float16>(x))
                              : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void compute(const KernelInfo &kernel, const GroupedMatmul &p) {
  auto x = [&](int64_t at) { return get(kernel.element, p.x, at); };
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
                 get(kernel.element, p.w,
                     group * p.groupW +
                         (kernel.transposeW ? column * p.strideW + k : k * p.strideW + column));
        set(kernel.element, p.y, batch * p.batchY + row * p.strideY + column, sum);
      }
    }
  }
}

const GroupedTable kTable = {
    kCount,
    [](uint32_t kernel) { return &kKernels[kernel]; },
    [](Element element, bool transposeW, const GroupedMatmul *) {
      if (tandem::fake::number("grouped-refused"))
        return kCount;
      return (element == Element::BF16 ? 2u : 0u) + (transposeW ? 0u : 1u);
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
