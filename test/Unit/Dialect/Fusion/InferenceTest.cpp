//===- InferenceTest.cpp - inferred axes: every device has what it needs, every term is there once
//-*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomAxes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;
using namespace tandem::fusion::testing;

namespace {

using Ints = SmallVector<int64_t>;
using Index = std::vector<int64_t>;

/// Makes ops on values of random types, and checks the axes inferred for their result against the
/// meaning of the op.
class Inference : public FusionTest, public ::testing::WithParamInterface<unsigned> {
protected:
  Inference()
      : module(ModuleOp::create(UnknownLoc::get(&context))), builder(module->getBodyRegion()),
        random(&context, GetParam()) {}

  Value value(RankedTensorType type) {
    return UnrealizedConversionCastOp::create(builder, builder.getUnknownLoc(), TypeRange(type),
                                              ValueRange())
        .getResult(0);
  }
  RankedTensorType undecided(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }

  /// Device `p` holds the element of `type` at `index`.
  bool holdsAt(RankedTensorType type, int64_t p, const Index &index) {
    MeshAttr mesh = getAxes(type).getMesh();
    Ints mine = mesh.coordinates(p);
    FailureOr<SmallVector<SmallVector<ResolvedDigit>>> dims = resolveDims(type);
    EXPECT_TRUE(succeeded(dims));
    for (auto [digits, i] : llvm::zip_equal(*dims, index))
      for (const ResolvedDigit &digit : digits)
        if (digit.kind == DigitKind::Device &&
            i / digit.stride % digit.size != mine[mesh.axisIndex(digit.axis.getValue())])
          return false;
    return true;
  }

  /// Calls `fn` on every index of a shape.
  void forEach(ArrayRef<int64_t> shape, llvm::function_ref<void(const Index &)> fn) {
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    for (int64_t flat = 0; flat < count; ++flat) {
      Index index(shape.size());
      int64_t left = flat;
      for (int64_t d = shape.size() - 1; d >= 0; --d) {
        index[d] = left % shape[d];
        left /= shape[d];
      }
      fn(index);
    }
  }

  /// Infers the result's axes; null on a conflict. The op verifies as local with them, if all
  /// operands fit strictly.
  RankedTensorType infer(Operation *op) {
    SmallVector<AxesAttr> operands =
        llvm::map_to_vector(op->getOperands(), [](Value v) { return getAxes(v); });
    std::optional<AxesConflict> conflict;
    AxesAttr axes = inferResultAxes(op, 0, operands, conflict);
    EXPECT_NE(axes != nullptr, conflict.has_value());
    if (!axes)
      return {};
    RankedTensorType type = withAxes(cast<RankedTensorType>(op->getResult(0).getType()), axes);
    auto ignore = [&] { return mlir::emitError(builder.getUnknownLoc()); };
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    if (failed(axes.verifyEncoding(type.getShape(), type.getElementType(), ignore)))
      return {};
    return type;
  }

  /// Data moves nowhere: whoever holds an element of the result holds its source.
  void expectHeld(RankedTensorType from, RankedTensorType to,
                  llvm::function_ref<Index(const Index &)> source) {
    MeshAttr mesh = getAxes(to).getMesh();
    forEach(to.getShape(), [&](const Index &index) {
      Index origin = source(index);
      for (int64_t p = 0; p < mesh.numDevices(); ++p)
        if (holdsAt(to, p, index)) {
          ASSERT_TRUE(holdsAt(from, p, origin));
        }
    });
  }

  /// The positions that differ from `p` along the partial axes only, `p` among them.
  Ints partialGroup(AxesAttr axes, int64_t p) {
    MeshAttr mesh = axes.getMesh();
    Ints mine = mesh.coordinates(p), group;
    for (int64_t q = 0; q < mesh.numDevices(); ++q) {
      Ints other = mesh.coordinates(q);
      bool same = true;
      for (size_t a = 0; a < mine.size(); ++a)
        same = same && (mine[a] == other[a] ||
                        llvm::is_contained(axes.getPartial(), mesh.getAxes()[a].name));
      if (same)
        group.push_back(q);
    }
    return group;
  }

  std::string text(ArrayRef<Type> types) {
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::interleaveComma(types, os);
    return text;
  }

  OwningOpRef<ModuleOp> module;
  OpBuilder builder;
  RandomAxes random;
};

TEST_P(Inference, Permute) {
  for (int round = 0; round < 10; ++round) {
    Ints extents;
    RankedTensorType from = random.type(random.mesh(), extents, 3, true);
    if (from.getNumElements() > 300)
      continue;
    Ints permutation{0, 1, 2};
    std::rotate(permutation.begin(), permutation.begin() + random.upTo(2), permutation.end());
    Ints shape = llvm::map_to_vector(permutation, [&](int64_t d) { return extents[d]; });
    auto op = PermuteOp::create(builder, builder.getUnknownLoc(), undecided(shape), value(from),
                                permutation);
    RankedTensorType to = infer(op);
    ASSERT_TRUE(to);
    SCOPED_TRACE(text({from, to}));
    EXPECT_EQ(getAxes(from).getPartial().size(), getAxes(to).getPartial().size());
    expectHeld(from, to, [&](const Index &index) {
      Index origin(3);
      for (int d = 0; d < 3; ++d)
        origin[permutation[d]] = index[d];
      return origin;
    });
    // And back: the operand's axes follow from the result's.
    AxesAttr back = inferOperandAxes(op, 0, 0, getAxes(to), {AxesAttr()});
    EXPECT_TRUE(samePlacement(back, getAxes(from)));
    EXPECT_EQ(back.getDims(), getAxes(from).getDims());
  }
}

TEST_P(Inference, Reshape) {
  int64_t inferred = 0;
  for (int round = 0; round < 20; ++round) {
    Ints extents;
    RankedTensorType from = random.type(random.mesh(), extents, 1 + random.upTo(2), false);
    if (from.getNumElements() > 300)
      continue;
    // Any factorisation of the number of elements.
    Ints shape;
    int64_t left = from.getNumElements();
    while (left > 1 && shape.size() < 3) {
      int64_t factor = 1 + random.upTo(left - 1);
      while (left % factor != 0)
        --factor;
      shape.push_back(factor);
      left /= factor;
    }
    shape.push_back(left);
    auto op = ReshapeOp::create(builder, builder.getUnknownLoc(), undecided(shape), value(from));
    RankedTensorType to = infer(op);
    if (!to)
      continue;
    ++inferred;
    SCOPED_TRACE(text({from, to}));
    std::vector<Element> before = enumerate(from), after = enumerate(to);
    ASSERT_EQ(before.size(), after.size());
    MeshAttr mesh = getAxes(from).getMesh();
    for (size_t i = 0; i < before.size(); ++i) {
      // The same elements, on the same devices, at the same places, in the same iterations.
      ASSERT_EQ(before[i].logical, after[i].logical);
      ASSERT_EQ(before[i].local, after[i].local);
      // Slices pass as a whole, or end.
      if (getAxes(to).hasStream()) {
        ASSERT_EQ(before[i].iteration, after[i].iteration);
      }
      for (int64_t p = 0; p < mesh.numDevices(); ++p)
        ASSERT_EQ(holds(mesh, p, before[i]), holds(mesh, p, after[i]));
    }
  }
  EXPECT_GT(inferred, 0);
}

TEST_P(Inference, Reduce) {
  for (int round = 0; round < 10; ++round) {
    Ints extents;
    RankedTensorType from = random.type(random.mesh(), extents, 3, false);
    if (from.getNumElements() > 300)
      continue;
    int64_t dim = random.upTo(2);
    Ints shape(extents);
    shape.erase(shape.begin() + dim);
    auto op = ReduceOp::create(builder, builder.getUnknownLoc(), undecided(shape), ReduceKind::Sum,
                               value(from), ArrayRef<int64_t>{dim});
    RankedTensorType to = infer(op);
    ASSERT_TRUE(to);
    SCOPED_TRACE(text({from, to}));
    // For whoever holds a result, the devices of its partial group hold every term once.
    MeshAttr mesh = getAxes(to).getMesh();
    forEach(shape, [&](const Index &index) {
      for (int64_t p = 0; p < mesh.numDevices(); ++p) {
        if (!holdsAt(to, p, index))
          continue;
        for (int64_t k = 0; k < extents[dim]; ++k) {
          Index origin(index);
          origin.insert(origin.begin() + dim, k);
          int64_t terms = 0;
          for (int64_t q : partialGroup(getAxes(to), p))
            terms += holdsAt(from, q, origin);
          ASSERT_EQ(terms, 1);
        }
      }
    });
  }
}

TEST_P(Inference, Matmul) {
  int64_t inferred = 0;
  for (int round = 0; round < 60; ++round) {
    MeshAttr mesh = random.mesh();
    Ints lhsShape, rhsShape;
    RankedTensorType lhs = random.type(mesh, lhsShape, 2, false);
    rhsShape = {lhsShape[1], 1 + random.upTo(11)};
    RankedTensorType rhs = random.type(mesh, rhsShape, 2, false);
    if (lhs.getNumElements() * rhsShape[1] > 1500)
      continue;
    auto op =
        MatmulOp::create(builder, builder.getUnknownLoc(), undecided({lhsShape[0], rhsShape[1]}),
                         value(lhs), value(rhs), Value(), false, false);
    RankedTensorType to = infer(op);
    if (!to)
      continue;
    ++inferred;
    SCOPED_TRACE(text({lhs, rhs, to}));
    forEach(to.getShape(), [&](const Index &index) {
      for (int64_t p = 0; p < mesh.numDevices(); ++p) {
        if (!holdsAt(to, p, index))
          continue;
        for (int64_t k = 0; k < lhsShape[1]; ++k) {
          int64_t terms = 0;
          for (int64_t q : partialGroup(getAxes(to), p))
            terms += holdsAt(lhs, q, {index[0], k}) && holdsAt(rhs, q, {k, index[1]});
          ASSERT_EQ(terms, 1);
        }
      }
    });
  }
  EXPECT_GT(inferred, 0);
}

TEST_P(Inference, Broadcast) {
  for (int round = 0; round < 10; ++round) {
    Ints extents;
    RankedTensorType from = random.type(random.mesh(), extents, 2, true);
    if (from.getNumElements() > 100)
      continue;
    int64_t repeat = 1 + random.upTo(2);
    Ints shape{extents[0], repeat, extents[1]};
    auto op = BroadcastOp::create(builder, builder.getUnknownLoc(), undecided(shape), value(from),
                                  ArrayRef<int64_t>{0, 2});
    RankedTensorType to = infer(op);
    ASSERT_TRUE(to);
    SCOPED_TRACE(text({from, to}));
    expectHeld(from, to, [](const Index &index) { return Index{index[0], index[2]}; });
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Inference, ::testing::Range(0u, 20u));

/// Which upstream ops keep a partial value, and which do not.
class PartialOps : public FusionTest {
protected:
  PartialOps() { context.loadDialect<arith::ArithDialect, math::MathDialect, func::FuncDialect>(); }
  /// `op` on values of a type that is partial by `kind`: whether it runs locally.
  bool isLocal(const std::string &op, const std::string &kind) {
    std::string type =
        "tensor<4xf32, #fusion.axes<#tandem.mesh<\"m\", [\"x\" = 2]>, [-], partial = " + kind +
        " [\"x\"]>>";
    std::string source = "func.func @f(%a: " + type + ", %b: " + type + ") {\n %r = " + op + " : " +
                         type + "\n return\n}";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
    EXPECT_TRUE(module) << source;
    bool local = true;
    module->walk([&](Operation *o) {
      if (o->getNumResults() == 1)
        local = succeeded(verifyLocal(o, nullptr));
    });
    return local;
  }
};

TEST_F(PartialOps, OnlyWhatCommutesWithTheReduction) {
  for (const char *op : {"arith.addf %a, %b", "arith.subf %a, %b", "arith.negf %a"}) {
    EXPECT_TRUE(isLocal(op, "sum")) << op;
    EXPECT_FALSE(isLocal(op, "max")) << op;
  }
  for (const char *op : {"arith.mulf %a, %b", "arith.divf %a, %b", "math.exp %a", "math.tanh %a"})
    for (const char *kind : {"sum", "max", "min"})
      EXPECT_FALSE(isLocal(op, kind)) << op << " " << kind;
  EXPECT_TRUE(isLocal("arith.maximumf %a, %b", "max"));
  EXPECT_FALSE(isLocal("arith.maximumf %a, %b", "sum"));
  EXPECT_TRUE(isLocal("arith.minimumf %a, %b", "min"));
  EXPECT_FALSE(isLocal("arith.minimumf %a, %b", "max"));
}

} // namespace
