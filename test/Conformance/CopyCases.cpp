//===- CopyCases.cpp - copy ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

namespace tandem::test {

namespace {

Scenario copy(Tensor src, Tensor dst) {
  OneRank one;
  uint32_t from = one.input(src, 1), to = one.output(dst, false);
  one.rank().copy(0, to, from);
  forEachIndex(dst.shape, [&](const Shape &i) { dst.at(i) = src.at(i); });
  return one.finish(dst);
}

} // namespace

void addCopyCases(Cases &cases) {
  for (DType t : kMovedDTypes) {
    auto add = [&](const std::string &name, Tensor src, Tensor dst) {
      cases.push_back(
          {"Copy." + name + "." + nameOf(t), {1}, 0, [=](uint32_t) { return copy(src, dst); }});
    };
    add("dense", dense(t, {4, 8}), dense(t, {4, 8}));
    add("odd", dense(t, {7, 3, 5}), dense(t, {7, 3, 5}));
    add("one", dense(t, {1}), dense(t, {1}));
    add("scalar", dense(t, {}), dense(t, {}));
    add("large", dense(t, {257, 1023}), dense(t, {257, 1023}));
    add("zero", dense(t, {0, 5}), strided(t, {0, 5}, {5, 1}, 0, 3));
    add("zero-inside", strided(t, {3, 0, 2}, {7, 2, 1}, 0, 2),
        strided(t, {3, 0, 2}, {0, 0, 0}, 1, 3));
    add("columns-in", strided(t, {5, 3}, {11, 1}, 4, 55), dense(t, {5, 3}));
    add("columns-out", dense(t, {5, 3}), strided(t, {5, 3}, {11, 1}, 4, 55));
    add("columns-both", strided(t, {5, 3}, {4, 1}, 1, 20), strided(t, {5, 3}, {9, 1}, 2, 45));
    add("transposed", strided(t, {5, 7}, {1, 5}, 0, 35), dense(t, {5, 7}));
    add("to-transposed", dense(t, {5, 7}), strided(t, {5, 7}, {1, 5}, 0, 35));
    add("transposed-tiles", strided(t, {37, 50}, {1, 41}, 0, 50 * 41), dense(t, {37, 50}));
    add("transposed-inside", strided(t, {3, 17, 2, 33}, {1500, 1, 600, 17}, 5, 5000),
        strided(t, {3, 17, 2, 33}, {2400, 70, 35, 1}, 0, 7300));
    add("every-second", strided(t, {9}, {2}, 1, 18), strided(t, {9}, {3}, 0, 27));
    add("repeated", strided(t, {4, 6}, {0, 1}, 2, 8), dense(t, {4, 6}));
    add("repeated-element", strided(t, {4, 6}, {0, 0}, 0, 1), dense(t, {4, 6}));
    add("five-dims", strided(t, {2, 3, 1, 4, 5}, {5, 10, 77, 30, 1}, 0, 120),
        strided(t, {2, 3, 1, 4, 5}, {80, 25, 3, 6, 1}, 0, 200));
    add("merging", strided(t, {2, 3, 4}, {12, 4, 1}, 8, 40),
        strided(t, {2, 3, 4}, {16, 4, 1}, 0, 40));
  }
  // In place: the same view twice is allowed and does nothing.
  cases.push_back({"Copy.same", {1}, 0, [](uint32_t) {
                     OneRank one;
                     Tensor out = strided(DType::F32, {3, 4}, {5, 1}, 0, 15);
                     uint32_t to = one.output(out, true);
                     one.rank().copy(0, to, to);
                     return one.finish(out);
                   }});
}

} // namespace tandem::test
