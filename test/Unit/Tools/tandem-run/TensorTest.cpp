//===- TensorTest.cpp - tensors, shards, inputs -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::run;

/// What a value becomes in `dtype`.
static uint32_t rounded(DType dtype, double value) {
  Tensor tensor(dtype, {1});
  tensor.set(0, value);
  return tensor.bits(0);
}

TEST(Tensor, EveryHalfIsItself) {
  Tensor tensor(DType::F16, {1});
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    tensor.setBits(0, bits);
    double value = tensor.get(0);
    if (std::isnan(value))
      continue;
    tensor.set(0, value);
    ASSERT_EQ(tensor.bits(0), bits) << value;
  }
}

TEST(Tensor, HalvesRoundToNearestEven) {
  EXPECT_EQ(rounded(DType::F16, 1.0), 0x3c00u);
  EXPECT_EQ(rounded(DType::F16, 1 + std::ldexp(1, -11)), 0x3c00u); // a tie: down to even
  EXPECT_EQ(rounded(DType::F16, 1 + 3 * std::ldexp(1, -11)), 0x3c02u);
  EXPECT_EQ(rounded(DType::F16, 1 + std::ldexp(1.001, -11)), 0x3c01u);
  EXPECT_EQ(rounded(DType::F16, 65519), 0x7bffu);
  EXPECT_EQ(rounded(DType::F16, 65520), 0x7c00u);
  EXPECT_EQ(rounded(DType::F16, -1e9), 0xfc00u);
  EXPECT_EQ(rounded(DType::F16, std::ldexp(1, -24)), 1u);
  EXPECT_EQ(rounded(DType::F16, std::ldexp(1, -25)), 0u); // a tie
  EXPECT_EQ(rounded(DType::F16, -0.0), 0x8000u);
  EXPECT_EQ(rounded(DType::F16, NAN) & 0x7fff, 0x7e00u);
}

TEST(Tensor, BFloatRoundsToNearestEven) {
  EXPECT_EQ(rounded(DType::BF16, 1.0), 0x3f80u);
  EXPECT_EQ(rounded(DType::BF16, 1 + std::ldexp(1, -8)), 0x3f80u);
  EXPECT_EQ(rounded(DType::BF16, 1 + 3 * std::ldexp(1, -8)), 0x3f82u);
  EXPECT_EQ(rounded(DType::BF16, 3.4028e38), 0x7f80u);
  EXPECT_EQ(rounded(DType::BF16, 1 + 0x1p-8 + 0x1p-40), 0x3f81u); // no tie, though it is one in f32
  EXPECT_EQ(rounded(DType::F8E4M3FN, 1 + 0x1p-4 + 0x1p-40), 0x39u);
  EXPECT_EQ(rounded(DType::F16, 1 + 0x1p-11 + 0x1p-40), 0x3c01u);
  Tensor tensor(DType::BF16, {1});
  tensor.set(0, NAN);
  EXPECT_TRUE(std::isnan(tensor.get(0)));
}

TEST(Tensor, PoisonIsNoNumber) {
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    Tensor tensor(dtype, {3});
    poison(tensor);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_TRUE(std::isnan(tensor.get(i)));
  }
}

TEST(Tensor, IndexText) {
  EXPECT_EQ(indexText({2, 3, 4}, 23), "[1,2,3]");
  EXPECT_EQ(indexText({5}, 2), "[2]");
  EXPECT_EQ(indexText({}, 0), "[]");
}

TEST(Shard, WalksInOrder) {
  // Columns 2 and 3 of rows 0 and 2 of a [3, 4].
  Shard shard{true, 2, {2, 2}, {8, 1}, {}};
  std::vector<int64_t> seen;
  shard.forEach([&](int64_t local, int64_t logical) {
    EXPECT_EQ(local, int64_t(seen.size()));
    seen.push_back(logical);
  });
  EXPECT_EQ(seen, (std::vector<int64_t>{2, 3, 10, 11}));
  Shard none{true, 0, {3, 0}, {1, 1}, {}};
  none.forEach([](int64_t, int64_t) { FAIL(); });
}

TEST(Inputs, ShardsAgreeWithTheWhole) {
  ArgumentInfo info;
  info.dtype = DType::BF16;
  info.shape = {4, 6};
  info.localShape = {4, 2};
  Tensor whole = makeInput(5, 1, info);
  for (int64_t rank = 0; rank < 3; ++rank) {
    Shard shard{true, 2 * rank, {4, 2}, {6, 1}, {}};
    Tensor part = makeShard(5, 1, info, shard);
    shard.forEach(
        [&](int64_t local, int64_t logical) { EXPECT_EQ(part.bits(local), whole.bits(logical)); });
  }
  EXPECT_NE(makeInput(5, 0, info).data, whole.data);
  EXPECT_NE(makeInput(6, 1, info).data, whole.data);
}

TEST(Inputs, TermsAddUpExactly) {
  for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::I32})
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min})
      for (uint32_t terms : {1u, 2u, 8u}) {
        ArgumentInfo info;
        info.dtype = dtype;
        info.shape = info.localShape = {100};
        info.partial = true;
        info.partialOp = op;
        Tensor whole = makeInput(3, 0, info);
        Shard shard{true, 0, {100}, {1}, {}};
        std::vector<Tensor> parts;
        info.terms = terms;
        for (shard.term = 0; shard.term < terms; ++shard.term)
          parts.push_back(makeShard(3, 0, info, shard));
        for (int64_t i = 0; i < 100; ++i) {
          double value = parts[0].get(i);
          for (uint32_t term = 1; term < terms; ++term) {
            double next = parts[term].get(i);
            value = op == ReduceOp::Sum   ? value + next
                    : op == ReduceOp::Max ? std::max(value, next)
                                          : std::min(value, next);
          }
          ASSERT_EQ(value, whole.get(i));
        }
      }
}
