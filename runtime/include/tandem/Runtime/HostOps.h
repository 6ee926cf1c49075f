//===- HostOps.h - strided copies and reductions in host memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Shared by the CPU device and the channels of host memory. Thread-safe: plans are immutable.

#ifndef TANDEM_RUNTIME_HOSTOPS_H
#define TANDEM_RUNTIME_HOSTOPS_H

#include "tandem/Program/Types.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

namespace tandem {

/// Elements whose number is known at run time: up to `N` without an allocation.
template <typename T, size_t N = 16> class SmallArray {
public:
  explicit SmallArray(size_t count) : heap(count > N ? new T[count] : nullptr) {}
  T *data() { return heap ? heap.get() : inside; }
  T &operator[](size_t i) { return data()[i]; }

private:
  T inside[N];
  std::unique_ptr<T[]> heap;
};

/// Calls body() for each index of nested loops, the first one outermost. `at`: the start in each
/// operand, addresses or offsets in bytes, as are the strides; body() reads it.
template <typename At, typename Body>
void forEachIndex(const std::vector<LoopDim> &loops, At *at, size_t operands, Body &&body) {
  int64_t index[kMaxRank] = {};
  for (;;) {
    body();
    size_t d = loops.size();
    for (; d-- > 0;) {
      const LoopDim &dim = loops[d];
      bool carry = ++index[d] == dim.extent;
      for (size_t k = 0; k < operands; ++k)
        at[k] += carry ? -dim.strides[k] * (dim.extent - 1) : dim.strides[k];
      if (!carry)
        break;
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1))
      return;
  }
}

/// A loop nest over operands of one shape, with as few dimensions as their strides allow. The
/// caller handles the innermost dimension: a row of `rowLength` elements with a step of
/// `rowStride(k)` elements in operand k.
class LoopNest {
public:
  LoopNest() = default;
  /// `layouts`: same shape, any dtypes; the first decides the order of the loops (largest stride
  /// outermost), unless `inOrder`: then it is that of the dimensions.
  explicit LoopNest(const std::vector<Layout> &layouts, bool inOrder = false);

  int64_t rowLength() const { return inner; }
  int64_t rowStride(size_t operand) const { return innerStrides[operand]; }
  int64_t numRows() const { return rows; }

  template <typename At, typename Body>
  void run(std::initializer_list<At> bases, Body &&body) const {
    run(bases.begin(), body);
  }
  /// Calls body(starts) for each row with its start in each operand. `bases`: one per operand,
  /// bytes' addresses or offsets (int64_t).
  template <typename At, typename Body> void run(const At *bases, Body &&body) const {
    if (rows == 0 || inner == 0)
      return;
    size_t operands = innerStrides.size();
    SmallArray<At> at(operands);
    std::copy_n(bases, operands, at.data());
    forEachIndex(outer, at.data(), operands, [&] { body(at.data()); });
  }

private:
  std::vector<LoopDim> outer; ///< strides in bytes
  int64_t inner = 0, rows = 0;
  std::vector<int64_t> innerStrides; ///< elements
};

/// Copies the elements of one view to another of the same shape and dtype.
class CopyPlan {
public:
  CopyPlan() = default;
  CopyPlan(const Layout &dst, const Layout &src);
  /// Views may overlap only if they are the same.
  void run(void *dst, const void *src) const;

private:
  bool findTranspose(const Layout &dst, const Layout &src);

  LoopNest nest;
  unsigned element = 4;
  /// One dimension is contiguous in dst and another in src: copies square tiles, so that both sides
  /// access whole cache lines.
  bool transposes = false;
  int64_t alongDst = 0, alongSrc = 0; ///< extents of the dimension contiguous in dst, and in src
  int64_t srcStep = 0,
          dstStep = 0; ///< elements: alongDst's stride in src, alongSrc's stride in dst
};

/// Calls f with a zero of the unsigned type with this many bytes (1, 2, 4 or 8).
template <typename F> void withUnsigned(unsigned bytes, F f) {
  switch (bytes) {
  case 1:
    return f(uint8_t());
  case 2:
    return f(uint16_t());
  case 4:
    return f(uint32_t());
  default:
    return f(uint64_t());
  }
}

/// n elements of f32, f16, bf16 or 8 bits (fp8), at multiples of `stride` elements, as f32.
void loadAsF32(DType type, const void *from, int64_t stride, int64_t n, float *to);
/// The reverse: rounds to nearest even. Beyond its largest number f8E4M3FN is NaN, the others are
/// infinite.
void storeFromF32(DType type, const float *from, void *to, int64_t stride, int64_t n);

/// x, or that of the two nearest numbers whose last bit is 1: storeFromF32 then rounds x once.
float roundedToOdd(double x);

/// dst = srcs[0] op srcs[1] op ..., in this order, elementwise: f16 and bf16 in f32, rounded once;
/// sums of integers wrap. Max and min give NaN if either is NaN. dst may be the same view as a
/// source.
class CombinePlan {
public:
  CombinePlan() = default;
  CombinePlan(const Layout &dst, const std::vector<Layout> &srcs, ReduceOp op);
  void run(void *dst, std::initializer_list<const void *> srcs) const { run(dst, srcs.begin()); }
  /// `srcs`: one address per source.
  void run(void *dst, const void *const *srcs) const;

private:
  LoopNest nest;
  size_t operands = 0; ///< dst and the sources
  DType type = DType::F32;
  ReduceOp op = ReduceOp::Sum;
};

/// dst = reduction of src over the dims of `mask`: f16 and bf16 in f32, rounded once. An empty sum
/// is 0; an empty max or min is the least or greatest value (for floats, the infinities).
/// `ordered`: each element adds one term after the other, in row-major order of the reduced dims;
/// else the order depends on the layouts.
class ReducePlan {
public:
  ReducePlan() = default;
  ReducePlan(const Layout &dst, const Layout &src, uint64_t mask, ReduceOp op, bool ordered);
  void run(void *dst, const void *src) const;

private:
  LoopNest kept;    ///< operands dst, src
  LoopNest reduced; ///< operand src
  DType type = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  bool ordered = false;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_HOSTOPS_H
