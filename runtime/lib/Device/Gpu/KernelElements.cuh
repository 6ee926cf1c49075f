//===- KernelElements.cuh - a thread's elements, and arithmetic -*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_KERNELELEMENTS_CUH
#define TANDEM_LIB_DEVICE_GPU_KERNELELEMENTS_CUH

#include "KernelArguments.h"
#include "KernelLanguage.h"

namespace tandem::gpu {
namespace {

template <typename T, int N> struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

/// The type that sums of T are computed in.
template <typename T> struct Arithmetic {
  using Type = float;
};
template <> struct Arithmetic<int> {
  using Type = int;
};
template <> struct Arithmetic<signed char> {
  using Type = int;
};
template <> struct Arithmetic<unsigned char> {
  using Type = int;
};
template <> struct Arithmetic<double> {
  using Type = double;
};
template <> struct Arithmetic<long long> {
  using Type = long long;
};

__device__ float widen(float x) { return x; }
__device__ float widen(Half x) { return halfToFloat(x); }
__device__ float widen(Bfloat16 x) { return bfloat16ToFloat(x); }
__device__ int widen(int x) { return x; }
__device__ int widen(signed char x) { return x; }
__device__ int widen(unsigned char x) { return x; }
__device__ double widen(double x) { return x; }
__device__ long long widen(long long x) { return x; }
__device__ void narrow(float x, Half &to) { to = halfFromFloat(x); }
__device__ void narrow(float x, Bfloat16 &to) { to = bfloat16FromFloat(x); }
template <typename A, typename T> __device__ void narrow(A x, T &to) { to = static_cast<T>(x); }

// Sum, max and min, numbered as ReduceOp. NaN propagates; integer sums wrap.
template <typename A> __device__ A combine(int op, A a, A b) {
  if (op == 0)
    return a + b;
  if (op == 1)
    return a > b || a != a ? a : b;
  return a < b || a != a ? a : b;
}
template <> __device__ int combine(int op, int a, int b) {
  if (op == 0)
    return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  return (op == 1) == (a > b) ? a : b;
}
template <> __device__ long long combine(int op, long long a, long long b) {
  if (op == 0)
    return static_cast<long long>(static_cast<unsigned long long>(a) +
                                  static_cast<unsigned long long>(b));
  return (op == 1) == (a > b) ? a : b;
}

/// The result of an empty reduction: 0, the lowest and the highest number.
template <typename T> struct Least {
  static __device__ float value() { return -__builtin_huge_valf(); }
};
template <> struct Least<double> {
  static __device__ double value() { return -__builtin_huge_val(); }
};
template <> struct Least<int> {
  static __device__ int value() { return static_cast<int>(0x80000000u); }
};
template <> struct Least<long long> {
  static __device__ long long value() { return static_cast<long long>(0x8000000000000000ull); }
};
template <> struct Least<signed char> {
  static __device__ int value() { return -128; }
};
template <> struct Least<unsigned char> {
  static __device__ int value() { return 0; }
};
template <typename A> __device__ A greatest(A least) { return -least; }
template <> __device__ int greatest(int least) { return least == 0 ? 1 : ~least; }
template <> __device__ long long greatest(long long least) { return ~least; }
template <typename T> __device__ typename Arithmetic<T>::Type identity(int op) {
  auto least = Least<T>::value();
  return op == 0 ? decltype(least)(0) : op == 1 ? least : greatest(least);
}

/// Offset of unit `i` in each of K operands.
template <int K, typename Index>
__device__ void locate(const Nest &nest, Index i, int64_t (&at)[K]) {
  Index column = i;
  Index row = 0;
  if (nest.outer) {
    row = i / static_cast<Index>(nest.inner);
    column = i - row * static_cast<Index>(nest.inner);
  }
#pragma unroll
  for (int k = 0; k < K; ++k)
    at[k] = static_cast<int64_t>(column) * nest.innerStrides[k];
#pragma unroll 1
  for (int d = nest.outer - 1; d >= 0; --d) {
    auto extent = static_cast<Index>(nest.extents[d]);
    Index next = row / extent;
    auto digit = static_cast<int64_t>(row - next * extent);
#pragma unroll
    for (int k = 0; k < K; ++k)
      at[k] += digit * nest.strides[k][d];
    row = next;
  }
}

template <typename Index> __device__ Index firstUnit() {
  return static_cast<Index>(blockNumber()) * blockThreads() + threadNumber();
}
template <typename Index> __device__ Index unitStep() {
  return static_cast<Index>(gridBlocks()) * blockThreads();
}

} // namespace
} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_KERNELELEMENTS_CUH
