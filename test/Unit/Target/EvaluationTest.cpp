//===- EvaluationTest.cpp - control flow, integers, views -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Translated.h"

#include "llvm/Support/MathExtras.h"
#include <gtest/gtest.h>

using namespace tandem::test;

namespace {

/// Makes numbers visible: copies element %n of %in.
const std::string kArguments = "%in: memref<1000xf32>, %out: memref<1000xf32> {hostir.result}";
std::string show(const std::string &number, const std::string &indent = "  ") {
  static int counter = 0;
  std::string i = std::to_string(counter++);
  std::string type = "memref<1xf32, strided<[1], offset: ?>>";
  return indent + "%si" + i + " = memref.subview %in[" + number +
         "] [1] [1] : memref<1000xf32> to " + type + "\n" + indent + "%so" + i +
         " = memref.subview %out[" + number + "] [1] [1] : memref<1000xf32> to " + type + "\n" +
         indent + "hostir.copy %si" + i + " to %so" + i + " on %main : " + type + " to " + type +
         "\n";
}
/// The numbers that `show` has shown on a rank.
std::vector<int> shown(const Translated &t, uint32_t rank = 0) {
  std::vector<int> numbers;
  llvm::SmallVector<llvm::StringRef> lines;
  std::string text = t.commands(rank);
  if (!t.ok)
    ADD_FAILURE() << t.errors;
  llvm::StringRef(text).split(lines, '\n', -1, false);
  for (llvm::StringRef line : lines) {
    int bytes = 0;
    llvm::StringRef rest = line;
    if (!rest.consume_front("s0 copy arg1"))
      ADD_FAILURE() << line.str();
    if (rest.consume_front("+"))
      rest.consumeInteger(10, bytes);
    numbers.push_back(bytes / 4);
  }
  return numbers;
}

std::string evaluatedProgram(const std::string &body, int ranks = 1) {
  return programText(kArguments,
                     "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
                     "  %c2 = arith.constant 2 : index\n  %c3 = arith.constant 3 : index\n"
                     "  %c10 = arith.constant 10 : index\n" +
                         body,
                     "{workers = 2 : i64}", ranks);
}
using Numbers = std::vector<int>;

TEST(Evaluation, LoopsAndSteps) {
  Translated t(evaluatedProgram("  scf.for %i = %c1 to %c10 step %c3 {\n" + show("%i", "    ") +
                                "  }\n"
                                "  scf.for %i = %c3 to %c3 step %c1 {\n" +
                                show("%i", "    ") + "  }\n"));
  EXPECT_EQ(shown(t), (Numbers{1, 4, 7}));
}

TEST(Evaluation, NestedLoopsWithCarriedValues) {
  // Fibonacci: a swap of carried values, whose result leaves the loop.
  Translated t(evaluatedProgram(
      "  %r:2 = scf.for %i = %c0 to %c10 step %c1 iter_args(%a = %c0, %b = %c1) -> (index, "
      "index) {\n"
      "    %n = arith.addi %a, %b : index\n    scf.yield %b, %n : index, index\n  }\n" +
      show("%r#0") + show("%r#1") +
      "  scf.for %i = %c0 to %c2 step %c1 {\n"
      "    %s = scf.for %j = %c0 to %c3 step %c1 iter_args(%a = %i) -> index {\n"
      "      %n = arith.addi %a, %j : index\n      scf.yield %n : index\n    }\n" +
      show("%s", "    ") + "  }\n"));
  EXPECT_EQ(shown(t), (Numbers{55, 89, 3, 4}));
}

TEST(Evaluation, Conditions) {
  Translated t(evaluatedProgram(
      "  scf.for %i = %c0 to %c3 step %c1 {\n"
      "    %eq = arith.cmpi eq, %i, %c1 : index\n"
      "    %v = scf.if %eq -> index {\n      scf.yield %c10 : index\n    } else {\n"
      "      scf.yield %i : index\n    }\n" +
      show("%v", "    ") + "    scf.if %eq {\n" + show("%c3", "      ") + "    }\n  }\n"));
  EXPECT_EQ(shown(t), (Numbers{0, 10, 3, 2}));
}

TEST(Evaluation, RanksDiffer) {
  Translated t(
      evaluatedProgram("  %p = arith.constant 4 : index\n  %n = arith.addi %me, %c1 : index\n"
                       "  %next = arith.remui %n, %p : index\n" +
                           show("%next"),
                       4));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(shown(t, rank), Numbers{(rank + 1) % 4});
}

TEST(Evaluation, CoordinatesAreRowMajor) {
  Translated t(
      "#pod = #tandem.mesh<\"pod\", [\"node\" = 2, \"gpu\" = 3]>\n"
      "#part = #tandem.mesh<\"part\", [\"y\" = 2], devices = [4, 1]>\n"
      "hostir.program @p(" +
      kArguments +
      ") {\n  %main = hostir.main_stream\n"
      "  %n = hostir.device_index #pod, \"node\"\n  %g = hostir.device_index #pod, \"gpu\"\n" +
      show("%n") + show("%g") +
      "  %in_part = hostir.in_mesh #part\n  scf.if %in_part {\n"
      "    %y = hostir.device_index #part, \"y\"\n    %c9 = arith.constant 9 : index\n"
      "    %z = arith.addi %y, %c9 : index\n" +
      show("%z", "    ") + "  }\n}\n");
  EXPECT_EQ(shown(t, 0), (Numbers{0, 0}));
  EXPECT_EQ(shown(t, 1), (Numbers{0, 1, 10}));
  EXPECT_EQ(shown(t, 4), (Numbers{1, 1, 9}));
  EXPECT_EQ(shown(t, 5), (Numbers{1, 2}));
}

TEST(Evaluation, PositionsInAnotherMesh) {
  // Ranks 3 and 1 of four; rank r shows where the device at position r % 2 of one mesh stands in
  // the other, plus 1.
  std::string meshes = "  %both = arith.remui %me, %c2 : index\n";
  for (auto [from, to] : {std::pair("#tp", "#part"), std::pair("#part", "#tp")}) {
    Translated t("#part = #tandem.mesh<\"part\", [\"x\" = 2], devices = [3, 1]>\n" +
                 evaluatedProgram(meshes + "  %t = hostir.translate_position %both from " + from +
                                      " to " + to + "\n  %n = arith.addi %t, %c1 : index\n" +
                                      show("%n"),
                                  4));
    bool intoPart = to == std::string("#part");
    EXPECT_EQ(shown(t, 2), Numbers({intoPart ? 0 : 4}));
    EXPECT_EQ(shown(t, 3), Numbers({2}));
  }
  Translated outside(
      "#part = #tandem.mesh<\"part\", [\"x\" = 2], devices = [3, 1]>\n" +
      evaluatedProgram("  %t = hostir.translate_position %me from #part to #tp\n" + show("%t"), 4));
  EXPECT_NE(outside.errors.find("position 2 is outside"), std::string::npos) << outside.errors;
}

/// Every integer operation, in several widths, against what C++ computes.
TEST(Evaluation, Integers) {
  struct Case {
    const char *op;
    int64_t a, b, expected;
    const char *type;
  };
  const Case cases[] = {
      {"addi", 5, 7, 12, "index"},     {"subi", 5, 7, -2, "i64"},
      {"muli", -3, 7, -21, "index"},   {"divsi", -7, 2, -3, "index"},
      {"divui", 7, 2, 3, "index"},     {"divui", -1, 2, 127, "i8"},
      {"ceildivsi", 7, 2, 4, "index"}, {"ceildivsi", -7, 2, -3, "index"},
      {"ceildivui", 7, 2, 4, "index"}, {"floordivsi", -7, 2, -4, "index"},
      {"remsi", -7, 4, -3, "index"},   {"remui", 7, 4, 3, "index"},
      {"minsi", -1, 1, -1, "i32"},     {"minui", -1, 1, 1, "i32"},
      {"maxsi", -1, 1, 1, "i32"},      {"maxui", -1, 1, -1, "i32"},
      {"andi", 12, 10, 8, "index"},    {"ori", 12, 10, 14, "index"},
      {"xori", 12, 10, 6, "index"},    {"shli", 3, 4, 48, "index"},
      {"shrsi", -8, 1, -4, "i16"},     {"shrui", -8, 1, 124, "i8"},
      {"addi", 127, 1, -128, "i8"},    {"muli", 1 << 20, 1 << 20, 0, "i32"},
  };
  std::string body;
  Numbers expected;
  int n = 0;
  for (const Case &c : cases) {
    std::string i = std::to_string(n++), type = c.type;
    body += "  %a" + i + " = arith.constant " + std::to_string(c.a) + " : " + type + "\n  %b" + i +
            " = arith.constant " + std::to_string(c.b) + " : " + type + "\n  %r" + i + " = arith." +
            c.op + " %a" + i + ", %b" + i + " : " + type + "\n";
    std::string result = "%r" + i;
    if (type != "index") {
      body += "  %x" + i + " = arith.index_cast " + result + " : " + type + " to index\n";
      result = "%x" + i;
    }
    // Away from 0, so that results below it can be shown.
    body += "  %o" + i + " = arith.constant 500 : index\n  %s" + i + " = arith.addi " + result +
            ", %o" + i + " : index\n" + show("%s" + i);
    expected.push_back(500 + c.expected);
  }
  EXPECT_EQ(shown(Translated(evaluatedProgram(body))), expected);
}

TEST(Evaluation, ComparisonsAndCasts) {
  std::string body = "  %minus = arith.constant -1 : i8\n  %one = arith.constant 1 : i8\n"
                     "  %t = arith.constant true\n  %f = arith.constant false\n";
  Numbers expected;
  int n = 0;
  auto add = [&](const std::string &op, const std::string &type, int value) {
    std::string i = std::to_string(n++);
    body += "  %v" + i + " = arith." + op + "\n  %w" + i + " = arith.index_castui %v" + i + " : " +
            type + " to index\n" + show("%w" + i);
    expected.push_back(value);
  };
  add("cmpi slt, %minus, %one : i8", "i1", 1);
  add("cmpi ult, %minus, %one : i8", "i1", 0);
  add("cmpi sge, %minus, %minus : i8", "i1", 1);
  add("cmpi ugt, %minus, %one : i8", "i1", 1);
  add("cmpi ne, %one, %one : i8", "i1", 0);
  add("cmpi slt, %t, %f : i1", "i1", 1); // true is -1
  add("cmpi ugt, %t, %f : i1", "i1", 1);
  add("extui %minus : i8 to i16", "i16", 255);
  add("select %t, %one, %minus : i8", "i8", 1);
  add("select %f, %minus, %one : i8", "i8", 1);
  body += "  %sx = arith.extsi %t : i1 to i16\n  %k = arith.constant 3 : i16\n"
          "  %sum = arith.addi %sx, %k : i16\n  %y = arith.index_cast %sum : i16 to index\n" +
          show("%y");
  expected.push_back(2);
  body += "  %big = arith.constant 259 : i16\n  %tr = arith.trunci %big : i16 to i8\n"
          "  %z = arith.index_cast %tr : i8 to index\n" +
          show("%z");
  expected.push_back(3);
  EXPECT_EQ(shown(Translated(evaluatedProgram(body))), expected);
}

/// The views that a copy shows: "+bytes:type[shape]{strides}".
std::string viewsOf(const std::string &body) {
  Translated t(
      programText("%in: memref<4x6x8xf16>, %out: memref<4x6x8xf16> {hostir.result}",
                  "  %c1 = arith.constant 1 : index\n  %c2 = arith.constant 2 : index\n" + body,
                  "{workers = 1 : i64}", 1));
  return t.ok ? t.commands(0) : t.errors;
}
std::string copyOf(const std::string &type) {
  return "  hostir.copy %v to %w on %main : " + type + " to " + type + "\n";
}

TEST(Evaluation, Subviews) {
  std::string type = "memref<2x3xf16, strided<[48, 2], offset: ?>>";
  std::string view = "[%c1, 2, %c2] [2, 1, 3] [1, 1, 2] : memref<4x6x8xf16> to " + type + "\n";
  EXPECT_EQ(viewsOf("  %v = memref.subview %in" + view + "  %w = memref.subview %out" + view +
                    copyOf(type)),
            "s0 copy arg1+132:f16[2,3]{48,2} <- arg0+132:f16[2,3]{48,2} bytes 12\n");
}

TEST(Evaluation, DynamicSizes) {
  std::string type = "memref<?x6x8xf16, strided<[48, 8, 1], offset: ?>>";
  std::string view = "[%i, 0, 0] [%n, 6, 8] [1, 1, 1] : memref<4x6x8xf16> to " + type + "\n";
  // Slices of 3: the last one is shorter. Commands take views of known shape.
  auto copied = [&](std::string extent) {
    std::string sized = "memref<" + extent + "x6x8xf16, strided<[48, 8, 1], offset: ?>>";
    return "      %v = memref.cast %a : " + type + " to " + sized +
           "\n      %w = memref.cast %b : " + type + " to " + sized + "\n" + copyOf(sized);
  };
  EXPECT_EQ(
      viewsOf("  %c0 = arith.constant 0 : index\n  %c3 = arith.constant 3 : index\n"
              "  %c4 = arith.constant 4 : index\n  scf.for %i = %c0 to %c4 step %c3 {\n"
              "    %left = arith.subi %c4, %i : index\n    %n = arith.minsi %left, %c3 : index\n"
              "    %a = memref.subview %in" +
              view + "    %b = memref.subview %out" + view +
              "    %d = memref.dim %a, %c0 : " + type +
              "\n"
              "    %whole = arith.cmpi eq, %d, %c3 : index\n    scf.if %whole {\n" +
              copied("3") + "    } else {\n" + copied("1") + "    }\n  }\n"),
      "s0 copy arg1:f16[3,6,8] <- arg0:f16[3,6,8] bytes 288\n"
      "s0 copy arg1+288:f16[1,6,8] <- arg0+288:f16[1,6,8] bytes 96\n");
}

TEST(Evaluation, ShapesOfViews) {
  EXPECT_EQ(viewsOf("  %v = memref.collapse_shape %in [[0, 1], [2]] : memref<4x6x8xf16> into "
                    "memref<24x8xf16>\n"
                    "  %w = memref.collapse_shape %out [[0, 1], [2]] : memref<4x6x8xf16> into "
                    "memref<24x8xf16>\n" +
                    copyOf("memref<24x8xf16>")),
            "s0 copy arg1:f16[24,8] <- arg0:f16[24,8] bytes 384\n");
  EXPECT_EQ(viewsOf("  %v = memref.expand_shape %in [[0], [1, 2], [3]] output_shape [4, 2, 3, 8] : "
                    "memref<4x6x8xf16> into memref<4x2x3x8xf16>\n"
                    "  %w = memref.expand_shape %out [[0], [1, 2], [3]] output_shape [4, 2, 3, 8] "
                    ": memref<4x6x8xf16> into memref<4x2x3x8xf16>\n" +
                    copyOf("memref<4x2x3x8xf16>")),
            "s0 copy arg1:f16[4,2,3,8] <- arg0:f16[4,2,3,8] bytes 384\n");
  std::string transposed = "memref<8x4x6xf16, strided<[1, 48, 8]>>";
  EXPECT_EQ(
      viewsOf("  %v = memref.transpose %in (i, j, k) -> (k, i, j) : memref<4x6x8xf16> to " +
              transposed +
              "\n  %w = memref.transpose %out (i, j, k) -> (k, i, j) : memref<4x6x8xf16> to " +
              transposed + "\n" + copyOf(transposed)),
      "s0 copy arg1:f16[8,4,6]{1,48,8} <- arg0:f16[8,4,6]{1,48,8} bytes 384\n");
  std::string rows = "memref<2x5xf16, strided<[10, 1], offset: 7>>";
  EXPECT_EQ(viewsOf("  %v = memref.reinterpret_cast %in to offset: [7], sizes: [2, 5], strides: "
                    "[10, 1] : memref<4x6x8xf16> to " +
                    rows +
                    "\n  %w = memref.reinterpret_cast %out to offset: [7], sizes: [2, 5], strides: "
                    "[10, 1] : memref<4x6x8xf16> to " +
                    rows + "\n" + copyOf(rows)),
            "s0 copy arg1+14:f16[2,5]{10,1} <- arg0+14:f16[2,5]{10,1} bytes 20\n");
}

TEST(Evaluation, BuffersOfWorkers) {
  Translated t(programText(
      "%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}",
      "  %c0 = arith.constant 0 : index\n  %c1 = arith.constant 1 : index\n"
      "  %c3 = arith.constant 3 : index\n"
      "  scf.for %i = %c0 to %c3 step %c1 {\n"
      "    %s = hostir.worker_stream %i\n    hostir.sync %s after %main\n"
      "    %b = hostir.alloc on %s {offset = 64 : i64, pitch = 128 : i64} : memref<8xf32>\n"
      "    hostir.copy %in to %b on %s : memref<8xf32> to memref<8xf32>\n"
      "    hostir.dealloc %b on %s : memref<8xf32>\n  }\n",
      "{workers = 2 : i64, arena_bytes = 4096 : i64}", 1));
  ASSERT_TRUE(t.ok) << t.errors;
  std::string text = t.dump(0);
  // What the program uses, rounded up; not what the plan had set aside.
  EXPECT_NE(text.find("streams 3, events 1, arena 256,"), std::string::npos) << text;
  EXPECT_NE(text.find("arena at 64 size 32"), std::string::npos) << text;
  EXPECT_NE(text.find("arena at 192 size 32"), std::string::npos) << text;
  // Each iteration's life is a buffer of its own; the third has the place of the first.
  auto loaded = t.file->rankProgram(0);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<uint64_t> offsets;
  for (const ::tandem::sp::Buffer *buffer : *(*loaded)->data().buffers())
    if (buffer->space() == ::tandem::sp::Space::arena)
      offsets.push_back(buffer->offset());
  EXPECT_EQ(offsets, (std::vector<uint64_t>{64, 192, 64}));
}

/// What is said once in the text stands once in the tables, however often a loop runs.
TEST(Evaluation, TablesAreInterned) {
  auto sizes = [](int iterations) {
    Translated t(evaluatedProgram(
        "  %n = arith.constant " + std::to_string(iterations) +
        " : index\n"
        "  scf.for %i = %c0 to %n step %c1 {\n    %v = arith.remui %i, %c10 : index\n" +
        show("%v", "    ") + "  }\n"));
    EXPECT_TRUE(t.ok) << t.errors;
    auto loaded = t.file->rankProgram(0);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    const auto &data = (*loaded)->data();
    EXPECT_EQ(data.commands()->size(), static_cast<uint32_t>(iterations));
    return std::vector<uint32_t>{data.views()->size(), data.layouts()->size(),
                                 data.buffers()->size(), data.names()->size()};
  };
  EXPECT_EQ(sizes(100), sizes(900));
  EXPECT_EQ(sizes(100)[0], 20u);
  EXPECT_EQ(sizes(100)[1], 1u);
}

TEST(Evaluation, EmptyTensors) {
  Translated t(
      programText("%in: memref<0x3xbf16>, %out: memref<0x3xbf16> {hostir.result}",
                  "  hostir.copy %in to %out on %main : memref<0x3xbf16> to memref<0x3xbf16>\n"));
  EXPECT_EQ(t.commands(0), "s0 copy arg1:bf16[0,3] <- arg0:bf16[0,3] bytes 0\n");
}

} // namespace
