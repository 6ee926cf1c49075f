//===- ReshardTest.cpp - one test per row of the reshard table, and properties -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomAxes.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "llvm/ADT/StringSet.h"
#include "gmock/gmock.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;
using namespace tandem::fusion::testing;
using ::testing::HasSubstr;

namespace {

using Ints = SmallVector<int64_t>;

class ReshardTable : public FusionTest {
protected:
  std::string x4 = "#tandem.mesh<\"m\", [\"x\" = 4]>";
  std::string xy = "#tandem.mesh<\"m\", [\"x\" = 2, \"y\" = 2]>";
  std::string one = "#tandem.mesh<\"one\", []>";

  Reshard classify(const std::string &mesh, const std::string &from, const std::string &to) {
    return classifyReshard(type(mesh, "8x8x", from), type(mesh, "8x8x", to));
  }
  Reshard classify(const std::string &fromMesh, const std::string &from, const std::string &toMesh,
                   const std::string &to) {
    return classifyReshard(type(fromMesh, "8x8x", from), type(toMesh, "8x8x", to));
  }
  std::vector<std::string> names(ArrayRef<StringAttr> axes) {
    std::vector<std::string> list;
    for (StringAttr axis : axes)
      list.push_back(axis.str());
    return list;
  }
  using Names = std::vector<std::string>;
};

TEST_F(ReshardTable, OnlyStreamDigitsDiffer) {
  Reshard r = classify(x4, "[didx(\"x\") * stream, -]", "[didx(\"x\"), stream(2)]");
  EXPECT_EQ(r.kind, ReshardKind::Nothing);
  EXPECT_TRUE(r.isLocal());
  EXPECT_TRUE(r.axes.empty());
}

TEST_F(ReshardTable, SplitToReplicatedIsAllGather) {
  Reshard r = classify(x4, "[-, didx(\"x\")]", "[stream, -]");
  EXPECT_EQ(r.kind, ReshardKind::AllGather);
  EXPECT_EQ(names(r.axes), Names{"x"});
  EXPECT_EQ(r.fromDim, 1);
  EXPECT_EQ(r.toDim, -1);
  EXPECT_FALSE(r.isLocal());
}

TEST_F(ReshardTable, PartialToReplicatedIsAllReduce) {
  Reshard r = classify(x4, "[-, -], partial = max [\"x\"]", "[-, -]");
  EXPECT_EQ(r.kind, ReshardKind::AllReduce);
  EXPECT_EQ(names(r.axes), Names{"x"});
  EXPECT_EQ(r.reduceKind, ReduceKind::Max);
}

TEST_F(ReshardTable, PartialToSplitIsReduceScatter) {
  Reshard r = classify(x4, "[-, -], partial = [\"x\"]", "[-, didx(\"x\")]");
  EXPECT_EQ(r.kind, ReshardKind::ReduceScatter);
  EXPECT_EQ(r.toDim, 1);
  EXPECT_EQ(r.reduceKind, ReduceKind::Sum);
}

TEST_F(ReshardTable, SplitToSplitElsewhereIsAllToAll) {
  Reshard r = classify(x4, "[didx(\"x\"), -]", "[-, didx(\"x\")]");
  EXPECT_EQ(r.kind, ReshardKind::AllToAll);
  EXPECT_EQ(r.fromDim, 0);
  EXPECT_EQ(r.toDim, 1);
}

TEST_F(ReshardTable, OtherBlocksAreAllToAllOnOneDimension) {
  Reshard r = classify(x4, "[didx(\"x\"), -]", "[serial(2) * didx(\"x\"), -]");
  EXPECT_EQ(r.kind, ReshardKind::AllToAll);
  EXPECT_EQ(r.fromDim, 0);
  EXPECT_EQ(r.toDim, 0);
}

TEST_F(ReshardTable, OtherDeviceOrderIsPermute) {
  Reshard r =
      classify(x4, "[didx(\"x\"), -]", "#tandem.mesh<\"n\", [\"x\" = 4], devices = [1, 2, 3, 0]>",
               "[didx(\"x\"), -]");
  EXPECT_EQ(r.kind, ReshardKind::Permute);
  // Position p of the new mesh is rank p + 1 and wants piece p, which rank p holds.
  EXPECT_EQ(r.sources, (Ints{0, 1, 2, 3}));
}

TEST_F(ReshardTable, OtherDigitOrderIsPermute) {
  Reshard r = classify(xy, "[didx(\"x\") * didx(\"y\"), -]", "[didx(\"y\") * didx(\"x\"), -]");
  EXPECT_EQ(r.kind, ReshardKind::Permute);
  EXPECT_EQ(names(r.axes), (Names{"x", "y"}));
  EXPECT_EQ(r.sources, (Ints{0, 2, 1, 3}));
}

TEST_F(ReshardTable, ReplicatedToSplitIsSlice) {
  Reshard r = classify(x4, "[-, -]", "[-, didx(\"x\")]");
  EXPECT_EQ(r.kind, ReshardKind::Slice);
  EXPECT_EQ(r.toDim, 1);
  EXPECT_TRUE(r.isLocal());
}

TEST_F(ReshardTable, AxisToAxisIsPermuteOfEqualPieces) {
  Reshard r = classify(xy, "[didx(\"x\"), -]", "[didx(\"y\"), -]");
  EXPECT_EQ(r.kind, ReshardKind::Permute);
  EXPECT_EQ(r.sources.size(), 4u);
  // Device (i, j) needs block j, which (j, 0) and (j, 1) hold; (0, 0) and (1, 1) have it already.
  EXPECT_EQ(r.sources[0], 0);
  EXPECT_EQ(r.sources[3], 3);
  EXPECT_TRUE(r.sources[1] == 2 || r.sources[1] == 3);
  EXPECT_TRUE(r.sources[2] == 0 || r.sources[2] == 1);
}

TEST_F(ReshardTable, AxisToAxisElsewhereIsASequence) {
  Reshard r = classify(xy, "[didx(\"x\"), -]", "[-, didx(\"y\")]");
  ASSERT_EQ(r.kind, ReshardKind::Sequence);
  ASSERT_EQ(r.steps.size(), 2u);
  EXPECT_EQ(r.steps[0].kind, ReshardKind::Slice);
  EXPECT_EQ(r.steps[1].kind, ReshardKind::AllGather);
  EXPECT_EQ(r.steps[1].fromDim, 0);
}

TEST_F(ReshardTable, SeveralAxesOfOneKindAreOneStep) {
  Reshard gather = classify(xy, "[didx(\"x\") * didx(\"y\"), -]", "[-, -]");
  EXPECT_EQ(gather.kind, ReshardKind::AllGather);
  EXPECT_EQ(names(gather.axes), (Names{"x", "y"}));
  Reshard reduce = classify(xy, "[-, -], partial = [\"y\", \"x\"]", "[-, -]");
  EXPECT_EQ(reduce.kind, ReshardKind::AllReduce);
  EXPECT_EQ(names(reduce.axes), (Names{"x", "y"}));
  Reshard scatter =
      classify(xy, "[-, -], partial = [\"x\", \"y\"]", "[didx(\"x\") * didx(\"y\"), -]");
  EXPECT_EQ(scatter.kind, ReshardKind::ReduceScatter);
  Reshard slice = classify(xy, "[-, -]", "[didx(\"x\") * didx(\"y\"), -]");
  EXPECT_EQ(slice.kind, ReshardKind::Slice);
  EXPECT_TRUE(slice.isLocal());
}

TEST_F(ReshardTable, TermsAreScatteredOntoOneRunOfDigits) {
  std::string from = "[-, -], partial = [\"n\", \"g\"]";
  std::string mesh = "#tandem.mesh<\"p\", [\"n\" = 2, \"g\" = 2]>";
  EXPECT_EQ(classify(mesh, from, "[didx(\"g\") * didx(\"n\"), -]").kind,
            ReshardKind::ReduceScatter);
  Reshard apart = classify(mesh, from, "[didx(\"g\") * serial(2) * didx(\"n\"), -]");
  ASSERT_EQ(apart.kind, ReshardKind::Sequence);
  ASSERT_EQ(apart.steps.size(), 2u);
  for (const ReshardStep &step : apart.steps)
    EXPECT_EQ(step.kind, ReshardKind::ReduceScatter);
}

TEST_F(ReshardTable, SeveralAxesOfSeveralKindsAreASequence) {
  Reshard r = classify(xy, "[didx(\"y\"), -], partial = [\"x\"]", "[-, didx(\"x\")]");
  ASSERT_EQ(r.kind, ReshardKind::Sequence);
  ASSERT_EQ(r.steps.size(), 2u);
  EXPECT_EQ(r.steps[0].kind, ReshardKind::ReduceScatter);
  EXPECT_EQ(names(r.steps[0].axes), Names{"x"});
  EXPECT_EQ(r.steps[0].to, getAxes(type(xy, "8x8x", "[didx(\"y\"), didx(\"x\")]")));
  EXPECT_EQ(r.steps[1].kind, ReshardKind::AllGather);
  EXPECT_EQ(names(r.steps[1].axes), Names{"y"});
  EXPECT_EQ(r.steps[1].to, r.to);
}

TEST_F(ReshardTable, OtherMeshOfTheSamePiecesIsSendRecv) {
  Reshard r = classify("#tandem.mesh<\"a\", [\"x\" = 2]>", "[didx(\"x\"), -]",
                       "#tandem.mesh<\"b\", [\"y\" = 2], devices = [5, 4]>", "[didx(\"y\"), -]");
  EXPECT_EQ(r.kind, ReshardKind::SendRecv);
  EXPECT_EQ(r.sources, (Ints{0, 1}));
}

TEST_F(ReshardTable, OneDeviceToAnotherIsSendRecv) {
  Reshard r = classify(one, "[-, -]", "#tandem.mesh<\"b\", [\"x\" = 1], devices = [3]>", "[-, -]");
  EXPECT_EQ(r.kind, ReshardKind::SendRecv);
  EXPECT_EQ(r.sources, (Ints{0}));
}

TEST_F(ReshardTable, OneDeviceToAllIsBroadcast) {
  Reshard r = classify("#tandem.mesh<\"a\", [], devices = [2]>", "[-, -]", x4, "[-, -]");
  EXPECT_EQ(r.kind, ReshardKind::Broadcast);
  EXPECT_EQ(r.root, 2);
}

TEST_F(ReshardTable, OneDeviceToPiecesIsScatter) {
  Reshard r = classify("#tandem.mesh<\"a\", [], devices = [2]>", "[-, -]", x4, "[-, didx(\"x\")]");
  EXPECT_EQ(r.kind, ReshardKind::Scatter);
  EXPECT_EQ(r.root, 2);
  EXPECT_EQ(r.toDim, 1);
}

TEST_F(ReshardTable, PiecesToOneDeviceIsGather) {
  Reshard r = classify(x4, "[-, didx(\"x\")]", "#tandem.mesh<\"a\", [], devices = [2]>", "[-, -]");
  EXPECT_EQ(r.kind, ReshardKind::Gather);
  EXPECT_EQ(r.root, 2);
  EXPECT_EQ(r.fromDim, 1);
}

TEST_F(ReshardTable, TermsToOneDeviceIsReduce) {
  Reshard r = classify(x4, "[-, -], partial = min [\"x\"]", one, "[-, -]");
  EXPECT_EQ(r.kind, ReshardKind::Reduce);
  EXPECT_EQ(r.root, 0);
  EXPECT_EQ(r.reduceKind, ReduceKind::Min);
}

TEST_F(ReshardTable, OtherNamesForTheSamePiecesAreNothing) {
  Reshard r = classify(x4, "[didx(\"x\"), -]", "#tandem.mesh<\"p\", [\"n\" = 2, \"g\" = 2]>",
                       "[didx(\"n\") * didx(\"g\"), -]");
  EXPECT_EQ(r.kind, ReshardKind::Nothing);
}

TEST_F(ReshardTable, AxesOfOneDeviceDoNotMatter) {
  std::string mesh = "#tandem.mesh<\"m\", [\"x\" = 1, \"y\" = 2]>";
  EXPECT_EQ(classify(mesh, "[didx(\"x\"), -]", "[-, -]").kind, ReshardKind::Nothing);
  EXPECT_EQ(classify(mesh, "[-, -], partial = [\"x\"]", "[didx(\"x\"), -]").kind,
            ReshardKind::Nothing);
  Reshard r = classify(mesh, "[didx(\"x\") * didx(\"y\"), -]", "[-, -]");
  EXPECT_EQ(r.kind, ReshardKind::AllGather);
  EXPECT_EQ(names(r.axes), Names{"y"});
}

TEST_F(ReshardTable, WhatIsUnsupportedSaysWhy) {
  Reshard undecided = classifyReshard(RankedTensorType::get({8, 8}, Float32Type::get(&context)),
                                      type(x4, "8x8x", "[-, -]"));
  EXPECT_FALSE(undecided.isSupported());
  EXPECT_THAT(undecided.reason, HasSubstr("decided axes"));
  Reshard unknown =
      classifyReshard(type(x4, "?x8x", "[didx(\"x\"), -]"), type(x4, "?x8x", "[-, -]"));
  EXPECT_FALSE(unknown.isSupported());
  EXPECT_THAT(unknown.reason, HasSubstr("found '?'"));
  Reshard shapes = classifyReshard(type(x4, "8x8x", "[-, -]"), type(x4, "8x4x", "[-, -]"));
  EXPECT_FALSE(shapes.isSupported());
  Reshard partial = classify(x4, "[-, -]", "[-, -], partial = [\"x\"]");
  EXPECT_FALSE(partial.isSupported());
  EXPECT_THAT(partial.reason, HasSubstr("mesh axis \"x\""));
}

TEST_F(ReshardTable, WhatIsNoRowIsATransfer) {
  // Quarters become halves on another mesh; two meshes share devices.
  Reshard halves =
      classify(x4, "[didx(\"x\"), -]", "#tandem.mesh<\"n\", [\"y\" = 2]>", "[didx(\"y\"), -]");
  EXPECT_EQ(halves.kind, ReshardKind::Transfer);
  EXPECT_FALSE(halves.isLocal());
  EXPECT_EQ(classify(xy, "[didx(\"x\"), didx(\"y\")]", x4, "[didx(\"x\"), -]").kind,
            ReshardKind::Transfer);
  // Two axes of different sizes change places: neither can go first.
  std::string mesh = "#tandem.mesh<\"m\", [\"x\" = 2, \"y\" = 4, \"z\" = 2]>";
  Reshard turned = classify(mesh, "[didx(\"x\"), didx(\"y\")]", "[didx(\"y\"), didx(\"x\")]");
  EXPECT_EQ(turned.kind, ReshardKind::Transfer);
  EXPECT_EQ(names(turned.axes), (Names{"x", "y"}));
  // A value that stays partial moves like any other.
  EXPECT_EQ(classify(mesh, "[didx(\"x\"), didx(\"y\")], partial = [\"z\"]",
                     "[didx(\"y\"), didx(\"x\")], partial = [\"z\"]")
                .kind,
            ReshardKind::Transfer);
}

TEST_F(ReshardTable, WhatIsPartialIsReducedBeforeATransfer) {
  std::string mesh = "#tandem.mesh<\"m\", [\"x\" = 2, \"y\" = 4, \"z\" = 2]>";
  // z fits beside x, so it is scattered there.
  Reshard scattered = classify(mesh, "[didx(\"x\"), didx(\"y\")], partial = max [\"z\"]",
                               "[didx(\"y\") * didx(\"z\"), didx(\"x\")]");
  ASSERT_EQ(scattered.kind, ReshardKind::Sequence);
  ASSERT_EQ(scattered.steps.size(), 2u);
  EXPECT_EQ(scattered.steps[0].kind, ReshardKind::ReduceScatter);
  EXPECT_EQ(scattered.steps[0].reduceKind, ReduceKind::Max);
  EXPECT_EQ(scattered.steps[1].kind, ReshardKind::Transfer);
  EXPECT_EQ(scattered.steps[1].to, scattered.to);
  // Its place is taken by y: it is reduced to all, and cut by what follows.
  Reshard reduced = classify(mesh, "[didx(\"x\"), didx(\"y\")], partial = min [\"z\"]",
                             "[didx(\"y\"), didx(\"z\") * didx(\"x\")]");
  ASSERT_EQ(reduced.kind, ReshardKind::Sequence);
  ASSERT_EQ(reduced.steps.size(), 2u);
  EXPECT_EQ(reduced.steps[0].kind, ReshardKind::AllReduce);
  EXPECT_EQ(reduced.steps[0].reduceKind, ReduceKind::Min);
  EXPECT_EQ(reduced.steps[1].kind, ReshardKind::Transfer);
}

TEST_F(ReshardTable, TermsForAnotherMeshAreReducedFirst) {
  Reshard r = classify(x4, "[-, -], partial = min [\"x\"]", "#tandem.mesh<\"n\", [\"y\" = 2]>",
                       "[didx(\"y\"), -]");
  ASSERT_EQ(r.kind, ReshardKind::Sequence);
  ASSERT_EQ(r.steps.size(), 2u);
  EXPECT_EQ(r.steps[0].kind, ReshardKind::AllReduce);
  EXPECT_EQ(r.steps[0].reduceKind, ReduceKind::Min);
  EXPECT_EQ(r.steps[0].to, getAxes(type(x4, "8x8x", "[-, -]")));
  EXPECT_EQ(r.steps[1].to, r.to);
  // What is split beside it goes to one device behind it.
  Reshard gathered = classify(xy, "[didx(\"x\"), -], partial = [\"y\"]", one, "[-, -]");
  ASSERT_EQ(gathered.steps.size(), 2u);
  EXPECT_EQ(gathered.steps[0].kind, ReshardKind::AllReduce);
  // An axis of one device has one term.
  Reshard single = classify("#tandem.mesh<\"m\", [\"x\" = 1, \"y\" = 2]>",
                            "[-, -], partial = [\"x\", \"y\"]", one, "[-, -]");
  EXPECT_EQ(single.kind, ReshardKind::Reduce);
}

TEST_F(ReshardTable, RowsHaveDescriptions) {
  auto describe = [&](const std::string &from, const std::string &to) {
    return describeReshard(classify(xy, from, to));
  };
  EXPECT_EQ(describe("[didx(\"x\") * didx(\"y\"), -]", "[-, -]"),
            "all-gather over x, y from dimension 0");
  EXPECT_EQ(describe("[-, -], partial = max [\"y\"]", "[-, didx(\"y\")]"),
            "reduce-scatter by max over y onto dimension 1");
  EXPECT_EQ(describe("[didx(\"x\"), -]", "[-, didx(\"x\")]"),
            "all-to-all over x from dimension 0 onto dimension 1");
  EXPECT_EQ(describeReshard(classify(x4, "[-, -], partial = [\"x\"]", one, "[-, -]")),
            "reduce to device 0");
  EXPECT_EQ(describeReshard(classify(one, "[-, -]", x4, "[-, -]")), "broadcast from device 0");
}

TEST_F(ReshardTable, KindsHaveNames) {
  llvm::StringSet<> seen;
  for (int kind = 0; kind <= static_cast<int>(ReshardKind::Unsupported); ++kind)
    EXPECT_TRUE(seen.insert(stringifyReshardKind(static_cast<ReshardKind>(kind))).second);
}

/// Random pairs of types on one mesh.
class ReshardProperty : public ReshardTable, public ::testing::WithParamInterface<unsigned> {};

TEST_P(ReshardProperty, IsWhatItSays) {
  RandomAxes random(&context, GetParam());
  for (int round = 0; round < 40; ++round) {
    MeshAttr mesh = random.mesh();
    int64_t rank = 1 + random.upTo(2);
    Ints extents;
    RankedTensorType from = random.type(mesh, extents, rank, /*mayBePartial=*/true);
    RankedTensorType to = random.type(mesh, extents, rank, /*mayBePartial=*/false);
    if (from.getNumElements() > 3000)
      continue;
    std::string text;
    llvm::raw_string_ostream(text) << from << " -> " << to;
    SCOPED_TRACE(text);
    Reshard r = classifyReshard(from, to);
    std::vector<Element> source = enumerate(from), target = enumerate(to);

    // Local: every device has all that it needs.
    bool hasAll = true, same = true, partial = false;
    for (StringAttr axis : getAxes(from).getPartial())
      partial = partial || mesh.axisSize(axis.getValue()) > 1;
    for (int64_t p = 0; p < mesh.numDevices(); ++p)
      for (size_t i = 0; i < source.size(); ++i) {
        bool before = holds(mesh, p, source[i]), after = holds(mesh, p, target[i]);
        hasAll = hasAll && (before || !after);
        same = same && before == after;
      }
    ASSERT_TRUE(r.isSupported()) << r.reason;
    EXPECT_EQ(r.kind == ReshardKind::Nothing, same && !partial);
    EXPECT_EQ(r.isLocal(), hasAll && !partial);

    // Point to point: each device's new piece is its source's old one, element by element.
    if (r.kind == ReshardKind::Permute) {
      for (int64_t p = 0; p < mesh.numDevices(); ++p)
        for (size_t i = 0; i < source.size(); ++i)
          ASSERT_EQ(holds(mesh, p, target[i]), holds(mesh, mesh.position(r.sources[p]), source[i]));
    }

    // A sequence leads there, one row at a time.
    RankedTensorType at = from;
    for (const ReshardStep &step : r.steps) {
      RankedTensorType next = withAxes(at, step.to);
      Reshard row = classifyReshard(at, next);
      EXPECT_EQ(row.kind, step.kind);
      EXPECT_EQ(names(row.axes), names(step.axes));
      EXPECT_EQ(row.fromDim, step.fromDim);
      EXPECT_EQ(row.toDim, step.toDim);
      EXPECT_EQ(describeReshard(row), describeReshard(step));
      at = next;
    }
    if (r.kind == ReshardKind::Sequence) {
      EXPECT_EQ(at, to);
    }

    // One owner: along the axes that change, all elements of a slice have one coordinate.
    Block block;
    OpBuilder builder(&context);
    builder.setInsertionPointToStart(&block);
    Location loc = builder.getUnknownLoc();
    auto op = ReshardOp::create(builder, loc, to, block.addArgument(from, loc));
    Explained<SliceReshard> slice = classifySlices(op, /*forReceiver=*/true);
    if (failed(slice) || slice->kind != ReshardKind::OwnerMoves)
      continue;
    bool oneOwner = true;
    for (size_t axis = 0; axis < mesh.getAxes().size(); ++axis) {
      bool changes = false;
      for (size_t i = 0; i < source.size(); ++i)
        changes = changes || source[i].coordinates[axis] != target[i].coordinates[axis];
      std::map<int64_t, int64_t> owner;
      for (size_t i = 0; changes && i < source.size(); ++i) {
        auto [it, isNew] = owner.try_emplace(target[i].iteration, source[i].coordinates[axis]);
        oneOwner = oneOwner && it->second == source[i].coordinates[axis];
      }
    }
    EXPECT_TRUE(oneOwner);
  }
}

/// Between two meshes nothing but terms needs more than one step, and all of it is one.
TEST_P(ReshardProperty, AcrossMeshes) {
  RandomAxes random(&context, GetParam());
  for (int round = 0; round < 20; ++round) {
    MeshAttr mesh = random.mesh(), other = random.mesh();
    int64_t rank = 1 + random.upTo(2);
    Ints extents;
    RankedTensorType from = random.type(mesh, extents, rank, /*mayBePartial=*/true);
    RankedTensorType to = random.type(other, extents, rank, /*mayBePartial=*/false);
    std::string text;
    llvm::raw_string_ostream(text) << from << " -> " << to;
    SCOPED_TRACE(text);
    Reshard r = classifyReshard(from, to);
    ASSERT_TRUE(r.isSupported()) << r.reason;
    EXPECT_EQ(r.to, getAxes(to));
    EXPECT_EQ(r.kind == ReshardKind::Sequence, !r.steps.empty());
    RankedTensorType at = from;
    for (const ReshardStep &step : r.steps) {
      RankedTensorType next = withAxes(at, step.to);
      EXPECT_EQ(classifyReshard(at, next).kind, step.kind);
      at = next;
    }
    if (!r.steps.empty()) {
      EXPECT_EQ(at, to);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReshardProperty, ::testing::Range(0u, 60u));

} // namespace
