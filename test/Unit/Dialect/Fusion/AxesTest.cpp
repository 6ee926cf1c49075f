//===- AxesTest.cpp - axes attributes: placement form, lookups, meshes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomAxes.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;
using namespace tandem::fusion::testing;

namespace {

class Axes : public FusionTest {
protected:
  std::string xy = "#tandem.mesh<\"m\", [\"x\" = 2, \"y\" = 3]>";
  AxesAttr axes(const std::string &text, const std::string &shape = "48x48x") {
    return getAxes(type(xy, shape, text));
  }
};

TEST_F(Axes, PlacementForgetsIteration) {
  EXPECT_EQ(axes("[stream(2) * serial(2) * didx(\"x\") * stream(3), stream]").getPlacement(),
            axes("[serial(4) * didx(\"x\"), -]"));
  EXPECT_EQ(axes("[serial(2), serial(1) * didx(\"y\") * serial(1)]").getPlacement(),
            axes("[-, didx(\"y\")]"));
}

TEST_F(Axes, SamePlacement) {
  EXPECT_TRUE(samePlacement(axes("[didx(\"x\") * stream, -]"), axes("[didx(\"x\"), stream(2)]")));
  EXPECT_FALSE(samePlacement(axes("[didx(\"x\"), -]"), axes("[-, didx(\"x\")]")));
  EXPECT_FALSE(samePlacement(axes("[didx(\"x\"), -]"), axes("[serial(2) * didx(\"x\"), -]")));
  EXPECT_TRUE(samePlacement(axes("[-, -], partial = [\"x\", \"y\"]"),
                            axes("[-, -], partial = [\"y\", \"x\"]")));
  EXPECT_FALSE(samePlacement(axes("[-, -], partial = [\"x\"]"), axes("[-, -], partial = [\"y\"]")));
  EXPECT_FALSE(
      samePlacement(axes("[-, -], partial = max [\"x\"]"), axes("[-, -], partial = [\"x\"]")));
  EXPECT_FALSE(samePlacement(axes("[-, -]"), AxesAttr()));
}

TEST_F(Axes, SymbolicDigits) {
  std::string any = "#tandem.mesh<\"any\", [\"x\" = ?, \"y\" = 2]>";
  AxesAttr symbolic =
      getAxes(type(any, "?x?x", "[serial(\"x\") * didx(\"x\") * stream(\"x\"), stream(\"y\")]"));
  ArrayRef<Digit> digits = symbolic.getDims()[0].getDigits();
  EXPECT_TRUE(digits[0].isSymbolic() && digits[0].isSerial());
  EXPECT_FALSE(digits[1].isSymbolic());
  EXPECT_TRUE(digits[2].isSymbolic() && digits[2].isStream() && !digits[2].isRest());
  EXPECT_TRUE(ShapedType::isDynamic(getDigitSize(digits[2], symbolic.getMesh())));
  // What the mesh knows is a number at once.
  EXPECT_EQ(symbolic.getDims()[1].getDigits()[0], Digit::stream(2));
  EXPECT_EQ(resolveSymbolicDigits(symbolic.getDims()[0], symbolic.getMesh()),
            symbolic.getDims()[0]);
  MeshAttr three = getAxes(type("#tandem.mesh<\"m\", [\"x\" = 3]>", "8x", "[-]")).getMesh();
  EXPECT_EQ(resolveSymbolicDigits(symbolic.getDims()[0], three).getDigits(),
            ArrayRef<Digit>({Digit::serial(3), digits[1], Digit::stream(3)}));
  // As a placement they keep the places of the digits after them.
  EXPECT_EQ(symbolic.getPlacement(),
            getAxes(type(any, "?x?x", "[serial(\"x\") * didx(\"x\"), -]")));
}

// The worked examples of AxesInference.h.
TEST_F(Axes, SplitAndJoin) {
  SmallVector<DimPiece> pieces{{0, 4}, {0, 3}};
  AxesAttr whole = getAxes(type(xy, "12x", "[didx(\"x\") * stream(6)]"));
  AxesAttr parts = getAxes(type(xy, "4x3x", "[didx(\"x\") * stream(2), stream(3)]"));
  EXPECT_EQ(splitAxes(pieces, whole), parts);
  EXPECT_EQ(joinAxes(pieces, parts, 1),
            getAxes(type(xy, "12x", "[didx(\"x\") * stream(2) * stream(3)]")));
}

TEST_F(Axes, DroppedDevicesBecomeSerial) {
  AxesAttr a = axes("[didx(\"x\") * stream(2), didx(\"y\")]");
  AxisSet both;
  both.insert(StringAttr::get(&context, "x"));
  both.insert(StringAttr::get(&context, "y"));
  EXPECT_EQ(dropDevices(a.getDims()[0], a.getMesh(), both),
            axes("[serial(2) * stream(2), -]").getDims()[0]);
  EXPECT_TRUE(dropDevices(a.getDims()[1], a.getMesh(), both).getDigits().empty());
}

TEST_F(Axes, Lookups) {
  AxesAttr a = axes("[-, serial(2) * didx(\"y\")]");
  EXPECT_EQ(a.dimOfDeviceAxis("y"), 1);
  EXPECT_EQ(a.dimOfDeviceAxis("x"), -1);
  EXPECT_FALSE(a.hasStream());
  EXPECT_TRUE(axes("[stream, -]").hasStream());
  EXPECT_EQ(AxesAttr::getReplicated(a.getMesh(), 2), axes("[-, -]"));
  EXPECT_EQ(a.withPartial({StringAttr::get(&context, "x")}, ReduceKind::Max),
            axes("[-, serial(2) * didx(\"y\")], partial = max [\"x\"]"));
  // Without axes to be partial over there is no reduction.
  EXPECT_EQ(a.withPartial({}, ReduceKind::Max), a);
}

TEST_F(Axes, MeshPositions) {
  auto mesh = cast<MeshAttr>(parseAttribute(
      "#tandem.mesh<\"m\", [\"x\" = 2, \"y\" = 3], devices = [7, 5, 3, 1, 0, 9]>", &context));
  EXPECT_EQ(mesh.numDevices(), 6);
  EXPECT_EQ(mesh.worldRank(4), 0);
  EXPECT_EQ(mesh.position(9), 5);
  EXPECT_EQ(mesh.position(2), -1);
  EXPECT_EQ(mesh.coordinates(5), (SmallVector<int64_t>{1, 2}));
  EXPECT_EQ(mesh.axisSize("y"), 3);
  EXPECT_EQ(mesh.axisIndex("z"), -1);
  auto plain = cast<MeshAttr>(parseAttribute("#tandem.mesh<\"m\", [\"x\" = 4]>", &context));
  EXPECT_EQ(plain.position(3), 3);
  EXPECT_EQ(plain.position(4), -1);
  EXPECT_EQ(plain.position(-1), -1);
  auto unknown = cast<MeshAttr>(parseAttribute("#tandem.mesh<\"m\", [\"x\" = ?]>", &context));
  EXPECT_FALSE(unknown.isStatic());
  EXPECT_EQ(unknown.position(0), -1);
}

} // namespace
