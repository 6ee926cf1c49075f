//===- Reduce.cpp - elementwise and dimension-wise reductions ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace tandem {

namespace {

constexpr int64_t kTile = 512;

template <typename T> T combine(ReduceOp op, T a, T b) {
  switch (op) {
  case ReduceOp::Sum:
    if constexpr (std::is_integral_v<T>) // signed overflow would be undefined
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                            static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  // `a != a`: a NaN on either side stays (if b is NaN, the comparison is false and b is taken).
  case ReduceOp::Max:
    return a > b || a != a ? a : b;
  case ReduceOp::Min:
    return a < b || a != a ? a : b;
  }
  return a;
}

template <typename T> void combineRow(ReduceOp op, T *a, const T *b, int64_t n) {
  auto loop = [&](auto constant) {
    for (int64_t i = 0; i < n; ++i)
      a[i] = combine(decltype(constant)::value, a[i], b[i]);
  };
  if (op == ReduceOp::Sum)
    loop(std::integral_constant<ReduceOp, ReduceOp::Sum>());
  else if (op == ReduceOp::Max)
    loop(std::integral_constant<ReduceOp, ReduceOp::Max>());
  else
    loop(std::integral_constant<ReduceOp, ReduceOp::Min>());
}

template <typename T> T identity(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  if (op == ReduceOp::Sum)
    return T(0);
  if constexpr (Limits::has_infinity)
    return op == ReduceOp::Max ? -Limits::infinity() : Limits::infinity();
  return op == ReduceOp::Max ? Limits::min() : Limits::max();
}

template <typename From, typename To>
void loadAs(const void *from, int64_t stride, int64_t n, To *to) {
  const auto *p = static_cast<const From *>(from);
  for (int64_t i = 0; i < n; ++i)
    to[i] = static_cast<To>(p[i * stride]); // NOLINT(bugprone-signed-char-misuse): i8 is a number
}
template <typename To, typename From>
void storeAs(const From *from, void *to, int64_t stride, int64_t n) {
  auto *p = static_cast<To *>(to);
  for (int64_t i = 0; i < n; ++i)
    p[i * stride] = static_cast<To>(from[i]);
}

// What is summed in T: float f32, f16 and bf16; int32_t i32, i8 (modulo 2^8 when stored) and i1.
template <typename T> void load(DType type, const void *from, int64_t stride, int64_t n, T *to) {
  if constexpr (std::is_same_v<T, float>)
    loadAsF32(type, from, stride, n, to);
  else if (type == DType::I8)
    loadAs<int8_t>(from, stride, n, to);
  else if (type == DType::I1)
    loadAs<uint8_t>(from, stride, n, to);
  else
    loadAs<T>(from, stride, n, to);
}
template <typename T> void store(DType type, const T *from, void *to, int64_t stride, int64_t n) {
  if constexpr (std::is_same_v<T, float>)
    storeFromF32(type, from, to, stride, n);
  else if (sizeOf(type) == 1)
    storeAs<uint8_t>(from, to, stride, n);
  else
    storeAs<T>(from, to, stride, n);
}

/// Calls f with a zero of the type that sums of `type` are computed in.
template <typename F> void withSumType(DType type, F f) {
  switch (type) {
  case DType::F32:
  case DType::F16:
  case DType::BF16:
  case DType::F8E4M3FN: // never reduced
  case DType::F8E5M2:
    return f(float());
  case DType::F64:
    return f(double());
  case DType::I64:
    return f(int64_t());
  case DType::I32:
  case DType::I8:
  case DType::I1:
  case DType::I16: // never reduced
    return f(int32_t());
  }
}

/// The least and the greatest number of a type narrower than what it is summed in.
template <typename T> T identityOf(DType type, ReduceOp op) {
  if (op != ReduceOp::Sum && type == DType::I8)
    return static_cast<T>(op == ReduceOp::Max ? -128 : 127);
  if (op != ReduceOp::Sum && type == DType::I1)
    return static_cast<T>(op == ReduceOp::Max ? 0 : 1);
  return identity<T>(op);
}

std::vector<Layout> withFirst(const Layout &first, const std::vector<Layout> &rest) {
  std::vector<Layout> all{first};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

template <typename T>
void combineAll(const LoopNest &nest, DType type, ReduceOp op, std::byte *const *bases,
                size_t operands) {
  int64_t n = nest.rowLength(), size = sizeOf(type);
  nest.run(bases, [&](std::byte *const *at) {
    T sum[kTile], next[kTile];
    for (int64_t i = 0; i < n; i += kTile) {
      int64_t tile = std::min(kTile, n - i);
      auto place = [&](size_t k) { return at[k] + i * nest.rowStride(k) * size; };
      load(type, place(1), nest.rowStride(1), tile, sum);
      for (size_t k = 2; k < operands; ++k) {
        load(type, place(k), nest.rowStride(k), tile, next);
        combineRow(op, sum, next, tile);
      }
      store(type, sum, place(0), nest.rowStride(0), tile);
    }
  });
}

/// One value out of a row: in lanes, which vectorises and keeps the error of long f32 sums small.
template <typename T> T reduceTile(ReduceOp op, const T *row, int64_t n, T sum) {
  constexpr int64_t lanes = 16;
  int64_t i = 0;
  if (n >= lanes) {
    T partial[lanes];
    std::copy_n(row, lanes, partial);
    for (i = lanes; i + lanes <= n; i += lanes)
      combineRow(op, partial, row + i, lanes);
    for (T value : partial)
      sum = combine(op, sum, value);
  }
  for (; i < n; ++i)
    sum = combine(op, sum, row[i]);
  return sum;
}

template <typename T>
void reduceAll(const LoopNest &kept, const LoopNest &reduced, DType type, ReduceOp op, bool ordered,
               std::byte *dst, std::byte *src) {
  int64_t n = kept.rowLength(), m = reduced.rowLength(), size = sizeOf(type);
  // Walk whichever direction is contiguous in the source.
  bool alongReduced = reduced.rowStride(0) < kept.rowStride(1) || n == 1;
  kept.run({dst, src}, [&](std::byte *const *at) {
    T sum[kTile], next[kTile];
    for (int64_t i = 0; i < n; i += kTile) {
      int64_t tile = std::min(kTile, n - i);
      std::byte *from = at[1] + i * kept.rowStride(1) * size;
      std::fill_n(sum, tile, identityOf<T>(type, op));
      if (alongReduced) {
        for (int64_t e = 0; e < tile; ++e)
          reduced.run({from + e * kept.rowStride(1) * size}, [&](std::byte *const *row) {
            for (int64_t j = 0; j < m; j += kTile) {
              int64_t part = std::min(kTile, m - j);
              load(type, row[0] + j * reduced.rowStride(0) * size, reduced.rowStride(0), part,
                   next);
              if (!ordered)
                sum[e] = reduceTile(op, next, part, sum[e]);
              for (int64_t i = 0; ordered && i < part; ++i)
                sum[e] = combine(op, sum[e], next[i]);
            }
          });
      } else {
        reduced.run({from}, [&](std::byte *const *row) {
          for (int64_t j = 0; j < m; ++j) {
            load(type, row[0] + j * reduced.rowStride(0) * size, kept.rowStride(1), tile, next);
            combineRow(op, sum, next, tile);
          }
        });
      }
      store(type, sum, at[0] + i * kept.rowStride(0) * size, kept.rowStride(0), tile);
    }
  });
}

} // namespace

CombinePlan::CombinePlan(const Layout &dst, const std::vector<Layout> &srcs, ReduceOp op)
    : nest(withFirst(dst, srcs)), operands(1 + srcs.size()), type(dst.dtype), op(op) {}

void CombinePlan::run(void *dst, const void *const *srcs) const {
  SmallArray<std::byte *> bases(operands);
  bases[0] = static_cast<std::byte *>(dst);
  for (size_t k = 1; k < operands; ++k) // only read
    bases[k] = static_cast<std::byte *>(const_cast<void *>(srcs[k - 1]));
  withSumType(
      type, [&](auto zero) { combineAll<decltype(zero)>(nest, type, op, bases.data(), operands); });
}

ReducePlan::ReducePlan(const Layout &dst, const Layout &src, uint64_t mask, ReduceOp op,
                       bool ordered)
    : kept({dst, src.select(mask, false)}), reduced({src.select(mask, true)}, ordered),
      type(dst.dtype), op(op), ordered(ordered) {}

void ReducePlan::run(void *dst, const void *src) const {
  auto *to = static_cast<std::byte *>(dst);
  auto *from = static_cast<std::byte *>(const_cast<void *>(src)); // only read
  withSumType(type, [&](auto zero) {
    reduceAll<decltype(zero)>(kept, reduced, type, op, ordered, to, from);
  });
}

} // namespace tandem
