//===- KernelsTest.cpp - kernels as expression code -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EvaluateKernel.h"
#include "Translated.h"

#include "llvm/ADT/bit.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

std::string launched(const std::string &kernel, int inputs, int outputs = 1,
                     const std::string &type = "f32") {
  std::string arguments, ins, inTypes, outs, outTypes;
  auto add = [&](std::string &names, std::string &types, const std::string &name) {
    names += (names.empty() ? "" : ", ") + name;
    types += (types.empty() ? "" : ", ") + std::string("memref<8x") + type + ">";
  };
  for (int i = 0; i < inputs; ++i) {
    std::string name = "%i" + std::to_string(i);
    arguments += (arguments.empty() ? "" : ", ") + name + ": memref<8x" + type + ">";
    add(ins, inTypes, name);
  }
  for (int i = 0; i < outputs; ++i) {
    std::string name = "%o" + std::to_string(i);
    arguments +=
        (arguments.empty() ? "" : ", ") + name + ": memref<8x" + type + "> {hostir.result}";
    add(outs, outTypes, name);
  }
  return programText(arguments, "  hostir.launch @k ins(" + ins + " : " + inTypes + ") outs(" +
                                    outs + " : " + outTypes + ") on %main\n") +
         kernel;
}

float asFloat(int32_t bits) { return llvm::bit_cast<float>(bits); }
int32_t asInt(float bits) { return llvm::bit_cast<int32_t>(bits); }

/// What the only kernel of a program makes of inputs on the CPU. An i32 is the float of its bits.
std::vector<float> evaluate(const Translated &t, const std::vector<float> &inputs) {
  auto program = t.file->rankProgram(0);
  if (program.ok())
    return evaluateKernel(*(*program)->data().kernels()->Get(0), inputs);
  ADD_FAILURE() << program.status().message();
  return {};
}

TEST(Kernels, Unary) {
  struct Case {
    const char *op;
    float (*reference)(float);
  };
  const Case cases[] = {{"arith.negf", [](float x) { return -x; }},
                        {"math.absf", [](float x) { return std::fabs(x); }},
                        {"math.exp", [](float x) { return std::exp(x); }},
                        {"math.exp2", [](float x) { return std::exp2(x); }},
                        {"math.log", [](float x) { return std::log(x); }},
                        {"math.log2", [](float x) { return std::log2(x); }},
                        {"math.log10", [](float x) { return std::log10(x); }},
                        {"math.sqrt", [](float x) { return std::sqrt(x); }},
                        {"math.rsqrt", [](float x) { return 1 / std::sqrt(x); }},
                        {"math.tanh", [](float x) { return std::tanh(x); }},
                        {"math.erf", [](float x) { return std::erf(x); }},
                        {"math.sin", [](float x) { return std::sin(x); }},
                        {"math.cos", [](float x) { return std::cos(x); }},
                        {"math.floor", [](float x) { return std::floor(x); }},
                        {"math.ceil", [](float x) { return std::ceil(x); }},
                        {"math.expm1", [](float x) { return std::expm1(x); }},
                        {"math.log1p", [](float x) { return std::log1p(x); }},
                        {"math.erfc", [](float x) { return std::erfc(x); }},
                        {"math.round", [](float x) { return std::round(x); }},
                        {"math.roundeven", [](float x) { return std::nearbyint(x); }},
                        {"math.trunc", [](float x) { return std::trunc(x); }}};
  for (const Case &c : cases) {
    Translated t(launched("hostir.kernel @k(%a: f32) -> f32 {\n  %r = " + std::string(c.op) +
                              " %a : f32\n  hostir.yield %r : f32\n}\n",
                          1));
    ASSERT_TRUE(t.ok) << t.errors;
    for (float x : {0.3f, 2.75f})
      EXPECT_NEAR(evaluate(t, {x})[0], c.reference(x), 1e-6) << c.op;
  }
}

TEST(Kernels, Binary) {
  struct Case {
    const char *op;
    float (*reference)(float, float);
  };
  const Case cases[] = {{"arith.addf", [](float a, float b) { return a + b; }},
                        {"arith.subf", [](float a, float b) { return a - b; }},
                        {"arith.mulf", [](float a, float b) { return a * b; }},
                        {"arith.divf", [](float a, float b) { return a / b; }},
                        {"arith.remf", [](float a, float b) { return std::fmod(a, b); }},
                        {"arith.maximumf", [](float a, float b) { return a > b ? a : b; }},
                        {"arith.maxnumf", [](float a, float b) { return a > b ? a : b; }},
                        {"arith.minimumf", [](float a, float b) { return a < b ? a : b; }},
                        {"arith.minnumf", [](float a, float b) { return a < b ? a : b; }},
                        {"math.powf", [](float a, float b) { return std::pow(a, b); }}};
  for (const Case &c : cases) {
    Translated t(launched("hostir.kernel @k(%a: f32, %b: f32) -> f32 {\n  %r = " +
                              std::string(c.op) + " %a, %b : f32\n  hostir.yield %r : f32\n}\n",
                          2));
    ASSERT_TRUE(t.ok) << t.errors;
    EXPECT_FLOAT_EQ(evaluate(t, {1.5f, 4.0f})[0], c.reference(1.5f, 4.0f)) << c.op;
    EXPECT_FLOAT_EQ(evaluate(t, {4.0f, 1.5f})[0], c.reference(4.0f, 1.5f)) << c.op;
  }
}

TEST(Kernels, ExpDifference) {
  Translated t(launched("hostir.kernel @k(%a: f32, %m: f32) -> f32 {\n"
                        "  %half = arith.constant 0.5 : f32\n"
                        "  %r = hostir.exp_difference %a, %m scale %half : f32\n"
                        "  hostir.yield %r : f32\n}\n",
                        2));
  ASSERT_TRUE(t.ok) << t.errors;
  EXPECT_FLOAT_EQ(evaluate(t, {1.5f, 4.0f})[0], std::exp(-1.25f));
  EXPECT_FLOAT_EQ(evaluate(t, {-INFINITY, 4.0f})[0], 0);
}

TEST(Kernels, Comparisons) {
  struct Case {
    const char *predicate;
    bool less, equal, greater, unordered;
  };
  const Case cases[] = {
      {"false", 0, 0, 0, 0}, {"oeq", 0, 1, 0, 0}, {"ogt", 0, 0, 1, 0}, {"oge", 0, 1, 1, 0},
      {"olt", 1, 0, 0, 0},   {"ole", 1, 1, 0, 0}, {"one", 1, 0, 1, 0}, {"ord", 1, 1, 1, 0},
      {"ueq", 0, 1, 0, 1},   {"ugt", 0, 0, 1, 1}, {"uge", 0, 1, 1, 1}, {"ult", 1, 0, 0, 1},
      {"ule", 1, 1, 0, 1},   {"une", 1, 0, 1, 1}, {"uno", 0, 0, 0, 1}, {"true", 1, 1, 1, 1}};
  for (const Case &c : cases) {
    Translated t(launched(
        "hostir.kernel @k(%a: f32, %b: f32) -> f32 {\n  %c = arith.cmpf " +
            std::string(c.predicate) +
            ", %a, %b : f32\n  %r = arith.select %c, %a, %b : f32\n  hostir.yield %r : f32\n}\n",
        2));
    ASSERT_TRUE(t.ok) << t.errors;
    EXPECT_EQ(evaluate(t, {1, 2})[0] == 1, c.less) << c.predicate;
    EXPECT_EQ(evaluate(t, {2, 1})[0] == 2, c.greater) << c.predicate;
    EXPECT_EQ(std::isnan(evaluate(t, {NAN, 1})[0]), c.unordered) << c.predicate;
    Translated u(launched(
        "hostir.kernel @k(%a: f32, %b: f32) -> f32 {\n  %c = arith.cmpf " +
            std::string(c.predicate) +
            ", %a, %b : f32\n  %r = arith.uitofp %c : i1 to f32\n  hostir.yield %r : f32\n}\n",
        2));
    ASSERT_TRUE(u.ok) << u.errors;
    EXPECT_EQ(evaluate(u, {1, 1})[0], c.equal) << c.predicate;
  }
}

TEST(Kernels, TruthValuesConstantsAndTwoOutputs) {
  Translated t(
      launched("hostir.kernel @k(%a: bf16, %b: bf16) -> (bf16, bf16) {\n"
               "  %x = arith.extf %a : bf16 to f32\n  %y = arith.extf %b : bf16 to f32\n"
               "  %half = arith.constant 0.5 : f32\n"
               "  %p = arith.cmpf ogt, %x, %half : f32\n  %q = arith.cmpf ogt, %y, %half : f32\n"
               "  %and = arith.andi %p, %q : i1\n  %or = arith.ori %p, %q : i1\n  %xor = "
               "arith.xori %p, %q : i1\n"
               "  %f = math.fma %x, %y, %half : f32\n  %zero = arith.constant 0.0 : f32\n"
               "  %r0 = arith.select %and, %f, %zero : f32\n  %s = arith.sitofp %xor : i1 to f32\n"
               "  %r1 = arith.select %or, %s, %half : f32\n"
               "  %t0 = arith.truncf %r0 : f32 to bf16\n  %t1 = arith.truncf %r1 : f32 to bf16\n"
               "  hostir.yield %t0, %t1 : bf16, bf16\n}\n",
               2, 2, "bf16"));
  ASSERT_TRUE(t.ok) << t.errors;
  EXPECT_EQ(evaluate(t, {2, 3}), (std::vector<float>{6.5f, 0}));
  EXPECT_EQ(evaluate(t, {2, 0}), (std::vector<float>{0, -1})); // a truth value, as a signed number
  EXPECT_EQ(evaluate(t, {0, 0}), (std::vector<float>{0, 0.5f}));
}

int32_t evaluateInts(const std::string &op, int32_t a, int32_t b) {
  Translated t(launched("hostir.kernel @k(%a: i32, %b: i32) -> i32 {\n" + op +
                            "  hostir.yield %r : i32\n}\n",
                        2, 1, "i32"));
  EXPECT_TRUE(t.ok) << t.errors;
  return t.ok ? asInt(evaluate(t, {asFloat(a), asFloat(b)})[0]) : 0;
}

TEST(Kernels, Integers) {
  struct Case {
    const char *op;
    int32_t result;
  };
  const Case cases[] = {{"arith.addi", 4},   {"arith.subi", -10}, {"arith.muli", -21},
                        {"arith.maxsi", 7},  {"arith.minsi", -3}, {"arith.andi", 5},
                        {"arith.ori", -1},   {"arith.xori", -6},  {"arith.shli", -384},
                        {"arith.shrsi", -1}, {"arith.divsi", 0},  {"arith.remsi", -3}};
  for (const Case &c : cases)
    EXPECT_EQ(evaluateInts("  %r = " + std::string(c.op) + " %a, %b : i32\n", -3, 7), c.result)
        << c.op;
  struct Comparison {
    const char *predicate;
    bool less, equal;
  };
  const Comparison comparisons[] = {{"eq", 0, 1},  {"ne", 1, 0},  {"slt", 1, 0}, {"sle", 1, 1},
                                    {"sgt", 0, 0}, {"sge", 0, 1}, {"ult", 0, 0}, {"ule", 0, 1},
                                    {"ugt", 1, 0}, {"uge", 1, 1}};
  for (const Comparison &c : comparisons) {
    std::string op = "  %c = arith.cmpi " + std::string(c.predicate) + ", %a, %b : i32\n";
    EXPECT_EQ(evaluateInts(op + "  %r = arith.extui %c : i1 to i32\n", -3, 7), c.less)
        << c.predicate;
    EXPECT_EQ(evaluateInts(op + "  %r = arith.select %c, %a, %b : i32\n", 7, 7), 7);
    EXPECT_EQ(evaluateInts(op + "  %r = arith.extsi %c : i1 to i32\n", 7, 7), -c.equal)
        << c.predicate;
  }
  EXPECT_EQ(evaluateInts("  %f = arith.sitofp %a : i32 to f32\n  %h = arith.constant 0.5 : f32\n"
                         "  %p = arith.mulf %f, %h : f32\n  %q = arith.fptosi %p : f32 to i32\n"
                         "  %k = arith.constant 1000 : i32\n  %r = arith.addi %q, %k : i32\n",
                         -3, 0),
            999);
}

/// What i8, i64, f64 and truth values become on their way from one i32 to another.
TEST(Kernels, CastsOfIntegers) {
  struct Case {
    const char *text;
    int32_t a, b, result;
  };
  const Case cases[] = {
      {"%x = arith.trunci %a : i32 to i8\n%r = arith.extsi %x : i8 to i32\n", 200, 0, -56},
      {"%x = arith.trunci %a : i32 to i8\n%r = arith.extui %x : i8 to i32\n", -56, 0, 200},
      // i8 wraps: 100 + 100 = -56.
      {"%x = arith.trunci %a : i32 to i8\n%y = arith.addi %x, %x : i8\n"
       "%r = arith.extsi %y : i8 to i32\n",
       100, 0, -56},
      {"%x = arith.trunci %a : i32 to i8\n%y = arith.uitofp %x : i8 to f32\n"
       "%r = arith.fptosi %y : f32 to i32\n",
       -1, 0, 255},
      {"%x = arith.sitofp %a : i32 to f32\n%y = arith.fptosi %x : f32 to i8\n"
       "%r = arith.extsi %y : i8 to i32\n",
       1000, 0, 127},
      {"%x = arith.extsi %a : i32 to i64\n%y = arith.muli %x, %x : i64\n"
       "%c = arith.constant 32 : i64\n%z = arith.shrsi %y, %c : i64\n"
       "%r = arith.trunci %z : i64 to i32\n",
       1 << 20, 0, 256},
      {"%x = arith.extui %a : i32 to i64\n%y = arith.sitofp %x : i64 to f64\n"
       "%h = arith.constant 4294967295.0 : f64\n%c = arith.cmpf oeq, %y, %h : f64\n"
       "%r = arith.extui %c : i1 to i32\n",
       -1, 0, 1},
      {"%x = arith.bitcast %a : i32 to f32\n%y = arith.negf %x : f32\n"
       "%r = arith.bitcast %y : f32 to i32\n",
       0x3f800000, 0, static_cast<int32_t>(0xbf800000)},
      {"%r = math.absi %a : i32\n", -9, 0, 9},
      // i16 wraps: 30000 + 30000 = -5536.
      {"%x = arith.trunci %a : i32 to i16\n%y = arith.addi %x, %x : i16\n"
       "%r = arith.extsi %y : i16 to i32\n",
       30000, 0, -5536},
      {"%x = arith.trunci %a : i32 to i16\n%r = arith.extui %x : i16 to i32\n", -1, 0, 65535},
      {"%x = arith.trunci %a : i32 to i1\n%y = arith.trunci %b : i32 to i1\n"
       "%c = arith.cmpi slt, %x, %y : i1\n%r = arith.extui %c : i1 to i32\n",
       1, 0, 1}, // -1 < 0
  };
  for (const Case &c : cases)
    EXPECT_EQ(evaluateInts(c.text, c.a, c.b), c.result) << c.text;
}

/// Every f16 and bf16, as bits and back; and the bits of some numbers.
TEST(Kernels, BitsOfHalves) {
  for (const char *type : {"f16", "bf16"}) {
    std::string text = std::string("%x = arith.trunci %a : i32 to i16\n") +
                       "%h = arith.bitcast %x : i16 to " + type + "\n%m = arith.negf %h : " + type +
                       "\n%n = arith.negf %m : " + type + "\n%y = arith.bitcast %n : " + type +
                       " to i16\n%r = arith.extui %y : i16 to i32\n";
    for (int32_t bits = 0; bits < 1 << 16; bits += 97) {
      int32_t exponent = type[0] == 'f' ? 0x7c00 : 0x7f80;
      bool isNaN = (bits & 0x7fff) > exponent;
      int32_t found = evaluateInts(text.c_str(), bits, 0);
      EXPECT_TRUE(isNaN ? (found & 0x7fff) > exponent : found == bits)
          << type << ' ' << bits << ' ' << found;
    }
  }
  auto bitsOf = [](int32_t number, const char *type) {
    return evaluateInts(std::string("%f = arith.sitofp %a : i32 to f32\n") +
                            "%s = arith.constant 0.000030517578125 : f32\n" // 2^-15
                            "%g = arith.mulf %f, %s : f32\n%h = arith.truncf %g : f32 to " +
                            type + "\n%y = arith.bitcast %h : " + type +
                            " to i16\n%r = arith.extui %y : i16 to i32\n",
                        number, 0);
  };
  EXPECT_EQ(bitsOf(1 << 15, "f16"), 0x3c00);    // 1
  EXPECT_EQ(bitsOf(-(3 << 14), "f16"), 0xbe00); // -1.5
  EXPECT_EQ(bitsOf(1, "f16"), 0x0200);          // 2^-15, a subnormal number
  EXPECT_EQ(bitsOf(-(3 << 14), "bf16"), 0xbfc0);
}

TEST(Kernels, CastsRoundAndNumbersWinOverNaN) {
  Translated t(launched("hostir.kernel @k(%a: f32, %b: f32) -> f32 {\n"
                        "  %h = arith.truncf %a : f32 to bf16\n  %x = arith.extf %h : bf16 to f32\n"
                        "  %g = arith.truncf %b : f32 to f16\n  %y = arith.extf %g : f16 to f32\n"
                        "  %r = arith.addf %x, %y : f32\n  hostir.yield %r : f32\n}\n",
                        2));
  ASSERT_TRUE(t.ok) << t.errors;
  EXPECT_EQ(evaluate(t, {1 + 0x1p-9f, 1 + 0x1p-12f})[0], 2);
  for (const char *op : {"arith.maxnumf", "arith.minnumf"}) {
    Translated u(launched("hostir.kernel @k(%a: f32, %b: f32) -> f32 {\n  %r = " + std::string(op) +
                              " %a, %b : f32\n  hostir.yield %r : f32\n}\n",
                          2));
    ASSERT_TRUE(u.ok) << u.errors;
    EXPECT_EQ(evaluate(u, {NAN, 3})[0], 3) << op;
    EXPECT_EQ(evaluate(u, {3, NAN})[0], 3) << op;
  }
}

/// Numbers that are half way between two of the narrow type once they are rounded to f32.
TEST(Kernels, WideNumbersAreRoundedOnce) {
  auto narrowed = [](const std::string &type, const std::string &op, int32_t a, int32_t b) {
    return asFloat(evaluateInts(op + "%x = arith.extf %n : " + type +
                                    " to f32\n%r = arith.bitcast %x : f32 to i32\n",
                                a, b));
  };
  struct Case {
    const char *type;
    int bits; ///< behind the first
  };
  for (const Case &c : {Case{"f16", 10}, {"bf16", 7}, {"f8E4M3FN", 3}, {"f8E5M2", 2}}) {
    std::string type = c.type;
    int32_t half = 1 << (29 - c.bits), whole = 1 << 30;
    std::string cast = "%s = arith.constant 9.3132257461547852e-10 : f64\n" // 2^-30
                       "%f = arith.sitofp %a : i32 to f64\n%d = arith.mulf %f, %s : f64\n"
                       "%n = arith.truncf %d : f64 to " +
                       type + "\n";
    double next = 1 + std::ldexp(1.0, -c.bits);
    EXPECT_EQ(narrowed(type, cast, whole + half, 0), 1) << type;
    EXPECT_EQ(narrowed(type, cast, whole + half + 1, 0), next) << type;
    EXPECT_EQ(narrowed(type, cast, -whole - half - 1, 0), -next) << type;
  }
  // A bitcast rounds, as a store does.
  auto fromInteger = [](const std::string &cast, int32_t a, int32_t b) {
    return asFloat(evaluateInts(cast + "%h = arith.bitcast %n : bf16 to i16\n"
                                       "%z = arith.extui %h : i16 to i32\n"
                                       "%p = arith.constant 16 : i32\n"
                                       "%r = arith.shli %z, %p : i32\n",
                                a, b));
  };
  const int32_t half = (1 << 30) + (1 << 22);
  const float above = 0x1p30f + 0x1p23f;
  for (std::string op : {"sitofp", "uitofp"}) {
    std::string cast = "%n = arith." + op + " %a : i32 to bf16\n";
    EXPECT_EQ(fromInteger(cast, half + 1, 0), above) << op;
    EXPECT_EQ(fromInteger(cast, half, 0), 0x1p30f) << op;
    // Times 2^32, or 2^33: an unsigned number from 2^63 on.
    bool isSigned = op[0] == 's';
    std::string wide = "%w = arith.extui %a : i32 to i64\n%e = arith.extui %b : i32 to i64\n"
                       "%t = arith.constant " +
                       std::string(isSigned ? "32" : "33") +
                       " : i64\n%v = arith.shli %w, %t : i64\n%o = arith.ori %v, %e : i64\n"
                       "%n = arith." +
                       op + " %o : i64 to bf16\n";
    float scale = isSigned ? 0x1p32f : 0x1p33f;
    EXPECT_EQ(fromInteger(wide, half, 0), 0x1p30f * scale) << op;
    EXPECT_EQ(fromInteger(wide, half, 1), above * scale) << op;
  }
}

/// Of 8 bits: casts in a kernel, and what is loaded and stored.
TEST(Kernels, EightBits) {
  struct Case {
    const char *type;
    float x, nearest;
  };
  for (const Case &one : {Case{"f8E4M3FN", 17, 16},
                          {"f8E4M3FN", 19, 20},
                          {"f8E4M3FN", -464, -448},
                          {"f8E4M3FN", 0x1p-10f, 0},
                          {"f8E4M3FN", 500, NAN},
                          {"f8E5M2", 9, 8},
                          {"f8E5M2", 0x1.8p-17f, 0x1p-16f},
                          {"f8E5M2", -61440, -INFINITY}}) {
    auto [type, x, nearest] = one;
    auto check = [&](float found) {
      EXPECT_TRUE(std::isnan(one.nearest) ? std::isnan(found) : found == one.nearest)
          << one.type << ' ' << one.x << ' ' << found;
    };
    std::string name = type;
    Translated inside(
        launched("hostir.kernel @k(%a: f32) -> f32 {\n  %h = arith.truncf %a : f32 to " + name +
                     "\n  %y = arith.extf %h : " + name + " to f32\n  hostir.yield %y : f32\n}\n",
                 1));
    ASSERT_TRUE(inside.ok) << inside.errors;
    check(evaluate(inside, {x})[0]);
    Translated stored(launched("hostir.kernel @k(%a: " + name + ") -> " + name +
                                   " {\n  %y = arith.addf %a, %a : " + name +
                                   "\n  hostir.yield %y : " + name + "\n}\n",
                               1, 1, name));
    ASSERT_TRUE(stored.ok) << stored.errors;
    if (x == 17 || x == 9) { // half of it is rounded when it is loaded
      EXPECT_EQ(evaluate(stored, {nearest})[0], 2 * nearest);
    }
  }
}

TEST(Kernels, WhatIsComputedTwiceIsThereOnce) {
  Translated t(launched("hostir.kernel @k(%a: f32) -> f32 {\n"
                        "  %c = arith.constant 2.0 : f32\n  %d = arith.constant 2.0 : f32\n"
                        "  %x = arith.mulf %a, %c : f32\n  %y = arith.mulf %a, %d : f32\n"
                        "  %r = arith.addf %x, %y : f32\n  hostir.yield %r : f32\n}\n",
                        1));
  ASSERT_TRUE(t.ok) << t.errors;
  auto program = t.file->rankProgram(0);
  const auto *code = (*program)->data().kernels()->Get(0)->code();
  std::vector<uint8_t> bytes(code->begin(), code->end());
  EXPECT_EQ(flatbuffers::GetRoot<sp::Expression>(bytes.data())->code()->size(), 5u);
  EXPECT_EQ((*program)->data().kernels()->Get(0)->operand_types()->size(), 2u);
}

TEST(Kernels, WhatHasNoCounterpart) {
  Translated t(launched("hostir.kernel @k(%a: i32) -> i32 {\n  %r = arith.divui %a, %a : i32\n  "
                        "hostir.yield %r : i32\n}\n",
                        1, 1, "i32"));
  EXPECT_EQ(t.errors, "'arith.divui' op has no counterpart in expression code for type 'i32'\n");
  Translated v(launched(
      "hostir.kernel @k(%a: f32) -> f32 {\n  %r = math.atan %a : f32\n  hostir.yield %r : f32\n}\n",
      1));
  EXPECT_EQ(v.errors, "'math.atan' op has no counterpart in expression code for type 'f32'\n");
}

TEST(Kernels, OnlyThoseThatARankLaunches) {
  Translated t(
      programText(
          "%a: memref<8xf32>, %b: memref<8xf32> {hostir.result}",
          "  %c0 = arith.constant 0 : index\n  %first = arith.cmpi eq, %me, %c0 : index\n  scf.if "
          "%first {\n"
          "    hostir.launch @k ins(%a : memref<8xf32>) outs(%b : memref<8xf32>) on %main\n"
          "    hostir.launch @k ins(%a : memref<8xf32>) outs(%b : memref<8xf32>) on %main\n  }\n") +
      "hostir.kernel @k(%a: f32) -> f32 {\n  hostir.yield %a : f32\n}\n");
  ASSERT_TRUE(t.ok) << t.errors;
  EXPECT_NE(t.dump(0).find("kernel k0 \"k\" expression target \"cpu\""), std::string::npos)
      << t.dump(0);
  EXPECT_EQ(t.dump(1).find("kernel k0"), std::string::npos) << t.dump(1);
  EXPECT_EQ(t.commands(0),
            "s0 launch k0(arg1:f32[8], arg0:f32[8])\ns0 launch k0(arg1:f32[8], arg0:f32[8])\n");
}

} // namespace
