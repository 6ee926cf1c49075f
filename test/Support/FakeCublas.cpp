//===- FakeCublas.cpp - matmul of the fake driver ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What device cuda asks of cuBLASLt, by three loops, of f32 and of 8-bit floats with results of f32
// or bf16: matrices are column-major.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <cublasLt.h>
#include <string>
#include <thread>
#include <vector>

float tandem::fake::fromFp8(uint8_t bits, int exponentBits) {
  int mantissaBits = 7 - exponentBits, bias = (1 << (exponentBits - 1)) - 1;
  int exponent = (bits & 0x7f) >> mantissaBits, mantissa = bits & ((1 << mantissaBits) - 1);
  float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (exponentBits == 4 ? (bits & 0x7f) == 0x7f : exponent == 31)
    return mantissa || exponentBits == 4 ? NAN : sign * INFINITY;
  int digits = exponent ? mantissa + (1 << mantissaBits) : mantissa;
  return sign * std::ldexp(static_cast<float>(digits), std::max(exponent, 1) - bias - mantissaBits);
}

namespace {

using tandem::fake::fromFp8;

bool isFp8(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

size_t sizeOf(cudaDataType type) {
  return isFp8(type) ? 1 : type == CUDA_R_16BF || type == CUDA_R_16F ? 2 : 4;
}

/// Element `i` of memory of some type.
float get(cudaDataType type, const void *data, int64_t i) {
  const auto *bytes = static_cast<const uint8_t *>(data) + i * static_cast<int64_t>(sizeOf(type));
  if (isFp8(type))
    return fromFp8(*bytes, type == CUDA_R_8F_E4M3 ? 4 : 5);
  uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeOf(type));
  if (type == CUDA_R_16F)
    return __builtin_bit_cast(_Float16, static_cast<uint16_t>(bits));
  return __builtin_bit_cast(float, type == CUDA_R_16BF ? bits << 16 : bits);
}

void set(cudaDataType type, void *data, int64_t i, float x) {
  auto bits = __builtin_bit_cast(uint32_t, x);
  if (type == CUDA_R_16BF)
    bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  if (type == CUDA_R_16F)
    bits = __builtin_bit_cast(uint16_t, static_cast<_Float16>(x));
  std::memcpy(static_cast<uint8_t *>(data) + i * static_cast<int64_t>(sizeOf(type)), &bits,
              sizeOf(type));
}

struct Description {
  int32_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType biasType = CUDA_R_32F;
  const void *bias = nullptr;
  const float *scaleA = nullptr, *scaleB = nullptr;
  int32_t scaleModeA = 0, scaleModeB = 0;
};

struct Matrix {
  cudaDataType type;
  int64_t rows, columns, ld;
  int32_t batch = 1;
  int64_t stride = 0;
};

Description &of(cublasLtMatmulDesc_t desc) { return *reinterpret_cast<Description *>(desc); }
const Matrix &of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Matrix *>(layout); }

/// `count` rows of `depth` factors each, one behind the other.
std::vector<float> factors(const Matrix &matrix, const void *data, int64_t count, int64_t depth,
                           bool rowsAreColumns, bool backwards) {
  std::vector<float> all;
  all.reserve(static_cast<size_t>(count * depth));
  for (int64_t row = 0; row < count; ++row)
    for (int64_t i = 0; i < depth; ++i) {
      int64_t k = backwards ? depth - 1 - i : i;
      all.push_back(
          get(matrix.type, data, rowsAreColumns ? k + row * matrix.ld : row + k * matrix.ld));
    }
  return all;
}

/// In order. Copies are read: a sanitizer has nothing to find here and takes most of the time.
__attribute__((no_sanitize("thread", "address"))) float dot(const float *a, const float *b,
                                                            int64_t depth) {
  float sum = 0;
  for (int64_t k = 0; k < depth; ++k)
    sum += a[k] * b[k];
  return sum;
}

bool hasBias(const Description &how) {
  return how.epilogue == CUBLASLT_EPILOGUE_BIAS || how.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
         how.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
}

float activate(const Description &how, float x) {
  if (how.epilogue == CUBLASLT_EPILOGUE_RELU || how.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
    return std::max(x, 0.0f);
  if (how.epilogue == CUBLASLT_EPILOGUE_GELU || how.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  return x;
}

struct Scales {
  float alpha, beta;
};

constexpr int32_t kOuterVector = 3;

float scaleOf(const float *scales, int32_t mode, int64_t i) {
  return !scales ? 1 : scales[mode == kOuterVector ? i : 0];
}

void multiply(const Description &how, const Matrix &a, const Matrix &b, const Matrix &out,
              const Matrix &old, const void *A, const void *B, const void *C, void *D,
              Scales scales, bool backwards) {
  bool ta = how.transA != CUBLAS_OP_N, tb = how.transB != CUBLAS_OP_N;
  int64_t depth = ta ? a.rows : a.columns;
  std::vector<float> rows = factors(a, A, out.rows, depth, ta, backwards),
                     columns = factors(b, B, out.columns, depth, !tb, backwards);
  for (int64_t n = 0; n < out.columns; ++n)
    for (int64_t m = 0; m < out.rows; ++m) {
      float scale = scales.alpha * scaleOf(how.scaleA, how.scaleModeA, m) *
                    scaleOf(how.scaleB, how.scaleModeB, n);
      float sum = scale * dot(rows.data() + m * depth, columns.data() + n * depth, depth);
      if (hasBias(how))
        sum += get(how.biasType, how.bias, m);
      if (scales.beta != 0)
        sum += scales.beta * get(old.type, C, m + n * old.ld);
      set(out.type, D, m + n * out.ld, activate(how, sum));
    }
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  static int any;
  return *handle = reinterpret_cast<cublasLtHandle_t>(&any), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
size_t cublasLtGetVersion(void) { return 0; }
const char *cublasLtGetStatusString(cublasStatus_t) { return "the fake library refuses"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t,
                                        cudaDataType_t) {
  return *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Description), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return delete &of(desc), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t size) {
  Description &how = of(desc);
  void *field = which == CUBLASLT_MATMUL_DESC_TRANSA            ? &how.transA
                : which == CUBLASLT_MATMUL_DESC_TRANSB          ? &how.transB
                : which == CUBLASLT_MATMUL_DESC_EPILOGUE        ? &how.epilogue
                : which == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE  ? static_cast<void *>(&how.biasType)
                : which == CUBLASLT_MATMUL_DESC_BIAS_POINTER    ? static_cast<void *>(&how.bias)
                : which == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER ? static_cast<void *>(&how.scaleA)
                : which == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER ? static_cast<void *>(&how.scaleB)
                : which == CUBLASLT_MATMUL_DESC_A_SCALE_MODE    ? &how.scaleModeA
                : which == CUBLASLT_MATMUL_DESC_B_SCALE_MODE    ? &how.scaleModeB
                                                                : nullptr;
  if (field)
    std::memcpy(field, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Matrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return delete reinterpret_cast<Matrix *>(layout), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void *value, size_t size) {
  auto *matrix = reinterpret_cast<Matrix *>(layout);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    std::memcpy(&matrix->batch, value, size);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    std::memcpy(&matrix->stride, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return *preference = nullptr, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void *, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int *count) {
  const Matrix &ma = of(a), &mb = of(b), &md = of(d);
  const Description &how = of(desc);
  if (isFp8(ma.type) || isFp8(mb.type)) {
    // As documented: both factors along K, all rows at multiples of 16 bytes, not e5m2 times e5m2;
    // the bias of an f32 result is bf16.
    bool fits =
        isFp8(ma.type) && isFp8(mb.type) && how.transA == CUBLAS_OP_T &&
        how.transB == CUBLAS_OP_N && ma.rows % 16 == 0 && ma.ld % 16 == 0 && mb.ld % 16 == 0 &&
        md.rows * int64_t(sizeOf(md.type)) % 16 == 0 &&
        md.ld * int64_t(sizeOf(md.type)) % 16 == 0 &&
        !(ma.type == CUDA_R_8F_E5M2 && mb.type == CUDA_R_8F_E5M2) &&
        !(hasBias(how) && md.type == CUDA_R_32F) &&
        // Vectors of scales: of both factors, at multiples of 16 bytes, of one matrix.
        how.scaleModeA == how.scaleModeB &&
        (how.scaleModeA != kOuterVector ||
         (how.scaleA && how.scaleB && md.batch == 1 &&
          (reinterpret_cast<uintptr_t>(how.scaleA) | reinterpret_cast<uintptr_t>(how.scaleB)) %
                  16 ==
              0));
    if (!fits || tandem::fake::number("fp8-refused") ||
        (md.batch > 1 && tandem::fake::number("fp8-batch-refused")))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    ++tandem::fake::number("fp8-plans");
  } else if (ma.type != mb.type || how.scaleA || how.scaleB ||
             (ma.type != CUDA_R_32F && !(ma.type == CUDA_R_16F && md.type == CUDA_R_16F) &&
              !(ma.type == CUDA_R_16BF && md.type != CUDA_R_16F))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (how.epilogue != CUBLASLT_EPILOGUE_DEFAULT && how.epilogue != CUBLASLT_EPILOGUE_BIAS &&
      tandem::fake::number("epilogues-refused"))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(most, 3);
  for (int i = 0; i < *count; ++i) {
    std::memset(&found[i], 0, sizeof found[i]);
    found[i].algo.data[0] = static_cast<uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algorithm, void *, size_t,
                              cudaStream_t stream) {
  // They differ in how long they take.
  std::string name = std::to_string(algorithm->data[0]);
  ++tandem::fake::number("products." + name);
  int32_t epilogue = of(desc).epilogue;
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT || C != D)
    ++tandem::fake::number("epilogues." + std::to_string(epilogue));
  std::chrono::microseconds more(tandem::fake::number("product-time." + name).load()),
      said(tandem::fake::number("product-cost." + name).load()),
      power(tandem::fake::number("product-power." + name).load());
  // 1: from the end of K; 2: so, but not where the result has 32 rows.
  int64_t order = tandem::fake::number("product-order." + name).load();
  bool backwards = order == 1 || (order == 2 && of(d).columns != 32);
  tandem::fake::add(stream, [=, how = of(desc), ma = of(a), mb = of(b), mc = of(c), md = of(d),
                             scales = Scales{*static_cast<const float *>(alpha),
                                             *static_cast<const float *>(beta)}] {
    std::this_thread::sleep_for(more);
    const auto *words = static_cast<const uint16_t *>(A);
    auto at = [](const Matrix &m, const void *data, int64_t i) -> const void * {
      return static_cast<const uint8_t *>(data) + i * m.stride * int64_t(sizeOf(m.type));
    };
    bool equal = std::equal(words + 1, words + 4, words);
    tandem::fake::pass(stream, equal ? said : said + power);
    for (int64_t i = 0; i < md.batch; ++i)
      multiply(how, ma, mb, md, mc, at(ma, A, i), at(mb, B, i), at(mc, C, i),
               const_cast<void *>(at(md, D, i)), scales, backwards);
  });
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
