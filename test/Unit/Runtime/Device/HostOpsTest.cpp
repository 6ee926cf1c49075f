//===- HostOpsTest.cpp - conversions and loops ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace tandem {

namespace {

float load(DType type, uint16_t bits) {
  float value = 0;
  loadAsF32(type, &bits, 1, 1, &value);
  return value;
}

uint16_t store(DType type, float value) {
  uint16_t bits = 0;
  storeFromF32(type, &value, &bits, 1, 1);
  return bits;
}

TEST(Convert, AllSixteenBitValuesSurvive) {
  for (DType type : {DType::F16, DType::BF16})
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      float value = load(type, static_cast<uint16_t>(bits));
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(load(type, store(type, value))));
      else
        ASSERT_EQ(store(type, value), bits) << toString(type);
    }
}

TEST(Convert, KnownValues) {
  EXPECT_EQ(load(DType::F16, 0x3c00), 1.0f);
  EXPECT_EQ(load(DType::F16, 0xc000), -2.0f);
  EXPECT_EQ(load(DType::F16, 0x7bff), 65504.0f);
  EXPECT_EQ(load(DType::F16, 0x0001), 0x1p-24f);
  EXPECT_EQ(load(DType::BF16, 0x3f80), 1.0f);
  EXPECT_EQ(store(DType::F16, 65519.0f), 0x7bff); // below half way to 2^16
  EXPECT_EQ(store(DType::F16, 65520.0f), 0x7c00); // half way: to even, infinity
  EXPECT_EQ(store(DType::F16, 0x1p-25f), 0x0000); // half of the least: to even, zero
  EXPECT_EQ(store(DType::F16, 0x1.8p-25f), 0x0001);
  EXPECT_EQ(store(DType::F16, 1 + 0x1p-11f), 0x3c00); // half way, to even
  EXPECT_EQ(store(DType::F16, 1 + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(store(DType::BF16, 1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(store(DType::BF16, 1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(store(DType::BF16, 3.4e38f), 0x7f80);
  EXPECT_EQ(store(DType::BF16, -INFINITY), 0xff80);
}

/// f8E4M3FN and f8E5M2, as their definitions have them.
struct Fp8 {
  DType type;
  int exponent, mantissa;
  uint8_t most; ///< the largest magnitude that has a value or is infinite
  float valueOf(uint8_t size) const {
    int bias = (1 << (exponent - 1)) - 1, e = size >> mantissa, m = size & ((1 << mantissa) - 1);
    return std::ldexp(static_cast<float>(e ? m + (1 << mantissa) : m),
                      std::max(e, 1) - bias - mantissa);
  }
};
constexpr Fp8 kFp8[] = {{DType::F8E4M3FN, 4, 3, 0x7e}, {DType::F8E5M2, 5, 2, 0x7b}};

TEST(Convert, AllEightBitValues) {
  EXPECT_EQ(kFp8[0].valueOf(0x7e), 448.0f);
  EXPECT_EQ(kFp8[1].valueOf(0x7b), 57344.0f);
  for (const Fp8 &format : kFp8)
    for (unsigned bits = 0; bits < 256; ++bits) {
      float value = load(format.type, static_cast<uint16_t>(bits)),
            sign = bits & 0x80 ? -1.0f : 1.0f;
      auto size = static_cast<uint8_t>(bits & 0x7f);
      if (size > format.most) {
        bool isInfinite = format.exponent == 5 && size == 0x7c;
        EXPECT_TRUE(isInfinite ? value == sign * INFINITY : std::isnan(value)) << bits;
        if (isInfinite) {
          EXPECT_EQ(store(format.type, value), bits);
        }
        continue;
      }
      EXPECT_EQ(value, sign * format.valueOf(size)) << bits;
      EXPECT_EQ(std::signbit(value), sign < 0) << bits;
      EXPECT_EQ(store(format.type, value), bits);
    }
}

TEST(Convert, EightBitsRoundToNearestEven) {
  for (const Fp8 &format : kFp8)
    for (uint8_t size = 0; size <= format.most; ++size) {
      // Between a number and the next one, which behind the largest one is NaN or infinite.
      float below = format.valueOf(size), above = format.valueOf(static_cast<uint8_t>(size + 1));
      float half = below + (above - below) / 2;
      for (unsigned sign : {0u, 0x80u}) {
        auto nearest = [&](float x) { return store(format.type, sign ? -x : x) ^ sign; };
        EXPECT_EQ(nearest(std::nextafter(half, 0.0f)), size);
        EXPECT_EQ(nearest(half), size % 2 ? size + 1 : size);
        EXPECT_EQ(nearest(std::nextafter(half, INFINITY)), size + 1);
      }
    }
}

TEST(Convert, BeyondEightBits) {
  for (float x : {465.0f, 1e6f, 3e38f, INFINITY, NAN, -INFINITY, -500.0f})
    EXPECT_TRUE(std::isnan(load(DType::F8E4M3FN, store(DType::F8E4M3FN, x)))) << x;
  for (float x : {61440.0f, 1e6f, 3e38f, INFINITY}) {
    EXPECT_EQ(store(DType::F8E5M2, x), 0x7c) << x;
    EXPECT_EQ(store(DType::F8E5M2, -x), 0xfc) << x;
  }
  EXPECT_TRUE(std::isnan(load(DType::F8E5M2, store(DType::F8E5M2, NAN))));
  for (const Fp8 &format : kFp8)
    for (float x : {1e-45f, 1e-30f, 0x1p-18f})
      EXPECT_EQ(store(format.type, -x), 0x80) << x;
}

TEST(Convert, VectorsAndStridesAgree) {
  std::mt19937 random(3);
  constexpr int64_t n = 1003;
  std::vector<float> values(n);
  for (float &value : values) {
    uint32_t bits = random();
    std::memcpy(&value, &bits, 4);
  }
  for (DType type : {DType::F16, DType::BF16}) {
    std::vector<uint16_t> dense(n), strided(3 * n);
    storeFromF32(type, values.data(), dense.data(), 1, n);
    storeFromF32(type, values.data(), strided.data(), 3, n);
    std::vector<float> back(n), backStrided(n);
    loadAsF32(type, dense.data(), 1, n, back.data());
    loadAsF32(type, strided.data(), 3, n, backStrided.data());
    for (int64_t i = 0; i < n; ++i)
      if (std::isnan(values[i]))
        EXPECT_TRUE(std::isnan(back[i]) && std::isnan(backStrided[i]));
      else
        ASSERT_EQ(dense[i], strided[3 * i]) << values[i];
  }
}

Layout strided(std::initializer_list<int64_t> shape, std::initializer_list<int64_t> strides) {
  Layout layout = Layout::dense(DType::I32, shape);
  std::copy(strides.begin(), strides.end(), layout.strides.begin());
  return layout;
}

/// The elements of `layout` in row-major order, found index by index.
std::vector<int32_t> gather(const Layout &layout, const std::vector<int32_t> &memory) {
  std::vector<int32_t> result;
  for (int64_t i = 0; i < layout.numElements(); ++i) {
    int64_t rest = i, offset = 0;
    for (unsigned d = layout.rank; d-- > 0;) {
      offset += rest % layout.shape[d] * layout.strides[d];
      rest /= layout.shape[d];
    }
    result.push_back(memory[static_cast<size_t>(offset)]);
  }
  return result;
}

TEST(CopyPlan, PacksAndUnpacksAsAnElementwiseWalk) {
  std::vector<int32_t> memory(1000);
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<int32_t>(i + 1);
  const Layout layouts[] = {
      strided({}, {}),
      strided({7}, {1}),
      strided({7}, {3}),
      strided({3, 5}, {5, 1}),
      strided({3, 5}, {9, 1}),
      strided({5, 3}, {1, 5}),
      strided({9, 8}, {1, 11}),
      strided({2, 3, 4}, {100, 4, 1}),
      strided({2, 3, 4}, {12, 50, 1}),
      strided({2, 3, 4}, {2, 4, 12}),
      strided({1, 4, 1, 2}, {77, 2, 99, 1}),
      strided({3, 4}, {0, 1}),
      strided({3, 4}, {4, 0}),
      strided({2, 2, 2, 2}, {64, 16, 4, 1}),
      strided({3, 0, 5}, {1, 1, 1}),
  };
  for (const Layout &layout : layouts) {
    Layout dense = Layout::dense(layout.dtype, layout.shape.data(), layout.rank);
    std::vector<int32_t> packed(static_cast<size_t>(layout.numElements())), back(1000, -1);
    CopyPlan(dense, layout).run(packed.data(), memory.data());
    EXPECT_EQ(packed, gather(layout, memory)) << layout.str();
    CopyPlan(layout, dense).run(back.data(), packed.data());
    EXPECT_EQ(gather(layout, back), packed) << layout.str();
  }
}

TEST(LoopNest, RowsAsOffsets) {
  Layout layout = strided({2, 3, 5}, {100, 20, 1});
  LoopNest nest({layout, Layout::dense(DType::I32, {2, 3, 5})}, /*inOrder=*/true);
  std::vector<std::pair<int64_t, int64_t>> rows;
  nest.run({int64_t(0), int64_t(0)},
           [&](const int64_t *at) { rows.emplace_back(at[0] / 4, at[1] / 4); });
  EXPECT_EQ(nest.rowLength(), 5);
  std::vector<std::pair<int64_t, int64_t>> expected = {{0, 0},    {20, 5},   {40, 10},
                                                       {100, 15}, {120, 20}, {140, 25}};
  EXPECT_EQ(rows, expected);
}

TEST(LoopNest, MergesWhatFollows) {
  Layout a = Layout::dense(DType::F32, {4, 5, 6});
  EXPECT_EQ(LoopNest({a, a}).rowLength(), 120);
  EXPECT_EQ(LoopNest({a, a}).numRows(), 1);
  Layout wide = a;
  wide.strides[0] = 40;
  EXPECT_EQ(LoopNest({wide, a}).rowLength(), 30);
  EXPECT_EQ(LoopNest({wide, a}).numRows(), 4);
  EXPECT_EQ(LoopNest({Layout::dense(DType::F32, {3, 0})}).numRows(), 0);
  EXPECT_EQ(LoopNest({Layout::dense(DType::F32, {})}).rowLength(), 1);
}

TEST(Combine, ManySources) {
  Layout l = Layout::dense(DType::BF16, {700});
  std::vector<std::vector<uint16_t>> in(5, std::vector<uint16_t>(700));
  std::vector<const void *> pointers;
  for (int k = 0; k < 5; ++k) {
    for (int i = 0; i < 700; ++i)
      in[k][i] = store(DType::BF16, static_cast<float>(k + i % 8) + 0x1p-6f);
    pointers.push_back(in[k].data());
  }
  std::vector<uint16_t> out(700);
  CombinePlan(l, std::vector<Layout>(5, l), ReduceOp::Sum).run(out.data(), pointers.data());
  for (int i = 0; i < 700; ++i) {
    float sum = 0; // rounded once, at the end
    for (int k = 0; k < 5; ++k)
      sum += load(DType::BF16, in[k][i]);
    ASSERT_EQ(out[i], store(DType::BF16, sum));
  }
}

} // namespace
} // namespace tandem
