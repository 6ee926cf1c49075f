//===- TypesTest.cpp - statuses, layouts, views ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Types.h"
#include "tandem/Program/RowCopy.h"
#include "tandem/Program/Status.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>

namespace tandem {

namespace {

Expected<std::unique_ptr<int>> half(int n) {
  if (n % 2)
    return Status(Code::InvalidArgument, "odd");
  return std::make_unique<int>(n / 2);
}

Expected<int> quarter(int n) {
  TANDEM_ASSIGN_OR_RETURN(auto first, half(n));
  TANDEM_ASSIGN_OR_RETURN(auto second, half(*first));
  return *second;
}

TEST(Status, Values) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().message(), "");
  EXPECT_TRUE(Status(Code::Ok, "ignored").ok());
  Status error(Code::Timeout, "late");
  EXPECT_EQ(error.code(), Code::Timeout);
  EXPECT_EQ(error.withPrefix("rank 1: ").message(), "rank 1: late");
  EXPECT_TRUE(Status().withPrefix("rank 1: ").ok());
  EXPECT_EQ(toString(Code::InvalidProgram), "invalid-program");
}

TEST(Status, Expected) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status().message(), "odd");
  Expected<int> nothing{Status()};
  EXPECT_EQ(nothing.status().code(), Code::Internal);
}

TEST(Layout, Text) {
  EXPECT_EQ(Layout::dense(DType::BF16, {4, 8}).str(), "bf16[4,8]");
  Layout l = Layout::dense(DType::I32, {4, 8});
  l.strides[0] = 10;
  EXPECT_EQ(l.str(), "i32[4,8]{10,1}");
  EXPECT_FALSE(l.isDense());
  EXPECT_EQ(l.spanBytes(), (3 * 10 + 7 + 1) * 4u);
  EXPECT_EQ(l.numBytes(), 128u);
  EXPECT_EQ(Layout::dense(DType::F32, {}).str(), "f32[]");
  EXPECT_EQ(Layout::dense(DType::F32, {}).numElements(), 1);
  EXPECT_EQ(Layout::dense(DType::F32, {3, 0}).spanBytes(), 0u);
}

TEST(Layout, StridesOfOneIndexSayNothing) {
  Layout row = Layout::dense(DType::F32, {1, 8}), column = Layout::dense(DType::F32, {8, 1});
  row.strides[0] = 16;
  column.strides[1] = 5;
  EXPECT_NE(row, Layout::dense(DType::F32, {1, 8}));
  EXPECT_EQ(row.normalized(), Layout::dense(DType::F32, {1, 8}));
  EXPECT_EQ(column.normalized(), Layout::dense(DType::F32, {8, 1}));
  Layout strided = Layout::dense(DType::F32, {4, 8});
  strided.strides[0] = 16;
  EXPECT_EQ(strided.normalized(), strided);
}

TEST(DType, OfMatmuls) {
  std::string found;
  for (unsigned a = 0; a < kNumDTypes; ++a)
    for (unsigned b = 0; b < kNumDTypes; ++b) {
      const auto left = static_cast<DType>(a), right = static_cast<DType>(b);
      if (!areFactors(left, right))
        continue;
      found += fmt::format("{} {} ->", toString(left), toString(right));
      for (unsigned out = 0; out < kNumDTypes; ++out)
        if (isProductType(static_cast<DType>(out), left))
          found += fmt::format(" {}", toString(static_cast<DType>(out)));
      found += '\n';
    }
  EXPECT_EQ(found, "f32 f32 -> f32\n"
                   "f16 f16 -> f32 f16\n"
                   "bf16 bf16 -> f32 bf16\n"
                   "f64 f64 -> f64\n"
                   "f8E4M3FN f8E4M3FN -> f32 f16 bf16\n"
                   "f8E4M3FN f8E5M2 -> f32 f16 bf16\n"
                   "f8E5M2 f8E4M3FN -> f32 f16 bf16\n"
                   "f8E5M2 f8E5M2 -> f32 f16 bf16\n");
}

TEST(Layout, Slice) {
  float data[24] = {};
  TensorView view{data, Layout::dense(DType::F32, {2, 3, 4})};
  TensorView slice = view.slice(1);
  EXPECT_EQ(slice.data, data + 12);
  EXPECT_EQ(slice.layout.str(), "f32[3,4]");
}

TEST(RowCopy, WideRowsAreForCopyEngines) {
  using program::describeRowCopy;
  auto rows = [](int64_t count, int64_t columns, int64_t stride) {
    Layout layout = Layout::dense(DType::F32, {count, columns});
    layout.strides[0] = stride;
    return layout;
  };
  auto piece = describeRowCopy(rows(4, 8, 8), rows(4, 8, 8));
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->bytes, 128u);
  EXPECT_EQ(piece->rows, 1u);
  auto wide = describeRowCopy(rows(4, 256, 256), rows(4, 256, 300));
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->bytes, 1024u);
  EXPECT_EQ(wide->rows, 4u);
  EXPECT_EQ(wide->dstPitch, 1024u);
  EXPECT_EQ(wide->srcPitch, 1200u);
  EXPECT_EQ(describeRowCopy(Layout::dense(DType::F32, {}), Layout::dense(DType::F32, {}))->bytes,
            4u);
  EXPECT_FALSE(describeRowCopy(rows(4, 255, 256), rows(4, 255, 256))); // narrow
  EXPECT_FALSE(describeRowCopy(rows(4, 256, 256), rows(4, 256, 0)));   // repeated
  EXPECT_FALSE(describeRowCopy(rows(4, 256, 256), rows(4, 256, 255))); // overlapping
  EXPECT_FALSE(describeRowCopy(rows(4, 256, 256), rows(4, 256, -256)));
  Layout columns = Layout::dense(DType::F32, {256, 256});
  std::swap(columns.strides[0], columns.strides[1]);
  EXPECT_FALSE(describeRowCopy(columns, rows(256, 256, 256)));
  EXPECT_FALSE(program::isByCopyEngine(columns, rows(256, 256, 256)));
  EXPECT_TRUE(program::isByCopyEngine(rows(0, 3, 9), rows(0, 3, 3)));
}

} // namespace
} // namespace tandem
