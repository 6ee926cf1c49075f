//===- ExpressionTest.cpp - expression code on the CPU device ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Device.h"
#include "tandem/Runtime/HostOps.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace tandem;
using namespace tandem::test;

namespace {

using Op = sp::ExprOp;
using Expression = std::vector<Instr>;

Layout layoutOf(DType dtype, const Shape &shape, const Shape &strides) {
  Layout layout = Layout::dense(dtype, shape.data(), static_cast<unsigned>(shape.size()));
  std::copy(strides.begin(), strides.end(), layout.strides.begin());
  return layout;
}

/// An operand: memory and a view of it.
struct Array {
  Layout layout;
  std::vector<std::byte> memory;

  Array(DType dtype, const Shape &shape) : Array(layoutOf(dtype, shape, dense(shape))) {}
  explicit Array(const Layout &layout) : layout(layout), memory(layout.spanBytes() + 64) {}

  static Shape dense(const Shape &shape) {
    Shape strides(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;)
      strides[d - 1] = strides[d] * shape[d];
    return strides;
  }
  std::byte *at(int64_t i) {
    int64_t offset = 0;
    for (unsigned d = layout.rank; d-- > 0; i /= layout.shape[d])
      offset += i % layout.shape[d] * layout.strides[d];
    return memory.data() + offset * static_cast<int64_t>(sizeOf(layout.dtype));
  }
  float get(int64_t i) {
    float value = 0;
    loadAsF32(layout.dtype, at(i), 1, 1, &value);
    return value;
  }
  int32_t getInt(int64_t i) {
    int32_t value;
    std::memcpy(&value, at(i), sizeof value);
    return value;
  }
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-3, 3);
    for (int64_t i = 0; i < layout.numElements(); ++i) {
      float value = uniform(random);
      auto integer = static_cast<int32_t>(value * 1000);
      if (layout.dtype == DType::I32)
        std::memcpy(at(i), &integer, sizeof integer);
      else
        storeFromF32(layout.dtype, &value, at(i), 1, 1);
    }
  }
};

/// Runs one launch; `operands` are outputs, then inputs.
void launch(const Expression &code, uint32_t outputs, const std::vector<Array *> &operands) {
  auto bytes = encodeExpression(static_cast<uint32_t>(operands.size()) - outputs, outputs, code);
  auto device = createCpuDevice();
  LaunchDesc desc;
  desc.name = "k";
  desc.code = bytes.data();
  desc.codeSize = bytes.size();
  std::vector<void *> pointers;
  for (Array *array : operands) {
    desc.operands.push_back({static_cast<uint32_t>(pointers.size()), array->layout});
    pointers.push_back(array->memory.data());
  }
  auto operation = device->prepareLaunch(desc);
  ASSERT_TRUE(operation.ok()) << operation.status().message();
  Frame frame;
  frame.pointers = pointers.data();
  ASSERT_TRUE(dynamic_cast<HostOperation &>(**operation).execute(frame).ok());
}

/// x + bias, then its GELU by erf.
const Expression kBiasGelu{{Op::load, 0, 0, 0, 0},        {Op::load, 1, 0, 0, 0},
                           {Op::add, 0, 1, 0, 0},         {Op::constant, 0, 0, 0, 0.70710678f},
                           {Op::mul, 2, 3, 0, 0},         {Op::erf, 4, 0, 0, 0},
                           {Op::constant, 0, 0, 0, 1.0f}, {Op::add, 5, 6, 0, 0},
                           {Op::mul, 2, 7, 0, 0},         {Op::constant, 0, 0, 0, 0.5f},
                           {Op::mul, 8, 9, 0, 0},         {Op::store, 10, 0, 0, 0}};

double gelu(double x) { return 0.5 * x * (1 + std::erf(x * 0.70710678118654752)); }

void checkBiasGelu(const Layout &out, const Layout &in, const Layout &bias) {
  Array o(out), x(in), b(bias);
  x.fill(1);
  b.fill(2);
  launch(kBiasGelu, 1, {&o, &x, &b});
  double tolerance = out.dtype == DType::F32 ? 2e-6 : out.dtype == DType::F16 ? 4e-3 : 3e-2;
  for (int64_t i = 0; i < out.numElements(); ++i)
    ASSERT_NEAR(o.get(i), gelu(double(x.get(i)) + b.get(i)), tolerance)
        << i << " of " << out.str() << " " << in.str() << " " << bias.str();
}

TEST(Expression, BroadcastOperands) {
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    for (Shape shape : {Shape{3, 5}, Shape{70, 16}, Shape{2, 3000}, Shape{129, 1}, Shape{1, 7}}) {
      Layout all = layoutOf(type, shape, Array::dense(shape));
      checkBiasGelu(all, all, layoutOf(type, shape, {0, 1})); // one a column
      checkBiasGelu(all, all, layoutOf(type, shape, {1, 0})); // one a row
      checkBiasGelu(all, all, layoutOf(type, shape, {0, 0})); // one
    }
}

TEST(Expression, PermutedAndStridedOperands) {
  for (DType type : {DType::F32, DType::F16})
    for (Shape shape : {Shape{3, 5}, Shape{70, 130}, Shape{2, 900}}) {
      Layout all = layoutOf(type, shape, Array::dense(shape));
      checkBiasGelu(all, layoutOf(type, shape, {1, shape[0]}), all);
      checkBiasGelu(layoutOf(type, shape, {1, shape[0]}), all, layoutOf(type, shape, {0, 1}));
      checkBiasGelu(layoutOf(type, shape, {shape[1] * 3, 3}), all, all);
      checkBiasGelu(all, layoutOf(type, shape, {shape[1] + 5, 1}), all);
      // Of another type.
      checkBiasGelu(all, layoutOf(DType::BF16, shape, Array::dense(shape)), all);
    }
  Shape cube{4, 6, 50};
  Layout all = layoutOf(DType::F32, cube, Array::dense(cube));
  checkBiasGelu(all, layoutOf(DType::F32, cube, {6, 1, 24}),
                layoutOf(DType::F32, cube, {50, 0, 1}));
  checkBiasGelu(all, layoutOf(DType::F32, cube, {1, 4, 24}), layoutOf(DType::F32, cube, {0, 1, 0}));
}

TEST(Expression, ScalarsAndNothing) {
  checkBiasGelu(layoutOf(DType::F32, {}, {}), layoutOf(DType::F32, {}, {}),
                layoutOf(DType::F32, {}, {}));
  Layout none = layoutOf(DType::F32, {4, 0}, {0, 1});
  checkBiasGelu(none, none, none);
}

/// An output may be an input; a later output must not spoil an input that is read before it.
TEST(Expression, InPlace) {
  for (int64_t n : {7, 5000}) {
    Array x(DType::F32, {n}), y(DType::F32, {n});
    x.fill(3);
    y.fill(4);
    std::vector<float> oldX, oldY;
    for (int64_t i = 0; i < n; ++i) {
      oldX.push_back(x.get(i));
      oldY.push_back(y.get(i));
    }
    // x, y = x + y, x * y: each stored as soon as it is known would break the other.
    launch({{Op::load, 0, 0, 0, 0},
            {Op::load, 1, 0, 0, 0},
            {Op::add, 0, 1, 0, 0},
            {Op::store, 2, 0, 0, 0},
            {Op::mul, 0, 1, 0, 0},
            {Op::store, 4, 1, 0, 0}},
           2, {&x, &y, &x, &y});
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(x.get(i), oldX[i] + oldY[i]);
      ASSERT_EQ(y.get(i), oldX[i] * oldY[i]);
    }
    // Exchanged: both are only moved.
    launch({{Op::load, 0, 0, 0, 0},
            {Op::load, 1, 0, 0, 0},
            {Op::store, 1, 0, 0, 0},
            {Op::store, 0, 1, 0, 0}},
           2, {&x, &y, &x, &y});
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(x.get(i), oldX[i] * oldY[i]);
  }
}

TEST(Expression, OneValueInTwoOutputsAndDeadCode) {
  Array x(DType::F32, {300}), a(DType::F32, {300}), b(DType::BF16, {300});
  x.fill(5);
  launch({{Op::load, 0, 0, 0, 0},
          {Op::neg, 0, 0, 0, 0},
          {Op::exp, 0, 0, 0, 0},
          {Op::store, 1, 0, 0, 0},
          {Op::store, 1, 1, 0, 0}},
         2, {&a, &b, &x});
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(a.get(i), -x.get(i));
    ASSERT_NEAR(b.get(i), -x.get(i), 0.02);
  }
}

TEST(Expression, Integers) {
  Shape shape{5, 333};
  Array x(DType::I32, shape), y(DType::I32, shape), sum(DType::I32, shape), f(DType::F32, shape);
  x.fill(6);
  y.fill(7);
  // sum = x < y ? x + y : 7; f = float(sum).
  launch({{Op::load, 0, 0, 0, 0, kI32},
          {Op::load, 1, 0, 0, 0, kI32},
          {Op::add, 0, 1, 0, 0, kI32},
          {Op::constant, 0, 0, 0, 7, kI32},
          {Op::cmp_lt, 0, 1, 0, 0, kI32},
          {Op::select, 4, 2, 3, 0, kI32},
          {Op::store, 5, 0, 0, 0, kI32},
          {Op::convert, 5, 0, 0, 0},
          {Op::store, 7, 1, 0, 0}},
         2, {&sum, &f, &x, &y});
  for (int64_t i = 0; i < 5 * 333; ++i) {
    int32_t expected = x.getInt(i) < y.getInt(i) ? x.getInt(i) + y.getInt(i) : 7;
    ASSERT_EQ(sum.getInt(i), expected);
    ASSERT_EQ(f.get(i), static_cast<float>(expected));
  }
}

/// Straight-line code of random operations, compared with itself one element at a time.
TEST(Expression, RandomCode) {
  constexpr Op ops[] = {Op::add,  Op::sub, Op::mul,    Op::max, Op::min,       Op::neg, Op::abs,
                        Op::tanh, Op::exp, Op::select, Op::fma, Op::round_f16, Op::rem, Op::round};
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
    uint32_t inputs = 1 + below(3), outputs = 1 + below(3);
    Expression code;
    for (uint32_t k = 0; k < inputs; ++k)
      code.emplace_back(Op::load, k, 0, 0, 0);
    code.emplace_back(Op::constant, 0, 0, 0, 0.5f);
    std::vector<uint32_t> values; // registers of f32
    for (uint32_t r = 0; r < code.size(); ++r)
      values.push_back(r);
    auto any = [&] { return values[below(values.size())]; };
    for (uint32_t k = 0, e = 1 + below(40); k < e; ++k) {
      Op op = ops[below(std::size(ops))];
      uint32_t a = any();
      if (op == Op::select) { // by a comparison
        code.emplace_back(Op::cmp_lt, a, any());
        a = static_cast<uint32_t>(code.size() - 1);
      }
      code.emplace_back(op, a, any(), any());
      values.push_back(static_cast<uint32_t>(code.size() - 1));
    }
    for (uint32_t k = 0; k < outputs; ++k)
      code.emplace_back(Op::store, any(), k);
    Shape shape{1 + below(9), 1 + below(700)};
    std::vector<Array> arrays;
    for (uint32_t k = 0; k < outputs + inputs; ++k)
      arrays.emplace_back(DType::F32, shape);
    std::vector<Array *> all;
    for (uint32_t k = 0; k < outputs + inputs; ++k) {
      arrays[k].fill(k);
      all.push_back(&arrays[k]);
    }
    launch(code, outputs, all);
    for (int64_t i = 0; i < shape[0] * shape[1]; i += 97) {
      std::vector<Array> one;
      std::vector<Array *> single;
      for (uint32_t k = 0; k < outputs + inputs; ++k) {
        one.emplace_back(DType::F32, Shape{1});
        float value = arrays[k].get(i);
        std::memcpy(one[k].memory.data(), &value, sizeof value);
      }
      for (Array &a : one)
        single.push_back(&a);
      launch(code, outputs, single);
      for (uint32_t k = 0; k < outputs; ++k) {
        float expected = one[k].get(0), found = arrays[k].get(i);
        ASSERT_EQ(std::memcmp(&expected, &found, sizeof found), 0) << "seed " << seed;
      }
    }
  }
}

} // namespace
