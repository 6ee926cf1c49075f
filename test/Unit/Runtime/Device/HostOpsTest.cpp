//===- HostOpsTest.cpp - conversions and loops ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

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
