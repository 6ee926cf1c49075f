//===- ReshardPlanTest.cpp - pairs of placements and their classes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Compiler/Registration.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;
using fusion::ReshardKind;

namespace {

/// Of 8x8 values.
struct Row {
  std::string fromMesh, from, toMesh, to;
  ReshardKind whole; ///< of the value
  /// Of a slice of it; Unsupported: there is no plan.
  ReshardKind slice;
  std::string axes; ///< that communicate, in the order in which they number the group
  ReshardKind forReceiver = slice; ///< of the part of the slice for one receiver
};

TEST(ReshardPlans, AreClassifiedByTheirPlacements) {
  std::string x = R"("x", ["x" = 4])", xy = R"("xy", ["x" = 2, "y" = 2])",
              single = R"("xy", ["x" = 4, "y" = 1])", zero = R"("zero", [])",
              five = R"("five", [], devices = [5])", other = R"("other", ["z" = 2])";
  std::string whole = "[-, -]", partial = R"([-, -], partial = ["x"])";
  using Kind = ReshardKind;
  std::vector<Row> rows = {
      // One mesh: the whole value at once.
      {x, "[stream, -]", x, "[-, stream]", Kind::Nothing, Kind::Nothing, ""},
      {x, whole, x, R"([-, didx("x")])", Kind::Slice, Kind::Slice, "x"},
      {x, R"([didx("x"), -])", x, whole, Kind::AllGather, Kind::AllGather, "x"},
      {x, partial, x, whole, Kind::AllReduce, Kind::AllReduce, "x"},
      {x, partial, x, R"([-, didx("x")])", Kind::ReduceScatter, Kind::ReduceScatter, "x"},
      {x, R"([didx("x"), -])", x, R"([-, didx("x")])", Kind::AllToAll, Kind::AllToAll, "x"},
      {x, R"([didx("x"), -])", x, R"([serial(2) * didx("x"), -])", Kind::AllToAll, Kind::Transfer,
       ""},
      // Several axes: one group if they are neighbours, numbered as the digits are.
      {xy, R"([didx("y") * didx("x"), -])", xy, whole, Kind::AllGather, Kind::AllGather, "yx"},
      {xy, R"([didx("y") * serial(2) * didx("x"), -])", xy, whole, Kind::AllGather, Kind::Transfer,
       ""},
      {xy, R"([didx("x"), didx("y")])", xy, whole, Kind::Sequence, Kind::Transfer, ""},
      {xy, R"([didx("x") * didx("y"), -])", xy, R"([didx("y") * didx("x"), -])", Kind::Permute,
       Kind::Transfer, ""},
      {xy, R"([didx("x") * didx("y"), -])", xy, R"([-, didx("x") * didx("y")])", Kind::Sequence,
       Kind::AllToAll, "xy"},
      {xy, R"([-, -], partial = ["x", "y"])", xy, R"([didx("y") * didx("x"), -])",
       Kind::ReduceScatter, Kind::ReduceScatter, "yx"},
      {xy, R"([-, -], partial = ["x", "y"])", xy, R"([didx("y"), -])", Kind::Sequence,
       Kind::Unsupported, ""},
      {xy, R"([didx("y"), -], partial = ["x"])", xy, whole, Kind::Sequence, Kind::Unsupported, ""},
      // Slices.
      {x, R"([didx("x"), -])", x, "[stream(4), -]", Kind::AllGather, Kind::OwnerMoves, "x"},
      {x, R"([didx("x"), -])", x, "[stream(8), -]", Kind::AllGather, Kind::OwnerMoves, "x"},
      {x, R"([didx("x"), -])", x, "[stream(2), -]", Kind::AllGather, Kind::Transfer, ""},
      {x, R"([didx("x"), -])", x, "[-, stream(4)]", Kind::AllGather, Kind::AllGather, "x"},
      {x, R"([-, didx("x")])", x, R"([didx("x"), stream(4)])", Kind::AllToAll, Kind::Transfer, "",
       Kind::OwnerMoves},
      {x, R"([-, didx("x")])", x, R"([didx("x"), stream(2)])", Kind::AllToAll, Kind::Transfer, ""},
      {x, partial, x, "[stream(4), -]", Kind::AllReduce, Kind::AllReduce, "x"},
      {x, partial, x, R"([didx("x") * stream(2), -])", Kind::ReduceScatter, Kind::ReduceScatter,
       "x"},
      // Across meshes.
      {x, whole, zero, whole, Kind::Nothing, Kind::Transfer, ""},
      {zero, whole, five, whole, Kind::SendRecv, Kind::Transfer, ""},
      {five, whole, x, whole, Kind::Broadcast, Kind::Broadcast, "x"},
      {zero, whole, x, R"([didx("x"), -])", Kind::Scatter, Kind::Scatter, "x"},
      {five, whole, x, R"([didx("x"), -])", Kind::Scatter, Kind::Transfer, ""},
      {x, R"([didx("x"), -])", zero, whole, Kind::Gather, Kind::Gather, "x"},
      {x, R"([didx("x"), -])", five, whole, Kind::Gather, Kind::Transfer, ""},
      {x, R"([didx("x"), -])", zero, "[stream(4), -]", Kind::Gather, Kind::Transfer, ""},
      {xy, R"([didx("y") * didx("x"), -])", zero, whole, Kind::Gather, Kind::Gather, "yx"},
      {xy, R"([didx("y"), didx("x")])", zero, whole, Kind::Transfer, Kind::Transfer, ""},
      {x, partial, five, whole, Kind::Reduce, Kind::Reduce, "x"},
      {x, partial, other, whole, Kind::Sequence, Kind::Unsupported, ""},
      {x, R"([didx("x"), -])", other, R"([didx("z"), -])", Kind::Transfer, Kind::Transfer, ""},
      // Axes of one device do not matter.
      {single, R"([didx("y"), didx("x")])", single, R"([-, didx("x")])", Kind::Nothing,
       Kind::Nothing, ""},
      {single, R"([didx("y"), -], partial = ["x"])", zero, whole, Kind::Reduce, Kind::Reduce, "xy"},
      {single, R"([didx("x"), -], partial = ["y"])", zero, whole, Kind::Gather, Kind::Gather, "x"},
      {zero, whole, single, R"([didx("x"), didx("y")])", Kind::Scatter, Kind::Scatter, "x"},
  };
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  for (const Row &row : rows) {
    std::string text = "!from = tensor<8x8xf32, #fusion.axes<#tandem.mesh<" + row.fromMesh + ">, " +
                       row.from + ">>\n!to = tensor<8x8xf32, #fusion.axes<#tandem.mesh<" +
                       row.toMesh + ">, " + row.to +
                       ">>\nfunc.func @f(%x: !from) -> !to {\n"
                       "  %r = fusion.reshard %x : !from -> !to\n  return %r : !to\n}";
    SCOPED_TRACE(text);
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    module->walk([&](fusion::ReshardOp op) {
      fusion::Reshard whole = fusion::classifyReshard(op.getInput().getType(), op.getType());
      EXPECT_EQ(fusion::stringifyReshardKind(whole.kind).str(),
                fusion::stringifyReshardKind(row.whole).str());
      Explained<fusion::SliceReshard> plan = classifySlices(op);
      auto kindOf = [](const Explained<fusion::SliceReshard> &slice) {
        return fusion::stringifyReshardKind(succeeded(slice) ? slice->kind : Kind::Unsupported)
            .str();
      };
      EXPECT_EQ(kindOf(plan), fusion::stringifyReshardKind(row.slice).str());
      EXPECT_EQ(kindOf(classifySlices(op, /*forReceiver=*/true)),
                fusion::stringifyReshardKind(row.forReceiver).str());
      std::string axes;
      for (StringAttr axis : succeeded(plan) ? plan->axes : SmallVector<StringAttr>())
        axes += axis.getValue();
      EXPECT_EQ(axes, row.axes);
    });
  }
}

/// The owner's number is in the outer part of a digit, or in the whole; slices that are handled
/// together are one.
TEST(ReshardPlans, PartsOfStreamDigitsNameTheOwner) {
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  auto module = parseSourceString<ModuleOp>(R"mlir(
#m = #tandem.mesh<"m", ["x" = 4]>
!from = tensor<8x8xf32, #fusion.axes<#m, [-, didx("x")]>>
!to = tensor<8x8xf32, #fusion.axes<#m, [stream(2), stream(8)]>>
func.func @f(%x: !from) -> !to {
  %r = fusion.reshard %x : !from -> !to
  return %r : !to
}
)mlir",
                                            &context);
  ASSERT_TRUE(module);
  using Parts = SmallVector<fusion::StreamPart>;
  module->walk([&](fusion::ReshardOp op) {
    for (const Parts &columns : {Parts{{8}}, Parts{{4}, {2}}}) {
      Explained<fusion::SliceReshard> slice = classifySlices(op, {{{2}}, columns}, false);
      ASSERT_TRUE(succeeded(slice));
      EXPECT_EQ(slice->kind, ReshardKind::OwnerMoves);
      EXPECT_EQ(slice->ownerDigit, 1U);
      EXPECT_EQ(slice->ownerOuter, 1);
      EXPECT_EQ(slice->ownerInner, 2);
    }
    Explained<fusion::SliceReshard> all =
        classifySlices(op, {{{2}}, {{8, /*isWhole=*/true}}}, false);
    ASSERT_TRUE(succeeded(all));
    EXPECT_EQ(all->kind, ReshardKind::AllGather);
  });
}

} // namespace
