//===- FootprintsTest.cpp - which views share bytes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Footprints.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace tandem;
using namespace tandem::check;

namespace {

Layout strided(DType dtype, std::initializer_list<int64_t> shape,
               std::initializer_list<int64_t> strides) {
  Layout layout = Layout::dense(dtype, shape);
  std::copy(strides.begin(), strides.end(), layout.strides.begin());
  return layout;
}

std::set<uint64_t> bytes(uint64_t address, const Layout &layout) {
  std::set<uint64_t> result;
  std::vector<int64_t> index(layout.rank, 0);
  for (int64_t n = 0; n < layout.numElements(); ++n) {
    int64_t at = 0;
    for (unsigned d = 0; d < layout.rank; ++d)
      at += index[d] * layout.strides[d];
    for (unsigned b = 0; b < sizeOf(layout.dtype); ++b)
      result.insert(address + static_cast<uint64_t>(at) * sizeOf(layout.dtype) + b);
    for (unsigned d = layout.rank; d-- > 0;) {
      if (++index[d] < layout.shape[d])
        break;
      index[d] = 0;
    }
  }
  return result;
}

} // namespace

TEST(Footprints, RunsJoin) {
  ByteSet dense(Layout::dense(DType::F32, {4, 8}));
  EXPECT_TRUE(dense.dims.empty());
  EXPECT_EQ(dense.run, 128u);
  ByteSet columns(strided(DType::F32, {4, 2}, {8, 1}));
  ASSERT_EQ(columns.dims.size(), 1u);
  EXPECT_EQ(columns.run, 8u);
  EXPECT_EQ(columns.span, 104u);
  EXPECT_EQ(columns.bytes, 32u);
}

TEST(Footprints, RowsAndColumns) {
  ByteSet row(Layout::dense(DType::F32, {8})), column(strided(DType::F32, {4}, {8}));
  EXPECT_EQ(commonBytes(32, row, 0, column), 4u);
  EXPECT_EQ(commonBytes(32, row, 4 * 7, column), 4u);
  EXPECT_EQ(commonBytes(0, column, 4, column), 0u);
  EXPECT_EQ(commonBytes(0, column, 32, column), 12u);
}

/// Against byte sets written out, over random layouts.
TEST(Footprints, Random) {
  std::mt19937 random(7);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int n = 0; n < 4000; ++n) {
    Layout layouts[2];
    uint64_t addresses[2];
    int64_t pitch = pick(1, 2) == 1 ? 8 : pick(5, 12), plane = pitch * pick(3, 5);
    for (int i = 0; i < 2; ++i) {
      int64_t inner = pick(1, 2);
      layouts[i] = strided(pick(0, 1) ? DType::F32 : DType::F16,
                           {pick(1, 3), pick(1, 4), pick(1, pitch / 2)}, {plane, pitch, inner});
      addresses[i] = static_cast<uint64_t>(pick(0, 40)) * 2;
    }
    std::set<uint64_t> a = bytes(addresses[0], layouts[0]), b = bytes(addresses[1], layouts[1]);
    std::vector<uint64_t> both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    ASSERT_EQ(ByteSet(layouts[0]).bytes, a.size()) << layouts[0].str();
    ASSERT_EQ(commonBytes(addresses[0], ByteSet(layouts[0]), addresses[1], ByteSet(layouts[1])),
              both.size())
        << addresses[0] << " " << layouts[0].str() << " " << addresses[1] << " "
        << layouts[1].str();
  }
}
