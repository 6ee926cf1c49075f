//===- Kernels.cu - copies and reductions on the GPU ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that no library has. Each moves 16 bytes per thread where layout and addresses allow (the
// host decides, see Kernels.h), computes in f32 and rounds once. Names:
// <kernel>_<type>_<pack>_<index bits>; a unit is `pack` contiguous elements.
//
//===----------------------------------------------------------------------===//

#include "Exchange.cuh"
#include "ExchangeLL.cuh"

using namespace tandem::gpu;

namespace {

template <typename T, typename Index>
__device__ void copyUnits(const Nest &nest, T *dst, const T *src) {
  // A 32-bit index must not wrap past the end.
  Index total = nest.total, step = unitStep<Index>();
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[2];
    locate(nest, i, at);
    dst[at[0]] = src[at[1]];
    if (total - i <= step)
      break;
    i += step;
  }
}

template <typename T, int N, typename Index>
__device__ void combineUnits(const Nest &nest, T *dst, const T *a, const T *b, int op) {
  using P = Pack<T, N>;
  Index total = nest.total, step = unitStep<Index>();
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[3];
    locate(nest, i, at);
    P x = *reinterpret_cast<const P *>(a + at[1]), y = *reinterpret_cast<const P *>(b + at[2]);
#pragma unroll
    for (int e = 0; e < N; ++e)
      narrow(combine(op, widen(x.v[e]), widen(y.v[e])), x.v[e]);
    *reinterpret_cast<P *>(dst + at[0]) = x;
    if (total - i <= step)
      break;
    i += step;
  }
}

/// One thread per kept unit, which loops over the reduced units.
template <typename T, int N, typename Index>
__device__ void reduceThreadPerOutput(const Nest &kept, const Nest &reduced, T *dst, const T *src,
                                      int op) {
  using P = Pack<T, N>;
  using A = typename Arithmetic<T>::Type;
  Index total = kept.total, step = unitStep<Index>(), terms = reduced.total;
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[2];
    locate(kept, i, at);
    A sum[N];
#pragma unroll
    for (int e = 0; e < N; ++e)
      sum[e] = identity<T>(op);
    auto take = [&](int64_t term) {
      P x = *reinterpret_cast<const P *>(src + at[1] + term);
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum[e] = combine(op, sum[e], widen(x.v[e]));
    };
    if (reduced.outer == 0) { // the slots of one buffer: the usual case
#pragma unroll 4
      for (Index r = 0; r < terms; ++r)
        take(static_cast<int64_t>(r) * reduced.innerStrides[0]);
    } else {
#pragma unroll 1
      for (Index r = 0; r < terms; ++r) {
        int64_t term[1];
        locate(reduced, r, term);
        take(term[0]);
      }
    }
    P result;
#pragma unroll
    for (int e = 0; e < N; ++e)
      narrow(sum[e], result.v[e]);
    *reinterpret_cast<P *>(dst + at[0]) = result;
    if (total - i <= step)
      break;
    i += step;
  }
}

/// See docs/operators.md.
template <int exponent> __device__ float fromFp8(uint8_t bits) {
  constexpr int mantissa = 7 - exponent;
  constexpr float unit = exponent == 4 ? 0x1p-9f : 0x1p-16f; // the least number
  constexpr unsigned most = exponent == 4 ? 0x7f : 0x7c;     // above are NaN
  unsigned size = bits & 0x7fu;
  float value = static_cast<float>(size) * unit;
  if (size >= most)
    value = exponent == 5 && size == most ? __builtin_huge_valf() : __builtin_nanf("");
  else if (size >> mantissa) {
    // (1 + m / 2^mantissa) 2^(e - bias) = (2^mantissa + m) unit 2^(e - 1)
    unsigned digits = (1u << mantissa) | (size & ((1u << mantissa) - 1u));
    value =
        static_cast<float>(digits) * unit * static_cast<float>(1ull << ((size >> mantissa) - 1));
  }
  return bits & 0x80u ? -value : value;
}

template <int exponent, typename T, typename Index>
__device__ void convertUnits(const Nest &nest, T *dst, const uint8_t *src) {
  Index total = nest.total, step = unitStep<Index>();
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[2];
    locate(nest, i, at);
    narrow(fromFp8<exponent>(src[at[1]]), dst[at[0]]);
    if (total - i <= step)
      break;
    i += step;
  }
}

/// One block per kept element; its threads share the reduced elements, in packs.
template <typename T, int N, typename Index>
__device__ void reduceBlockPerOutput(const Nest &kept, const Nest &reduced, T *dst, const T *src,
                                     int op) {
  using P = Pack<T, N>;
  using A = typename Arithmetic<T>::Type;
  __shared__ A warps[32];
  Index total = kept.total, terms = reduced.total;
  for (Index i = blockNumber(); i < total;) {
    int64_t at[2];
    locate(kept, i, at);
    A sum = identity<T>(op);
    for (Index r = threadNumber(); r < terms; r += blockThreads()) {
      int64_t term[1];
      locate(reduced, r, term);
      P x = *reinterpret_cast<const P *>(src + at[1] + term[0]);
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum = combine(op, sum, widen(x.v[e]));
      if (terms - r <= blockThreads())
        break;
    }
    unsigned width = warpThreads();
    for (unsigned d = width / 2; d > 0; d /= 2)
      sum = combine(op, sum, fromLane(sum, d));
    if (threadNumber() % width == 0)
      warps[threadNumber() / width] = sum;
    syncBlock();
    if (threadNumber() == 0) {
      for (unsigned w = 1; w < blockThreads() / width; ++w)
        sum = combine(op, sum, warps[w]);
      narrow(sum, dst[at[0]]);
    }
    syncBlock();
    if (total - i <= gridBlocks())
      break;
    i += gridBlocks();
  }
}

} // namespace

#define COPY(bits, T)                                                                              \
  extern "C" __global__ void copy_##bits##_32(TANDEM_PARAMETER Nest nest, T *dst, const T *src) {  \
    copyUnits<T, uint32_t>(nest, dst, src);                                                        \
  }                                                                                                \
  extern "C" __global__ void copy_##bits##_64(TANDEM_PARAMETER Nest nest, T *dst, const T *src) {  \
    copyUnits<T, uint64_t>(nest, dst, src);                                                        \
  }
COPY(8, uint8_t)
COPY(16, uint16_t)
COPY(32, uint32_t)
COPY(64, Word64)
COPY(128, Word128)

#define ARITHMETIC(name, T, N, bits)                                                               \
  extern "C" __global__ void combine_##name##_##N##_##bits(TANDEM_PARAMETER Nest nest, T *dst,     \
                                                           const T *a, const T *b, int op) {       \
    combineUnits<T, N, uint##bits##_t>(nest, dst, a, b, op);                                       \
  }                                                                                                \
  extern "C" __global__ void reduce_thread_per_output_##name##_##N##_##bits(                       \
      TANDEM_PARAMETER Nest kept, TANDEM_PARAMETER Nest reduced, T *dst, const T *src, int op) {   \
    reduceThreadPerOutput<T, N, uint##bits##_t>(kept, reduced, dst, src, op);                      \
  }                                                                                                \
  extern "C" __global__ void reduce_block_per_output_##name##_##N##_##bits(                        \
      TANDEM_PARAMETER Nest kept, TANDEM_PARAMETER Nest reduced, T *dst, const T *src, int op) {   \
    reduceBlockPerOutput<T, N, uint##bits##_t>(kept, reduced, dst, src, op);                       \
  }
#define ARITHMETIC_OF(name, T, N)                                                                  \
  ARITHMETIC(name, T, 1, 32)                                                                       \
  ARITHMETIC(name, T, 1, 64)                                                                       \
  ARITHMETIC(name, T, N, 32)                                                                       \
  ARITHMETIC(name, T, N, 64)
ARITHMETIC_OF(f32, float, 4)
ARITHMETIC_OF(f16, Half, 8)
ARITHMETIC_OF(bf16, Bfloat16, 8)
ARITHMETIC_OF(i32, int, 4)
ARITHMETIC_OF(f64, double, 2)
ARITHMETIC_OF(i64, long long, 2)
ARITHMETIC_OF(i8, signed char, 16)
ARITHMETIC_OF(i1, unsigned char, 16)

#define EXCHANGE(name, T, N)                                                                       \
  extern "C" __global__ void TANDEM_BLOCK_OF(kExchangeThreads)                                     \
      exchange_##name##_##N(TANDEM_PARAMETER ExchangeArguments exchange) {                         \
    runExchange<T, N>(exchange);                                                                   \
  }                                                                                                \
  extern "C" __global__ void TANDEM_BLOCK_OF(kExchangeThreads)                                     \
      ll_##name##_##N(TANDEM_PARAMETER LLArguments exchange) {                                     \
    exchangeLL<T, N>(exchange);                                                                    \
  }
#define EXCHANGE_OF(name, T, N)                                                                    \
  EXCHANGE(name, T, 1)                                                                             \
  EXCHANGE(name, T, N)
EXCHANGE_OF(f32, float, 4)
EXCHANGE_OF(f16, Half, 8)
EXCHANGE_OF(bf16, Bfloat16, 8)
EXCHANGE_OF(i8, signed char, 16)

/// `count` elements, at multiples of `stride`, as f32.
#define WIDEN(name, T)                                                                             \
  extern "C" __global__ void widen_##name(uint64_t count, int64_t stride, float *dst,              \
                                          const T *src) {                                          \
    for (auto i = firstUnit<uint64_t>(); i < count; i += unitStep<uint64_t>())                     \
      dst[i] = widen(src[static_cast<int64_t>(i) * stride]);                                       \
  }
WIDEN(f16, Half)
WIDEN(bf16, Bfloat16)

/// Floats of 8 bits as f16 or bf16, both exact: 4 bits of exponent are f8E4M3FN, 5 are f8E5M2.
#define CONVERT(from, exponent, to, T)                                                             \
  extern "C" __global__ void convert_##from##_##to##_32(TANDEM_PARAMETER Nest nest, T *dst,        \
                                                        const uint8_t *src) {                      \
    convertUnits<exponent, T, uint32_t>(nest, dst, src);                                           \
  }                                                                                                \
  extern "C" __global__ void convert_##from##_##to##_64(TANDEM_PARAMETER Nest nest, T *dst,        \
                                                        const uint8_t *src) {                      \
    convertUnits<exponent, T, uint64_t>(nest, dst, src);                                           \
  }
CONVERT(f8E4M3FN, 4, f16, Half)
CONVERT(f8E4M3FN, 4, bf16, Bfloat16)
CONVERT(f8E5M2, 5, f16, Half)
CONVERT(f8E5M2, 5, bf16, Bfloat16)

/// Raises a signal to *epoch * perRun + value (epoch 0 if null) after all earlier work of this GPU.
/// Does nothing after an abort (*stopped): the earlier work may not have happened. `plain`: see
/// raiseSignal().
extern "C" __global__ void signal_raise(uint64_t *slot, const uint64_t *epoch, uint64_t perRun,
                                        uint64_t value, const uint64_t *stopped, uint64_t plain) {
  if (loadShared(stopped))
    return;
  uint64_t target = (epoch ? *epoch : 0) * perRun + value;
  fenceSystem();
  raiseSignal(slot, target, plain);
}

/// Waits for a signal and writes its command's number to `progress` (host memory) meanwhile. An
/// abort ends it.
extern "C" __global__ void signal_wait(const unsigned long long *slot,
                                       const unsigned long long *epoch, unsigned long long perRun,
                                       unsigned long long value, unsigned long long *progress,
                                       unsigned long long command, const uint64_t *abortFlag,
                                       uint64_t *stopped) {
  unsigned long long target = (epoch ? *epoch : 0) * perRun + value;
  if (loadShared(slot) < target) {
    storeShared(progress, command);
    for (unsigned polls = 0; loadShared(slot) < target; ++polls) {
      if (isAborted(abortFlag, stopped, polls)) {
        stopSignals(stopped);
        break;
      }
      pauseThread();
    }
    storeShared(progress, ~0ull);
  }
  fenceSystem();
}

/// Root node of a graph: counts the run and writes the words that signals are copied from. An abort
/// sets *stopped before it clears the words, so they end as zero in either order.
extern "C" __global__ void run_words(TANDEM_PARAMETER RunWords run) {
  uint64_t number = *run.epoch + 1;
  syncBlock();
  if (threadNumber() == 0)
    *run.epoch = number;
  if (threadNumber() >= run.count)
    return;
  const SignalWord &word = run.words[threadNumber()];
  storeShared(word.at, number * word.perRun + word.value);
  fenceSystem();
  if (loadShared(run.stopped))
    storeShared(word.at, uint64_t(0));
}
