//===- Kernels.cpp - the fuser's own kernels ------------------------ -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#ifdef JIT_FUSER_PTX
// Kernels.S
extern "C" const char jitFuserPtx[], jitFuserPtxEnd[];
#endif

static double dot(const float *a, const float *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// The operands are the result and q, k, v, each this call's part of the tensor.
static int causalAttention(void *, const tandem_kernel_call *call) {
  const tandem_kernel_operand *o = call->operands;
  auto *y = static_cast<float *>(o[0].data);
  const auto *q = static_cast<const float *>(o[1].data), *k = static_cast<const float *>(o[2].data),
             *v = static_cast<const float *>(o[3].data);
  int64_t heads = o[1].shape[0], queries = o[1].shape[1], depth = o[1].shape[2];
  int64_t keys = o[2].shape[1], width = o[3].shape[2];
  for (int64_t head = 0; head < heads; ++head, k += keys * depth, v += keys * width)
    for (int64_t i = 0; i < queries; ++i, q += depth, y += width) {
      // The place of the part says which token this is.
      int64_t seen = std::min(keys, o[1].offset[1] + i + 1);
      std::vector<double> weights, sums(static_cast<size_t>(width));
      for (int64_t j = 0; j < seen; ++j)
        weights.push_back(dot(q, k + j * depth, depth) / std::sqrt(static_cast<double>(depth)));
      double most = seen ? *std::max_element(weights.begin(), weights.end()) : 0, total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double weight = std::exp(weights[static_cast<size_t>(j)] - most);
        total += weight;
        for (int64_t d = 0; d < width; ++d)
          sums[static_cast<size_t>(d)] += weight * static_cast<double>(v[j * width + d]);
      }
      for (int64_t d = 0; d < width; ++d)
        y[d] = seen ? static_cast<float>(sums[static_cast<size_t>(d)] / total) : 0;
    }
  return 0;
}

// [docs: kernel]
tandem_code fuser::registerKernels(tandem_context *context) {
  tandem_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.name = kAttention;
  kernel.cpu_function = causalAttention;
#ifdef JIT_FUSER_PTX // of Kernels.cu
  kernel.image = jitFuserPtx;
  kernel.image_size = static_cast<size_t>(jitFuserPtxEnd - jitFuserPtx);
  kernel.entry = kAttention;
  kernel.threads = 128;
  kernel.indices_per_block = 1; // a block for each head and query
#endif
  return tandem_register_kernel(context, &kernel);
}
// [docs: end]

bool fuser::haveGpuKernels() {
#ifdef JIT_FUSER_PTX
  return true;
#else
  return false;
#endif
}
