//===- LaunchCases.cpp - launch of expressions ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

#include "tandem/Program/Program.h"

#include <cmath>
#include <limits>

namespace tandem::test {

namespace {

using Op = sp::ExprOp;

/// One instruction: inputs are loaded into registers 0 ... inputs-1 first, the result is stored to
/// output 0.
Scenario single(DType t, Op op, unsigned inputs, double (*reference)(double, double, double),
                bool positive, double tolerance) {
  OneRank one;
  std::vector<Tensor> in;
  std::vector<uint32_t> views;
  for (unsigned k = 0; k < inputs; ++k) {
    Tensor x = dense(t, {7, 41});
    x.values = numbers(x.storage, k + 1);
    for (double &value : x.values)
      value = rounded(t, positive ? std::fabs(value) * 0.5 + 0.25 : value * 0.25);
    views.push_back(one.input(x, k + 1));
    in.push_back(x);
  }
  Tensor out = dense(t, {7, 41});
  views.insert(views.begin(), one.output(out, false));
  sp::RegisterType type = registerOf(t);
  std::vector<Instr> code;
  for (uint32_t k = 0; k < inputs; ++k)
    code.emplace_back(Op::load, k, 0, 0, 0, type);
  if (op == Op::select) { // by whether the first input is not 0
    code.emplace_back(Op::constant, 0, 0, 0, 0, type);
    code.emplace_back(Op::cmp_eq, 0, inputs, 0, 0, type);
    code.emplace_back(op, inputs + 1, 2, 1, 0, type);
  } else {
    code.emplace_back(op, 0, 1, 2, 2.5, type);
  }
  if (op == Op::cmp_lt || op == Op::cmp_le || op == Op::cmp_eq)
    code.emplace_back(Op::convert, static_cast<uint32_t>(code.size() - 1), 0, 0, 0, type);
  code.emplace_back(Op::store, static_cast<uint32_t>(code.size() - 1), 0, 0, 0, type);
  one.rank().kernels.push_back(
      {"k", sp::KernelFormat::expression, "cpu", encodeExpression(inputs, 1, code)});
  one.rank().launch(0, 0, views);
  for (size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = reference(inputs > 0 ? in[0].values[i] : 0, inputs > 1 ? in[1].values[i] : 0,
                              inputs > 2 ? in[2].values[i] : 0);
  return one.finish(out, tolerance);
}

struct OpCase {
  const char *name;
  Op op;
  unsigned inputs;
  double (*reference)(double, double, double);
  bool positive;
};

const OpCase kOps[] = {
    {"constant", Op::constant, 0, [](double, double, double) { return 2.5; }, false},
    {"add", Op::add, 2, [](double a, double b, double) { return a + b; }, false},
    {"sub", Op::sub, 2, [](double a, double b, double) { return a - b; }, false},
    {"mul", Op::mul, 2, [](double a, double b, double) { return a * b; }, false},
    {"div", Op::div, 2, [](double a, double b, double) { return a / b; }, true},
    {"max", Op::max, 2, [](double a, double b, double) { return a > b ? a : b; }, false},
    {"min", Op::min, 2, [](double a, double b, double) { return a < b ? a : b; }, false},
    {"pow", Op::pow, 2, [](double a, double b, double) { return std::pow(a, b); }, true},
    {"neg", Op::neg, 1, [](double a, double, double) { return -a; }, false},
    {"abs", Op::abs, 1, [](double a, double, double) { return std::fabs(a); }, false},
    {"exp", Op::exp, 1, [](double a, double, double) { return std::exp(a); }, false},
    {"exp2", Op::exp2, 1, [](double a, double, double) { return std::exp2(a); }, false},
    {"log", Op::log, 1, [](double a, double, double) { return std::log(a); }, true},
    {"sqrt", Op::sqrt, 1, [](double a, double, double) { return std::sqrt(a); }, true},
    {"rsqrt", Op::rsqrt, 1, [](double a, double, double) { return 1 / std::sqrt(a); }, true},
    {"tanh", Op::tanh, 1, [](double a, double, double) { return std::tanh(a); }, false},
    {"erf", Op::erf, 1, [](double a, double, double) { return std::erf(a); }, false},
    {"sin", Op::sin, 1, [](double a, double, double) { return std::sin(a); }, false},
    {"cos", Op::cos, 1, [](double a, double, double) { return std::cos(a); }, false},
    {"floor", Op::floor, 1, [](double a, double, double) { return std::floor(a); }, false},
    {"ceil", Op::ceil, 1, [](double a, double, double) { return std::ceil(a); }, false},
    {"round", Op::round, 1, [](double a, double, double) { return std::round(a); }, false},
    {"roundeven", Op::roundeven, 1, [](double a, double, double) { return std::nearbyint(a); },
     false},
    {"trunc", Op::trunc, 1, [](double a, double, double) { return std::trunc(a); }, false},
    {"expm1", Op::expm1, 1, [](double a, double, double) { return std::expm1(a); }, false},
    {"log1p", Op::log1p, 1, [](double a, double, double) { return std::log1p(a); }, true},
    {"erfc", Op::erfc, 1, [](double a, double, double) { return std::erfc(a); }, false},
    {"rem", Op::rem, 2, [](double a, double b, double) { return std::fmod(a, b); }, true},
    {"cmp_lt", Op::cmp_lt, 2, [](double a, double b, double) { return a < b ? 1.0 : 0.0; }, false},
    {"cmp_le", Op::cmp_le, 2, [](double a, double b, double) { return a <= b ? 1.0 : 0.0; }, false},
    {"cmp_eq", Op::cmp_eq, 2, [](double a, double b, double) { return a == b ? 1.0 : 0.0; }, false},
    {"select", Op::select, 3, [](double a, double b, double c) { return a != 0 ? b : c; }, false},
    {"fma", Op::fma, 3, [](double a, double b, double c) { return a * b + c; }, false},
    {"exp_difference", Op::exp_difference, 3,
     [](double a, double b, double c) { return std::exp(c * (a - b)); }, false},
};

/// out0 = a + b (b of another dtype and layout), out1 = a * a, with strides everywhere.
Scenario mixed(DType t) {
  OneRank one;
  Tensor a = strided(t, {5, 7}, {1, 6}, 3, 60), b = strided(DType::F32, {5, 7}, {0, 1}, 0, 7);
  uint32_t av = one.input(a, 1), bv = one.input(b, 2);
  Tensor out = strided(t, {5, 7, 2}, {20, 2, 1}, 0, 120);
  one.output(out, false);
  auto half = [&](int64_t k) {
    Tensor piece = out;
    piece.shape.pop_back();
    piece.strides.pop_back();
    piece.offset = k;
    return piece;
  };
  auto buffer = static_cast<uint32_t>(one.rank().buffers.size() - 1);
  sp::RegisterType type = registerOf(t);
  std::vector<Instr> code{{Op::load, 0, 0, 0, 0, type}, {Op::load, 1}};
  uint32_t other = 1;
  if (type != sp::RegisterType::f32) {
    code.emplace_back(Op::convert, 1, 0, 0, 0, type);
    other = 2;
  }
  code.emplace_back(Op::add, 0, other, 0, 0, type);
  code.emplace_back(Op::store, other + 1, 0, 0, 0, type);
  code.emplace_back(Op::mul, 0, 0, 0, 0, type);
  code.emplace_back(Op::store, other + 3, 1, 0, 0, type);
  one.rank().kernels.push_back(
      {"k", sp::KernelFormat::expression, "cpu", encodeExpression(2, 2, code)});
  one.rank().launch(0, 0, {one.view(buffer, half(0)), one.view(buffer, half(1)), av, bv});
  forEachIndex({5, 7}, [&](const Shape &i) {
    out.at({i[0], i[1], 0}) = a.at(i) + b.at(i);
    out.at({i[0], i[1], 1}) = a.at(i) * a.at(i);
  });
  return one.finish(out, toleranceOf(t));
}

/// out = out * out + 1, in place; also on nothing.
Scenario inPlace(DType t, int64_t rows) {
  OneRank one;
  Tensor out = strided(t, {rows, 300}, {300, 1}, 0, rows * 300 + 1);
  uint32_t view = one.output(out, true);
  sp::RegisterType type = registerOf(t);
  std::vector<Instr> code{{Op::load, 0, 0, 0, 0, type},
                          {Op::constant, 0, 0, 0, 1, type},
                          {Op::mul, 0, 0, 0, 0, type},
                          {Op::add, 2, 1, 0, 0, type},
                          {Op::store, 3, 0, 0, 0, type}};
  one.rank().kernels.push_back(
      {"k", sp::KernelFormat::expression, "cpu", encodeExpression(1, 1, code)});
  one.rank().launch(0, 0, {view, view});
  forEachIndex({rows, 300}, [&](const Shape &i) { out.at(i) = out.at(i) * out.at(i) + 1; });
  return one.finish(out, toleranceOf(t));
}

struct IntegerCase {
  const char *name;
  Op op;
  int64_t a, b, i32, i64; ///< operands and results
};
constexpr int64_t kLeast32 = std::numeric_limits<int32_t>::min(),
                  kMost32 = std::numeric_limits<int32_t>::max();
const IntegerCase kIntegers[] = {
    {"div", Op::div, -7, 2, -3, -3},
    {"div-by-0", Op::div, -7, 0, 0, 0},
    {"div-least", Op::div, kLeast32, -1, kLeast32, -kLeast32},
    {"rem", Op::rem, -7, 2, -1, -1},
    {"rem-by-0", Op::rem, 7, 0, 0, 0},
    {"rem-least", Op::rem, kLeast32, -1, 0, 0},
    {"abs-least", Op::abs, kLeast32, 0, kLeast32, -kLeast32},
    {"add-wraps", Op::add, kMost32, 1, kLeast32, kMost32 + 1},
    {"shl", Op::shl, 3, 33, 6, int64_t(3) << 33},
    {"shr", Op::shr, -8, 34, -2, -1},
    {"bit_xor", Op::bit_xor, -1, 5, -6, -6},
};

/// One operation on two integers, 50 times.
Scenario integers(DType t, const IntegerCase &c) {
  OneRank one;
  auto filled = [&](int64_t value) {
    Tensor x = dense(t, {50});
    x.values.assign(50, static_cast<double>(value));
    return x;
  };
  Tensor a = filled(c.a), b = filled(c.b), out = dense(t, {50});
  uint32_t av = one.input(a, 1), bv = one.input(b, 2), view = one.output(out, false);
  sp::RegisterType type = registerOf(t);
  one.rank().kernels.push_back({"k", sp::KernelFormat::expression, "cpu",
                                encodeExpression(2, 1,
                                                 {{Op::load, 0, 0, 0, 0, type},
                                                  {Op::load, 1, 0, 0, 0, type},
                                                  {c.op, 0, 1, 0, 0, type},
                                                  {Op::store, 2, 0, 0, 0, type}})});
  one.rank().launch(0, 0, {view, av, bv});
  return one.finish(filled(t == DType::I32 ? c.i32 : c.i64));
}

/// From each type to each other: what fits in both stays, floats lose their fraction.
Scenario convert(DType from, DType to) {
  OneRank one;
  Tensor x = dense(from, {9}), out = dense(to, {9});
  x.values = {0, 1, 2, 3, 100, 7, 1, 0, 64};
  if (isFloat(from))
    x.values[1] = 1.5;
  for (double &value : x.values)
    value = rounded(from, value);
  uint32_t input = one.input(x, 1), view = one.output(out, false);
  sp::RegisterType a = registerOf(from), b = registerOf(to);
  std::vector<Instr> code{{Op::load, 0, 0, 0, 0, a}};
  if (a != b)
    code.emplace_back(Op::convert, 0, 0, 0, 0, b);
  code.emplace_back(Op::store, static_cast<uint32_t>(code.size() - 1), 0, 0, 0, b);
  one.rank().kernels.push_back(
      {"k", sp::KernelFormat::expression, "cpu", encodeExpression(1, 1, code)});
  one.rank().launch(0, 0, {view, input});
  for (size_t i = 0; i < out.values.size(); ++i)
    out.values[i] = isFloat(to) ? rounded(to, x.values[i]) : std::trunc(x.values[i]);
  return one.finish(out);
}

} // namespace

void addLaunchCases(Cases &cases) {
  size_t first = cases.size();
  for (DType t : {DType::I32, DType::I64})
    for (const IntegerCase &c : kIntegers)
      cases.push_back({std::string("Launch.") + c.name + "." + nameOf(t), {1}, 0, [=](uint32_t) {
                         return integers(t, c);
                       }});
  for (DType from : kStoredDTypes)
    for (DType to : kMovedDTypes)
      cases.push_back({"Launch.convert-" + nameOf(from) + "-" + nameOf(to), {1}, 0, [=](uint32_t) {
                         return convert(from, to);
                       }});
  for (const OpCase &c : kOps)
    for (DType t : {DType::F32, DType::F16, DType::BF16, DType::F64})
      cases.push_back({std::string("Launch.") + c.name + "." + nameOf(t), {1}, 0, [=](uint32_t) {
                         return single(t, c.op, c.inputs, c.reference, c.positive, toleranceOf(t));
                       }});
  for (DType t : kMovedDTypes) {
    cases.push_back({"Launch.mixed." + nameOf(t), {1}, 0, [=](uint32_t) { return mixed(t); }});
    for (int64_t rows : {0, 1, 3})
      cases.push_back(
          {"Launch.in-place-" + std::to_string(rows) + "." + nameOf(t), {1}, 0, [=](uint32_t) {
             return inPlace(t, rows);
           }});
  }
  for (size_t i = first; i < cases.size(); ++i)
    cases[i].needs |= kExpressions;
}

} // namespace tandem::test
