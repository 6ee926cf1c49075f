//===- BuilderErrorsTest.cpp - mistakes of C++ builders ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Builder/Compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace tandem::builder;
using testing::ElementsAre;
using testing::HasSubstr;

struct BuilderErrors : testing::Test {
  Mesh tp = Mesh("tp", {{"x", 4}, {"y", 2}});
  Fusion f = Fusion("f");
  Value x = f.input("x", DType::F32, {64, 32}, tp.axes({didx("x"), none()}));
  Value w = f.input("w", DType::F32, {32, 16});
  Value h = f.input("h", DType::BF16, {32, 16});
  Value i = f.input("i", DType::I32, {32, 16});

  /// The one new diagnostic contains `message`.
  void expectError(const std::string &message) {
    ASSERT_EQ(f.diagnostics().size(), ++expected) << message << "\n" << f.errorText();
    EXPECT_THAT(f.diagnostics().back().str(), HasSubstr(message));
    EXPECT_THAT(f.diagnostics().back().file, HasSubstr("BuilderErrorsTest.cpp"));
    EXPECT_FALSE(f.ok());
    EXPECT_EQ(f.text(), "");
  }
  /// An invalid value, and the one new diagnostic.
  void expectError(Value value, const std::string &message) {
    EXPECT_FALSE(value.valid()) << message;
    expectError(message);
  }
  size_t expected = 0;
};

TEST_F(BuilderErrors, AreAtTheCall) {
  Value y = f.matmul(x, x);
  unsigned line = __LINE__ - 1;
  ASSERT_EQ(f.diagnostics().size(), 1u);
  const Diagnostic &found = f.diagnostics()[0];
  EXPECT_EQ(found.op, "matmul");
  EXPECT_THAT(found.operands, ElementsAre("x: 64x32xf32", "x: 64x32xf32"));
  EXPECT_EQ(found.message, "expected equal contracted extents, found 32 and 64");
  EXPECT_EQ(found.file, __FILE__);
  EXPECT_EQ(found.line, line);
  EXPECT_EQ(found.str(), std::string(__FILE__) + ":" + std::to_string(line) +
                             ": error: matmul(x: 64x32xf32, x: 64x32xf32): expected equal "
                             "contracted extents, found 32 and 64");
  EXPECT_FALSE(y.valid());
  // What follows from an invalid value is no mistake of its own.
  EXPECT_FALSE(f.map("exp", {f.add(y, 1)}).valid());
  f.output("y", y);
  EXPECT_EQ(f.diagnostics().size(), 1u);
  EXPECT_FALSE(compile(f).ok);
  EXPECT_EQ(compile(f).errorText(), f.errorText());
}

TEST_F(BuilderErrors, NamedValues) {
  expectError(f.matmul(f.named(f.matmul(x, w), "scores"), w),
              "matmul(scores: 64x16xf32, w: 32x16xf32): expected equal contracted extents");
  expectError(f.matmul(f.matmul(x, w), w), "matmul(%v5: 64x16xf32, w");
}

TEST_F(BuilderErrors, Values) {
  Fusion other("other");
  Value foreign = other.input("z", DType::F32, {64, 32});
  expectError(f.add(x, foreign), "as operand 1, found one of another fusion");
  expectError(f.matmul(Value(), w), "as operand 0, found none");
  expectError(f.add(1, 2), "expected a value, found only numbers");
}

TEST_F(BuilderErrors, Names) {
  expectError(f.input("x", DType::F32, {1}), "expected a name that no other argument has");
  f.output("y", x);
  f.output("y", w);
  expectError("output(w: 32x16xf32): expected a name that no other result has, found \"y\"");
}

TEST_F(BuilderErrors, Axes) {
  auto axes = [&](Axes axes, const char *message) {
    expectError(f.input("z", DType::F32, {8, 8}, std::move(axes)), message);
  };
  axes(tp.axes({didx("z"), none()}), "expected an axis of mesh \"tp\" (\"x\", \"y\"), found \"z\"");
  axes(tp.axes({none(), stream("q")}), "found \"q\"");
  axes(tp.axes({none(), none()}, {"z"}), "found \"z\"");
  axes(tp.axes({didx("x"), didx("x")}), "expected mesh axis \"x\" once");
  axes(tp.axes({didx("x"), none()}, {"x"}), "expected mesh axis \"x\" once");
  axes(tp.axes({none()}), "expected axes of 2 dimensions, found 1");
  axes(tp.axes({stream(0), none()}), "expected a digit with a mesh axis or a positive size");
  axes(tp.axes({didx(""), none()}), "expected a digit with a mesh axis or a positive size");
  axes(tp.axes({stream() * didx("x"), none()}), "expected stream without a size as the last digit");
  axes(Mesh("m", {{"a", 0}}).replicated(2), "expected a positive size of mesh axis \"a\", found 0");
  axes(Mesh("m", {{"a", 2}, {"a", 2}}).replicated(2), "expected distinct axes");
  axes(Mesh("m", {{"", 2}}).replicated(2), "expected a name of each axis");
  axes(Mesh("m", {{"a", 2}}, {0}).replicated(2), "expected 2 devices of mesh \"m\", found 1");
  axes(Mesh("tp", {{"x", 2}}).replicated(2), "expected one mesh called \"tp\", found two");
  expectError(f.reshard(x, tp.axes({didx("z"), none()})),
              "reshard(x: 64x32xf32): expected an axis");
  expectError(f.withAxes(x, tp.replicated(2)), "expected a value without axes");
  expectError(f.withAxes(w, tp.replicated(3)), "expected axes of 2 dimensions, found 3");
  f.output("y", w, tp.axes({didx("z"), none()}));
  expectError("output(w: 32x16xf32): expected an axis");
}

TEST_F(BuilderErrors, Elementwise) {
  expectError(f.map("tan", {x}), "expected the name of an elementwise op (add, sub,");
  expectError(f.map("add", {x}), "expected 2 operands, found 1");
  expectError(f.add(w, h), "add(w: 32x16xf32, h: 32x16xbf16): expected elements of one type");
  expectError(f.add(x, w), "expected extents that are equal or 1 in dimension 0, found 64 and 32");
  expectError(f.map("exp", {i}), "expected elements of floating point, found i32");
  expectError(f.map("arith.addi", {x, x}), "expected elements that are integers, found f32");
  expectError(f.map("arith.addf", {i, i}), "expected elements of floating point, found i32");
  expectError(f.map("and", {x, x}), "expected elements that are integers, found f32");
  Value truth = f.compare("lt", w, 0);
  expectError(f.add(truth, truth), "expected elements that are numbers, found i1");
  expectError(f.compare("lt", truth, truth), "expected numbers, found i1");
  expectError(f.compare("below", w, w), "expected eq, ne, lt, le, gt or ge, found \"below\"");
  expectError(f.select(w, w, w), "expected a condition of i1, found f32");
  expectError(f.select(truth, w, h), "expected elements of one type, found f32 and bf16");
  expectError(f.cast(h, DType::F16), "found bf16 and f16 (f32 is between them)");
  expectError(f.cast(f.cast(h, DType::F8E5M2), DType::F8E4M3FN),
              "found f8E5M2 and f8E4M3FN (f32 is between them)");
  expectError(f.cast(h, DType::I1), "with a cast between them, found bf16 and i1");
  expectError(f.add(i, 0.5), "constant(): expected an integer of i32, found 0.5");
  expectError(f.constant(1, DType::F32, {kUnknown}), "expected known extents, found ?");
  expectError(f.constant(1, DType::F32, {-2}), "expected extents of 0 or more, found -2");
}

TEST_F(BuilderErrors, Matmul) {
  MatmulOptions options;
  expectError(f.matmul(i, i),
              "expected factors of one floating point type, or of 8 bits, found i32 and i32");
  expectError(f.matmul(x, h), "found f32 and bf16");
  options.result = DType::F16;
  expectError(f.matmul(x, w, options), "expected a result of f32, found f16");
  options.result.reset();
  options.bias = w;
  expectError(f.matmul(x, w, options), "expected a bias of rank 1 and extent 16, found [32x16]");
  options.bias.reset();
  Value vector = f.reduce(Reduction::Sum, w, {1}), scalar = f.reduce(Reduction::Sum, w, {0, 1});
  options.transposeB = true;
  expectError(f.matmul(x, vector, options),
              "expected rhs of rank 2 or more to transpose, found a vector");
  options.transposeB = false;
  options.bias = vector;
  expectError(f.matmul(x, vector, options),
              "expected no bias where rhs is a vector: the result has no N");
  expectError(f.matmul(x, scalar), "expected rhs of rank 1 or more, found rank 0");
  Value a = f.reshape(x, {2, 32, 32}), b = f.reshape(w, {4, 32, 4});
  expectError(f.matmul(a, b), "expected batch extents that are equal or 1 in dimension 0");
}

TEST_F(BuilderErrors, ScaledMatmul) {
  Value a = f.cast(x, DType::F8E4M3FN), b = f.cast(w, DType::F8E5M2);
  Value one = f.input("one", DType::F32, {}), rows = f.input("rows", DType::F32, {64}),
        half = f.input("half", DType::BF16, {});
  expectError(f.matmul(a, w), "expected factors of one floating point type");
  MatmulOptions product;
  product.result = DType::F8E4M3FN;
  expectError(f.matmul(a, b, product),
              "expected a result of f32, f16 or bf16 of factors of 8 bits, found f8E4M3FN");
  expectError(f.scaledMatmul(a, b, rows, rows),
              "expected a right scale of f32 or 16xf32, found 64xf32");
  expectError(f.scaledMatmul(a, b, half, one),
              "expected a left scale of f32 or 64xf32, found bf16");
  expectError(f.scaledMatmul(f.reshape(a, {2, 32, 32}), b, one, one), "expected matrices");
  ScaledMatmulOptions options;
  options.bias = rows;
  expectError(f.scaledMatmul(a, b, one, one, options),
              "expected a bias of f32 or 16xf32, found 64xf32");
  options.bias.reset();
  options.resultScale = rows;
  expectError(f.scaledMatmul(a, b, one, one, options),
              "expected a scale of the result of f32, found 64xf32");
  options.resultScale.reset();
  options.result = DType::I32;
  expectError(f.scaledMatmul(a, b, one, one, options), "or 8-bit floats, found i32");
}

TEST_F(BuilderErrors, GroupedMatmul) {
  Value blocks = f.reshape(x, {2, 32, 32}), experts = f.reshape(x, {4, 32, 16});
  Value ends = f.constant(5, DType::I32, {2, 4});
  expectError(f.groupedMatmul(blocks, experts, blocks),
              "8 bits and ends of i32, found f32 and f32");
  expectError(f.groupedMatmul(blocks, x, ends), "expected [..., M, K], [G, K, N] and [..., G]");
  expectError(f.groupedMatmul(x, experts, ends), "found [64x32], [4x32x16] and [2x4]");
  GroupedMatmulOptions options;
  options.transposeB = true;
  expectError(f.groupedMatmul(blocks, experts, ends, options), "[G, N, K]");
  options.result = DType::BF16;
  expectError(f.groupedMatmul(blocks, experts, ends, options),
              "expected a result of f32, found bf16");
  Value small = f.cast(blocks, DType::F8E5M2), smallExperts = f.cast(experts, DType::F8E4M3FN);
  options = {};
  expectError(f.groupedMatmul(small, experts, ends, options),
              "expected factors of one floating point type, or of 8 bits, found f8E5M2 and f32");
  options.result = DType::F8E4M3FN;
  expectError(f.groupedMatmul(small, smallExperts, ends, options),
              "expected a result of f32, f16 or bf16 of factors of 8 bits, found f8E4M3FN");
}

TEST_F(BuilderErrors, Attention) {
  Value q = f.reshape(x, {2, 32, 32}), k = f.reshape(x, {2, 64, 16}), v = f.reshape(x, {4, 32, 16});
  AttentionOptions options;
  expectError(f.attention(i, i, i), "expected elements of f32, f16 or bf16, found i32");
  Value small = f.cast(x, DType::F8E4M3FN);
  expectError(f.attention(small, small, small), "found f8E4M3FN");
  expectError(f.reduce(Reduction::Max, small, {0}), "can be reduced by max, found f8E4M3FN");
  expectError(f.attention(q, x, q), "of one rank, 2 or more, found ranks 3, 2 and 3");
  expectError(f.attention(q, q, v), "expected equal batch extents, found 2 and 4 in dimension 0");
  expectError(f.attention(q, k, k), "of equal depth, 1 or more, found 32 and 16");
  expectError(f.attention(k, k, f.reshape(x, {2, 32, 32})), "expected as many keys as values");
  options.scale = -1;
  expectError(f.attention(q, q, q, options), "expected a finite scale greater than 0, as f32");
  options.scale.reset();
  options.zigzag = 5;
  expectError(f.attention(q, q, q, options), "expected zigzag greater than 0, and with causal");
  options.causal = true;
  expectError(f.attention(q, q, q, options), "that 2 * zigzag divides, found 32 and zigzag 5");
  expectError(
      f.attention(k, f.slice(k, {0, 0, 0}, {2, 8, 16}), f.slice(k, {0, 0, 0}, {2, 8, 16}), options),
      "expected as many keys as rows with causal, found 8 and 64");
  options = {};
  options.keyCount = 33;
  expectError(f.attention(q, q, q, options),
              "expected a key_count from 1 to the number of keys, 32,");
}

TEST_F(BuilderErrors, Shapes) {
  expectError(f.reduce(Reduction::Sum, x, {2}), "expected 'dims' below rank 2, found 2");
  expectError(f.reduce(Reduction::Sum, x, {1, 0}), "in ascending order, found 0 after 1");
  expectError(f.reduce(Reduction::Sum, f.compare("lt", w, 0), {0}),
              "can be reduced by sum, found i1");
  expectError(f.broadcast(w, {2, 32, 16}, {0}),
              "expected one entry of 'dims' per operand dimension (2), found 1");
  expectError(f.broadcast(w, {2, 32, 16}, {1, 3}), "expected 'dims' below rank 3, found 3");
  expectError(f.broadcast(w, {2, 32, 16}, {0, 1}),
              "expected extent 2 (of result dimension 0) or 1 in operand dimension 0, found 32");
  expectError(f.permute(x, {0, 0}), "expected a permutation of 0 ... 1, found [0, 0]");
  expectError(f.reshape(x, {3, kUnknown}), "expected a result of 2048 elements, found [3x?]");
  expectError(f.reshape(x, {2}), "expected a result of 2048 elements, found 2");
  expectError(f.reshape(x, {kUnknown, kUnknown}), "expected at most one extent to infer");
  expectError(f.slice(x, {0}, {1}), "expected a result of rank 2, found rank 1");
  expectError(f.slice(x, {-1, 0}, {1, 1}),
              "expected an offset that is not negative in dimension 0, found -1");
  expectError(
      f.slice(x, {0, 0}, {33, 1}, {2, 1}),
      "expected elements inside the extent 64 of dimension 0, found 33 from 0 in steps of 2");
  expectError(f.concat({}, 0), "expected at least one operand, found none");
  expectError(f.concat({x, w}, 0), "expected extent 32 in dimension 1 of operand 1, found 16");
  expectError(f.concat({x}, 2), "expected 'dim' below rank 2, found 2");
  expectError(f.concat({w, h}, 0), "expected elements of one type, found f32 and bf16");
  expectError(f.concat({w, f.reshape(w, {512})}, 0), "expected rank 2 of operand 1, found 1");
}

TEST_F(BuilderErrors, Calls) {
  Type rows{DType::F32, {64, 32}, {}};
  auto call = [&](const std::string &name, Type type, const std::string &dims,
                  CallOptions options = {}) {
    return f.call(name, {x, w}, std::move(type), dims, options);
  };
  expectError(call("a b", rows, "s_, __ -> s_"), "expected the name of a kernel, found \"a b\"");
  expectError(call("f", rows, "s_, __ -> s_"), "expected the name of a kernel, found \"f\"");
  expectError(call("k", rows, "s_ -> s_"), "k: expected dims of 2 operands and a result");
  expectError(call("k", rows, "s_, __"), "k: expected dims of 2 operands and a result");
  expectError(call("k", rows, "S_, __ -> S_"),
              "expected lower-case letters and '_' as dims of the result");
  expectError(call("k", rows, "s_, _ -> s_"), "expected 2 dims of operand 1, found \"_\"");
  expectError(call("k", rows, "ss, __ -> s_"),
              "expected the dims of operand 0 to be distinct, found 's' twice");
  expectError(call("k", rows, "s_, _c -> s_"),
              "expected every parallel dimension in the result, found 'c' of operand 1 only");
  expectError(call("k", rows, "s_, s_ -> s_"),
              "expected equal extents of the dimensions 's', found 64 and 32");
  expectError(call("k", {DType::F32, {-3}, {}}, "s_, __ -> _"), "expected extents of 0 or more");
  expectError(call("k", {DType::F32, {64, 32}, tp.replicated(1)}, "s_, __ -> s_"),
              "expected axes of 2 dimensions, found 1");
  CallOptions options;
  options.flops = -1;
  expectError(call("k", rows, "s_, __ -> s_", options), "expected costs that are not negative");
  EXPECT_TRUE(call("k", rows, "s_, __ -> s_").valid());
  expectError(call("k", {DType::I32, {64, 32}, {}}, "s_, __ -> s_"),
              "expected the ranks and element types of its earlier call");
}

TEST_F(BuilderErrors, Annotations) {
  expectError(f.reshard(x, tp.replicated(2), Schedule{"ring>", {}}),
              "expected the name of a schedule");
  expectError(f.reshard(x, tp.replicated(2), Schedule{"ring", {{"a", "}"}}}),
              "expected an option with a word, number or list, found \"a\" = \"}\"");
  expectError(f.withSchedule(x, {"ring", {}}), "expected the result of an op that computes");
  expectError(f.withGather(f.matmul(x, w), "behind"), "expected \"before\" or \"after\"");
}

/// What only the compiler knows is reported at the line that built the op.
TEST_F(BuilderErrors, OfTheCompilerAreAtTheCall) {
  Value y = f.map("exp", {f.reduce(Reduction::Sum, x, {0})});
  f.output("y", y, tp.axes({none()}, {"x"}));
  unsigned line = __LINE__ - 1;
  ASSERT_TRUE(f.ok()) << f.errorText();
  Program program = compile(f);
  ASSERT_FALSE(program.ok);
  EXPECT_THAT(program.errorText(),
              HasSubstr(std::string(__FILE__) + ":" + std::to_string(line) + ": error: "));
}

} // namespace
