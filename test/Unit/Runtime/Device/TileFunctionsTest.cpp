//===- TileFunctionsTest.cpp - how exact the functions of the CPU are ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../../../runtime/lib/Device/Cpu/Tile.h"

#include "tandem/Runtime/HostOps.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

using namespace tandem;
using namespace tandem::cpu;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class TileFunctionsTest : public testing::TestWithParam<size_t> {
protected:
  const TileFunctions &functions() { return *tileFunctions()[GetParam()]; }
  static std::vector<float> apply(TileFunction f, const std::vector<float> &x) {
    std::vector<float> y(x.size());
    f(y.data(), x.data(), nullptr, nullptr, static_cast<int64_t>(x.size()));
    return y;
  }
};

/// Every float whose bits are a multiple of a prime: all exponents, both signs, NaNs.
const std::vector<float> &samples() {
  static const std::vector<float> values = [] {
    std::vector<float> v;
    for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 4099) {
      auto b = static_cast<uint32_t>(bits);
      float x;
      std::memcpy(&x, &b, sizeof x);
      v.push_back(x);
    }
    // And many where functions do something.
    for (int i = -400000; i <= 400000; ++i)
      v.push_back(static_cast<float>(i) * 2.75e-5f);
    return v;
  }();
  return values;
}

/// Distance in units of the last place of the exact result as an f32.
double ulps(float found, double exact) {
  auto rounded = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(rounded))
    return std::memcmp(&found, &rounded, sizeof found) == 0 ||
                   (std::isnan(found) && std::isnan(rounded))
               ? 0
               : 1e30;
  if (std::isnan(found) || std::isinf(found))
    // The largest number's neighbour.
    return std::isinf(found) && std::fabs(exact) > 3.4028234e38 ? 1 : 1e30;
  int exponent = 0;
  std::frexp(exact, &exponent);
  double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(found - exact) / unit;
}

double worst(const std::vector<float> &found, double (*exact)(double), float &where) {
  double most = 0;
  for (size_t i = 0; i < found.size(); ++i)
    if (double e = ulps(found[i], exact(samples()[i])); e > most) {
      most = e;
      where = samples()[i];
    }
  return most;
}

TEST_P(TileFunctionsTest, ErrorBounds) {
  struct Case {
    const char *name;
    TileFunction function;
    double (*exact)(double);
    double bound;
  };
  const Case cases[] = {
      {"exp", functions().exp, [](double x) { return std::exp(x); }, 2},
      {"exp2", functions().exp2, [](double x) { return std::exp2(x); }, 2},
      {"log", functions().log, [](double x) { return std::log(x); }, 2},
      {"tanh", functions().tanh, [](double x) { return std::tanh(x); }, 3},
      {"erf", functions().erf, [](double x) { return std::erf(x); }, 3},
      {"floor", functions().floor, [](double x) { return std::floor(x); }, 0},
      {"ceil", functions().ceil, [](double x) { return std::ceil(x); }, 0},
      {"sqrt", functions().sqrt, [](double x) { return std::sqrt(x); }, 0.5},
      {"rsqrt", functions().rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.5},
      {"sin", functions().sin, [](double x) { return std::sin(x); }, 1},
      {"cos", functions().cos, [](double x) { return std::cos(x); }, 1},
  };
  for (const Case &c : cases) {
    float where = 0;
    double most = worst(apply(c.function, samples()), c.exact, where);
    EXPECT_LE(most, c.bound) << c.name << " at " << where;
    RecordProperty(std::string(c.name) + "_ulp", std::to_string(most));
  }
}

TEST_P(TileFunctionsTest, ExtremeValues) {
  std::vector<float> x{0.0f, -0.0f, kInf, -kInf, kNaN, 1e-45f, -1e-45f, -1.0f, 3e38f};
  auto is = [&](TileFunction f, const std::vector<float> &expected, const char *name) {
    std::vector<float> y = apply(f, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(y[i])) << name << " of " << x[i];
      } else {
        EXPECT_EQ(std::signbit(y[i]), std::signbit(expected[i])) << name << " of " << x[i];
        EXPECT_FLOAT_EQ(y[i], expected[i]) << name << " of " << x[i];
      }
    }
  };
  is(functions().exp, {1, 1, kInf, 0, kNaN, 1, 1, std::exp(-1.0f), kInf}, "exp");
  is(functions().exp2, {1, 1, kInf, 0, kNaN, 1, 1, 0.5f, kInf}, "exp2");
  is(functions().log,
     {-kInf, -kInf, kInf, kNaN, kNaN, std::log(1e-45f), kNaN, kNaN, std::log(3e38f)}, "log");
  is(functions().tanh, {0, -0.0f, 1, -1, kNaN, 1e-45f, -1e-45f, std::tanh(-1.0f), 1}, "tanh");
  is(functions().erf, {0, -0.0f, 1, -1, kNaN, 1e-45f, -1e-45f, std::erf(-1.0f), 1}, "erf");
  is(functions().floor, {0, -0.0f, kInf, -kInf, kNaN, 0, -1, -1, 3e38f}, "floor");
  is(functions().ceil, {0, -0.0f, kInf, -kInf, kNaN, 1, -0.0f, -1, 3e38f}, "ceil");
}

TEST_P(TileFunctionsTest, AnElementsPlaceDoesNotMatter) {
  const TileFunction all[] = {functions().exp, functions().exp2, functions().log, functions().tanh,
                              functions().erf};
  std::vector<float> x;
  for (int i = 0; i < 1003; ++i)
    x.push_back(static_cast<float>(i) * 0.0173f - 6.1f);
  for (TileFunction f : all) {
    std::vector<float> together = apply(f, x);
    for (size_t i = 0; i < x.size(); ++i) {
      float alone = apply(f, {x[i]})[0];
      EXPECT_EQ(std::memcmp(&alone, &together[i], sizeof alone), 0) << x[i];
    }
  }
}

TEST_P(TileFunctionsTest, MaxAndMinAreNaNIfEitherIs) {
  std::vector<float> a{1, kNaN, 1, 2}, b{2, 1, kNaN, 1}, y(4);
  functions().max(y.data(), a.data(), b.data(), nullptr, 4);
  EXPECT_TRUE(y[0] == 2 && std::isnan(y[1]) && std::isnan(y[2]) && y[3] == 2);
  functions().min(y.data(), a.data(), b.data(), nullptr, 4);
  EXPECT_TRUE(y[0] == 1 && std::isnan(y[1]) && std::isnan(y[2]) && y[3] == 1);
}

TEST_P(TileFunctionsTest, SixteenBitsAreThoseOfTheHost) {
  const std::vector<float> &x = samples();
  auto n = static_cast<int64_t>(x.size());
  std::vector<uint16_t> found(x.size()), expected(x.size());
  std::vector<float> back(x.size()), expectedBack(x.size());
  auto check = [&](DType type, TileStore store, TileLoad load, TileFunction round) {
    store(found.data(), x.data(), n);
    storeFromF32(type, x.data(), expected.data(), 1, n);
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), x.size() * 2), 0) << toString(type);
    load(back.data(), expected.data(), n);
    loadAsF32(type, expected.data(), 1, n, expectedBack.data());
    EXPECT_EQ(std::memcmp(back.data(), expectedBack.data(), x.size() * 4), 0) << toString(type);
    EXPECT_EQ(std::memcmp(apply(round, x).data(), back.data(), x.size() * 4), 0) << toString(type);
  };
  check(DType::F16, functions().storeF16, functions().loadF16, functions().round_f16);
  check(DType::BF16, functions().storeBF16, functions().loadBF16, functions().round_bf16);
}

TEST_P(TileFunctionsTest, Integers) {
  const TileFunctions &f = functions();
  constexpr int32_t least = std::numeric_limits<int32_t>::min(),
                    most = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> a{most, least, -7, 5}, b{1, -1, 33, 5}, y(4);
  auto with = [&](TileFunction op) {
    op(y.data(), a.data(), b.data(), nullptr, 4);
    return y;
  };
  using V = std::vector<int32_t>;
  EXPECT_EQ(with(f.add_i32), (V{least, most, 26, 10}));
  EXPECT_EQ(with(f.sub_i32), (V{most - 1, least + 1, -40, 0}));
  EXPECT_EQ(with(f.mul_i32), (V{most, least, -231, 25}));
  EXPECT_EQ(with(f.max_i32), (V{most, -1, 33, 5}));
  EXPECT_EQ(with(f.min_i32), (V{1, least, -7, 5}));
  EXPECT_EQ(with(f.and_i32), (V{1, least, 33, 5}));
  EXPECT_EQ(with(f.or_i32), (V{most, -1, -7, 5}));
  EXPECT_EQ(with(f.xor_i32), (V{most - 1, most, -40, 0}));
  EXPECT_EQ(with(f.shl_i32), (V{-2, 0, -14, 160}));
  EXPECT_EQ(with(f.shr_i32), (V{most >> 1, -1, -4, 0}));
  std::vector<float> truth(4);
  auto compared = [&](TileFunction op) {
    op(truth.data(), a.data(), b.data(), nullptr, 4);
    return truth;
  };
  EXPECT_EQ(compared(f.cmp_lt_i32), (std::vector<float>{0, 1, 1, 0}));
  EXPECT_EQ(compared(f.cmp_le_i32), (std::vector<float>{0, 1, 1, 1}));
  EXPECT_EQ(compared(f.cmp_eq_i32), (std::vector<float>{0, 0, 0, 1}));
  f.select_i32(y.data(), truth.data(), a.data(), b.data(), 4);
  EXPECT_EQ(y, (V{1, -1, 33, 5}));
  f.from_i32(truth.data(), a.data(), nullptr, nullptr, 4);
  EXPECT_EQ(truth, (std::vector<float>{0x1p31f, -0x1p31f, -7, 5}));
  std::vector<float> x{kNaN, 3e9f, -kInf, -2.75f};
  f.to_i32(y.data(), x.data(), nullptr, nullptr, 4);
  EXPECT_EQ(y, (V{0, most, least, -2}));
}

INSTANTIATE_TEST_SUITE_P(All, TileFunctionsTest, testing::Range(size_t(0), tileFunctions().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           return std::string(tileFunctions()[info.param]->isa);
                         });

} // namespace
