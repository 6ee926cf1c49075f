//===- ExpandCollectivesTest.cpp - expanded collectives against their meaning -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostMachine.h"
#include "PassTest.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace tandem::hostir;
using namespace tandem::hostir::test;

namespace {

using Shape = std::vector<int64_t>;
using Data = std::vector<float>;

struct Case {
  std::string kind;
  std::vector<int64_t> mesh; // axes a, b, ...
  std::vector<int> axes;     // of the channel
  Shape slice;
  std::string element = "f32";
  std::string reduction = "";
  int64_t root = 0;
  /// Operands are every second element of buffers with one dimension more.
  bool isStrided = false;

  int64_t groupSize() const {
    int64_t size = 1;
    for (int axis : axes)
      size *= mesh[axis];
    return size;
  }
  int64_t numRanks() const {
    int64_t size = 1;
    for (int64_t extent : mesh)
      size *= extent;
    return size;
  }
  bool hasGatheredInput() const {
    return kind == "reduce_scatter" || kind == "all_to_all" || kind == "scatter";
  }
  bool hasGatheredOutput() const {
    return kind == "all_gather" || kind == "all_to_all" || kind == "gather";
  }
  bool isRooted() const {
    return kind == "broadcast" || kind == "reduce" || kind == "gather" || kind == "scatter";
  }
};

int64_t numElements(const Shape &shape) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  return elements;
}

std::string str(const Shape &shape) {
  std::string text;
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text;
}

Shape operandShape(const Case &c, bool isGathered) {
  Shape shape = c.slice;
  if (isGathered)
    shape.insert(shape.begin(), c.groupSize());
  return shape;
}

// The operand `%name` and its type; the argument is `%name_arg`.
std::string viewText(const Case &c, const std::string &name, const Shape &shape,
                     std::string &type) {
  std::string plain = "memref<" + str(shape) + c.element + ">";
  if (!c.isStrided) {
    type = plain;
    return "";
  }
  std::string strides, offsets, sizes, ones;
  int64_t stride = 2;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    strides = std::to_string(stride) + (strides.empty() ? "" : ", ") + strides;
    offsets += "0, ";
    sizes = std::to_string(shape[i]) + ", " + sizes;
    ones += "1, ";
  }
  std::string whole = "memref<" + str(shape) + "2x" + c.element + ">";
  type = "memref<" + str(shape) + c.element + ", strided<[" + strides + "], offset: 1>>";
  return "  %" + name + " = memref.subview %" + name + "_arg[" + offsets + "1] [" + sizes + "1] [" +
         ones + "1] : " + whole + " to " + type + "\n";
}

std::string programText(const Case &c) {
  std::string mesh, axes;
  for (size_t i = 0; i < c.mesh.size(); ++i)
    mesh +=
        (i ? ", \"" : "\"") + std::string(1, char('a' + i)) + "\" = " + std::to_string(c.mesh[i]);
  for (size_t i = 0; i < c.axes.size(); ++i)
    axes += (i ? ", \"" : "\"") + std::string(1, char('a' + c.axes[i])) + "\"";
  Shape in = operandShape(c, c.hasGatheredInput()), out = operandShape(c, c.hasGatheredOutput());
  std::string inType, outType;
  std::string views = viewText(c, "in", in, inType) + viewText(c, "out", out, outType);
  std::string suffix = c.isStrided ? "_arg" : "", last = c.isStrided ? "2x" : "";
  std::string text = "#m = #tandem.mesh<\"m\", [" + mesh + "]>\n";
  text += "hostir.program @p(%in" + suffix + ": memref<" + str(in) + last + c.element + ">, %out" +
          suffix + ": memref<" + str(out) + last + c.element + "> {hostir.result}) {\n";
  text += "  %main = hostir.main_stream\n  %c1 = arith.constant 1 : index\n"
          "  %s = hostir.worker_stream %c1\n  hostir.sync %s after %main\n";
  text += "  %ch = hostir.channel \"ch\" over #m [" + axes + "] can [collectives]\n";
  text += "  %root = arith.constant " + std::to_string(c.root) + " : index\n" + views;
  text += "  hostir.collective " + c.kind + " %in to %out " + (c.isRooted() ? "root %root " : "") +
          "via %ch on %s";
  if (!c.reduction.empty())
    text += " {reduction = #tandem<reduce_kind " + c.reduction + ">}";
  return text + " : " + inType + " to " + outType + "\n  hostir.sync %main after %s\n}\n";
}

// Element i of what a rank contributes: small, so that sums are exact; never equal on two ranks by
// chance alone.
float contribution(int64_t rank, int64_t i) { return float((rank * 7 + i * 3 + i / 5) % 23 - 11); }

float combine(const std::string &reduction, float a, float b) {
  if (reduction == "max")
    return std::max(a, b);
  if (reduction == "min")
    return std::min(a, b);
  return a + b;
}

// What rank `group[self]` must hold; empty: nothing was to be written.
Data expected(const Case &c, const std::vector<int64_t> &group, size_t self) {
  int64_t n = numElements(c.slice);
  auto G = static_cast<int64_t>(group.size());
  Data out;
  auto slice = [&](size_t from, int64_t block) {
    for (int64_t i = 0; i < n; ++i)
      out.push_back(contribution(group[from], block * n + i));
  };
  auto reduced = [&](int64_t block) {
    for (int64_t i = 0; i < n; ++i) {
      float value = contribution(group[0], block * n + i);
      for (int64_t g = 1; g < G; ++g)
        value = combine(c.reduction, value, contribution(group[g], block * n + i));
      out.push_back(value);
    }
  };
  bool isRoot = static_cast<int64_t>(self) == c.root;
  if (c.kind == "all_gather" || (c.kind == "gather" && isRoot))
    for (int64_t g = 0; g < G; ++g)
      slice(g, 0);
  else if (c.kind == "all_reduce" || (c.kind == "reduce" && isRoot))
    reduced(0);
  else if (c.kind == "reduce_scatter")
    reduced(static_cast<int64_t>(self));
  else if (c.kind == "all_to_all")
    for (int64_t g = 0; g < G; ++g)
      slice(g, static_cast<int64_t>(self));
  else if (c.kind == "broadcast")
    slice(c.root, 0);
  else if (c.kind == "scatter")
    slice(c.root, static_cast<int64_t>(self));
  return out;
}

// The members of `rank`'s group in the order of the channel's axes, and the rank's place among
// them.
std::vector<int64_t> groupOf(const Case &c, int64_t rank, size_t &self) {
  auto coordinate = [&](int64_t r, int axis) {
    for (size_t i = c.mesh.size(); i-- > static_cast<size_t>(axis) + 1;)
      r /= c.mesh[i];
    return r % c.mesh[axis];
  };
  std::vector<std::pair<int64_t, int64_t>> members; // position, rank
  for (int64_t other = 0; other < c.numRanks(); ++other) {
    int64_t position = 0;
    bool isMember = true;
    for (int axis = 0; axis < static_cast<int>(c.mesh.size()); ++axis)
      if (!llvm::is_contained(c.axes, axis))
        isMember &= coordinate(other, axis) == coordinate(rank, axis);
    for (int axis : c.axes)
      position = position * c.mesh[axis] + coordinate(other, axis);
    if (isMember)
      members.emplace_back(position, other);
  }
  llvm::sort(members);
  std::vector<int64_t> group;
  for (auto [position, member] : members) {
    if (member == rank)
      self = group.size();
    group.push_back(member);
  }
  return group;
}

void check(const Case &c) {
  std::string text = programText(c);
  SCOPED_TRACE(text);
  PassTest test;
  OwningOpRef<ModuleOp> module = test.parse(text);
  ASSERT_TRUE(module) << test.diagnostics;
  ASSERT_TRUE(succeeded(test.run(
      *module, "hostir-expand-collectives{channels-without-collectives=*},canonicalize,cse,"
               "hostir-insert-deallocs,hostir-plan-buffers,hostir-verify")))
      << test.diagnostics;
  ProgramOp program = PassTest::programOf(*module);
  int64_t step = c.isStrided ? 2 : 1, first = c.isStrided ? 1 : 0;
  for (unsigned seed = 0; seed < 3; ++seed) {
    std::mt19937 random(seed);
    std::vector<RankProgram> programs;
    std::vector<RankMemory> memories;
    for (int64_t rank = 0; rank < c.numRanks(); ++rank) {
      programs.push_back(flatten(program, rank));
      EXPECT_EQ(findConflicts(programs.back(), program.getArenaBytes().value_or(0)), "");
      memories.push_back(makeMemory(program));
      size_t self = 0;
      groupOf(c, rank, self);
      // What must not be read stays not-a-number.
      bool isRead =
          !(c.kind == "broadcast" || c.kind == "scatter") || static_cast<int64_t>(self) == c.root;
      for (int64_t i = 0; isRead && first + i * step < (int64_t)memories.back()[1].size(); ++i)
        memories.back()[1][first + i * step] = contribution(rank, i);
    }
    ASSERT_TRUE(runAll(programs, memories, random)) << "deadlock";
    for (int64_t rank = 0; rank < c.numRanks(); ++rank) {
      size_t self = 0;
      std::vector<int64_t> group = groupOf(c, rank, self);
      Data wanted = expected(c, group, self);
      const Data &out = memories[rank][2];
      for (size_t i = 0; i < out.size(); ++i) {
        bool isElement = static_cast<int64_t>(i) % step == first;
        if (!isElement || wanted.empty())
          ASSERT_TRUE(std::isnan(out[i])) << "rank " << rank << " wrote element " << i;
        else
          ASSERT_EQ(out[i], wanted[i / step]) << "rank " << rank << " element " << i;
      }
    }
  }
}

class ExpandCollectives : public testing::TestWithParam<int64_t> {};

} // namespace

TEST_P(ExpandCollectives, KindsWithoutRoot) {
  int64_t size = GetParam();
  for (const char *kind : {"all_gather", "all_to_all"})
    for (const Shape &slice : {Shape{3}, Shape{}, Shape{2, 3}, Shape{0}})
      check({kind, {size}, {0}, slice, "i32"});
  for (const char *reduction : {"", "max", "min"})
    for (const Shape &slice : {Shape{5}, Shape{}, Shape{3, 2}})
      check({"reduce_scatter", {size}, {0}, slice, "f32", reduction});
}

TEST_P(ExpandCollectives, AllReduceOfAnyExtent) {
  int64_t size = GetParam();
  for (const char *reduction : {"sum", "max", "min"})
    check({"all_reduce", {size}, {0}, {7}, "i32", reduction});
  for (const Shape &slice : {Shape{}, Shape{1}, Shape{8}, Shape{16}, Shape{17}, Shape{3, 5},
                             Shape{2, 8}, Shape{8, 3}, Shape{0}, Shape{2, 0}, Shape{1, 1, 9}})
    for (bool isStrided : {false, true})
      if (!isStrided || numElements(slice) != 0) // upstream has no subviews of nothing
        check({"all_reduce", {size}, {0}, slice, "f32", "", 0, isStrided});
}

TEST_P(ExpandCollectives, EveryRoot) {
  int64_t size = GetParam();
  for (int64_t root = 0; root < size; ++root) {
    for (const char *kind : {"broadcast", "gather", "scatter", "reduce"})
      check({kind, {size}, {0}, {3}, "f32", "", root});
    check({"reduce", {size}, {0}, {2, 2}, "i32", "max", root});
  }
}

TEST_P(ExpandCollectives, StridedOperands) {
  int64_t size = GetParam();
  for (const char *kind :
       {"all_gather", "all_to_all", "reduce_scatter", "broadcast", "gather", "scatter", "reduce"})
    check({kind, {size}, {0}, {2, 3}, "f32", "", size - 1, true});
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExpandCollectives, testing::Values(1, 2, 3, 4, 5, 7, 8));

// Groups along some axes of a mesh, in the order in which the channel names them.
TEST(ExpandCollectivesMesh, GroupsAlongAxes) {
  for (const std::vector<int> &axes :
       {std::vector<int>{0}, {1}, {2}, {0, 2}, {2, 0}, {1, 2, 0}, {}})
    for (const char *kind : {"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                             "broadcast", "gather", "scatter", "reduce"}) {
      Case c{kind, {2, 3, 2}, axes, {2}};
      c.root = c.groupSize() - 1;
      check(c);
    }
}
