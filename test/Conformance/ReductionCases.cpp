//===- ReductionCases.cpp - accumulate and reduce ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

#include <algorithm>
#include <cmath>

namespace tandem::test {

namespace {

double combine(ReduceOp op, double a, double b) {
  if (op == ReduceOp::Sum)
    return a + b;
  if (std::isnan(a) || std::isnan(b))
    return NAN;
  return op == ReduceOp::Max ? std::max(a, b) : std::min(a, b);
}

Scenario accumulate(Tensor src, Tensor dst, ReduceOp op) {
  OneRank one;
  uint32_t from = one.input(src, 1), to = one.output(dst, true);
  one.rank().add(sp::CommandKind::accumulate, 0, {to, from}).reduceOp =
      static_cast<sp::ReduceOp>(op);
  forEachIndex(dst.shape, [&](const Shape &i) { dst.at(i) = combine(op, dst.at(i), src.at(i)); });
  return one.finish(dst);
}

Scenario reduce(Tensor src, Tensor dst, uint64_t dims, ReduceOp op) {
  OneRank one;
  uint32_t from = one.input(src, 1), to = one.output(dst, false);
  CommandSpec &command = one.rank().add(sp::CommandKind::reduce, 0, {to, from});
  command.reduceOp = static_cast<sp::ReduceOp>(op);
  command.value = dims;
  auto limits = [&](double i8, double i32, double i64, double other) {
    return src.dtype == DType::I8    ? i8
           : src.dtype == DType::I32 ? i32
           : src.dtype == DType::I64 ? i64
                                     : other;
  };
  double least = limits(-128, -0x1p31, -0x1p63, -INFINITY);
  double most = limits(127, 0x1p31 - 1, 0x1p63, INFINITY);
  double start = op == ReduceOp::Sum ? 0 : op == ReduceOp::Max ? least : most;
  forEachIndex(dst.shape, [&](const Shape &i) { dst.at(i) = start; });
  forEachIndex(src.shape, [&](const Shape &i) {
    Shape kept;
    for (size_t d = 0; d < i.size(); ++d)
      if (!(dims >> d & 1))
        kept.push_back(i[d]);
    dst.at(kept) = combine(op, dst.at(kept), src.at(i));
  });
  return one.finish(dst, toleranceOf(src.dtype));
}

/// A sum over `dims` of src, and once more in pieces of one index of dimension `dim`, which is
/// kept; they must give the same bits.
Scenario orderedSum(Tensor src, Tensor dst, uint64_t dims, size_t dim) {
  OneRank one;
  one.scenario.spec.deterministic = sp::Determinism::bitwise;
  fillWithNoise(src, 1);
  uint32_t from = one.input(src, 1), to = one.output(dst, false);
  one.rank().add(sp::CommandKind::reduce, 0, {to, from}).value = dims;
  uint32_t twin = one.twin(dst);
  size_t kept = dim;
  for (size_t d = 0; d < dim; ++d)
    kept -= dims >> d & 1;
  for (int64_t i = 0; i < src.shape[dim]; ++i) {
    Tensor in = src, out = dst;
    in.offset += i * in.strides[dim];
    out.offset += i * out.strides[kept];
    in.shape[dim] = out.shape[kept] = 1;
    uint32_t source = one.view(one.rank().views[from].buffer(), in);
    one.rank().add(sp::CommandKind::reduce, 0, {one.view(twin, out), source}).value = dims;
  }
  forEachIndex(dst.shape, [&](const Shape &i) { dst.at(i) = 0; });
  forEachIndex(src.shape, [&](const Shape &i) {
    Shape rest;
    for (size_t d = 0; d < i.size(); ++d)
      if (!(dims >> d & 1))
        rest.push_back(i[d]);
    dst.at(rest) += src.at(i);
  });
  return one.finish(dst, 10 * toleranceOf(src.dtype));
}

} // namespace

void addReductionCases(Cases &cases) {
  for (DType t : kAllDTypes)
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min}) {
      std::string suffix = "." + std::string(toString(op)) + "." + nameOf(t);
      auto add = [&](const std::string &name, Tensor src, Tensor dst) {
        cases.push_back({"Accumulate." + name + suffix, {1}, 0, [=](uint32_t) {
                           return accumulate(src, dst, op);
                         }});
      };
      add("dense", dense(t, {4, 8}), dense(t, {4, 8}));
      add("odd", dense(t, {1031}), dense(t, {1031}));
      add("zero", dense(t, {0}), strided(t, {0}, {1}, 0, 2));
      add("strided", strided(t, {5, 3}, {1, 7}, 2, 40), strided(t, {5, 3}, {11, 2}, 4, 60));
      add("repeated", strided(t, {4, 6}, {0, 1}, 0, 6), dense(t, {4, 6}));

      auto addReduce = [&](const std::string &name, uint64_t dims, Tensor src, Tensor dst) {
        cases.push_back({"Reduce." + name + suffix, {1}, 0, [=](uint32_t) {
                           return reduce(src, dst, dims, op);
                         }});
      };
      addReduce("first", 1, dense(t, {5, 7}), dense(t, {7}));
      addReduce("last", 2, dense(t, {5, 7}), dense(t, {5}));
      addReduce("all", 3, dense(t, {5, 7}), dense(t, {}));
      addReduce("middle", 2, dense(t, {3, 4, 5}), dense(t, {3, 5}));
      addReduce("outer-and-inner", 5, dense(t, {3, 4, 5}), dense(t, {4}));
      addReduce("long-last", 2, dense(t, {2, 1500}), dense(t, {2}));
      auto addOrdered = [&](const std::string &name, uint64_t dims, size_t dim, Tensor src,
                            Tensor dst) {
        if (op == ReduceOp::Sum)
          cases.push_back({"Reduce.ordered-" + name + suffix, {1}, 0, [=](uint32_t) {
                             return orderedSum(src, dst, dims, dim);
                           }});
      };
      addOrdered("columns", 1, 1, dense(t, {700, 9}), dense(t, {9}));
      addOrdered("rows", 2, 0, dense(t, {9, 700}), dense(t, {9}));
      addOrdered("outer-and-inner", 5, 1, dense(t, {11, 6, 70}), dense(t, {6}));
      addReduce("long-first", 1, dense(t, {9, 1500}), dense(t, {1500}));
      addReduce("strided", 1, strided(t, {4, 5}, {17, 3}, 1, 70), strided(t, {5}, {2}, 1, 12));
      addReduce("one", 1, dense(t, {1, 6}), dense(t, {6}));
      addReduce("over-nothing", 1, dense(t, {0, 6}), dense(t, {6}));
      addReduce("of-nothing", 1, dense(t, {4, 0}), strided(t, {0}, {1}, 0, 2));
    }
  // Not a number, infinities and negative zero.
  for (DType t : {DType::F32, DType::F16, DType::BF16})
    for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min}) {
      std::string suffix = "." + std::string(toString(op)) + "." + nameOf(t);
      cases.push_back({"Reduce.special" + suffix, {1}, 0, [=](uint32_t) {
                         Tensor src = dense(t, {4, 5}), dst = dense(t, {5});
                         src.values = {NAN, 1, -INFINITY, -1, -3, 1,  NAN,       -2, -2, -4,
                                       2,   3, INFINITY,  -3, -2, -1, -INFINITY, -4, -9, -1};
                         return reduce(src, dst, 1, op);
                       }});
    }
  // i32 sums wrap, and keep what f32 would lose.
  cases.push_back({"Accumulate.wide.i32", {1}, 0, [](uint32_t) {
                     Tensor src = dense(DType::I32, {2}), dst = dense(DType::I32, {2});
                     src.values = {16777217, -2147483600};
                     return accumulate(src, dst, ReduceOp::Sum);
                   }});
}

} // namespace tandem::test
