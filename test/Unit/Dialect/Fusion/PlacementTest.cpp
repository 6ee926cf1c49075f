//===- PlacementTest.cpp - placement against an enumeration index by index -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "RandomAxes.h"
#include "tandem/Program/Shard.h"
#include <map>

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;
using namespace tandem::fusion::testing;

namespace {

using Ints = SmallVector<int64_t>;

/// Flat indices in the order of a walk; of the buffer of shape `valid`, if one is given: what the
/// stream program's reader makes of both.
std::vector<int64_t> follow(const StridedWalk &walk, ArrayRef<int64_t> valid = {}) {
  Shard shard;
  shard.offset = walk.offset;
  shard.shape.assign(walk.shape.begin(), walk.shape.end());
  shard.strides.assign(walk.strides.begin(), walk.strides.end());
  if (!valid.empty() && shard.numElements() != ShapedType::getNumElements(valid))
    shard.local.assign(valid.begin(), valid.end());
  std::vector<int64_t> flat;
  shard.forEach([&](int64_t, int64_t logical) { flat.push_back(logical); });
  return flat;
}

class Placement : public FusionTest {};

TEST_F(Placement, ResolvesDigits) {
  RankedTensorType t =
      type("#tandem.mesh<\"m\", [\"x\" = 4]>", "48x", "[serial(2) * didx(\"x\") * stream(3)]");
  auto dims = resolveDims(t);
  ASSERT_TRUE(succeeded(dims));
  StringAttr x = StringAttr::get(&context, "x");
  SmallVector<ResolvedDigit> expected{{DigitKind::Serial, {}, 2, 24},
                                      {DigitKind::Device, x, 4, 6},
                                      {DigitKind::Stream, {}, 3, 2},
                                      {DigitKind::Serial, {}, 2, 1}};
  EXPECT_EQ((*dims)[0], expected);
}

TEST_F(Placement, BareStreamIsAllThatIsLeft) {
  RankedTensorType t =
      type("#tandem.mesh<\"m\", [\"x\" = 4]>", "48x5x", "[didx(\"x\") * stream, -]");
  auto dims = resolveDims(t);
  ASSERT_TRUE(succeeded(dims));
  StringAttr x = StringAttr::get(&context, "x");
  SmallVector<ResolvedDigit> first{{DigitKind::Device, x, 4, 12}, {DigitKind::Stream, {}, 12, 1}};
  SmallVector<ResolvedDigit> second{{DigitKind::Serial, {}, 5, 1}};
  EXPECT_EQ((*dims)[0], first);
  EXPECT_EQ((*dims)[1], second);
  EXPECT_EQ(*getStreamSizes(t), (Ints{12}));
}

TEST_F(Placement, WhatIsNotKnownFails) {
  RankedTensorType dynamic =
      type("#tandem.mesh<\"m\", [\"x\" = 4]>", "?x5x", "[didx(\"x\"), stream(5)]");
  EXPECT_EQ(*getLocalShape(dynamic), (Ints{ShapedType::kDynamic, 5}));
  EXPECT_TRUE(failed(getShard(dynamic, 0)));
  RankedTensorType mesh = type("#tandem.mesh<\"m\", [\"x\" = ?]>", "8x", "[didx(\"x\")]");
  EXPECT_TRUE(failed(getLocalShape(mesh)));
  auto undecided = RankedTensorType::get({4}, Float32Type::get(&context));
  EXPECT_TRUE(failed(getLocalShape(undecided)));
  EXPECT_TRUE(failed(resolveDims(undecided)));
}

TEST_F(Placement, OutOfRangeFails) {
  RankedTensorType t = type("#tandem.mesh<\"m\", [\"x\" = 4]>", "8x", "[didx(\"x\") * stream(2)]");
  EXPECT_TRUE(failed(getShard(t, -1)));
  EXPECT_TRUE(failed(getShard(t, 4)));
}

TEST_F(Placement, EmptyAndScalarTensors) {
  std::string mesh = "#tandem.mesh<\"m\", [\"x\" = 2]>";
  RankedTensorType empty = type(mesh, "0x4x", "[didx(\"x\") * stream(3), -]");
  EXPECT_EQ(*getLocalShape(empty), (Ints{0, 4}));
  EXPECT_TRUE(follow(*getShard(empty, 1)).empty());
  RankedTensorType scalar = type(mesh, "", "[]");
  EXPECT_EQ(*getLocalShape(scalar), Ints{});
  EXPECT_EQ(follow(*getShard(scalar, 1)), std::vector<int64_t>{0});
}

TEST_F(Placement, BlockCyclicShard) {
  RankedTensorType t =
      type("#tandem.mesh<\"m\", [\"x\" = 2]>", "8x3x", "[serial(2) * didx(\"x\"), -]");
  auto walk = getShard(t, 1);
  ASSERT_TRUE(succeeded(walk));
  EXPECT_EQ(walk->offset, 6);
  EXPECT_EQ(walk->shape, (Ints{2, 2, 3}));
  EXPECT_EQ(walk->strides, (Ints{12, 3, 1}));
}

// The worked example of Placement.h, and device 0, whose blocks are whole.
TEST_F(Placement, LastBlockIsShorter) {
  RankedTensorType t = type("#tandem.mesh<\"m\", [\"x\" = 2]>", "12x", "[serial(2) * didx(\"x\")]");
  auto walk = getShard(t, {11}, 1);
  ASSERT_TRUE(succeeded(walk));
  EXPECT_EQ(walk->offset, 3);
  EXPECT_EQ(walk->shape, (Ints{2, 3}));
  EXPECT_EQ(walk->strides, (Ints{6, 1}));
  EXPECT_EQ(*getValidShape(t, {11}, 1), (Ints{5}));
  EXPECT_EQ(follow(*getShard(t, {11}, 0)), (std::vector<int64_t>{0, 1, 2, 6, 7, 8}));
  // No second block.
  EXPECT_EQ(follow(*getShard(t, {6}, 1)), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(follow(*getShard(t, {5}, 1)), (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(follow(*getShard(t, {3}, 1)).empty());
}

TEST_F(Placement, LastSliceIsShorter) {
  std::string mesh = "#tandem.mesh<\"m\", [\"x\" = 2]>";
  RankedTensorType t = type(mesh, "20x3x", "[didx(\"x\") * stream(3), -]");
  auto dims = resolveDims(t);
  ASSERT_TRUE(succeeded(dims));
  auto x = StringAttr::get(&context, "x");
  SmallVector<ResolvedDigit> digits{{DigitKind::Device, x, 2, 10},
                                    {DigitKind::Stream, {}, 3, 4, 10}};
  EXPECT_EQ((*dims)[0], digits);
  EXPECT_EQ(*getStreamSizes(t), (Ints{3}));
  EXPECT_EQ(*getLocalShape(t), (Ints{10, 3}));
  // Device 1 holds rows 10 to 19; its slices have 4, 4 and 2 of them.
  std::vector<int64_t> shard = follow(*getShard(t, 1));
  EXPECT_EQ(shard.size(), 30u);
  EXPECT_EQ(shard.front(), 30);
  EXPECT_EQ(shard.back(), 59);
}

TEST_F(Placement, SliceCountsLeaveNoneEmpty) {
  for (int64_t extent = 1; extent < 40; ++extent)
    for (int64_t count = 1; count < 45; ++count) {
      int64_t slice = (extent + count - 1) / count;
      EXPECT_EQ(isSliceCount(extent, count), (count - 1) * slice < extent)
          << count << " of " << extent;
    }
  EXPECT_FALSE(isSliceCount(int64_t(1) << 62, (int64_t(1) << 61) - 1));
}

TEST_F(Placement, PartialIsHeldByAll) {
  std::string mesh = "#tandem.mesh<\"m\", [\"x\" = 2, \"y\" = 2]>";
  RankedTensorType t = type(mesh, "4x", "[didx(\"y\")], partial = [\"x\"]");
  EXPECT_EQ(follow(*getShard(t, 1)), (std::vector<int64_t>{2, 3}));
}

// The worked examples of Placement.h and FusionAttrs.h that no other test has.
TEST_F(Placement, Examples) {
  std::string x4 = "#tandem.mesh<\"m\", [\"x\" = 4]>", x2 = "#tandem.mesh<\"m\", [\"x\" = 2]>";
  StringAttr x = StringAttr::get(&context, "x");
  auto digits = resolveDims(type(x4, "8x", "[didx(\"x\") * stream(2)]"));
  ASSERT_TRUE(succeeded(digits));
  SmallVector<ResolvedDigit> expected{{DigitKind::Device, x, 4, 2}, {DigitKind::Stream, {}, 2, 1}};
  EXPECT_EQ(digits->front(), expected);
  EXPECT_EQ(getDigitSize(Digit::device(x), getAxes(type(x4, "8x", "[-]")).getMesh()), 4);
  RankedTensorType streamed = type(x4, "48x8x", "[didx(\"x\") * stream(3), -]");
  EXPECT_EQ(*getLocalShape(streamed), (Ints{12, 8}));
  RankedTensorType grid = type(x4, "3x2x", "[stream(3), stream(2)]");
  EXPECT_EQ(*getStreamSizes(grid), (Ints{3, 2}));
  FailureOr<StridedWalk> shard = getShard(type(x2, "8x6x", "[-, didx(\"x\")]"), 1);
  ASSERT_TRUE(succeeded(shard));
  EXPECT_EQ(shard->offset, 3);
  EXPECT_EQ(shard->shape, (Ints{8, 3}));
  EXPECT_EQ(shard->strides, (Ints{6, 1}));
}

TEST_F(Placement, ErasesParallelAxes) {
  RankedTensorType t =
      type("#tandem.mesh<\"m\", [\"x\" = 2]>", "4x4x", "[stream, -], partial = max [\"x\"]");
  RankedTensorType expected = type("#tandem.mesh<\"one\", []>", "4x4x", "[-, -]");
  EXPECT_EQ(eraseParallelAxes(t), expected);
  EXPECT_EQ(eraseParallelAxes(RankedTensorType::get({4, 4}, Float32Type::get(&context))), expected);
}

/// Random types; every function against the enumeration.
class PlacementProperty : public Placement, public ::testing::WithParamInterface<unsigned> {};

TEST_P(PlacementProperty, AgreesWithEnumeration) {
  RandomAxes random(&context, GetParam());
  int padded = 0; // shards with padding
  for (int round = 0; round < 20; ++round) {
    MeshAttr mesh = random.mesh();
    Ints extents;
    RankedTensorType t = random.type(mesh, extents, 1 + random.upTo(2), /*mayBePartial=*/true);
    if (t.getNumElements() > 20000)
      continue;
    std::string text;
    llvm::raw_string_ostream(text) << t;
    SCOPED_TRACE(text);
    std::vector<Element> elements = enumerate(t);

    // Shards: the local buffer of each device, element by element.
    Ints local = *getLocalShape(t);
    int64_t localCount = 1;
    for (int64_t extent : local)
      localCount *= extent;
    for (int64_t p = 0; p < mesh.numDevices(); ++p) {
      std::vector<int64_t> buffer(localCount, -1);
      for (const Element &element : elements)
        if (holds(mesh, p, element)) {
          ASSERT_LT(element.local, localCount);
          ASSERT_EQ(buffer[element.local], -1);
          buffer[element.local] = element.logical;
        }
      ASSERT_EQ(follow(*getShard(t, p)), buffer);
    }

    // Of a smaller tensor that was padded: what is not padding, in the same order.
    Ints smaller;
    for (int64_t extent : t.getShape())
      smaller.push_back(extent - random.upTo(std::min<int64_t>(extent, 4)));
    for (int64_t p = 0; p < mesh.numDevices(); ++p) {
      std::map<int64_t, int64_t> byLocal;
      for (const Element &element : elements) {
        int64_t logical = 0;
        bool isValid = holds(mesh, p, element);
        for (auto [index, extent] : llvm::zip_equal(element.index, smaller)) {
          isValid &= index < extent;
          logical = logical * extent + index;
        }
        if (isValid)
          byLocal[element.local] = logical;
      }
      std::vector<int64_t> buffer;
      for (auto [local, logical] : byLocal)
        buffer.push_back(logical);
      int64_t count = 1;
      FailureOr<SmallVector<int64_t>> shape = getValidShape(t, smaller, p);
      for (int64_t extent : *shape)
        count *= extent;
      ASSERT_EQ(count, static_cast<int64_t>(buffer.size()));
      // Blocks may have different lengths.
      ASSERT_EQ(follow(*getShard(t, smaller, p), *shape), buffer);
      padded += count != localCount;
    }
  }
  EXPECT_GT(padded, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlacementProperty, ::testing::Range(0u, 40u));

} // namespace
