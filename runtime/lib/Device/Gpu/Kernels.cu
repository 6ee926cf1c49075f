//===- Kernels.cu - copies, reductions and expressions on the GPU ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no library does. Every kernel moves 16 bytes a thread where layout and addresses allow (the
// host looks, see Kernels.h), computes in f32 and rounds once. Names: <kernel>_<type>_<pack>_<index
// bits>; `pack` elements that follow each other are one unit.
//
//===----------------------------------------------------------------------===//

#include "KernelArguments.h"

#include "tandem/Program/stream_program_generated.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using namespace tandem::gpu;
using tandem::sp::ExprOp;

namespace {

template <typename T, int N> struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

template <typename T> struct Arithmetic {
  using Type = float;
};
template <> struct Arithmetic<int> {
  using Type = int;
};

__device__ float widen(float x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ int widen(int x) { return x; }
__device__ void narrow(float x, float &to) { to = x; }
__device__ void narrow(float x, __half &to) { to = __float2half_rn(x); }
__device__ void narrow(float x, __nv_bfloat16 &to) { to = __float2bfloat16_rn(x); }
__device__ void narrow(int x, int &to) { to = x; }

// Sum, max and min, numbered as ReduceOp. A NaN on either side stays; i32 sums wrap.
__device__ float combine(int op, float a, float b) {
  if (op == 0)
    return a + b;
  if (op == 1)
    return a > b || a != a ? a : b;
  return a < b || a != a ? a : b;
}
__device__ int combine(int op, int a, int b) {
  if (op == 0)
    return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  return op == 1 ? max(a, b) : min(a, b);
}
__device__ float identity(int op, float) {
  return op == 0 ? 0.0f : __int_as_float(op == 1 ? 0xff800000 : 0x7f800000);
}
__device__ int identity(int op, int) {
  return op == 0 ? 0 : op == 1 ? static_cast<int>(0x80000000u) : 0x7fffffff;
}

/// Where unit `i` lies in each of K operands.
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
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
template <typename Index> __device__ Index unitStep() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

template <typename T, typename Index>
__device__ void copyUnits(const Nest &nest, T *dst, const T *src) {
  // A 32-bit index must not wrap on its way past the end.
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

/// One thread per unit that is kept; it walks what is reduced.
template <typename T, int N, typename Index>
__device__ void reduceApart(const Nest &kept, const Nest &reduced, T *dst, const T *src, int op) {
  using P = Pack<T, N>;
  using A = typename Arithmetic<T>::Type;
  Index total = kept.total, step = unitStep<Index>(), terms = reduced.total;
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[2];
    locate(kept, i, at);
    A sum[N];
#pragma unroll
    for (int e = 0; e < N; ++e)
      sum[e] = identity(op, A());
    auto take = [&](int64_t term) {
      P x = *reinterpret_cast<const P *>(src + at[1] + term);
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum[e] = combine(op, sum[e], widen(x.v[e]));
    };
    if (reduced.outer == 0) { // the slots of one buffer: nearly always
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

/// One block per element that is kept; its threads share what is reduced, in packs.
template <typename T, int N, typename Index>
__device__ void reduceTogether(const Nest &kept, const Nest &reduced, T *dst, const T *src,
                               int op) {
  using P = Pack<T, N>;
  using A = typename Arithmetic<T>::Type;
  __shared__ A warps[32];
  Index total = kept.total, terms = reduced.total;
  for (Index i = blockIdx.x; i < total;) {
    int64_t at[2];
    locate(kept, i, at);
    A sum = identity(op, A());
    for (Index r = threadIdx.x; r < terms; r += blockDim.x) {
      int64_t term[1];
      locate(reduced, r, term);
      P x = *reinterpret_cast<const P *>(src + at[1] + term[0]);
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum = combine(op, sum, widen(x.v[e]));
      if (terms - r <= blockDim.x)
        break;
    }
    for (int d = 16; d > 0; d /= 2)
      sum = combine(op, sum, __shfl_down_sync(~0u, sum, d));
    if (threadIdx.x % 32 == 0)
      warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned w = 1; w < blockDim.x / 32; ++w)
        sum = combine(op, sum, warps[w]);
      narrow(sum, dst[at[0]]);
    }
    __syncthreads();
    if (total - i <= gridDim.x)
      break;
    i += gridDim.x;
  }
}

/// A register of an expression.
union Value {
  float f;
  int i;
  unsigned u;
};

__device__ float loadElement(int dtype, const void *data, int64_t at) {
  switch (dtype) {
  case 0:
    return static_cast<const float *>(data)[at];
  case 1:
    return widen(static_cast<const __half *>(data)[at]);
  case 2:
    return widen(static_cast<const __nv_bfloat16 *>(data)[at]);
  default:
    return static_cast<float>(static_cast<const int *>(data)[at]);
  }
}

__device__ void storeElement(int dtype, void *data, int64_t at, float x) {
  switch (dtype) {
  case 0:
    return narrow(x, static_cast<float *>(data)[at]);
  case 1:
    return narrow(x, static_cast<__half *>(data)[at]);
  case 2:
    return narrow(x, static_cast<__nv_bfloat16 *>(data)[at]);
  default: // to nearest, saturating, NaN to 0
    static_cast<int *>(data)[at] = __float2int_rn(x);
  }
}

/// Instructions whose result is f32 from f32 operands.
__device__ float evaluateFloat(ExprOp op, float a, float b, float c) {
  switch (op) {
  case ExprOp::add:
    return __fadd_rn(a, b);
  case ExprOp::sub:
    return __fsub_rn(a, b);
  case ExprOp::mul:
    return __fmul_rn(a, b);
  case ExprOp::div:
    return a / b;
  case ExprOp::max:
    return combine(1, a, b);
  case ExprOp::min:
    return combine(2, a, b);
  case ExprOp::pow:
    return powf(a, b);
  case ExprOp::neg:
    return -a;
  case ExprOp::abs:
    return fabsf(a);
  case ExprOp::exp:
    return expf(a);
  case ExprOp::exp2:
    return exp2f(a);
  case ExprOp::log:
    return logf(a);
  case ExprOp::sqrt:
    return sqrtf(a);
  case ExprOp::rsqrt:
    return 1.0f / sqrtf(a);
  case ExprOp::tanh:
    return tanhf(a);
  case ExprOp::erf:
    return erff(a);
  case ExprOp::sin:
    return sinf(a);
  case ExprOp::cos:
    return cosf(a);
  case ExprOp::floor:
    return floorf(a);
  case ExprOp::ceil:
    return ceilf(a);
  case ExprOp::cmp_lt:
    return a < b ? 1.0f : 0.0f;
  case ExprOp::cmp_le:
    return a <= b ? 1.0f : 0.0f;
  case ExprOp::cmp_eq:
    return a == b ? 1.0f : 0.0f;
  case ExprOp::select:
    return a != 0.0f ? b : c;
  case ExprOp::fma:
    return __fmaf_rn(a, b, c);
  case ExprOp::round_f16:
    return __half2float(__float2half_rn(a));
  case ExprOp::round_bf16:
    return __bfloat162float(__float2bfloat16_rn(a));
  default:
    return 0.0f;
  }
}

__device__ Value evaluate(const ExpressionStep &step, Value a, Value b, Value c) {
  Value x;
  auto op = static_cast<ExprOp>(step.op);
  switch (op) {
  case ExprOp::constant:
    x.f = step.imm;
    return x;
  case ExprOp::constant_i32:
    x.i = step.a;
    return x;
  case ExprOp::add_i32:
    x.u = a.u + b.u;
    return x;
  case ExprOp::sub_i32:
    x.u = a.u - b.u;
    return x;
  case ExprOp::mul_i32:
    x.u = a.u * b.u;
    return x;
  case ExprOp::max_i32:
    x.i = max(a.i, b.i);
    return x;
  case ExprOp::min_i32:
    x.i = min(a.i, b.i);
    return x;
  case ExprOp::and_i32:
    x.u = a.u & b.u;
    return x;
  case ExprOp::or_i32:
    x.u = a.u | b.u;
    return x;
  case ExprOp::xor_i32:
    x.u = a.u ^ b.u;
    return x;
  case ExprOp::shl_i32:
    x.u = a.u << (b.u & 31);
    return x;
  case ExprOp::shr_i32:
    x.i = a.i >> (b.u & 31);
    return x;
  case ExprOp::cmp_lt_i32:
    x.f = a.i < b.i ? 1.0f : 0.0f;
    return x;
  case ExprOp::cmp_le_i32:
    x.f = a.i <= b.i ? 1.0f : 0.0f;
    return x;
  case ExprOp::cmp_eq_i32:
    x.f = a.i == b.i ? 1.0f : 0.0f;
    return x;
  case ExprOp::select_i32:
    x.i = a.f != 0.0f ? b.i : c.i;
    return x;
  case ExprOp::from_i32:
    x.f = static_cast<float>(a.i);
    return x;
  case ExprOp::to_i32: // towards zero, saturating; NaN is 0
    x.i = __float2int_rz(a.f);
    return x;
  default:
    x.f = evaluateFloat(op, a.f, b.f, c.f);
    return x;
  }
}

} // namespace

#define COPY(bits, T)                                                                              \
  extern "C" __global__ void copy_##bits##_32(const __grid_constant__ Nest nest, T *dst,           \
                                              const T *src) {                                      \
    copyUnits<T, uint32_t>(nest, dst, src);                                                        \
  }                                                                                                \
  extern "C" __global__ void copy_##bits##_64(const __grid_constant__ Nest nest, T *dst,           \
                                              const T *src) {                                      \
    copyUnits<T, uint64_t>(nest, dst, src);                                                        \
  }
COPY(16, uint16_t)
COPY(32, uint32_t)
COPY(64, uint2)
COPY(128, uint4)

#define ARITHMETIC(name, T, N, bits)                                                               \
  extern "C" __global__ void combine_##name##_##N##_##bits(                                        \
      const __grid_constant__ Nest nest, T *dst, const T *a, const T *b, int op) {                 \
    combineUnits<T, N, uint##bits##_t>(nest, dst, a, b, op);                                       \
  }                                                                                                \
  extern "C" __global__ void reduce_apart_##name##_##N##_##bits(                                   \
      const __grid_constant__ Nest kept, const __grid_constant__ Nest reduced, T *dst,             \
      const T *src, int op) {                                                                      \
    reduceApart<T, N, uint##bits##_t>(kept, reduced, dst, src, op);                                \
  }                                                                                                \
  extern "C" __global__ void reduce_together_##name##_##N##_##bits(                                \
      const __grid_constant__ Nest kept, const __grid_constant__ Nest reduced, T *dst,             \
      const T *src, int op) {                                                                      \
    reduceTogether<T, N, uint##bits##_t>(kept, reduced, dst, src, op);                             \
  }
#define ARITHMETIC_OF(name, T, N)                                                                  \
  ARITHMETIC(name, T, 1, 32)                                                                       \
  ARITHMETIC(name, T, 1, 64)                                                                       \
  ARITHMETIC(name, T, N, 32)                                                                       \
  ARITHMETIC(name, T, N, 64)
ARITHMETIC_OF(f32, float, 4)
ARITHMETIC_OF(f16, __half, 8)
ARITHMETIC_OF(bf16, __nv_bfloat16, 8)
ARITHMETIC_OF(i32, int, 4)

/// `count` elements, `stride` apart, as f32.
#define WIDEN(name, T)                                                                             \
  extern "C" __global__ void widen_##name(uint64_t count, int64_t stride, float *dst,              \
                                          const T *src) {                                          \
    for (auto i = firstUnit<uint64_t>(); i < count; i += unitStep<uint64_t>())                     \
      dst[i] = widen(src[static_cast<int64_t>(i) * stride]);                                       \
  }
WIDEN(f16, __half)
WIDEN(bf16, __nv_bfloat16)

/// Raises a signal to *epoch * perRun + value (epoch 0 if there is none), after all that this GPU
/// has done before. Not once the rank has let go of its waits (*released): what came before may
/// then never have happened.
extern "C" __global__ void signal_raise(unsigned long long *slot, const unsigned long long *epoch,
                                        unsigned long long perRun, unsigned long long value,
                                        const volatile unsigned long long *released) {
  if (*released)
    return;
  unsigned long long target = (epoch ? *epoch : 0) * perRun + value;
  __threadfence_system();
  atomicMax_system(slot, target);
}

/// Waits until a signal is there, and says meanwhile in which command, at `progress` of the host.
/// Also until the rank lets go of its waits, once no signal is copied any more: a peer that writes
/// its signals may write the slot that said so.
extern "C" __global__ void signal_wait(const volatile unsigned long long *slot,
                                       const unsigned long long *epoch, unsigned long long perRun,
                                       unsigned long long value,
                                       volatile unsigned long long *progress,
                                       unsigned long long command,
                                       const volatile unsigned long long *letGo) {
  unsigned long long target = (epoch ? *epoch : 0) * perRun + value;
  if (*slot < target) {
    *progress = command;
    while (*slot < target && !*letGo)
      __nanosleep(100);
    *progress = ~0ull;
  }
  __threadfence_system();
}

/// The root of a graph: counts the run, and writes what signals that are copies of a word will be.
/// An abort sets *released and then clears the words, so that whichever comes last clears them.
extern "C" __global__ void run_words(const __grid_constant__ RunWords run) {
  uint64_t number = *run.epoch + 1;
  __syncthreads();
  if (threadIdx.x == 0)
    *run.epoch = number;
  if (threadIdx.x >= run.count)
    return;
  const SignalWord &word = run.words[threadIdx.x];
  volatile uint64_t *at = word.at;
  *at = number * word.perRun + word.value;
  __threadfence_system();
  if (*run.released)
    *at = 0;
}

/// An elementwise expression, interpreted. Loads of one element come before its stores: an output
/// may be the same memory as an input.
extern "C" __global__ void expression(const Expression *expression, uint64_t total,
                                      const __grid_constant__ ExpressionPointers pointers) {
  Value registers[kExpressionRegisters];
  uint64_t inner = expression->inner;
  int outer = expression->outer, steps = expression->steps;
  const ExpressionOperand *operands = expression->operands;
  const ExpressionStep *code = expression->code;
  for (auto i = firstUnit<uint64_t>(); i < total; i += unitStep<uint64_t>()) {
    uint64_t row = outer ? i / inner : 0, column = i - row * inner;
    auto place = [&](int k) {
      int64_t at = static_cast<int64_t>(column) * operands[k].innerStride;
      uint64_t rest = row;
#pragma unroll 1
      for (int d = outer - 1; d >= 0; --d) {
        uint64_t extent = expression->extents[d], next = rest / extent;
        at += static_cast<int64_t>(rest - next * extent) * operands[k].strides[d];
        rest = next;
      }
      return at;
    };
    for (int s = 0; s < steps; ++s) {
      ExpressionStep step = code[s];
      switch (static_cast<ExprOp>(step.op)) {
      case ExprOp::load:
        registers[step.result].f =
            loadElement(operands[step.a].dtype, pointers.data[step.a], place(step.a));
        break;
      case ExprOp::store:
        storeElement(operands[step.b].dtype, pointers.data[step.b], place(step.b),
                     registers[step.a].f);
        break;
      case ExprOp::load_i32:
        registers[step.result].i = static_cast<const int *>(pointers.data[step.a])[place(step.a)];
        break;
      case ExprOp::store_i32:
        static_cast<int *>(pointers.data[step.b])[place(step.b)] = registers[step.a].i;
        break;
      default:
        registers[step.result] =
            evaluate(step, registers[step.a], registers[step.b], registers[step.c]);
      }
    }
  }
}
