//===- DataKernelsTest.cpp - kernels that compute something else ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataPrograms.h"

#include "Field.h"

#include <cmath>
#include <limits>

using namespace tandem;
using namespace tandem::check;
using sp::ExprOp;

using Instructions = std::vector<test::Instr>;

/// Loads of two inputs, `body` (from register 2 on), and a store of the last register.
static Instructions code(Instructions body) {
  Instructions all = {instr(ExprOp::load), instr(ExprOp::load, 1)};
  all.insert(all.end(), body.begin(), body.end());
  all.push_back(instr(ExprOp::store, static_cast<uint32_t>(all.size() - 1), 0));
  return all;
}

/// y = f(a, b), by one kernel on the rank and by another in the reference.
static DataSpec elementwise(const Instructions &rankCode, const Instructions &referenceCode,
                            DType dtype = DType::F32) {
  DataSpec spec(1);
  uint32_t a = spec.whole("a", false, {5}, dtype), b = spec.whole("b", false, {5}, dtype);
  uint32_t y = spec.whole("y", true, {5}, dtype);
  for (RankSpec *rank : {&spec.ranks[0], &*spec.reference})
    rank->launch(0, kernel(*rank, 2, 1, rank == &spec.ranks[0] ? rankCode : referenceCode),
                 {spec.view(*rank, y), spec.view(*rank, a), spec.view(*rank, b)});
  return spec;
}

static void expectEqual(const Instructions &a, const Instructions &b) {
  expectClean(elementwise(a, b));
}
static void expectDifferent(const Instructions &a, const Instructions &b) {
  expectOnly(elementwise(a, b), kWrong);
}

static test::Instr number(float value) { return instr(ExprOp::constant, 0, 0, 0, value); }

TEST(DataKernels, SumsAndProducts) {
  // a b + a = (b + 1) a = fma(a, b, a)
  Instructions sum = code({instr(ExprOp::mul, 0, 1), instr(ExprOp::add, 2, 0)});
  expectEqual(sum, code({number(1), instr(ExprOp::add, 1, 2), instr(ExprOp::mul, 3, 0)}));
  expectEqual(sum, code({instr(ExprOp::fma, 0, 1, 0)}));
  expectDifferent(sum, code({instr(ExprOp::fma, 0, 1, 1)}));
  expectDifferent(sum, code({instr(ExprOp::mul, 0, 1)}));
}

TEST(DataKernels, Fractions) {
  // a / 4 = a * 0.25, -0.375 a = a / 8 - a / 2; a / b is not b / a.
  expectEqual(code({number(4), instr(ExprOp::div, 0, 2)}),
              code({number(0.25), instr(ExprOp::mul, 0, 2)}));
  expectEqual(code({number(-0.375), instr(ExprOp::mul, 0, 2)}),
              code({number(8), number(2), instr(ExprOp::div, 0, 2), instr(ExprOp::div, 0, 3),
                    instr(ExprOp::sub, 4, 5)}));
  expectDifferent(code({instr(ExprOp::div, 0, 1)}), code({instr(ExprOp::div, 1, 0)}));
  // The smallest number there is, 2^-149, and the largest power of 2.
  expectEqual(code({number(1e-45F), instr(ExprOp::mul, 0, 2)}),
              code({number(1.17549435e-38F), number(8388608), instr(ExprOp::mul, 0, 2),
                    instr(ExprOp::div, 4, 3)}));
  expectEqual(code({number(1.70141183e38F), instr(ExprOp::div, 0, 2)}),
              code({number(5.877471754e-39F), instr(ExprOp::mul, 0, 2)}));
}

TEST(DataKernels, OperandsExchanged) {
  expectDifferent(code({instr(ExprOp::sub, 0, 1)}), code({instr(ExprOp::sub, 1, 0)}));
  expectDifferent(code({instr(ExprOp::pow, 0, 1)}), code({instr(ExprOp::pow, 1, 0)}));
  expectEqual(code({instr(ExprOp::max, 0, 1)}), code({instr(ExprOp::max, 1, 0)}));
}

TEST(DataKernels, AnotherConstant) {
  expectDifferent(code({number(2), instr(ExprOp::mul, 0, 2)}),
                  code({number(2.0000002F), instr(ExprOp::mul, 0, 2)}));
}

TEST(DataKernels, AnotherFunction) {
  const ExprOp unary[] = {ExprOp::neg,  ExprOp::abs,   ExprOp::exp,  ExprOp::exp2, ExprOp::log,
                          ExprOp::sqrt, ExprOp::rsqrt, ExprOp::tanh, ExprOp::erf,  ExprOp::sin,
                          ExprOp::cos,  ExprOp::floor, ExprOp::ceil};
  for (ExprOp f : unary)
    for (ExprOp g : unary) {
      DataSpec spec = elementwise(code({instr(f, 0)}), code({instr(g, 0)}));
      expectOnly(spec, f == g ? std::set<std::string>() : kWrong);
    }
}

TEST(DataKernels, FunctionLeftOut) {
  for (ExprOp f : {ExprOp::exp, ExprOp::tanh, ExprOp::neg})
    expectDifferent(code({instr(f, 0), instr(f, 2)}), code({instr(f, 0)}));
}

TEST(DataKernels, RoundingIsNoDifference) {
  expectEqual(code({instr(ExprOp::round_f16, 0), instr(ExprOp::exp, 2)}),
              code({instr(ExprOp::exp, 0), instr(ExprOp::round_bf16, 2)}));
}

TEST(DataKernels, SelectTakesTheOther) {
  Instructions smaller = code({instr(ExprOp::cmp_lt, 0, 1), instr(ExprOp::select, 2, 0, 1)});
  expectEqual(smaller, code({instr(ExprOp::min, 0, 1)}));
  expectDifferent(smaller, code({instr(ExprOp::max, 0, 1)}));
  expectEqual(smaller, code({instr(ExprOp::cmp_le, 1, 0), instr(ExprOp::select, 2, 1, 0)}));
}

TEST(DataKernels, MaximumWithInfinity) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  expectEqual(code({number(-infinity), instr(ExprOp::max, 0, 2)}),
              code({number(infinity), instr(ExprOp::min, 0, 2)}));
  // Zero is not the least number.
  expectDifferent(code({number(0), instr(ExprOp::max, 0, 2)}),
                  code({number(-infinity), instr(ExprOp::max, 0, 2)}));
}

TEST(DataKernels, ExpDifference) {
  // The quotient of two weights does not depend on the maximum, if that is at least both.
  auto quotient = [&](Instructions maximum, float scale) {
    auto m = static_cast<uint32_t>(2 + maximum.size());
    maximum.push_back(number(scale));
    maximum.push_back(instr(ExprOp::exp_difference, 0, m - 1, m));
    maximum.push_back(instr(ExprOp::exp_difference, 1, m - 1, m));
    maximum.push_back(instr(ExprOp::div, m + 1, m + 2));
    return code(maximum);
  };
  Instructions higher = {instr(ExprOp::max, 0, 1)};
  Instructions expected = quotient(higher, 0.5);
  expectEqual(expected,
              quotient({instr(ExprOp::max, 0, 1), number(7), instr(ExprOp::max, 2, 3)}, 0.5));
  expectDifferent(expected, quotient({instr(ExprOp::max, 0, 0)}, 0.5));
  expectDifferent(expected, quotient({instr(ExprOp::min, 0, 1)}, 0.5));
  expectDifferent(expected, quotient(higher, 0.25));
  expectDifferent(expected, quotient(higher, -0.5));
}

TEST(DataKernels, ConstantsFold) {
  // exp(a - a) = 1, max(a - a, 3) = 3, -1.5 < 0.5, tanh(0.5) is a number
  Instructions zero = {instr(ExprOp::sub, 0, 0)};
  auto of = [&](Instructions body) {
    body.insert(body.begin(), zero.begin(), zero.end());
    return code(body);
  };
  expectEqual(of({instr(ExprOp::exp, 2)}), code({number(1)}));
  expectDifferent(of({instr(ExprOp::exp, 2)}), code({number(1.0000001F)}));
  expectEqual(of({number(3), instr(ExprOp::max, 2, 3)}), code({number(3)}));
  expectEqual(of({number(-3), instr(ExprOp::max, 2, 3)}), code({number(0)}));
  expectEqual(
      code({number(-1.5), number(0.5), instr(ExprOp::cmp_lt, 2, 3), instr(ExprOp::convert, 4)}),
      code({number(1)}));
  expectEqual(code({number(0.5), instr(ExprOp::tanh, 2)}), code({number(std::tanh(0.5F))}));
  float infinity = std::numeric_limits<float>::infinity();
  expectEqual(code({number(1), number(infinity), instr(ExprOp::sub, 2, 3), instr(ExprOp::exp, 4)}),
              code({number(0)}));
  expectEqual(code({number(1), number(infinity), instr(ExprOp::div, 2, 3)}), code({number(0)}));
  expectEqual(code({number(-1), instr(ExprOp::log, 2), instr(ExprOp::add, 2, 3)}),
              code({number(std::numeric_limits<float>::quiet_NaN())}));
  // Sums of numbers are not rounded, so their order does not count.
  expectEqual(
      code({number(0.1F), number(0.3F), instr(ExprOp::add, 2, 3), instr(ExprOp::add, 4, 3)}),
      code({number(0.1F), number(0.3F), instr(ExprOp::add, 3, 3), instr(ExprOp::add, 4, 2)}));
  expectEqual(code({number(-2.5), instr(ExprOp::floor, 2)}), code({number(-3)}));
  expectEqual(code({number(-2.5), instr(ExprOp::abs, 2)}), code({number(2.5)}));
  // What lies between two numbers is told from what does not.
  expectDifferent(code({number(0), number(6), instr(ExprOp::max, 0, 2), instr(ExprOp::min, 4, 3)}),
                  code({number(0), number(6), instr(ExprOp::max, 1, 2), instr(ExprOp::min, 4, 3)}));
}

TEST(DataField, NumbersAreKnown) {
  for (float value : {0.F, 1.F, -1.F, 0.1F, -1e-5F, 3.14159265F, 65504.F, -1e9F, 0x1p-29F, 1.9e9F})
    EXPECT_EQ(field::numberOf(field::fromFloat(value)), double(value));
  for (int64_t value : {int64_t(123456789), int64_t(-0x80000000LL), int64_t(0x7fffffff)})
    EXPECT_EQ(field::numberOf(field::fromInteger(value)), double(value));
  unsigned known = 0;
  for (uint64_t i = 0; i < 100000; ++i)
    known += field::numberOf(field::hash(i)).has_value();
  EXPECT_EQ(known, 0u);
  float least = -std::numeric_limits<float>::infinity();
  for (float value : {-1e9F, -2.F, -1e-3F, 0.F, 1e-3F, 0.5F, 2.F, 1e9F}) {
    EXPECT_LT(field::order(7, field::fromFloat(least)), field::order(7, field::fromFloat(value)));
    least = value;
  }
}

TEST(DataKernels, OutputsExchanged) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {4});
  uint32_t y = spec.whole("y", true, {4}), z = spec.whole("z", true, {4});
  for (RankSpec *rank : {&spec.ranks[0], &*spec.reference}) {
    uint32_t both = kernel(*rank, 1, 2,
                           {instr(ExprOp::load), instr(ExprOp::neg, 0), instr(ExprOp::store, 0, 0),
                            instr(ExprOp::store, 1, 1)});
    rank->launch(0, both, {spec.view(*rank, y), spec.view(*rank, z), spec.view(*rank, x)});
  }
  expectClean(spec);
  std::swap(spec.ranks[0].launchOperands[0], spec.ranks[0].launchOperands[1]);
  expectOnly(spec, kWrong);
}

TEST(DataKernels, Integers) {
  auto both = [](Instructions body) {
    Instructions all = {integers(ExprOp::load), integers(ExprOp::load, 1)};
    all.insert(all.end(), body.begin(), body.end());
    all.push_back(integers(ExprOp::store, static_cast<uint32_t>(all.size() - 1), 0));
    return all;
  };
  auto same = [&](const Instructions &a, const Instructions &b, bool equal) {
    expectOnly(elementwise(both(a), both(b), DType::I32), equal ? std::set<std::string>() : kWrong);
  };
  // a << 2 = 4 a; a & b = b & a; a >> 1 is not b >> 1; a + (-1) = a - 1
  same({integers(ExprOp::constant, 0, 0, 0, 2), integers(ExprOp::shl, 0, 2)},
       {integers(ExprOp::constant, 0, 0, 0, 4), integers(ExprOp::mul, 2, 0)}, true);
  same({integers(ExprOp::bit_and, 0, 1)}, {integers(ExprOp::bit_and, 1, 0)}, true);
  same({integers(ExprOp::bit_and, 0, 1)}, {integers(ExprOp::bit_or, 0, 1)}, false);
  same({integers(ExprOp::constant, 0, 0, 0, 1), integers(ExprOp::shr, 0, 2)},
       {integers(ExprOp::constant, 0, 0, 0, 1), integers(ExprOp::shr, 1, 2)}, false);
  same({integers(ExprOp::constant, 0, 0, 0, 0xffffffffu), integers(ExprOp::add, 0, 2)},
       {integers(ExprOp::constant, 0, 0, 0, 1), integers(ExprOp::sub, 0, 2)}, true);
  same({integers(ExprOp::constant, 0, 0, 0, 0x7fffffffu), integers(ExprOp::constant, 0, 0, 0, 5),
        integers(ExprOp::add, 2, 3)},
       {integers(ExprOp::constant, 0, 0, 0, 0x80000004u)}, true);
  // Truth values count as numbers: (a < b) & (a < b) is 0 or 1.
  Instructions truth = {integers(ExprOp::cmp_lt, 0, 1)};
  Instructions twice = truth;
  twice.push_back(integers(ExprOp::bit_and, 2, 2));
  same(truth, twice, true);
}

TEST(DataKernels, FusedKernels) {
  for (uint32_t ranks : {1, 2, 5})
    expectClean(kernels(ranks));
}

TEST(DataKernels, BiasOfAnotherKernel) {
  // The fused kernel adds its constant instead of the bias.
  DataSpec spec = kernels(2);
  spec.ranks[1].kernels[0].code = test::encodeExpression(
      2, 1,
      {instr(ExprOp::load), instr(ExprOp::load, 1), instr(ExprOp::constant, 0, 0, 0, 2),
       instr(ExprOp::fma, 0, 2, 2), instr(ExprOp::store, 3, 0)});
  expectOnly(spec, kWrong);
}

TEST(DataKernels, WithoutExpressionNotDecided) {
  DataSpec spec = kernels(1);
  spec.ranks[0].kernels[0].format = sp::KernelFormat::ptx;
  spec.ranks[0].kernels[0].outputs = 1;
  spec.ranks[0].kernels[0].operandTypes = {0, 0, 0};
  CheckOptions options;
  Report report = run(spec, options);
  EXPECT_EQ(report.data, "not checked: kernel \"kernel 0\" has no expression code");
  EXPECT_TRUE(report.limits.empty());
  options.dataWanted = true;
  EXPECT_EQ(run(spec, options).limits.size(), 1u);
}

TEST(DataKernels, BitsAsTheCompilerFoldsThem) {
  auto both = [](Instructions body) {
    Instructions all = {integers(ExprOp::load), integers(ExprOp::load, 1)};
    all.insert(all.end(), body.begin(), body.end());
    all.push_back(integers(ExprOp::store, static_cast<uint32_t>(all.size() - 1), 0));
    return all;
  };
  auto same = [&](const Instructions &a, const Instructions &b) {
    expectOnly(elementwise(both(a), both(b), DType::I32), {});
  };
  auto whole = [](int32_t value) {
    return integers(ExprOp::constant, 0, 0, 0, static_cast<uint32_t>(value));
  };
  Instructions first = {whole(0), integers(ExprOp::add, 0, 2)}, zero = {whole(0)};
  same({integers(ExprOp::bit_or, 0, 0)}, first);
  same({integers(ExprOp::bit_and, 0, 0)}, first);
  same({integers(ExprOp::bit_xor, 0, 0)}, zero);
  same({whole(-1), integers(ExprOp::bit_and, 2, 0)}, first);
  same({whole(0), integers(ExprOp::bit_and, 0, 2)}, zero);
  same({whole(0), integers(ExprOp::bit_xor, 2, 0)}, first);
  same({whole(-13), whole(6), integers(ExprOp::bit_xor, 2, 3)}, {whole(-13 ^ 6)});
  same({whole(-13), whole(2), integers(ExprOp::shr, 2, 3)}, {whole(-4)});
  same({whole(0), whole(2), integers(ExprOp::shr, 2, 3)}, zero);
}

TEST(DataKernels, CopiesWithAndWithoutAnEpilogue) {
  // y = max(x w, 0) on both ranks, in place behind the matmul: a device may then compute both at
  // once, without rounding x w before. A rank with memory for x w rounds it.
  for (bool apart : {false, true}) {
    DataSpec spec(2);
    uint32_t x = spec.whole("x", false, {2, 4}), w = spec.whole("w", false, {4, 4});
    uint32_t y = spec.whole("y", true, {2, 4});
    auto emit = [&](RankSpec &rank, bool inPlace) {
      uint32_t relu = kernel(
          rank, 1, 1,
          {instr(ExprOp::load), number(0), instr(ExprOp::max, 0, 1), instr(ExprOp::store, 2, 0)});
      uint32_t out = spec.view(rank, y);
      uint32_t product = inPlace ? out : DataSpec::temporary(rank, {2, 4});
      matmul(rank, product, spec.view(rank, x), spec.view(rank, w));
      rank.launch(0, relu, {out, product});
    };
    emit(*spec.reference, false);
    for (RankSpec &rank : spec.ranks)
      emit(rank, !apart || rank.rank == 0);
    expectOnly(spec, apart ? std::set<std::string>{"copies-differ"} : std::set<std::string>());
  }
}
