//===- TileFunctionsTest.cpp - how exact the functions of the CPU are ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../../../runtime/lib/Device/Host/Tile.h"

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
      {"exp", functions().exp.of[0], [](double x) { return std::exp(x); }, 2},
      {"exp2", functions().exp2.of[0], [](double x) { return std::exp2(x); }, 2},
      {"log", functions().log.of[0], [](double x) { return std::log(x); }, 2},
      {"tanh", functions().tanh.of[0], [](double x) { return std::tanh(x); }, 3},
      {"erf", functions().erf.of[0], [](double x) { return std::erf(x); }, 3},
      {"floor", functions().floor.of[0], [](double x) { return std::floor(x); }, 0},
      {"ceil", functions().ceil.of[0], [](double x) { return std::ceil(x); }, 0},
      {"sqrt", functions().sqrt.of[0], [](double x) { return std::sqrt(x); }, 0.5},
      {"rsqrt", functions().rsqrt.of[0], [](double x) { return 1 / std::sqrt(x); }, 1.5},
      {"expm1", functions().expm1.of[0], [](double x) { return std::expm1(x); }, 1},
      {"log1p", functions().log1p.of[0], [](double x) { return std::log1p(x); }, 1},
      {"erfc", functions().erfc.of[0], [](double x) { return std::erfc(x); }, 3},
      {"round", functions().round.of[0], [](double x) { return std::round(x); }, 0},
      {"roundeven", functions().roundeven.of[0], [](double x) { return std::nearbyint(x); }, 0},
      {"trunc", functions().trunc.of[0], [](double x) { return std::trunc(x); }, 0},
      {"sin", functions().sin.of[0], [](double x) { return std::sin(x); }, 1},
      {"cos", functions().cos.of[0], [](double x) { return std::cos(x); }, 1},
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
  is(functions().exp.of[0], {1, 1, kInf, 0, kNaN, 1, 1, std::exp(-1.0f), kInf}, "exp");
  is(functions().exp2.of[0], {1, 1, kInf, 0, kNaN, 1, 1, 0.5f, kInf}, "exp2");
  is(functions().log.of[0],
     {-kInf, -kInf, kInf, kNaN, kNaN, std::log(1e-45f), kNaN, kNaN, std::log(3e38f)}, "log");
  is(functions().tanh.of[0], {0, -0.0f, 1, -1, kNaN, 1e-45f, -1e-45f, std::tanh(-1.0f), 1}, "tanh");
  is(functions().erf.of[0], {0, -0.0f, 1, -1, kNaN, 1e-45f, -1e-45f, std::erf(-1.0f), 1}, "erf");
  is(functions().floor.of[0], {0, -0.0f, kInf, -kInf, kNaN, 0, -1, -1, 3e38f}, "floor");
  is(functions().trunc.of[0], {0, -0.0f, kInf, -kInf, kNaN, 0, -0.0f, -1, 3e38f}, "trunc");
  is(functions().round.of[0], {0, -0.0f, kInf, -kInf, kNaN, 0, -0.0f, -1, 3e38f}, "round");
  is(functions().ceil.of[0], {0, -0.0f, kInf, -kInf, kNaN, 1, -0.0f, -1, 3e38f}, "ceil");
}

TEST_P(TileFunctionsTest, AnElementsPlaceDoesNotMatter) {
  const TileFunction all[] = {functions().exp.of[0], functions().exp2.of[0], functions().log.of[0],
                              functions().tanh.of[0], functions().erf.of[0]};
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
  functions().max.of[0](y.data(), a.data(), b.data(), nullptr, 4);
  EXPECT_TRUE(y[0] == 2 && std::isnan(y[1]) && std::isnan(y[2]) && y[3] == 2);
  functions().min.of[0](y.data(), a.data(), b.data(), nullptr, 4);
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
  check(DType::F16, functions().storeF16, functions().loadF16, functions().round_f16.of[0]);
  check(DType::BF16, functions().storeBF16, functions().loadBF16, functions().round_bf16.of[0]);
}

TEST_P(TileFunctionsTest, EightBitsAreThoseOfTheHost) {
  std::vector<float> x = samples();
  for (DType type : {DType::F8E4M3FN, DType::F8E5M2})
    for (unsigned bits = 0; bits < 256; ++bits) { // all values, and what is half way to the next
      float both[2] = {};
      uint8_t pair[2] = {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits + 1)};
      loadAsF32(type, pair, 1, 2, both);
      for (float one : {both[0], both[0] + (both[1] - both[0]) / 2})
        for (float to : {-INFINITY, INFINITY, one})
          x.push_back(std::nextafter(one, to));
    }
  auto n = static_cast<int64_t>(x.size());
  std::vector<uint8_t> found(x.size()), expected(x.size());
  std::vector<float> back(x.size()), expectedBack(x.size());
  auto check = [&](DType type, TileStore8 store, TileLoad8 load, TileFunction round) {
    store(found.data(), x.data(), n);
    storeFromF32(type, x.data(), expected.data(), 1, n);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(found[i], expected[i]) << toString(type) << " of " << x[i];
    load(back.data(), expected.data(), n);
    loadAsF32(type, expected.data(), 1, n, expectedBack.data());
    EXPECT_EQ(std::memcmp(back.data(), expectedBack.data(), x.size() * 4), 0) << toString(type);
    EXPECT_EQ(std::memcmp(apply(round, x).data(), back.data(), x.size() * 4), 0) << toString(type);
  };
  check(DType::F8E4M3FN, functions().storeF8E4M3FN, functions().loadF8E4M3FN,
        functions().round_f8E4M3FN.of[0]);
  check(DType::F8E5M2, functions().storeF8E5M2, functions().loadF8E5M2,
        functions().round_f8E5M2.of[0]);
}

/// All numbers of a type that are finite, in order, and the least one that f32 has beyond them.
std::vector<double> finiteNumbers(DType type) {
  unsigned count = 1U << (8 * sizeOf(type) - 1);
  std::vector<double> all;
  for (unsigned bits = 0; bits < count; ++bits) {
    auto raw = static_cast<uint16_t>(bits);
    float value = 0;
    loadAsF32(type, &raw, 1, 1, &value);
    if (std::isfinite(value))
      all.push_back(value);
  }
  return all;
}

/// A double half way between two narrow numbers goes to the even one, and what is off by the last
/// bit of a double to the nearer one: f32 has neither difference.
TEST_P(TileFunctionsTest, DoublesAreRoundedOnce) {
  for (DType type : {DType::F16, DType::BF16, DType::F8E4M3FN, DType::F8E5M2}) {
    std::vector<double> numbers = finiteNumbers(type), x;
    std::vector<float> expected;
    for (size_t i = 0; i + 1 < numbers.size(); ++i)
      for (double sign : {1.0, -1.0}) {
        double half = numbers[i] + (numbers[i + 1] - numbers[i]) / 2;
        x.insert(x.end(), {sign * half, sign * std::nextafter(half, 0),
                           sign * std::nextafter(half, INFINITY)});
        for (size_t to : {i + i % 2, i, i + 1})
          expected.push_back(static_cast<float>(sign * numbers[to]));
      }
    auto n = static_cast<int64_t>(x.size());
    std::vector<float> odd(x.size()), back(x.size());
    std::vector<uint16_t> stored(x.size());
    auto check = [&](const char *where) {
      storeFromF32(type, odd.data(), stored.data(), 1, n);
      loadAsF32(type, stored.data(), 1, n, back.data());
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(back[i], expected[i])
            << toString(type) << " of " << std::hexfloat << x[i] << ", " << where;
    };
    functions().convertOdd.of[1](odd.data(), x.data(), nullptr, nullptr, n);
    check("in a kernel");
    for (size_t i = 0; i < x.size(); ++i)
      odd[i] = roundedToOdd(x[i]);
    check("of the host");
  }
  std::vector<double> special{INFINITY, -INFINITY, -0.0, 1e300, -1e300, 0x1p-1074, NAN};
  std::vector<float> odd(special.size());
  functions().convertOdd.of[1](odd.data(), special.data(), nullptr, nullptr, 7);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(std::vector<float>(odd.begin(), odd.end() - 1),
            (std::vector<float>{INFINITY, -INFINITY, -0.0f, largest, -largest, 0x1p-149f}));
  EXPECT_TRUE(std::signbit(odd[2]) && std::isnan(odd[6]));
}

/// 2^k + half of the last bit of a bf16, and one more or less.
TEST_P(TileFunctionsTest, IntegersAreRoundedOnce) {
  auto check = [&](auto half, size_t type) {
    std::vector<decltype(half)> x{half, half - 1, half + 1, -half, 1 - half, -half - 1};
    std::vector<float> odd(6), back(6);
    std::vector<uint16_t> stored(6);
    functions().convertOdd.of[type](odd.data(), x.data(), nullptr, nullptr, 6);
    storeFromF32(DType::BF16, odd.data(), stored.data(), 1, 6);
    loadAsF32(DType::BF16, stored.data(), 1, 6, back.data());
    int exponent = std::ilogb(static_cast<double>(half));
    auto even = std::ldexp(1.0f, exponent), next = std::ldexp(1.0f + 0x1p-7f, exponent);
    EXPECT_EQ(back, (std::vector<float>{even, even, next, -even, -even, -next})) << half;
  };
  for (int exponent = 24; exponent < 62; ++exponent) {
    int64_t half = (int64_t(1) << exponent) + (int64_t(1) << (exponent - 8));
    check(half, 3);
    if (exponent < 31)
      check(static_cast<int32_t>(half), 2);
  }
}

/// Every operation on two numbers that integers of any width have.
template <typename T> void checkIntegers(const TileFunctions &f, size_t type) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  constexpr T width = 8 * sizeof(T);
  using V = std::vector<T>;
  V a{most, least, -7, 5, 9}, b{1, -1, width + 1, 5, 0}, y(5);
  auto with = [&](const TileOperation &op) {
    op.of[type](y.data(), a.data(), b.data(), nullptr, 5);
    return y;
  };
  EXPECT_EQ(with(f.add), (V{least, most, width - 6, 10, 9}));
  EXPECT_EQ(with(f.sub), (V{most - 1, least + 1, -8 - width, 0, 9}));
  EXPECT_EQ(with(f.mul), (V{most, least, T(-7 * (width + 1)), 25, 0}));
  EXPECT_EQ(with(f.div), (V{most, least, 0, 1, 0})); // by 0: 0
  EXPECT_EQ(with(f.rem), (V{0, 0, -7, 0, 0}));
  EXPECT_EQ(with(f.max), (V{most, -1, width + 1, 5, 9}));
  EXPECT_EQ(with(f.min), (V{1, least, -7, 5, 0}));
  EXPECT_EQ(with(f.neg), (V{-most, least, 7, -5, -9}));
  EXPECT_EQ(with(f.abs), (V{most, least, 7, 5, 9}));
  EXPECT_EQ(with(f.bit_and), (V{1, least, T(-7 & (width + 1)), 5, 0}));
  EXPECT_EQ(with(f.bit_or), (V{most, -1, T(-7 | (width + 1)), 5, 9}));
  EXPECT_EQ(with(f.bit_xor), (V{most - 1, most, T(-7 ^ (width + 1)), 0, 9}));
  EXPECT_EQ(with(f.shl), (V{-2, 0, -14, 160, 9}));
  EXPECT_EQ(with(f.shr), (V{most >> 1, -1, -4, 0, 9}));
  std::vector<int32_t> truth(5);
  auto compared = [&](const TileOperation &op) {
    op.of[type](truth.data(), a.data(), b.data(), nullptr, 5);
    return truth;
  };
  using I = std::vector<int32_t>;
  EXPECT_EQ(compared(f.cmp_le), (I{0, 1, 1, 1, 0}));
  EXPECT_EQ(compared(f.cmp_eq), (I{0, 0, 0, 1, 0}));
  EXPECT_EQ(compared(f.cmp_lt), (I{0, 1, 1, 0, 0}));
  f.select.of[type](y.data(), truth.data(), a.data(), b.data(), 5);
  EXPECT_EQ(y, (V{1, least, -7, 5, 0}));
  std::vector<float> x{kNaN, 3e19f, -kInf, -2.75f, 100};
  f.convert[type].of[0](y.data(), x.data(), nullptr, nullptr, 5);
  EXPECT_EQ(y, (V{0, most, least, -2, 100}));
  f.convert[0].of[type](x.data(), b.data(), nullptr, nullptr, 5);
  EXPECT_EQ(x, (std::vector<float>{1, -1, static_cast<float>(width + 1), 5, 0}));
  std::vector<double> d{kNaN, 3e19, -kInf, -2.75, 100};
  f.convert[type].of[1](y.data(), d.data(), nullptr, nullptr, 5);
  EXPECT_EQ(y, (V{0, most, least, -2, 100}));
  f.convertUnsigned[1].of[type](d.data(), b.data(), nullptr, nullptr, 5);
  EXPECT_EQ(d, (std::vector<double>{1, std::ldexp(1.0, width) - (width == 32), width + 1, 5, 0}));
}

TEST_P(TileFunctionsTest, Integers) {
  checkIntegers<int32_t>(functions(), 2);
  checkIntegers<int64_t>(functions(), 3);
  std::vector<int32_t> a{127, 128, -129, 511}, y(4);
  functions().wrap_i8.of[2](y.data(), a.data(), nullptr, nullptr, 4);
  EXPECT_EQ(y, (std::vector<int32_t>{127, -128, 127, -1}));
}

/// f64 has f64's precision.
TEST_P(TileFunctionsTest, Doubles) {
  std::vector<double> x{0.3, -1.7, 2.5, -0.0, 1e300, 4.5}, y(x.size());
  auto expect = [&](const TileOperation &op, double (*exact)(double), const char *name) {
    op.of[1](y.data(), x.data(), nullptr, nullptr, static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      if (std::isnan(exact(x[i])))
        EXPECT_TRUE(std::isnan(y[i])) << name << " of " << x[i];
      else
        EXPECT_DOUBLE_EQ(y[i], exact(x[i])) << name << " of " << x[i];
  };
  const TileFunctions &f = functions();
  expect(f.exp, [](double v) { return std::exp(v); }, "exp");
  expect(f.log1p, [](double v) { return std::log1p(v); }, "log1p");
  expect(f.tanh, [](double v) { return std::tanh(v); }, "tanh");
  expect(f.erfc, [](double v) { return std::erfc(v); }, "erfc");
  expect(f.sqrt, [](double v) { return std::sqrt(v); }, "sqrt");
  expect(f.floor, [](double v) { return std::floor(v); }, "floor");
  expect(f.ceil, [](double v) { return std::ceil(v); }, "ceil");
  expect(f.round, [](double v) { return std::round(v); }, "round");
  expect(f.roundeven, [](double v) { return std::nearbyint(v); }, "roundeven");
  expect(f.trunc, [](double v) { return std::trunc(v); }, "trunc");
  expect(f.abs, [](double v) { return std::fabs(v); }, "abs");
}

INSTANTIATE_TEST_SUITE_P(All, TileFunctionsTest, testing::Range(size_t(0), tileFunctions().size()),
                         [](const testing::TestParamInfo<size_t> &info) {
                           return std::string(tileFunctions()[info.param]->isa);
                         });

} // namespace
