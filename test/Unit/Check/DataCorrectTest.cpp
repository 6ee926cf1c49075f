//===- DataCorrectTest.cpp - programs that compute what they should ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataPrograms.h"

using namespace tandem;
using namespace tandem::check;

TEST(DataCorrect, Gathered) {
  for (uint32_t ranks : {1, 2, 3, 5, 8})
    expectClean(gatherMatmul(ranks));
}

TEST(DataCorrect, TermsFromARing) {
  for (uint32_t ranks : {1, 2, 3, 5, 8})
    expectClean(splitContraction(ranks));
}

TEST(DataCorrect, Partials) {
  for (sp::ReduceOp op : {sp::ReduceOp::sum, sp::ReduceOp::max, sp::ReduceOp::min})
    for (uint32_t ranks : {1, 2, 3, 7})
      expectClean(partials(ranks, op));
}

TEST(DataCorrect, Mesh) { expectClean(gatherMesh()); }

TEST(DataCorrect, BatchesThatRepeat) {
  // y[b, i] = x[b, i] w[0]: the batch of w has one index, that of x is written as two dimensions.
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {6, 2, 3}), w = spec.whole("w", false, {1, 3, 2});
  uint32_t y = spec.whole("y", true, {6, 2, 2});
  RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
  matmul(reference, spec.view(reference, y), spec.view(reference, x), spec.view(reference, w));
  auto as = [&](uint32_t argument, const Shape &shape) {
    return rank.view(rank.views[spec.view(rank, argument)].buffer(), DType::F32, shape);
  };
  matmul(rank, as(y, {2, 3, 2, 2}), as(x, {2, 3, 2, 3}), as(w, {3, 2}));
  expectClean(spec);
}

TEST(DataCorrect, TransposedFactors) {
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {3, 2}), w = spec.whole("w", false, {4, 3});
  uint32_t y = spec.whole("y", true, {2, 4});
  RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
  matmul(reference, spec.view(reference, y), spec.view(reference, x), spec.view(reference, w), 3);
  // The same through strides.
  uint32_t xs = rank.views[spec.view(rank, x)].buffer(),
           ws = rank.views[spec.view(rank, w)].buffer();
  matmul(rank, spec.view(rank, y), rank.view(xs, DType::F32, {2, 3}, Shape{1, 2}, 0),
         rank.view(ws, DType::F32, {3, 4}, Shape{1, 3}, 0));
  expectClean(spec);
}

TEST(DataCorrect, TypesOfOtherWidthInOnePlace) {
  // f16 factors, an f32 sum, rounded at the end; f16 and f32 take turns in one place.
  DataSpec spec(1);
  uint32_t x = spec.whole("x", false, {2, 2}, DType::F16);
  uint32_t y = spec.whole("y", true, {2, 2}, DType::F16);
  RankSpec &rank = spec.ranks[0], &reference = *spec.reference;
  matmul(reference, spec.view(reference, y), spec.view(reference, x), spec.view(reference, x));
  std::vector<test::Instr> round = {instr(sp::ExprOp::load), instr(sp::ExprOp::store, 0, 0)};
  uint32_t place = rank.arena(16);
  rank.buffers.emplace_back(sp::Space::arena, 0, 0, 16, 0);
  auto later = static_cast<uint32_t>(rank.buffers.size() - 1);
  uint32_t copy = rank.view(place, DType::F16, {2, 2}, 4),
           sum = rank.view(later, DType::F32, {2, 2});
  uint32_t out = DataSpec::temporary(rank, {2, 2}, DType::F16);
  rank.copy(0, copy, spec.view(rank, x));
  rank.copy(0, out, copy);
  matmul(rank, sum, out, out);
  rank.launch(0, kernel(rank, 1, 1, round), {spec.view(rank, y), sum});
  expectClean(spec);
}

TEST(DataCorrect, LargeProgramIsSaidNotToBeChecked) {
  DataSpec spec = gatherMatmul(2);
  CheckOptions options;
  options.dataSteps = 10;
  Report report = run(spec, options);
  EXPECT_EQ(report.data.substr(0, 13), "not checked: ");
  EXPECT_TRUE(report.limits.empty());
  options.dataWanted = true;
  EXPECT_EQ(run(spec, options).limits.size(), 1u);
  options.dataSteps = 1000;
  EXPECT_TRUE(run(spec, options).limits.empty());
}

TEST(DataCorrect, WithoutReferenceNotChecked) {
  EXPECT_EQ(run(exchange(2)).data, "not checked: the program has no unsharded reference");
}
