//===- OverlapTest.cpp - do two views touch the same bytes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

namespace tandem::program {

namespace {

Layout layout(std::vector<int64_t> shape, std::vector<int64_t> strides, DType dtype = DType::F32) {
  Layout result;
  result.dtype = dtype;
  result.rank = static_cast<uint8_t>(shape.size());
  std::copy(shape.begin(), shape.end(), result.shape.begin());
  std::copy(strides.begin(), strides.end(), result.strides.begin());
  return result;
}

/// Every byte that a view touches, one by one; how often the most touched is.
std::set<uint64_t> bytesOf(uint64_t base, const Layout &l, bool &injective) {
  std::set<uint64_t> bytes;
  injective = true;
  int64_t n = l.numElements();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = 0;
    for (unsigned d = l.rank; d-- > 0;) {
      at += rest % l.shape[d] * l.strides[d];
      rest /= l.shape[d];
    }
    for (unsigned b = 0; b < sizeOf(l.dtype); ++b)
      injective &= bytes.insert(base + static_cast<uint64_t>(at) * sizeOf(l.dtype) + b).second;
  }
  return bytes;
}

TEST(Overlap, AgreesWithEnumeration) {
  std::mt19937 random(7);
  auto pick = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
  };
  int overlapping = 0, same = 0, onto = 0;
  for (int i = 0; i < 4000; ++i) {
    auto any = [&] {
      auto rank = static_cast<size_t>(pick(3));
      std::vector<int64_t> shape(rank), strides(rank);
      for (size_t d = 0; d < rank; ++d) {
        shape[d] = pick(4);
        strides[d] = pick(9);
      }
      return layout(shape, strides, pick(1) ? DType::F32 : DType::F16);
    };
    Layout a = any(), b = pick(3) ? any() : a;
    uint64_t at = static_cast<uint64_t>(pick(20)) * 4,
             bt = pick(3) ? static_cast<uint64_t>(pick(20)) * 4 : at;
    bool injectiveA = false, injectiveB = false;
    std::set<uint64_t> bytesA = bytesOf(at, a, injectiveA), bytesB = bytesOf(bt, b, injectiveB);
    bool meet = false;
    for (uint64_t byte : bytesA)
      meet |= bytesB.count(byte) > 0;
    Overlap found = overlap(at, a, bt, b);
    ASSERT_EQ(found != Overlap::None, meet)
        << a.str() << " at " << at << ", " << b.str() << " at " << bt;
    if (found == Overlap::Same) {
      ASSERT_EQ(bytesA, bytesB);
    }
    overlapping += meet;
    same += found == Overlap::Same;
    // isInjective may refuse what is injective, never the other way round.
    if (isInjective(a)) {
      ASSERT_TRUE(injectiveA) << a.str();
    }
    onto += isInjective(a);
  }
  // The random views have met all answers.
  EXPECT_GT(overlapping, 500);
  EXPECT_GT(same, 50);
  EXPECT_GT(onto, 500);
}

TEST(Overlap, Slices) {
  EXPECT_TRUE(isInjective(layout({4, 8}, {8, 1})));
  EXPECT_TRUE(isInjective(layout({4, 8}, {1, 4})));
  EXPECT_TRUE(isInjective(layout({4, 1, 3}, {100, 0, 5})));
  EXPECT_FALSE(isInjective(layout({4, 8}, {0, 1})));
  EXPECT_FALSE(isInjective(layout({4, 8}, {7, 1})));
  EXPECT_TRUE(isInjective(layout({0, 8}, {0, 0})));
  // Strides of dimensions of one index do not count.
  EXPECT_EQ(overlap(0, layout({1, 8}, {8, 1}), 0, layout({1, 8}, {99, 1})), Overlap::Same);
  // Columns beside columns.
  EXPECT_EQ(overlap(0, layout({100, 4}, {8, 1}), 16, layout({100, 4}, {8, 1})), Overlap::None);
  EXPECT_EQ(overlap(0, layout({100, 4}, {8, 1}), 12, layout({100, 4}, {8, 1})), Overlap::Partial);
}

} // namespace
} // namespace tandem::program
