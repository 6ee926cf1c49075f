//===- Kernels.cu - the kernels of Kernels.cpp for GPUs ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simple rather than fast. The parameters are the operands by value, the results first.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Kernel.h"

using Operand = tandem_kernel_operand;

template <typename T> static __device__ T *dataOf(const Operand &operand) {
  return static_cast<T *>(operand.data);
}

static __device__ int64_t count(const Operand &operand, int64_t to) {
  int64_t product = 1;
  for (int64_t d = 0; d < to; ++d)
    product *= operand.shape[d];
  return product;
}

/// The sum of `value` over the block, which has kThreads threads, for all threads.
static constexpr int kThreads = 128;
static __device__ float sumOfBlock(float value) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  __syncthreads();
  float sum = parts[0];
  __syncthreads();
  return sum;
}

/// One block for each row; epsilon is 0.1.
extern "C" __global__ void rms_norm(Operand y, Operand x, Operand w) {
  int64_t columns = y.shape[y.rank - 1];
  const float *row = dataOf<float>(x) + blockIdx.x * columns;
  float squares = 0;
  for (int64_t h = threadIdx.x; h < columns; h += kThreads)
    squares += row[h] * row[h];
  float scale = 1 / sqrtf(sumOfBlock(squares) / static_cast<float>(columns) + 0.1f);
  for (int64_t h = threadIdx.x; h < columns; h += kThreads)
    dataOf<float>(y)[blockIdx.x * columns + h] = row[h] * scale * dataOf<float>(w)[h];
}

/// One block for each query, with an online softmax in every thread; not for speed. `sums`: null, or
/// the logarithms of the sums.
static __device__ void attend(const Operand &y, const Operand &q, const Operand &k,
                              const Operand &v, bool causal, float *sums = nullptr) {
  int64_t rank = y.rank, queries = q.shape[rank - 2], keys = k.shape[rank - 2];
  int64_t features = q.shape[rank - 1], wide = v.shape[rank - 1];
  for (int64_t at = blockIdx.x, end = count(y, rank - 1); at < end; at += gridDim.x) {
    int64_t b = at / queries, i = at % queries;
    const float *query = dataOf<float>(q) + at * features;
    int64_t seen = causal ? min(keys, q.offset[rank - 2] + i + 1) : keys;
    for (int64_t d = threadIdx.x; d < wide; d += kThreads) {
      float most = -INFINITY, total = 0, sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        const float *key = dataOf<float>(k) + (b * keys + j) * features;
        float dot = 0;
        for (int64_t f = 0; f < features; ++f)
          dot += query[f] * key[f];
        dot /= sqrtf(static_cast<float>(features));
        float next = fmaxf(most, dot), old = expf(most - next), weight = expf(dot - next);
        total = total * old + weight;
        sum = sum * old + weight * dataOf<float>(v)[(b * keys + j) * wide + d];
        most = next;
      }
      dataOf<float>(y)[at * wide + d] = total > 0 ? sum / total : 0;
      if (sums && d == 0)
        sums[at] = most + logf(total);
    }
  }
}

extern "C" __global__ void attention(Operand y, Operand q, Operand k, Operand v) {
  attend(y, q, k, v, false);
}
extern "C" __global__ void attention_causal(Operand y, Operand q, Operand k, Operand v) {
  attend(y, q, k, v, true);
}
/// One block for each head.
extern "C" __global__ void attention_sums(Operand y, Operand sums, Operand q, Operand k, Operand v) {
  attend(y, q, k, v, false, dataOf<float>(sums));
}

static __device__ uint32_t hash(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

/// One thread for each element; a quarter is dropped. `mask`: null, or dense.
static __device__ void drop(const Operand &y, const Operand &x, const Operand &seed,
                            int8_t *mask = nullptr) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count(y, y.rank))
    return;
  int64_t rest = i, to = 0, from = 0, whole = 0, inner = 1;
  for (int64_t d = y.rank; d-- > 0; rest /= y.shape[d]) {
    int64_t index = rest % y.shape[d];
    to += index * y.strides[d];
    from += index * x.strides[d];
    whole += (y.offset[d] + index) * inner;
    inner *= y.extent[d];
  }
  auto key = hash(static_cast<uint32_t>(*dataOf<int32_t>(seed)));
  bool kept = hash(static_cast<uint32_t>(whole) ^ key) >= 1u << 30;
  dataOf<float>(y)[to] = kept ? dataOf<float>(x)[from] / 0.75f : 0;
  if (mask)
    mask[i] = kept;
}
extern "C" __global__ void dropout(Operand y, Operand x, Operand seed) { drop(y, x, seed); }
extern "C" __global__ void dropout_mask(Operand y, Operand mask, Operand x, Operand seed) {
  drop(y, x, seed, dataOf<int8_t>(mask));
}

/// One thread for each element.
extern "C" __global__ void gather_rows(Operand y, Operand table, Operand ids) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, columns = y.shape[1];
  if (i >= y.shape[0] * columns)
    return;
  int64_t rows = table.shape[0], id = dataOf<int32_t>(ids)[i / columns] % rows;
  dataOf<float>(y)[i] = dataOf<float>(table)[(id < 0 ? id + rows : id) * columns + i % columns];
}

/// One thread for each row.
extern "C" __global__ void from_end(Operand y, Operand x) {
  int64_t s = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, columns = y.shape[1];
  for (int64_t h = 0; s < y.shape[0] && h < columns; ++h)
    dataOf<float>(y)[s * columns + h] =
        dataOf<float>(x)[s * columns + h] * static_cast<float>(y.extent[0] - y.offset[0] - s);
}
