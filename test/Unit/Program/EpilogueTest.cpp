//===- EpilogueTest.cpp - launches that are epilogues of matmuls ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"

#include "tandem/Program/Epilogue.h"
#include "tandem/Program/Program.h"

#include <functional>
#include <gtest/gtest.h>

namespace tandem::test {
namespace {

using program::Activation;
using program::EpilogueFunction;
using sp::ExprOp;

/// ExprBuilder whose values are numbered as they are made. Input 0 is the product.
struct ExprBuilder {
  std::vector<Instr> code;
  uint32_t add(ExprOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, double imm = 0) {
    code.emplace_back(op, a, b, c, imm);
    return static_cast<uint32_t>(code.size() - 1);
  }
  uint32_t load(uint32_t input) { return add(ExprOp::load, input); }
  uint32_t constant(double value) { return add(ExprOp::constant, 0, 0, 0, value); }
  uint32_t mul(uint32_t a, uint32_t b) { return add(ExprOp::mul, a, b); }
  uint32_t plus(uint32_t a, uint32_t b) { return add(ExprOp::add, a, b); }
  uint32_t relu(uint32_t x) { return add(ExprOp::max, constant(0), x); }
  /// x / 2 (1 + tanh(scale (x + cubic x^3)))
  uint32_t gelu(uint32_t x, double scale = 0.7978845608, double cubic = 0.044715) {
    uint32_t cube = mul(mul(x, x), mul(x, constant(cubic)));
    uint32_t tanh = add(ExprOp::tanh, mul(constant(scale), plus(x, cube)));
    return mul(mul(x, constant(0.5)), plus(constant(1), tanh));
  }
  std::vector<uint8_t> encode(uint32_t inputs, uint32_t result) {
    add(ExprOp::store, result, 0);
    return encodeExpression(inputs, 1, code);
  }
  std::optional<EpilogueFunction> find(uint32_t inputs, uint32_t result, DType type = DType::F32) {
    std::vector<uint8_t> bytes = encode(inputs, result);
    std::vector<bool> isProduct(inputs);
    isProduct[0] = true;
    return program::findEpilogueFunction(*flatbuffers::GetRoot<sp::Expression>(bytes.data()),
                                         isProduct, type);
  }
};

TEST(Epilogue, SumsOfScaledInputs) {
  ExprBuilder code;
  uint32_t scaled = code.mul(code.load(0), code.constant(2));
  uint32_t difference = code.add(ExprOp::sub, scaled, code.load(1));
  auto found = code.find(3, code.add(ExprOp::fma, code.load(2), code.constant(0.5), difference));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::None);
  EXPECT_EQ(found->alpha, 2);
  EXPECT_EQ(found->weights, (std::vector<double>{0, -1, 0.5}));
}

TEST(Epilogue, Relu) {
  ExprBuilder code;
  auto found = code.find(2, code.relu(code.plus(code.load(0), code.load(1))));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Relu);
  EXPECT_EQ(found->alpha, 1);
  EXPECT_EQ(found->weights, (std::vector<double>{0, 1}));
}

TEST(Epilogue, GeluHoweverItIsWritten) {
  ExprBuilder code;
  auto found = code.find(2, code.gelu(code.plus(code.load(1), code.load(0))));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Gelu);
  EXPECT_EQ(found->weights, (std::vector<double>{0, 1}));

  // x (0.5 + 0.5 tanh(x (0.79788 + 0.035677 x^2)))
  ExprBuilder other;
  uint32_t x = other.load(0);
  uint32_t inner = other.add(ExprOp::fma, other.mul(x, x), other.constant(0.0356774081),
                             other.constant(0.7978845608));
  uint32_t half = other.constant(0.5);
  uint32_t weight =
      other.add(ExprOp::fma, half, other.add(ExprOp::tanh, other.mul(x, inner)), half);
  found = other.find(1, other.mul(x, weight));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Gelu);
}

TEST(Epilogue, Silu) {
  ExprBuilder code, other;
  uint32_t x = code.plus(code.load(0), code.load(1));
  uint32_t exp = code.add(ExprOp::exp, code.add(ExprOp::neg, x));
  auto found = code.find(2, code.add(ExprOp::div, x, code.plus(exp, code.constant(1))));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Silu);
  // exp(x) in place of exp(-x)
  x = other.load(0);
  exp = other.add(ExprOp::exp, x);
  EXPECT_FALSE(other.find(1, other.add(ExprOp::div, x, other.plus(exp, other.constant(1)))));
}

TEST(Epilogue, ConstantsOfTheType) {
  // sqrt(2 / pi) and 0.044715 as bf16.
  ExprBuilder exact, narrow;
  EXPECT_FALSE(exact.find(1, exact.gelu(exact.load(0), 0.796875, 0.044677734)));
  auto found = narrow.find(1, narrow.gelu(narrow.load(0), 0.796875, 0.044677734), DType::BF16);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Gelu);
}

// relu(2 * product * input 1 * input 3 + input 2)
TEST(Epilogue, Scales) {
  ExprBuilder code;
  uint32_t scaled = code.mul(code.load(3), code.load(0));
  scaled = code.mul(scaled, code.mul(code.load(1), code.constant(2)));
  auto found = code.find(4, code.relu(code.plus(scaled, code.load(2))));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Relu);
  EXPECT_EQ(found->alpha, 2);
  EXPECT_EQ(found->factors, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(found->weights, (std::vector<double>{0, 0, 1, 0}));

  ExprBuilder other;
  scaled = other.mul(other.load(0), other.load(1));
  found = other.find(3, other.gelu(other.plus(scaled, other.load(2))));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Gelu);
  EXPECT_EQ(found->factors, (std::vector<uint32_t>{1}));
}

TEST(Epilogue, WhatIsNone) {
  using Make = std::function<uint32_t(ExprBuilder &, uint32_t x)>;
  std::pair<const char *, Make> all[] = {
      {"a constant is added", [](ExprBuilder &c, uint32_t x) { return c.plus(x, c.constant(1)); }},
      {"no product", [](ExprBuilder &c, uint32_t) { return c.load(1); }},
      {"a square", [](ExprBuilder &c, uint32_t x) { return c.mul(x, x); }},
      {"a product with a sum of inputs",
       [](ExprBuilder &c, uint32_t x) { return c.mul(x, c.plus(c.load(1), c.constant(1))); }},
      {"a sum with an input, scaled",
       [](ExprBuilder &c, uint32_t x) { return c.mul(c.plus(x, c.load(1)), c.load(1)); }},
      {"a scaled product and one that is not",
       [](ExprBuilder &c, uint32_t x) { return c.plus(x, c.mul(x, c.load(1))); }},
      {"tanh", [](ExprBuilder &c, uint32_t x) { return c.add(ExprOp::tanh, x); }},
      {"a maximum with 1",
       [](ExprBuilder &c, uint32_t x) { return c.add(ExprOp::max, x, c.constant(1)); }},
      {"a maximum with an input",
       [](ExprBuilder &c, uint32_t x) { return c.add(ExprOp::max, x, c.load(1)); }},
      {"a sum behind the activation",
       [](ExprBuilder &c, uint32_t x) { return c.plus(c.relu(x), c.load(1)); }},
      {"two maxima", [](ExprBuilder &c, uint32_t x) { return c.relu(c.relu(x)); }},
      {"a minimum",
       [](ExprBuilder &c, uint32_t x) { return c.add(ExprOp::min, x, c.constant(0)); }},
      {"the gelu of erf",
       [](ExprBuilder &c, uint32_t x) {
         uint32_t erf = c.add(ExprOp::erf, c.mul(x, c.constant(0.7071067812)));
         return c.mul(c.mul(x, c.constant(0.5)), c.plus(c.constant(1), erf));
       }},
      {"a maximum with a small number",
       [](ExprBuilder &c, uint32_t x) { return c.add(ExprOp::max, x, c.constant(1e-8)); }},
      {"a leaky relu",
       [](ExprBuilder &c, uint32_t x) {
         return c.add(ExprOp::max, x, c.mul(x, c.constant(1e-4)));
       }},
      {"something added to a relu",
       [](ExprBuilder &c, uint32_t x) { return c.plus(c.relu(x), c.constant(1e-7)); }},
      {"the relu of a difference",
       [](ExprBuilder &c, uint32_t x) { return c.relu(c.add(ExprOp::sub, x, c.constant(1e-6))); }},
      {"a gelu and a small number",
       [](ExprBuilder &c, uint32_t x) { return c.plus(c.gelu(x), c.constant(1e-3)); }},
      {"another slope", [](ExprBuilder &c, uint32_t x) { return c.gelu(x, 0.851, 0); }},
      {"a product that is rounded before",
       [](ExprBuilder &c, uint32_t x) { return c.relu(c.add(ExprOp::round_bf16, x)); }},
      {"a result that is rounded to another type",
       [](ExprBuilder &c, uint32_t x) { return c.add(ExprOp::round_f16, c.relu(x)); }},
  };
  for (const auto &[what, make] : all) {
    ExprBuilder code;
    uint32_t x = code.load(0);
    EXPECT_FALSE(code.find(2, make(code, x), DType::BF16)) << what;
  }
  ExprBuilder rounded;
  uint32_t result = rounded.add(ExprOp::round_bf16, rounded.relu(rounded.load(0)));
  EXPECT_TRUE(rounded.find(1, result, DType::BF16)) << "as the store does";
}

/// relu(x w + bias - residual) in place behind the matmul, each of these bf16.
struct Layer {
  ProgramSpec spec{1};
  uint32_t x, w, out, row, residual, elsewhere;

  Layer() {
    RankSpec &rank = spec.ranks[0];
    auto buffer = [&](const char *name, bool isResult, const Shape &shape) {
      uint32_t argument = spec.stacked(name, isResult, DType::BF16, shape);
      return rank.argument(argument, static_cast<uint64_t>(2 * product(shape)));
    };
    x = rank.view(buffer("x", false, {8, 16}), DType::BF16, {8, 16});
    w = rank.view(buffer("w", false, {16, 4}), DType::BF16, {16, 4});
    row = rank.view(buffer("b", false, {4}), DType::BF16, {8, 4}, {0, 1}, 0);
    residual = rank.view(buffer("r", false, {8, 4}), DType::BF16, {8, 4});
    out = rank.view(buffer("y", true, {8, 4}), DType::BF16, {8, 4});
    elsewhere = rank.view(rank.arena(64), DType::BF16, {8, 4});
    rank.numStreams = 2;
    ExprBuilder code;
    uint32_t sum = code.plus(code.load(0), code.load(1));
    KernelSpec kernel;
    kernel.code = code.encode(3, code.relu(code.add(ExprOp::sub, sum, code.load(2))));
    kernel.outputs = 1;
    rank.kernels.push_back(kernel);
    rank.add(sp::CommandKind::matmul, 0, {out, x, w});
    rank.launch(0, 0, {out, out, row, residual});
  }
  std::optional<program::MatmulEpilogue> find(uint32_t command = 0) const {
    auto file = ProgramFile::fromMemory(spec.encode());
    EXPECT_TRUE(file.ok()) << file.status().message();
    auto loaded = (*file)->rankProgram(0);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded ? program::findEpilogue(**loaded, command) : std::nullopt;
  }
};

TEST(Epilogue, OfACommand) {
  Layer layer;
  auto found = layer.find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->activation, Activation::Relu);
  EXPECT_EQ(found->bias, layer.row);
  EXPECT_EQ(found->residual, layer.residual);
  EXPECT_EQ(found->alpha, 1);
  EXPECT_EQ(found->beta, -1);
  EXPECT_FALSE(layer.find(1)) << "not a matmul";
}

TEST(Epilogue, TheProductInAnotherLayout) {
  Layer layer;
  RankSpec &rank = layer.spec.ranks[0];
  auto oneRow = [&](uint32_t view, int64_t columns, int64_t stride) {
    return rank.view(rank.views[view].buffer(), DType::BF16, {1, columns}, {stride, 1}, 0);
  };
  uint32_t out = oneRow(layer.out, 4, 4);
  rank.commands[0].operands[0] = out;
  rank.commands[0].operands[1] = oneRow(layer.x, 16, 16);
  rank.launchOperands = {out, out, oneRow(layer.out, 4, 8), oneRow(layer.residual, 4, 4)};
  auto found = layer.find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->alpha, 2) << "not its old contents as a bias";
}

TEST(Epilogue, CommandsWithoutOne) {
  auto expectNone = [](const char *what, const std::function<void(Layer &, RankSpec &)> &edit) {
    Layer layer;
    edit(layer, layer.spec.ranks[0]);
    EXPECT_FALSE(layer.find()) << what;
  };
  expectNone("last", [](Layer &, RankSpec &rank) { rank.commands.pop_back(); });
  expectNone("not in place", [](Layer &layer, RankSpec &rank) {
    rank.commands[0].operands[0] = layer.elsewhere;
    rank.launchOperands[1] = layer.elsewhere;
  });
  expectNone("another stream", [](Layer &, RankSpec &rank) { rank.commands[1].stream = 1; });
  expectNone("accumulates", [](Layer &, RankSpec &rank) {
    rank.commands[0].flags = static_cast<uint8_t>(sp::CommandFlags::accumulate);
  });
  expectNone("deterministic",
             [](Layer &layer, RankSpec &) { layer.spec.deterministic = sp::Determinism::bitwise; });
  expectNone("two biases", [](Layer &, RankSpec &rank) {
    uint32_t row = rank.view(rank.views[2].buffer(), DType::BF16, {4});
    rank.commands[0].operands[3] = row;
  });
  expectNone("two residuals",
             [](Layer &layer, RankSpec &rank) { rank.launchOperands[2] = layer.residual; });
  expectNone("a residual with other strides", [](Layer &, RankSpec &rank) {
    uint32_t buffer = rank.views[3].buffer();
    rank.launchOperands[3] = rank.view(buffer, DType::BF16, {8, 4}, {1, 8}, 0);
  });
}

/// x w * rows * columns in place behind the matmul, of 8-bit factors.
struct ScaledLayer {
  ProgramSpec spec{1};
  uint32_t out, rows, columns, one;

  explicit ScaledLayer(DType factors = DType::F8E4M3FN) {
    RankSpec &rank = spec.ranks[0];
    auto buffer = [&](const char *name, bool isResult, DType type, const Shape &shape) {
      uint32_t argument = spec.stacked(name, isResult, type, shape);
      return rank.argument(argument, static_cast<uint64_t>(sizeOf(type) * product(shape)));
    };
    uint32_t x = rank.view(buffer("x", false, factors, {8, 16}), factors, {8, 16});
    uint32_t w = rank.view(buffer("w", false, factors, {16, 4}), factors, {16, 4});
    uint32_t sx = buffer("sx", false, DType::F32, {8}), sw = buffer("sw", false, DType::F32, {4});
    rows = rank.view(sx, DType::F32, {8, 4}, {1, 0}, 0);
    columns = rank.view(sw, DType::F32, {8, 4}, {0, 1}, 0);
    one = rank.view(sx, DType::F32, {8, 4}, {0, 0}, 0);
    out = rank.view(buffer("y", true, DType::BF16, {8, 4}), DType::BF16, {8, 4});
    ExprBuilder code;
    KernelSpec kernel;
    kernel.code = code.encode(3, code.mul(code.mul(code.load(0), code.load(1)), code.load(2)));
    kernel.operandTypes = {
        static_cast<uint8_t>(sp::DType::bf16), static_cast<uint8_t>(sp::DType::bf16),
        static_cast<uint8_t>(sp::DType::f32), static_cast<uint8_t>(sp::DType::f32)};
    kernel.outputs = 1;
    rank.kernels.push_back(kernel);
    rank.add(sp::CommandKind::matmul, 0, {out, x, w});
  }
  std::optional<program::MatmulEpilogue> find(uint32_t first, uint32_t second) {
    spec.ranks[0].launch(0, 0, {out, out, first, second});
    auto file = ProgramFile::fromMemory(spec.encode());
    EXPECT_TRUE(file.ok()) << file.status().message();
    auto loaded = (*file)->rankProgram(0);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded ? program::findEpilogue(**loaded, 0) : std::nullopt;
  }
};

TEST(Epilogue, ScalesOfACommand) {
  ScaledLayer layer;
  auto found = layer.find(layer.columns, layer.rows);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rowScale, layer.rows);
  EXPECT_EQ(found->columnScale, layer.columns);
  ScaledLayer mixed;
  found = mixed.find(mixed.one, mixed.rows);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rowScale, mixed.rows);
  EXPECT_EQ(found->columnScale, mixed.one);
  ScaledLayer scalars;
  found = scalars.find(scalars.one, scalars.one);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rowScale, scalars.one);
  EXPECT_EQ(found->columnScale, scalars.one);
  ScaledLayer twice, wide(DType::BF16);
  EXPECT_FALSE(twice.find(twice.rows, twice.rows));
  EXPECT_FALSE(wide.find(wide.rows, wide.columns)) << "no library scales these";
}

} // namespace
} // namespace tandem::test
