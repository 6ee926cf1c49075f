//===- SlicesTest.cpp - what one iteration takes of a buffer ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Slices.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>
#include <memory>

using namespace mlir;
using namespace tandem;

namespace {

/// A part of a stream digit in the table: (size, value), `count` values from there, the last slice.
struct Index {
  int64_t size, value, count = 1;
  bool isShort = false;
};

struct SlicesTest : testing::Test {
  SlicesTest() {
    DialectRegistry registry;
    registerTandemDialects(registry);
    context = std::make_unique<MLIRContext>(registry);
    context->loadAllAvailableDialects();
    module = ModuleOp::create(UnknownLoc::get(context.get()));
    builder = std::make_unique<OpBuilder>(module->getBodyRegion());
  }
  ~SlicesTest() override { builder.reset(); }

  Location loc() { return builder->getUnknownLoc(); }
  Value constant(int64_t value) { return arith::ConstantIndexOp::create(*builder, loc(), value); }

  /// f32 elements of this shape, on devices x = 4 and y = 2.
  RankedTensorType type(const std::string &shape, const std::string &dims) {
    return cast<RankedTensorType>(parseType(
        "tensor<" + shape + "xf32, #fusion.axes<#tandem.mesh<\"m\", [\"x\" = 4, \"y\" = 2]>, [" +
            dims + "]>>",
        context.get()));
  }

  SliceIndex slice(const std::vector<std::vector<Index>> &streams) {
    SliceIndex index;
    for (const std::vector<Index> &parts : streams) {
      SmallVector<IndexPart> &mine = index.digits.emplace_back();
      for (const Index &part : parts) {
        IndexPart &made = mine.emplace_back();
        made.size = part.size;
        made.value = constant(part.value);
        made.count = part.count;
        made.isShort = part.isShort;
      }
    }
    return index;
  }

  /// "3 @ 1", "10 @ 4+4" (`length` indices from the first one on) or "4" (kept).
  static std::string text(const LocalDigit &digit) {
    std::string result = std::to_string(digit.size);
    if (!digit.index)
      return result;
    std::optional<int64_t> index = getConstantIntValue(digit.index);
    if (!index)
      return result + " @ ?";
    return result + " @ " + std::to_string(*index * std::max<int64_t>(digit.chunk, 1)) +
           (digit.chunk ? "+" + std::to_string(digit.length) : "");
  }

  static std::string text(const LocalDims &dims) {
    std::string result;
    for (ArrayRef<LocalDigit> digits : dims) {
      result += result.empty() ? "" : "; ";
      for (auto [i, digit] : llvm::enumerate(digits))
        result += (i ? ", " : "") + text(digit);
    }
    return result;
  }

  /// The type of the view of a device's buffer: its shape, strides and first element.
  std::string view(RankedTensorType type, const LocalDims &dims, bool keepRank) {
    auto memory = MemRefType::get(*fusion::getLocalShape(type), type.getElementType());
    Value buffer = memref::AllocOp::create(*builder, loc(), memory);
    std::string result;
    llvm::raw_string_ostream(result) << makeView(*builder, loc(), buffer, dims, keepRank).getType();
    return result;
  }

  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<OpBuilder> builder;
};

TEST_F(SlicesTest, Table) {
  struct Row {
    const char *shape, *dims;
    std::vector<std::vector<Index>> streams; ///< none: everything is kept
    const char *digits, *view;
    bool keepRank = true;
  };
  const Row rows[] = {
      // Everything that a device has.
      {"12x8", "-, -", {}, "12; 8", "memref<12x8xf32>"},
      {"12x8", "stream(3), -", {}, "3, 4; 8", "memref<12x8xf32>"},
      {"16x8", "didx(\"x\"), -", {}, "4; 8", "memref<4x8xf32>"},
      {"16x8", "serial(2) * didx(\"x\"), -", {}, "2, 2; 8", "memref<4x8xf32>"},
      // One slice of rows, of columns, of both.
      {"12x8",
       "stream(3), -",
       {{{3, 1}}},
       "3 @ 1, 4; 8",
       "memref<4x8xf32, strided<[8, 1], offset: 32>>"},
      {"12x8",
       "-, stream(2)",
       {{{2, 1}}},
       "12; 2 @ 1, 4",
       "memref<12x4xf32, strided<[8, 1], offset: 4>>"},
      {"12x8",
       "stream(3), stream(2)",
       {{{3, 2}}, {{2, 1}}},
       "3 @ 2, 4; 2 @ 1, 4",
       "memref<4x4xf32, strided<[8, 1], offset: 68>>"},
      // One row: a dimension of extent 1, or none.
      {"4x8", "stream, -", {{{4, 3}}}, "4 @ 3; 8", "memref<1x8xf32, strided<[8, 1], offset: 24>>"},
      {"4x8",
       "stream, -",
       {{{4, 3}}},
       "4 @ 3; 8",
       "memref<8xf32, strided<[1], offset: 24>>",
       /*keepRank=*/false},
      // Of a device's rows; device digits take no memory.
      {"16x8",
       "didx(\"x\") * stream(2), -",
       {{{2, 1}}},
       "2 @ 1, 2; 8",
       "memref<2x8xf32, strided<[8, 1], offset: 16>>"},
      {"16x8",
       "stream(2) * didx(\"x\"), -",
       {{{2, 1}}},
       "2 @ 1, 2; 8",
       "memref<2x8xf32, strided<[8, 1], offset: 16>>"},
      // Rows with gaps become a dimension of their own.
      {"24x8",
       "serial(3) * stream(2), -",
       {{{2, 1}}},
       "3, 2 @ 1, 4; 8",
       "memref<3x4x8xf32, strided<[64, 8, 1], offset: 32>>"},
      // A digit in parts: owner 1 of 2, chunk 2 of 3.
      {"12x8",
       "stream(6), -",
       {{{2, 1}, {3, 2}}},
       "2 @ 1, 3 @ 2, 2; 8",
       "memref<2x8xf32, strided<[8, 1], offset: 80>>"},
      // Several slices together: they and what is inside are one run.
      {"16x8",
       "stream(4), -",
       {{{4, 1, 2}}},
       "16 @ 4+8; 8",
       "memref<8x8xf32, strided<[8, 1], offset: 32>>"},
      {"16x8", "stream(4), -", {{{4, 0, 4}}}, "16 @ 0+16; 8", "memref<16x8xf32, strided<[8, 1]>>"},
      // Slices of 4, 4 and 2 rows.
      {"10x8", "stream(3), -", {}, "10; 8", "memref<10x8xf32>"},
      {"10x8",
       "stream(3), -",
       {{{3, 1}}},
       "10 @ 4+4; 8",
       "memref<4x8xf32, strided<[8, 1], offset: 32>>"},
      {"10x8",
       "stream(3), -",
       {{{3, 2, 1, true}}},
       "10 @ 8+2; 8",
       "memref<2x8xf32, strided<[8, 1], offset: 64>>"},
      // No rows.
      {"0x8", "-, -", {}, "0; 8", "memref<0x8xf32>"},
  };
  for (const Row &row : rows) {
    SCOPED_TRACE(std::string(row.shape) + " [" + row.dims + "]");
    RankedTensorType tensor = type(row.shape, row.dims);
    SliceIndex index = slice(row.streams);
    LocalDims dims = getLocalDims(tensor, row.streams.empty() ? nullptr : &index);
    EXPECT_EQ(text(dims), row.digits);
    EXPECT_EQ(view(tensor, dims, row.keepRank), row.view);
  }
}

/// Device digits are no part of a buffer, but of an index in the whole tensor.
TEST_F(SlicesTest, StridesInTheWholeTensor) {
  struct Row {
    const char *shape, *dims;
    std::vector<std::vector<Index>> streams;
    const char *digits; ///< each with its stride
  };
  const Row rows[] = {
      {"24", "-", {}, "24 * 1"},
      {"24", "didx(\"x\")", {}, "x 4 * 6, 6 * 1"},
      {"24", "didx(\"y\") * didx(\"x\")", {}, "y 2 * 12, x 4 * 3, 3 * 1"},
      {"24", "didx(\"x\") * stream(2)", {{{2, 1}}}, "x 4 * 6, 2 @ 1 * 3, 3 * 1"},
      {"24", "stream(6)", {{{2, 1}, {3, 2}}}, "2 @ 1 * 12, 3 @ 2 * 4, 4 * 1"},
      {"24", "stream(6)", {{{6, 1, 3}}}, "6 @ 1+3 * 4, 4 * 1"},
      {"10", "stream(3)", {{{3, 2, 1, true}}}, "10 @ 8+2 * 1"},
  };
  for (const Row &row : rows) {
    SCOPED_TRACE(std::string(row.shape) + " [" + row.dims + "]");
    RankedTensorType tensor = type(row.shape, row.dims);
    SliceIndex index = slice(row.streams);
    ArrayRef<SmallVector<IndexPart>> streams = index.digits;
    fusion::AxesAttr axes = fusion::getAxes(tensor);
    auto digits = getSliceDigits(axes.getDims()[0], tensor.getDimSize(0), axes.getMesh(), streams);
    ASSERT_TRUE(succeeded(digits));
    EXPECT_TRUE(streams.empty());
    std::string found;
    for (const SliceDigit &digit : *digits)
      found += (found.empty() ? "" : ", ") +
               (digit.axis ? digit.axis.getValue().str() + " " : std::string()) +
               text(digit.local) + " * " + std::to_string(digit.stride);
    EXPECT_EQ(found, row.digits);
  }
}

TEST_F(SlicesTest, IterationToIndices) {
  struct Row {
    std::vector<int64_t> sizes;
    int64_t iteration;
    std::vector<int64_t> indices;
  };
  const Row rows[] = {{{}, 0, {}},
                      {{5}, 3, {3}},
                      {{3, 2}, 0, {0, 0}},
                      {{3, 2}, 5, {2, 1}},
                      {{2, 3, 4}, 23, {1, 2, 3}},
                      {{2, 3, 4}, 13, {1, 0, 1}}};
  for (const Row &row : rows) {
    SliceIndex index = getSliceIndex(*builder, loc(), row.sizes, constant(row.iteration));
    std::vector<int64_t> found;
    for (ArrayRef<IndexPart> parts : index.digits)
      found.push_back(getConstantIntValue(parts.front().value).value_or(-1));
    EXPECT_EQ(found, row.indices);
  }
}

/// What makeView gives each dimension: one, and one more behind each gap.
TEST_F(SlicesTest, ViewRanks) {
  SliceIndex second = slice({{{2, 1}}});
  EXPECT_EQ(getViewRanks(getLocalDims(type("24x8", "serial(3) * stream(2), -"), &second)),
            (SmallVector<int64_t>{2, 1}));
  EXPECT_EQ(getViewRanks(getLocalDims(type("24x8", "stream(2) * serial(3), -"), &second)),
            (SmallVector<int64_t>{1, 1}));
  EXPECT_EQ(getViewRanks(getLocalDims(type("24x8", "serial(3) * stream(2), -"), nullptr)),
            (SmallVector<int64_t>{1, 1}));
}

} // namespace
