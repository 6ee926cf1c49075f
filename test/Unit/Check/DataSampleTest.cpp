//===- DataSampleTest.cpp - programs too large for all their indices ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataPrograms.h"

using namespace tandem;
using namespace tandem::check;
using sp::ExprOp;

static constexpr int64_t kSlices = 8, kRows = 4096, kInner = 8192, kColumns = 2048;

namespace {

/// y = x w + b: rank 1 has x, sends slices of its rows to rank 0, which multiplies them in two
/// steps over K. 2^36 multiply-adds.
struct Large : DataSpec {
  Large() : DataSpec(2) {
    uint32_t x = whole("x", false, {kRows, kInner}), w = whole("w", false, {kInner, kColumns});
    uint32_t b = whole("b", false, {kColumns}), y = whole("y", true, {kRows, kColumns});
    matmul(*reference, view(*reference, y), view(*reference, x), view(*reference, w), 0,
           view(*reference, b));
    RankSpec &first = ranks[0], &second = ranks[1];
    first.shards[x] = {false, 0, {0}, {1}, {0}};
    for (uint32_t argument : {w, b, y})
      second.shards[argument] = {false, 0, {0}, {1}, {0}};
    uint16_t to = everyone(second), from = everyone(first);
    constexpr int64_t slice = kRows / kSlices, half = kInner / 2;
    for (int64_t i = 0; i < kSlices; ++i) {
      second.group(0, to, 1);
      second.send(0, to, view(second, x, i * slice, slice), 0, static_cast<uint32_t>(i));
      uint32_t place = temporary(first, {slice, kInner});
      first.group(0, from, 1);
      first.recv(0, from, place, 1, static_cast<uint32_t>(i));
      uint32_t buffer = first.views[place].buffer(), out = view(first, y, i * slice, slice);
      for (int64_t k : {0, 1})
        matmul(first, out,
               first.view(buffer, DType::F32, {slice, half}, Shape{kInner, 1},
                          static_cast<uint64_t>(k * half * 4)),
               view(first, w, k * half, half), k ? kAdd : 0, k ? view(first, b) : sp::kNoView);
    }
  }

  /// Moves operand `k` of the n-th command of a kind by so many elements.
  void shift(uint32_t rank, Kind kind, size_t n, uint32_t k, int64_t elements) {
    RankSpec &list = ranks[rank];
    CommandSpec &which = command(*this, rank, kind, n);
    sp::View view = list.views[which.operands[k]];
    list.views.emplace_back(view.buffer(), view.layout(),
                            view.offset() + static_cast<uint64_t>(elements * 4));
    which.operands[k] = static_cast<uint32_t>(list.views.size() - 1);
  }
};

} // namespace

TEST(DataSample, EveryCommandIsSeen) {
  std::string text;
  CheckOptions options;
  options.dataWanted = true;
  Report report = run(Large(), options, &text);
  EXPECT_FALSE(report.hasErrors()) << text;
  EXPECT_TRUE(report.limits.empty()) << text;
  EXPECT_EQ(report.data.substr(0, 11), "sampled at ") << text;
}

TEST(DataSample, SlicesExchanged) {
  Large spec;
  std::swap(command(spec, 1, Kind::send, 2).operands[0],
            command(spec, 1, Kind::send, 5).operands[0]);
  expectOnly(spec, kWrong);
}

TEST(DataSample, ShiftedByARow) {
  Large spec;
  spec.shift(1, Kind::send, 3, 0, kInner);
  expectOnly(spec, kWrong);
}

TEST(DataSample, ShiftedByAnElement) {
  Large spec;
  spec.shift(1, Kind::send, 3, 0, 1);
  expectOnly(spec, kWrong);
}

TEST(DataSample, OtherHalfOfTheContraction) {
  Large spec;
  spec.shift(0, Kind::matmul, 6, 1, kInner / 2);
  expectOnly(spec, kWrong);
}

TEST(DataSample, OtherColumnsOfTheWeights) {
  Large spec;
  spec.shift(0, Kind::matmul, 8, 2, 1);
  expectOnly(spec, kWrong);
}

TEST(DataSample, StepLeftOut) {
  Large spec;
  drop(spec, 0, Kind::matmul, 8);
  command(spec, 0, Kind::matmul, 8).flags = 0;
  expectOnly(spec, kWrong);
}

TEST(DataSample, StepRunsTwice) {
  Large spec;
  std::vector<CommandSpec> &commands = spec.ranks[0].commands;
  size_t at = nth(spec, 0, Kind::matmul, 15);
  commands.insert(commands.begin() + static_cast<ptrdiff_t>(at), commands[at]);
  expectOnly(spec, kWrong);
}

TEST(DataSample, BiasLeftOut) {
  Large spec;
  command(spec, 0, Kind::matmul, 1).operands[3] = sp::kNoView;
  expectOnly(spec, kWrong);
}

/// y[i] = max over j of f(x[i, j], b[j]); x is 65536 x 4096. Two kernels in the reference.
static DataSpec elementwise(ExprOp op, sp::ReduceOp reduction) {
  constexpr int64_t rows = 65536, columns = 4096;
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {rows, columns}), b = spec.whole("b", false, {columns});
  uint32_t y = spec.whole("y", true, {rows});
  for (RankSpec *rank : {&spec.ranks[0], &*spec.reference}) {
    bool isReference = rank == &*spec.reference;
    uint32_t bias = rank->view(rank->views[spec.view(*rank, b)].buffer(), DType::F32,
                               {rows, columns}, Shape{0, 1}, 0);
    uint32_t made = DataSpec::temporary(*rank, {rows, columns});
    uint32_t f = kernel(*rank, 2, 1,
                        {instr(ExprOp::load), instr(ExprOp::load, 1),
                         instr(isReference ? ExprOp::sub : op, 0, 1), instr(ExprOp::exp, 2),
                         instr(ExprOp::store, 3, 0)});
    rank->launch(0, f, {made, spec.view(*rank, x), bias});
    reduce(*rank, spec.view(*rank, y), made, 2, isReference ? sp::ReduceOp::max : reduction);
  }
  return spec;
}

TEST(DataSample, Kernels) {
  expectClean(elementwise(ExprOp::sub, sp::ReduceOp::max));
  expectOnly(elementwise(ExprOp::add, sp::ReduceOp::max), kWrong);
  expectOnly(elementwise(ExprOp::sub, sp::ReduceOp::min), kWrong);
}

TEST(DataSample, PartialResult) {
  for (bool twice : {false, true}) {
    DataSpec spec(2);
    uint32_t x = spec.split("x", false, {16384, 8192}, 0);
    uint32_t y = spec.partial("y", true, {8192});
    reduce(*spec.reference, spec.view(*spec.reference, y), spec.view(*spec.reference, x), 1);
    for (RankSpec &rank : spec.ranks)
      reduce(rank, spec.view(rank, y), spec.view(rank, x), 1);
    if (twice) {
      RankSpec &rank = spec.ranks[1];
      uint32_t again = DataSpec::temporary(rank, {8192});
      reduce(rank, again, spec.view(rank, x), 1);
      accumulate(rank, spec.view(rank, y), again);
    }
    expectOnly(spec, twice ? kWrong : std::set<std::string>());
  }
}

TEST(DataSample, WhatNoIndexTouchesIsSaid) {
  // Of 2^20 rows, each copied by itself, few are kept.
  constexpr int64_t rows = 1 << 20;
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {rows, 1024}), y = spec.whole("y", true, {rows, 1024});
  RankSpec &rank = spec.ranks[0];
  spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, x));
  uint32_t from = rank.views[spec.view(rank, x)].buffer();
  uint32_t to = rank.views[spec.view(rank, y)].buffer();
  rank.copy(0, rank.view(to, DType::F32, {rows, 1024}), rank.view(from, DType::F32, {rows, 1024}));
  for (uint64_t i = 5; i < 2000; i += 100)
    rank.copy(0, rank.view(to, DType::F32, {1, 1024}, i * 4096),
              rank.view(from, DType::F32, {1, 1024}, i * 4096));
  CheckOptions options;
  Report report = run(spec, options);
  EXPECT_FALSE(report.hasErrors());
  EXPECT_TRUE(report.limits.empty());
  EXPECT_NE(report.data.find(" of 21 commands that compute or move data do not read"),
            std::string::npos)
      << report.data;
  options.dataWanted = true;
  EXPECT_EQ(run(spec, options).limits.size(), 1u);
}

TEST(DataSample, CopiesOfAMatmulOfOtherShape) {
  for (bool split : {false, true}) {
    DataSpec spec(2);
    uint32_t x = spec.whole("x", false, {kRows, kInner}), w = spec.whole("w", false, {kInner, 64});
    uint32_t y = spec.whole("y", true, {kRows, 64});
    matmul(*spec.reference, spec.view(*spec.reference, y), spec.view(*spec.reference, x),
           spec.view(*spec.reference, w));
    for (RankSpec &rank : spec.ranks) {
      int64_t parts = split && rank.rank == 1 ? 2 : 1;
      for (int64_t part = 0; part < parts; ++part) {
        int64_t rows = kRows / parts;
        matmul(rank, spec.view(rank, y, part * rows, rows), spec.view(rank, x, part * rows, rows),
               spec.view(rank, w));
      }
    }
    expectOnly(spec, split ? std::set<std::string>{"copies-differ"} : std::set<std::string>());
  }
}

TEST(DataSample, Collectives) {
  // y = x, of which each rank has half of the rows, or of the columns.
  for (unsigned dim : {0u, 1u}) {
    DataSpec spec(2);
    uint32_t x = spec.split("x", false, {kRows, kInner}, dim);
    uint32_t y = spec.whole("y", true, {kRows, kInner});
    spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, x));
    for (RankSpec &rank : spec.ranks) {
      uint32_t result = rank.views[spec.view(rank, y)].buffer();
      rank.collective(0, spec.everyone(rank), CollectiveKind::AllGather,
                      rank.view(result, DType::F32,
                                {2, kRows / (dim == 0 ? 2 : 1), kInner / (dim == 1 ? 2 : 1)}),
                      spec.view(rank, x));
    }
    expectOnly(spec, dim == 0 ? std::set<std::string>() : kWrong);
  }
}
