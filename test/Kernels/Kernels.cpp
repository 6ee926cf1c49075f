//===- Kernels.cpp - kernels of an embedder, for tests ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For tandem-run --kernels: functions for CPUs and, where nvcc is installed, the PTX of Kernels.cu.
// They use the header of the C API alone.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Kernel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#ifdef TANDEM_TEST_KERNELS_PTX
// Kernels.S
extern "C" __attribute__((visibility("hidden"))) const char tandemTestKernels[],
    tandemTestKernelsEnd[];
#endif

namespace {

using Operand = tandem_kernel_operand;

constexpr int64_t kF32 = 0, kI32 = 3, kI8 = 6;

template <typename T> T *dataOf(const Operand &operand) { return static_cast<T *>(operand.data); }

int64_t count(const Operand &operand, int64_t from, int64_t to) {
  int64_t product = 1;
  for (int64_t d = from; d < to; ++d)
    product *= operand.shape[d];
  return product;
}

bool isDense(const Operand &operand) {
  int64_t stride = 1;
  for (int64_t d = operand.rank; d-- > 0; stride *= operand.shape[d])
    if (operand.shape[d] != 1 && operand.strides[d] != stride)
      return false;
  return true;
}

/// Whether there are `operands` of f32 (or of i32, where `integers` has a bit), all dense.
bool accepts(const tandem_kernel_call *call, size_t operands, unsigned integers = 0) {
  if (call->num_operands != operands)
    return false;
  for (size_t k = 0; k < operands; ++k)
    if (call->operands[k].dtype != (integers >> k & 1 ? kI32 : kF32) || !isDense(call->operands[k]))
      return false;
  return true;
}

/// y[s, h] = x[s, h] * w[h] / sqrt(mean over h of x[s, h]^2 + config).
int rmsNorm(void *, const tandem_kernel_call *call) {
  if (!accepts(call, 3))
    return 1;
  const Operand &y = call->operands[0];
  const float *x = dataOf<float>(call->operands[1]), *w = dataOf<float>(call->operands[2]);
  int64_t columns = y.shape[y.rank - 1], rows = count(y, 0, y.rank - 1);
  double epsilon = std::atof(call->config);
  for (int64_t s = 0; s < rows; ++s) {
    double sum = 0;
    for (int64_t h = 0; h < columns; ++h)
      sum += double(x[s * columns + h]) * x[s * columns + h];
    double scale = 1 / std::sqrt(sum / static_cast<double>(columns) + epsilon);
    for (int64_t h = 0; h < columns; ++h)
      dataOf<float>(y)[s * columns + h] = static_cast<float>(x[s * columns + h] * scale * w[h]);
  }
  return 0;
}

/// Scaled dot product attention. q, k, v: [batch..., tokens, features]. With config "causal", a
/// token sees itself and earlier ones; the queries' places say which they are. A second result is
/// the logarithm of the sum of each query's exponentials.
int attention(void *, const tandem_kernel_call *call) {
  if (call->num_results < 1 || call->num_results > 2 || !accepts(call, call->num_results + 3))
    return 1;
  const Operand *inputs = call->operands + call->num_results;
  const Operand &y = call->operands[0], &q = inputs[0], &k = inputs[1], &v = inputs[2];
  bool causal = call->config[0] == 'c';
  int64_t rank = y.rank, batch = count(y, 0, rank - 2), queries = q.shape[rank - 2],
          keys = k.shape[rank - 2], features = q.shape[rank - 1], wide = v.shape[rank - 1];
  std::vector<double> weights(static_cast<size_t>(keys)), sums(static_cast<size_t>(wide));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < queries; ++i) {
      const float *row = dataOf<float>(q) + (b * queries + i) * features;
      int64_t seen = causal ? std::min(keys, q.offset[rank - 2] + i + 1) : keys;
      double most = -INFINITY, total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        const float *key = dataOf<float>(k) + (b * keys + j) * features;
        double dot = 0;
        for (int64_t d = 0; d < features; ++d)
          dot += double(row[d]) * key[d];
        weights[static_cast<size_t>(j)] = dot / std::sqrt(static_cast<double>(features));
        most = std::max(most, weights[static_cast<size_t>(j)]);
      }
      std::fill(sums.begin(), sums.end(), 0);
      for (int64_t j = 0; j < seen; ++j) {
        double weight = std::exp(weights[static_cast<size_t>(j)] - most);
        total += weight;
        for (int64_t d = 0; d < wide; ++d)
          sums[static_cast<size_t>(d)] += weight * dataOf<float>(v)[(b * keys + j) * wide + d];
      }
      for (int64_t d = 0; d < wide; ++d)
        dataOf<float>(y)[(b * queries + i) * wide + d] =
            total > 0 ? static_cast<float>(sums[static_cast<size_t>(d)] / total) : 0;
      if (call->num_results == 2)
        dataOf<float>(call->operands[1])[b * queries + i] =
            static_cast<float>(most + std::log(total));
    }
  return 0;
}

uint32_t hash(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

/// Drops each element with probability config: a hash of the seed and of the element's index in the
/// whole tensor, so that the result does not depend on how it is cut. Reads any strides. A second
/// result says which elements were kept (1, else 0).
int dropout(void *, const tandem_kernel_call *call) {
  const Operand *inputs = call->operands + call->num_results;
  const Operand &y = call->operands[0], &x = inputs[0], *mask = nullptr;
  if (call->num_results == 2)
    mask = &call->operands[1];
  if (call->num_operands != call->num_results + 2 || y.dtype != kF32 || inputs[1].dtype != kI32 ||
      (mask && mask->dtype != kI8))
    return 1;
  auto seed = static_cast<uint32_t>(*dataOf<int32_t>(inputs[1]));
  double probability = std::atof(call->config);
  auto limit = static_cast<uint32_t>(probability * 4294967296.0);
  auto scale = static_cast<float>(1 / (1 - probability));
  for (int64_t i = 0, e = count(y, 0, y.rank); i < e; ++i) {
    int64_t rest = i, to = 0, from = 0, marked = 0, whole = 0, inner = 1;
    for (int64_t d = y.rank; d-- > 0; rest /= y.shape[d]) {
      int64_t index = rest % y.shape[d];
      to += index * y.strides[d];
      from += index * x.strides[d];
      marked += mask ? index * mask->strides[d] : 0;
      whole += (y.offset[d] + index) * inner;
      inner *= y.extent[d];
    }
    bool kept = hash(static_cast<uint32_t>(whole) ^ hash(seed)) >= limit;
    dataOf<float>(y)[to] = kept ? dataOf<float>(x)[from] * scale : 0;
    if (mask)
      dataOf<int8_t>(*mask)[marked] = kept;
  }
  return 0;
}

/// y[s, h] = table[ids[s], h]; ids are taken modulo the rows of the table.
int gatherRows(void *, const tandem_kernel_call *call) {
  if (!accepts(call, 3, 1u << 2))
    return 1;
  const Operand &y = call->operands[0], &table = call->operands[1];
  int64_t rows = table.shape[0], columns = table.shape[1];
  for (int64_t s = 0; s < y.shape[0]; ++s) {
    int64_t id = dataOf<int32_t>(call->operands[2])[s] % rows;
    std::copy_n(dataOf<float>(table) + (id < 0 ? id + rows : id) * columns, columns,
                dataOf<float>(y) + s * columns);
  }
  return 0;
}

/// y[s, h] = x[s, h] times the number of rows from s to the end.
int fromEnd(void *, const tandem_kernel_call *call) {
  if (!accepts(call, 2))
    return 1;
  const Operand &y = call->operands[0], &x = call->operands[1];
  for (int64_t s = 0; s < y.shape[0]; ++s)
    for (int64_t h = 0; h < y.shape[1]; ++h)
      dataOf<float>(y)[s * y.shape[1] + h] =
          dataOf<float>(x)[s * y.shape[1] + h] * static_cast<float>(y.extent[0] - y.offset[0] - s);
  return 0;
}

int fails(void *, const tandem_kernel_call *) { return 7; }

/// A point of a run, named by `config`, at which TANDEM_TEST_FAULT injects a fault: "ACTION CALL
/// NAME", at the CALL-th call (from 1). "kill" and "stop" are signals to this process, "fail" is an
/// error, "sleep:3.5" takes so many seconds. Its result is not to be read.
int faultPoint(void *, const tandem_kernel_call *call) {
  static const char *const fault = std::getenv("TANDEM_TEST_FAULT");
  static std::atomic<int> calls{0};
  char action[16] = {}, name[32] = {};
  int number = 0;
  if (!fault || std::sscanf(fault, "%15s %d %31[^\n]", action, &number, name) != 3 ||
      std::strcmp(name, call->config) != 0 || ++calls != number)
    return 0;
  if (!std::strcmp(action, "fail"))
    return 7;
  if (!std::strncmp(action, "sleep:", 6))
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(action + 6)));
  else
    std::raise(std::strcmp(action, "stop") ? SIGKILL : SIGSTOP);
  return 0;
}

/// The same when the process ends: the point "RANK exit".
struct Exit {
  ~Exit() {
    const char *rank = std::getenv("TANDEM_RANK");
    std::string name = std::string(rank ? rank : "?") + " exit";
    tandem_kernel_call call{};
    call.config = name.c_str();
    faultPoint(nullptr, &call);
  }
} atExit;

/// A function that the host calls, whatever the device.
tandem_kernel onHosts(const char *name, tandem_kernel_function function) {
  tandem_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = name;
  kernel.cpu_function = kernel.gpu_function = function;
  return kernel;
}

/// `indices`: of the parallel dimensions, that a block of the GPU's kernel computes.
tandem_kernel make(const char *name, tandem_kernel_function function, uint32_t indices = 1) {
  tandem_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = name;
  kernel.cpu_function = function;
#ifdef TANDEM_TEST_KERNELS_PTX
  kernel.image = tandemTestKernels;
  kernel.image_size = static_cast<size_t>(tandemTestKernelsEnd - tandemTestKernels);
  kernel.entry = name;
  kernel.threads = 128;
  kernel.indices_per_block = indices;
#else
  (void)indices;
#endif
  return kernel;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const tandem_kernel *
tandem_kernels(size_t *number);

extern "C" const tandem_kernel *tandem_kernels(size_t *number) {
  static const tandem_kernel kernels[] = {
      make("rms_norm", rmsNorm),
      make("attention", attention),
      make("attention_causal", attention),
      make("attention_sums", attention),
      make("dropout", dropout, 128),
      make("dropout_mask", dropout, 128),
      make("gather_rows", gatherRows, 128),
      make("fails", fails),
      make("from_end", fromEnd, 128),
      onHosts("fault_point", faultPoint),
  };
  *number = std::size(kernels);
  return kernels;
}
