//===- Kernels.cu - the fuser's own kernels, for GPUs --- -*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simple rather than fast: each thread computes some elements of a row, with a running softmax.
//
//===----------------------------------------------------------------------===//

#include <tandem-c/Kernel.h>

extern "C" __global__ void fuser_causal_attention(tandem_kernel_operand y, tandem_kernel_operand q,
                                                  tandem_kernel_operand k,
                                                  tandem_kernel_operand v) {
  int64_t queries = q.shape[1], depth = q.shape[2], keys = k.shape[1], width = v.shape[2];
  int64_t head = blockIdx.x / queries, i = blockIdx.x % queries;
  if (head >= q.shape[0])
    return;
  const float *query = static_cast<const float *>(q.data) + blockIdx.x * depth;
  const float *key = static_cast<const float *>(k.data) + head * keys * depth;
  const float *value = static_cast<const float *>(v.data) + head * keys * width;
  int64_t seen = min(keys, q.offset[1] + i + 1);
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
    float most = -INFINITY, total = 0, sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      float score = 0;
      for (int64_t f = 0; f < depth; ++f)
        score += query[f] * key[j * depth + f];
      score /= sqrtf(static_cast<float>(depth));
      float next = fmaxf(most, score), old = expf(most - next), weight = expf(score - next);
      total = total * old + weight;
      sum = sum * old + weight * value[j * width + d];
      most = next;
    }
    static_cast<float *>(y.data)[blockIdx.x * width + d] = total > 0 ? sum / total : 0;
  }
}
