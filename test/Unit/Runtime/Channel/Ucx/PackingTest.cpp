//===- PackingTest.cpp - strided operands as contiguous bytes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Packing.h"

#include <gtest/gtest.h>
#include <numeric>

using namespace tandem;
using namespace tandem::ucx;

static Layout strided(std::initializer_list<int64_t> shape,
                      std::initializer_list<int64_t> strides) {
  Layout layout = Layout::dense(DType::I32, shape);
  std::copy(strides.begin(), strides.end(), layout.strides.begin());
  return layout;
}

/// The elements of `layout` in row-major order, found index by index.
static std::vector<int32_t> gather(const Layout &layout, const std::vector<int32_t> &memory) {
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

TEST(Packing, MatchesAnElementwiseWalk) {
  std::vector<int32_t> memory(1000);
  std::iota(memory.begin(), memory.end(), 1);
  const Layout layouts[] = {
      strided({}, {}),
      strided({7}, {1}),
      strided({7}, {3}),
      strided({3, 5}, {5, 1}),
      strided({3, 5}, {9, 1}),
      strided({5, 3}, {1, 5}),
      strided({2, 3, 4}, {100, 4, 1}),
      strided({2, 3, 4}, {12, 50, 1}),
      strided({2, 3, 4}, {2, 4, 12}),
      strided({1, 4, 1, 2}, {77, 2, 99, 1}),
      strided({3, 4}, {0, 1}),
      strided({3, 4}, {4, 0}),
      strided({2, 2, 2, 2}, {64, 16, 4, 1}),
  };
  for (const Layout &layout : layouts) {
    Runs runs(layout);
    ASSERT_EQ(runs.bytes(), layout.numBytes()) << layout.str();
    std::vector<int32_t> packed(static_cast<size_t>(layout.numElements()));
    runs.pack(reinterpret_cast<std::byte *>(packed.data()), memory.data());
    EXPECT_EQ(packed, gather(layout, memory)) << layout.str();
    std::vector<int32_t> back(1000, -1);
    runs.unpack(back.data(), reinterpret_cast<std::byte *>(packed.data()));
    EXPECT_EQ(gather(layout, back), packed) << layout.str();
  }
}

TEST(Packing, DenseIsOneRun) {
  EXPECT_TRUE(Runs(Layout::dense(DType::BF16, {3, 4, 5})).contiguous());
  EXPECT_EQ(Runs(Layout::dense(DType::BF16, {3, 4, 5})).runBytes(), 120u);
  EXPECT_TRUE(Runs(strided({1, 5}, {9, 1})).contiguous());
  EXPECT_FALSE(Runs(strided({2, 5}, {9, 1})).contiguous());
  EXPECT_EQ(Runs(strided({2, 5}, {9, 1})).runBytes(), 20u);
}

TEST(Packing, NoElements) {
  Runs runs(strided({3, 0, 5}, {1, 1, 1}));
  EXPECT_EQ(runs.bytes(), 0u);
  EXPECT_TRUE(runs.contiguous());
  runs.forEach([](uint64_t, uint64_t) { FAIL(); });
}
