//===- BuilderTest.cpp - fusions built in C++ -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each op gives the expected IR, which the compiler accepts.
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Builder/Compile.h"
#include "tandem/Compiler/Registration.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <limits>

namespace {

using namespace tandem::builder;

/// The text as MLIR prints it: without aliases and names of its own.
std::string parsed(const std::string &text) {
  mlir::DialectRegistry registry;
  tandem::registerTandemDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return "does not parse:\n" + text;
  std::string printed;
  llvm::raw_string_ostream(printed) << *module;
  return printed;
}

/// A fusion with a mesh and two arguments.
struct Builder : testing::Test {
  Mesh tp = Mesh("tp", {{"x", 4}});
  Fusion f = Fusion("f");
  Value x = f.input("x", DType::F32, {64, 32}, tp.axes({didx("x"), none()}));
  Value w = f.input("w", DType::F32, {32, 16}, tp.replicated(2));

  /// Compares with a function whose body is `body`, on %x and %w, and whose result is %y.
  void expect(Value y, const std::string &type, const std::string &body) {
    f.output("y", y);
    ASSERT_TRUE(f.ok()) << f.errorText();
    std::string expected = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<64x32xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
func.func @f(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> ()mlir" +
                           type + R"mlir( {fusion.name = "y"}) {
)mlir" + body +
                           "\n  return %y : " + type + "\n}\n";
    EXPECT_EQ(parsed(f.text()), parsed(expected));
    EXPECT_EQ(parsed(f.text(/*locations=*/false)), parsed(expected));
    Program program = compile(f);
    EXPECT_TRUE(program.ok) << program.errorText() << "\n" << f.text();
    EXPECT_FALSE(program.bytes.empty());
  }
};

TEST_F(Builder, Matmul) {
  expect(f.matmul(x, w), "tensor<64x16xf32>",
         "%y = fusion.matmul %x, %w : !x, !w -> tensor<64x16xf32>");
}

TEST_F(Builder, MatmulOptions) {
  Value half = f.cast(w, DType::BF16);
  Value bias = f.reduce(Reduction::Sum, w, {1});
  MatmulOptions options;
  options.transposeA = options.transposeB = true;
  options.bias = bias;
  options.result = DType::F32;
  expect(f.matmul(f.reshape(half, {16, 32}), half, options), "tensor<32x32xf32>", R"mlir(
  %h = arith.truncf %w : !w to tensor<32x16xbf16, #fusion.axes<#tp, [-, -]>>
  %b = fusion.reduce sum %w dims [1] : !w -> tensor<32xf32>
  %r = fusion.reshape %h : tensor<32x16xbf16, #fusion.axes<#tp, [-, -]>> -> tensor<16x32xbf16>
  %y = fusion.matmul %r, %h bias %b {transpose_a, transpose_b}
      : tensor<16x32xbf16>, tensor<32x16xbf16, #fusion.axes<#tp, [-, -]>>, tensor<32xf32> -> tensor<32x32xf32>)mlir");
}

TEST_F(Builder, MatmulOfFloatsWith8Bits) {
  Value a = f.cast(x, DType::F8E4M3FN), b = f.cast(w, DType::F8E5M2);
  EXPECT_EQ(f.type(f.matmul(a, b)).dtype, DType::F32);
  MatmulOptions options;
  options.result = DType::BF16;
  f.matmul(a, f.map("maximum", {b, -std::numeric_limits<double>::infinity()}), options);
  expect(f.matmul(a, f.cast(w, DType::F8E4M3FN), options), "tensor<64x16xbf16>", R"mlir(
  %a = arith.truncf %x : !x to tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>
  %b = arith.truncf %w : !w to tensor<32x16xf8E5M2, #fusion.axes<#tp, [-, -]>>
  %p = fusion.matmul %a, %b : tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>,
      tensor<32x16xf8E5M2, #fusion.axes<#tp, [-, -]>> -> tensor<64x16xf32>
  %i = arith.constant dense<0xFC> : tensor<32x16xf8E5M2, #fusion.axes<#tp, [-, -]>>
  %m = arith.maximumf %b, %i : tensor<32x16xf8E5M2, #fusion.axes<#tp, [-, -]>>
  %q = fusion.matmul %a, %m : tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>,
      tensor<32x16xf8E5M2, #fusion.axes<#tp, [-, -]>> -> tensor<64x16xbf16>
  %c = arith.truncf %w : !w to tensor<32x16xf8E4M3FN, #fusion.axes<#tp, [-, -]>>
  %y = fusion.matmul %a, %c : tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>,
      tensor<32x16xf8E4M3FN, #fusion.axes<#tp, [-, -]>> -> tensor<64x16xbf16>)mlir");
}

TEST_F(Builder, ScaledMatmul) {
  Value a = f.cast(x, DType::F8E4M3FN), b = f.cast(w, DType::F8E4M3FN);
  Value rows = f.reduce(Reduction::Max, x, {1}), one = f.reduce(Reduction::Max, w, {0, 1});
  expect(f.scaledMatmul(a, b, rows, one), "tensor<64x16xbf16>", R"mlir(
  %a = arith.truncf %x : !x to tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>
  %b = arith.truncf %w : !w to tensor<32x16xf8E4M3FN, #fusion.axes<#tp, [-, -]>>
  %r = fusion.reduce max %x dims [1] : !x -> tensor<64xf32>
  %o = fusion.reduce max %w dims [0, 1] : !w -> tensor<f32>
  %p = fusion.matmul %a, %b : tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>,
      tensor<32x16xf8E4M3FN, #fusion.axes<#tp, [-, -]>> -> tensor<64x16xf32>
  %rs = fusion.broadcast %r dims [0] : tensor<64xf32> -> tensor<64x16xf32>
  %pr = arith.mulf %p, %rs : tensor<64x16xf32>
  %os = fusion.broadcast %o dims [] : tensor<f32> -> tensor<64x16xf32>
  %po = arith.mulf %pr, %os : tensor<64x16xf32>
  %y = arith.truncf %po : tensor<64x16xf32> to tensor<64x16xbf16>)mlir");
}

/// A bias, and a result of 8 bits, which is saturated.
TEST_F(Builder, ScaledMatmulTo8Bits) {
  Value a = f.cast(x, DType::F8E4M3FN), b = f.cast(f.permute(w, {1, 0}), DType::F8E5M2);
  Value columns = f.reduce(Reduction::Max, w, {0}), one = f.reduce(Reduction::Max, w, {0, 1});
  ScaledMatmulOptions options;
  options.transposeB = true;
  options.bias = columns;
  options.result = DType::F8E4M3FN;
  options.resultScale = one;
  expect(f.scaledMatmul(a, b, one, columns, options), "tensor<64x16xf8E4M3FN>", R"mlir(
  %a = arith.truncf %x : !x to tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>
  %t = fusion.permute %w [1, 0] : !w -> tensor<16x32xf32>
  %b = arith.truncf %t : tensor<16x32xf32> to tensor<16x32xf8E5M2>
  %c = fusion.reduce max %w dims [0] : !w -> tensor<16xf32>
  %o = fusion.reduce max %w dims [0, 1] : !w -> tensor<f32>
  %p = fusion.matmul %a, %b {transpose_b} : tensor<64x32xf8E4M3FN, #fusion.axes<#tp, [didx("x"), -]>>,
      tensor<16x32xf8E5M2> -> tensor<64x16xf32>
  %os = fusion.broadcast %o dims [] : tensor<f32> -> tensor<64x16xf32>
  %po = arith.mulf %p, %os : tensor<64x16xf32>
  %cs = fusion.broadcast %c dims [1] : tensor<16xf32> -> tensor<64x16xf32>
  %pc = arith.mulf %po, %cs : tensor<64x16xf32>
  %cb = fusion.broadcast %c dims [1] : tensor<16xf32> -> tensor<64x16xf32>
  %pb = arith.addf %pc, %cb : tensor<64x16xf32>
  %or = fusion.broadcast %o dims [] : tensor<f32> -> tensor<64x16xf32>
  %ps = arith.mulf %pb, %or : tensor<64x16xf32>
  %hi = arith.constant dense<448.0> : tensor<64x16xf32>
  %m = arith.minimumf %ps, %hi : tensor<64x16xf32>
  %lo = arith.constant dense<-448.0> : tensor<64x16xf32>
  %s = arith.maximumf %m, %lo : tensor<64x16xf32>
  %y = arith.truncf %s : tensor<64x16xf32> to tensor<64x16xf8E4M3FN>)mlir");
}

TEST_F(Builder, MatmulOfBatchesAndVectors) {
  Value batched = f.reshape(x, {4, 1, 16, 32});
  Value many = f.broadcast(w, {3, 32, 16}, {1, 2});
  Value product = f.matmul(batched, many);
  EXPECT_EQ(f.shape(product), (std::vector<int64_t>{4, 3, 16, 16}));
  Value vector = f.reduce(Reduction::Max, product, {0, 1, 2});
  EXPECT_EQ(f.shape(f.matmul(product, vector)), (std::vector<int64_t>{4, 3, 16}));
  expect(f.matmul(vector, product), "tensor<4x3x16xf32>", R"mlir(
  %a = fusion.reshape %x : !x -> tensor<4x1x16x32xf32>
  %b = fusion.broadcast %w dims [1, 2] : !w -> tensor<3x32x16xf32>
  %p = fusion.matmul %a, %b : tensor<4x1x16x32xf32>, tensor<3x32x16xf32> -> tensor<4x3x16x16xf32>
  %v = fusion.reduce max %p dims [0, 1, 2] : tensor<4x3x16x16xf32> -> tensor<16xf32>
  %u = fusion.matmul %p, %v : tensor<4x3x16x16xf32>, tensor<16xf32> -> tensor<4x3x16xf32>
  %y = fusion.matmul %v, %p : tensor<16xf32>, tensor<4x3x16x16xf32> -> tensor<4x3x16xf32>)mlir");
}

TEST_F(Builder, ElementwiseWithNumbers) {
  expect(f.mul(f.map("exp", {f.sub(1, x)}), 0.1), "!x", R"mlir(
  %one = arith.constant dense<1.0> : !x
  %d = arith.subf %one, %x : !x
  %e = math.exp %d : !x
  %c = arith.constant dense<0.1> : !x
  %y = arith.mulf %e, %c : !x)mlir");
}

TEST_F(Builder, ElementwiseBroadcastsAsNumPy) {
  Value bias = f.reduce(Reduction::Min, x, {0});
  Value rows = f.reduce(Reduction::Sum, x, {1}, /*keepDims=*/true);
  expect(f.div(f.add(x, bias), rows), "!x", R"mlir(
  %b = fusion.reduce min %x dims [0] : !x -> tensor<32xf32>
  %r = fusion.reduce sum %x dims [1] {keep_dims} : !x -> tensor<64x1xf32>
  %bx = fusion.broadcast %b dims [1] : tensor<32xf32> -> !x
  %s = arith.addf %x, %bx : !x
  %rx = fusion.broadcast %r dims [0, 1] : tensor<64x1xf32> -> !x
  %y = arith.divf %s, %rx : !x)mlir");
}

/// An argument without dimensions is a factor of everything.
TEST(BuilderSizes, Scalars) {
  Mesh tp("tp", {{"x", 2}});
  Fusion f("scaled");
  Value s = f.input("s", DType::F32, {});
  Value x = f.input("x", DType::F32, {4, 2}, tp.axes({didx("x"), none()}));
  f.output("y", f.mul(f.add(s, 1), x));
  ASSERT_TRUE(f.ok()) << f.errorText();
  EXPECT_EQ(parsed(f.text()), parsed(R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<4x2xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @scaled(%s: tensor<f32> {fusion.name = "s"}, %x: !x {fusion.name = "x"}) -> (!x {fusion.name = "y"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %a = arith.addf %s, %one : tensor<f32>
  %b = fusion.broadcast %a dims [] : tensor<f32> -> !x
  %y = arith.mulf %b, %x : !x
  return %y : !x
}
)mlir"));
  Program program = compile(f);
  EXPECT_TRUE(program.ok) << program.errorText();
}

TEST_F(Builder, ElementwiseTakesTheAxesOfASplitOperand) {
  Value v = f.matmul(x, f.matmul(w, w, {false, true, {}, {}}));
  Value copy = f.reshard(x, tp.replicated(2));
  expect(f.add(f.map("arith.addf", {copy, v}), x), "!x", R"mlir(
  %ww = fusion.matmul %w, %w {transpose_b} : !w, !w -> tensor<32x32xf32>
  %v = fusion.matmul %x, %ww : !x, tensor<32x32xf32> -> tensor<64x32xf32>
  %c = fusion.reshard %x : !x -> tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>
  %vc = fusion.reshard %v : tensor<64x32xf32> -> tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>
  %s = arith.addf %c, %vc : tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>
  %sx = fusion.reshard %s : tensor<64x32xf32, #fusion.axes<#tp, [-, -]>> -> !x
  %y = arith.addf %sx, %x : !x)mlir");
}

TEST_F(Builder, CompareSelectCast) {
  Value isLess = f.compare("lt", x, 0.5);
  Value chosen = f.select(isLess, -std::numeric_limits<double>::infinity(), x);
  expect(f.cast(f.map("roundeven", {chosen}), DType::I32),
         "tensor<64x32xi32, #fusion.axes<#tp, [didx(\"x\"), -]>>", R"mlir(
  %h = arith.constant dense<0.5> : !x
  %c = arith.cmpf olt, %x, %h : !x
  %i = arith.constant dense<0xFF800000> : !x
  %s = arith.select %c, %i, %x : tensor<64x32xi1, #fusion.axes<#tp, [didx("x"), -]>>, !x
  %r = math.roundeven %s : !x
  %y = arith.fptosi %r : !x to tensor<64x32xi32, #fusion.axes<#tp, [didx("x"), -]>>)mlir");
}

TEST_F(Builder, Constants) {
  Value number = f.constant(-7, DType::I32, {64, 32});
  Value small = f.cast(f.map("maximum", {number, 3}), DType::F32);
  expect(f.add(x, f.mul(small, 1e-30)), "!x", R"mlir(
  %n = arith.constant dense<-7> : tensor<64x32xi32>
  %t = arith.constant dense<3> : tensor<64x32xi32>
  %m = arith.maxsi %n, %t : tensor<64x32xi32>
  %s = arith.sitofp %m : tensor<64x32xi32> to tensor<64x32xf32>
  %e = arith.constant dense<1.0e-30> : tensor<64x32xf32>
  %p = arith.mulf %s, %e : tensor<64x32xf32>
  %q = fusion.reshard %p : tensor<64x32xf32> -> !x
  %y = arith.addf %x, %q : !x)mlir");
}

TEST_F(Builder, Shapes) {
  Value cut = f.slice(f.permute(x, {1, 0}), {2, 1}, {10, 16}, {3, 1});
  Value both = f.concat({cut, f.slice(w, {0, 0}, {32, 16})}, 0);
  expect(f.reshape(both, {6, kUnknown, 16}), "tensor<6x7x16xf32>", R"mlir(
  %p = fusion.permute %x [1, 0] : !x -> tensor<32x64xf32>
  %c = fusion.slice %p offsets [2, 1] steps [3, 1] : tensor<32x64xf32> -> tensor<10x16xf32>
  %s = fusion.slice %w offsets [0, 0] steps [1, 1] : !w -> tensor<32x16xf32>
  %b = fusion.concat %c, %s dim 0 : (tensor<10x16xf32>, tensor<32x16xf32>) -> tensor<42x16xf32>
  %y = fusion.reshape %b : tensor<42x16xf32> -> tensor<6x7x16xf32>)mlir");
}

TEST_F(Builder, GroupedMatmul) {
  Value blocks = f.reshape(x, {2, 32, 32}), experts = f.reshape(x, {4, 16, 32});
  GroupedMatmulOptions options;
  options.transposeB = true;
  expect(f.groupedMatmul(blocks, experts, f.constant(5, DType::I32, {2, 4}), options),
         "tensor<2x32x16xf32>", R"mlir(
  %b = fusion.reshape %x : !x -> tensor<2x32x32xf32>
  %e = fusion.reshape %x : !x -> tensor<4x16x32xf32>
  %c = arith.constant dense<5> : tensor<2x4xi32>
  %y = fusion.grouped_matmul %b, %e, %c {transpose_b}
      : tensor<2x32x32xf32>, tensor<4x16x32xf32>, tensor<2x4xi32> -> tensor<2x32x16xf32>)mlir");
}

TEST_F(Builder, GroupedMatmulOf8Bits) {
  Value rows = f.cast(f.reshape(x, {2, 32, 32}), DType::F8E5M2),
        experts = f.cast(f.reshape(x, {4, 32, 16}), DType::F8E4M3FN);
  Value ends = f.constant(5, DType::I32, {2, 4});
  EXPECT_EQ(f.type(f.groupedMatmul(rows, experts, ends)).dtype, DType::F32);
  GroupedMatmulOptions options;
  options.result = DType::BF16;
  Value product = f.groupedMatmul(rows, experts, ends, options);
  EXPECT_EQ(f.type(product).dtype, DType::BF16);
  EXPECT_NE(f.text().find("tensor<2x32x32xf8E5M2>, tensor<4x32x16xf8E4M3FN>, tensor<2x4xi32> -> "
                          "tensor<2x32x16xbf16>"),
            std::string::npos)
      << f.text();
}

TEST_F(Builder, Attention) {
  Value q = f.reshape(x, {2, 32, 32});
  AttentionOptions options;
  options.scale = 0.125;
  options.causal = true;
  options.zigzag = 4;
  expect(f.attention(q, q, f.slice(q, {0, 0, 0}, {2, 32, 8}), options), "tensor<2x32x8xf32>",
         R"mlir(
  %q = fusion.reshape %x : !x -> tensor<2x32x32xf32>
  %v = fusion.slice %q offsets [0, 0, 0] steps [1, 1, 1] : tensor<2x32x32xf32> -> tensor<2x32x8xf32>
  %y = fusion.attention %q, %q, %v {causal, scale = 0.125 : f64, zigzag = 4 : i64}
      : tensor<2x32x32xf32>, tensor<2x32x32xf32>, tensor<2x32x8xf32> -> tensor<2x32x8xf32>)mlir");
}

TEST_F(Builder, AttentionToTheFirstKeys) {
  AttentionOptions options;
  options.keyCount = 5;
  expect(
      f.attention(x, x, x, options), "tensor<64x32xf32>",
      "%y = fusion.attention %x, %x, %x {key_count = 5 : i64} : !x, !x, !x -> tensor<64x32xf32>");
}

TEST_F(Builder, ReshardWithASchedule) {
  Value all =
      f.reshard(x, tp.axes({stream("x"), none()}), Schedule{"exchange", {{"streams", "3"}}});
  expect(f.matmul(all, w), "tensor<64x16xf32>", R"mlir(
  %a = fusion.reshard %x {schedule = #fusion.schedule<exchange, streams = 3>}
      : !x -> tensor<64x32xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %y = fusion.matmul %a, %w : tensor<64x32xf32, #fusion.axes<#tp, [stream("x"), -]>>, !w -> tensor<64x16xf32>)mlir");
}

TEST_F(Builder, Annotations) {
  Value y = f.withAxes(f.matmul(x, w), tp.axes({stream("x") * stream(2), none()}));
  f.withSchedule(y, {"ring", {}});
  f.withGather(y, "before");
  expect(y, "tensor<64x16xf32, #fusion.axes<#tp, [stream(\"x\") * stream(2), -]>>", R"mlir(
  %y = fusion.matmul %x, %w {fusion.schedule = #fusion.schedule<ring>, fusion.gather = "before"}
      : !x, !w -> tensor<64x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>)mlir");
}

/// One declaration serves calls of several shapes.
TEST_F(Builder, Calls) {
  auto call = [&](Value a, CallOptions options) {
    return f.call("norm", {a, f.reduce(Reduction::Sum, a, {0})}, {DType::F32, f.shape(a), {}},
                  "s_, _ -> s_", options);
  };
  CallOptions options;
  options.config = "a \"b\"";
  options.flops = 64;
  options.bytes = 0.5;
  options.strided = true;
  Value y = call(f.matmul(call(x, options), w), {});
  f.output("y", y);
  ASSERT_TRUE(f.ok()) << f.errorText();
  EXPECT_EQ(parsed(f.text()), parsed(R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<64x32xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
!y = tensor<64x16xf32>
func.func private @norm(tensor<?x?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
func.func @f(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %s = fusion.reduce sum %x dims [0] : !x -> tensor<32xf32>
  %n = fusion.call @norm(%x, %s) dims "s_, _ -> s_" {bytes = 0.5, config = "a \"b\"", flops = 64.0, strided}
      : (!x, tensor<32xf32>) -> tensor<64x32xf32>
  %h = fusion.matmul %n, %w : tensor<64x32xf32>, !w -> !y
  %t = fusion.reduce sum %h dims [0] : !y -> tensor<16xf32>
  %y = fusion.call @norm(%h, %t) dims "s_, _ -> s_" : (!y, tensor<16xf32>) -> !y
  return %y : !y
}
)mlir"));
  Program program = compile(f);
  EXPECT_TRUE(program.ok) << program.errorText();
}

TEST_F(Builder, CallsWithSeveralResults) {
  CallOptions options;
  options.effects = "writes";
  std::vector<Value> both =
      f.call("dropout", {x}, {{DType::F32, f.shape(x), {}}, {DType::I8, f.shape(x), {}}},
             "sc -> sc, sc", options);
  ASSERT_EQ(both.size(), 2u);
  f.output("y", both[0]);
  f.output("mask", both[1]);
  ASSERT_TRUE(f.ok()) << f.errorText();
  EXPECT_EQ(parsed(f.text()), parsed(R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<64x32xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
!y = tensor<64x32xf32>
!m = tensor<64x32xi8>
func.func private @dropout(tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xi8>)
func.func @f(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}, !m {fusion.name = "mask"}) {
  %y:2 = fusion.call @dropout(%x) dims "sc -> sc, sc" {effects = "writes"} : (!x) -> (!y, !m)
  return %y#0, %y#1 : !y, !m
}
)mlir"));
  Program program = compile(f);
  EXPECT_TRUE(program.ok) << program.errorText();
}

TEST_F(Builder, CallErrors) {
  Type type{DType::F32, f.shape(x), {}};
  auto error = [&](const std::vector<Type> &results, const char *dims, const char *effects = "") {
    CallOptions options;
    options.effects = effects;
    size_t before = f.diagnostics().size();
    std::vector<Value> made = f.call("k", {x}, results, dims, options);
    EXPECT_EQ(made.size(), results.size());
    for (Value one : made)
      EXPECT_FALSE(one.valid());
    EXPECT_EQ(f.diagnostics().size(), before + 1);
    return f.diagnostics().back().message;
  };
  EXPECT_EQ(error({}, "sc -> sc"), "k: expected at least one result, found none");
  EXPECT_EQ(
      error({type, type}, "sc -> sc"),
      "k: expected dims of 1 operands and 2 results, as in \"s_, _ -> s_\", found \"sc -> sc\"");
  EXPECT_EQ(error({type, type}, "sc -> sc, cs"), "k: expected the parallel dimensions 'sc' in all "
                                                 "results, in this order, found 'cs' in result 1");
  EXPECT_EQ(error({type, type}, "sc -> sc, s_"), "k: expected the parallel dimensions 'sc' in all "
                                                 "results, in this order, found 's' in result 1");
  EXPECT_EQ(error({type}, "st -> sc"),
            "k: expected every parallel dimension in the result, found 't' of operand 0 only");
  EXPECT_EQ(error({type}, "sc -> sc", "all"),
            "k: expected effects \"reads\", \"writes\" or none, found \"all\"");
}

TEST_F(Builder, EveryElementwiseOpCompiles) {
  Value i = f.cast(x, DType::I32), truth = f.compare("ge", x, 0);
  int number = 0;
  for (const detail::Elementwise &op : detail::elementwiseOps())
    for (const char *name : {op.floats, op.integers}) {
      if (!name)
        continue;
      Value value = f.map(name, std::vector<Operand>(op.operands, name == op.floats ? x : i));
      f.output(name, value);
      if (name == op.floats) { // the short name
        EXPECT_TRUE(f.map(op.name, std::vector<Operand>(op.operands, x)).valid()) << op.name;
      }
      if (op.truth)
        f.output("truth" + std::to_string(number++),
                 f.map(name, std::vector<Operand>(op.operands, truth)));
    }
  ASSERT_TRUE(f.ok()) << f.errorText();
  Program program = compile(f);
  EXPECT_TRUE(program.ok) << program.errorText();
}

TEST_F(Builder, EveryPredicateAndCastCompiles) {
  for (const char *predicate : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    f.output(predicate, f.compare(predicate, x, 0));
    f.output(predicate + std::string("i"), f.compare(predicate, f.cast(x, DType::I64), 2));
  }
  DType types[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::F8E4M3FN, DType::F8E5M2,
                   DType::I64, DType::I32, DType::I16,  DType::I8,  DType::I1};
  int casts = 0;
  for (DType from : types)
    for (DType to : types)
      if (from != to && detail::castOp(from, to)) {
        Value start = from == DType::I1 ? f.compare("lt", x, 0)
                      : isFloat(from)   ? f.cast(x, from)
                                        : f.cast(x, from);
        f.output(std::string(name(from)) + " to " + name(to), f.cast(start, to));
        ++casts;
      }
  // All 110 pairs but those of different floats with 16 bits, or 8, and those of a float to i1.
  EXPECT_EQ(casts, 100);
  ASSERT_TRUE(f.ok()) << f.errorText();
  Program program = compile(f);
  EXPECT_TRUE(program.ok) << program.errorText();
}

/// Unknown extents and mesh sizes are given when it is compiled.
TEST(BuilderSizes, Unknown) {
  Mesh tp("tp", {{"x", kUnknown}});
  Fusion f("rows");
  Value x = f.input("x", DType::F32, {kUnknown, 8}, tp.axes({didx("x"), none()}));
  Value w = f.input("w", DType::F32, {8, 4}, tp.replicated(2));
  Value y = f.map("tanh", {f.add(f.mul(f.matmul(x, w), 2), 1)});
  EXPECT_EQ(f.shape(y), (std::vector<int64_t>{kUnknown, 4}));
  f.output("y", y, tp.axes({stream("x"), none()}));
  EXPECT_EQ(f.shape(f.reshape(x, {kUnknown})), (std::vector<int64_t>{kUnknown}));
  ASSERT_TRUE(f.ok()) << f.errorText();
  tandem_mesh_size mesh = {};
  mesh.struct_size = sizeof mesh;
  mesh.struct_size = sizeof mesh;
  mesh.axis = "x";
  mesh.size = 3;
  int64_t extents[] = {12, 8};
  tandem_argument_shape shape = {};
  shape.struct_size = sizeof shape;
  shape.argument = "x";
  shape.extents = extents;
  shape.rank = 2;
  tandem_compile_options options = {};
  options.struct_size = sizeof options;
  options.mesh = &mesh;
  options.num_mesh = 1;
  options.shapes = &shape;
  options.num_shapes = 1;
  Program program = compile(f, &options);
  EXPECT_TRUE(program.ok) << program.errorText();
}

TEST(BuilderSizes, SeveralMeshesAndPartialResults) {
  Mesh pod("pod", {{"node", 2}, {"gpu", 2}}), part("a \"part\"", {{"x", 2}}, {3, 1});
  Fusion f("several results");
  Value x = f.input("x", DType::F32, {16, 8}, pod.axes({serial(2) * didx("gpu"), didx("node")}));
  Value p = f.reduce(Reduction::Max, x, {1});
  f.output("p", p, pod.axes({serial(2) * didx("gpu")}, {"node"}, Reduction::Max));
  f.output("y", x, part.axes({didx("x"), none()}));
  ASSERT_TRUE(f.ok()) << f.errorText();
  EXPECT_EQ(parsed(f.text()), parsed(R"mlir(
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
#part = #tandem.mesh<"a \"part\"", ["x" = 2], devices = [3, 1]>
!x = tensor<16x8xf32, #fusion.axes<#pod, [serial(2) * didx("gpu"), didx("node")]>>
!p = tensor<16xf32, #fusion.axes<#pod, [serial(2) * didx("gpu")], partial = max ["node"]>>
!y = tensor<16x8xf32, #fusion.axes<#part, [didx("x"), -]>>
func.func @"several results"(%x: !x {fusion.name = "x"}) -> (!p {fusion.name = "p"}, !y {fusion.name = "y"}) {
  %p = fusion.reduce max %x dims [1] : !x -> !p
  %y = fusion.reshard %x : !x -> !y
  return %p, %y : !p, !y
}
)mlir"));
  Program program = compile(f);
  EXPECT_TRUE(program.ok) << program.errorText();
}

/// Without locations, equal fusions have equal texts, wherever they are built.
TEST(BuilderText, DependsOnStructure) {
  Fusion a("f"), b("f");
  Value x = a.input("x", DType::F32, {4});
  a.output("y", a.add(x, x));
  x = b.input("x", DType::F32, {4});
  b.output("y", b.add(x, x));
  EXPECT_EQ(a.text(false), b.text(false));
  EXPECT_NE(a.text(), b.text());
}

} // namespace
