//===- FakeCublas.cpp - matmul of the fake driver ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What device cuda asks of cuBLASLt, in f32 and by three loops: matrices are column-major.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <cublasLt.h>
#include <string>
#include <thread>

namespace {

struct Description {
  int32_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float *bias = nullptr;
};

struct Matrix {
  cudaDataType type;
  int64_t rows, columns, ld;
  int32_t batch = 1;
  int64_t stride = 0;
};

Description &of(cublasLtMatmulDesc_t desc) { return *reinterpret_cast<Description *>(desc); }
const Matrix &of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Matrix *>(layout); }

void multiply(const Description &how, const Matrix &a, const Matrix &b, const Matrix &out,
              const float *A, const float *B, float *C, float beta, bool backwards) {
  bool ta = how.transA != CUBLAS_OP_N, tb = how.transB != CUBLAS_OP_N;
  int64_t depth = ta ? a.rows : a.columns;
  for (int64_t n = 0; n < out.columns; ++n)
    for (int64_t m = 0; m < out.rows; ++m) {
      float sum = 0;
      for (int64_t i = 0; i < depth; ++i) {
        int64_t k = backwards ? depth - 1 - i : i;
        sum += (ta ? A[k + m * a.ld] : A[m + k * a.ld]) * (tb ? B[n + k * b.ld] : B[k + n * b.ld]);
      }
      if (how.epilogue == CUBLASLT_EPILOGUE_BIAS)
        sum += how.bias[m];
      float &c = C[m + n * out.ld];
      c = beta != 0 ? beta * c + sum : sum;
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
  void *field = which == CUBLASLT_MATMUL_DESC_TRANSA         ? &how.transA
                : which == CUBLASLT_MATMUL_DESC_TRANSB       ? &how.transB
                : which == CUBLASLT_MATMUL_DESC_EPILOGUE     ? &how.epilogue
                : which == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? static_cast<void *>(&how.bias)
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
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int *count) {
  if (of(a).type != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = std::min(most, 3);
  for (int i = 0; i < *count; ++i) {
    std::memset(&found[i], 0, sizeof found[i]);
    found[i].algo.data[0] = static_cast<uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *,
                              cublasLtMatrixLayout_t, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algorithm, void *, size_t,
                              cudaStream_t stream) {
  // They differ in how long they take.
  std::string name = std::to_string(algorithm->data[0]);
  ++tandem::fake::number("products." + name);
  std::chrono::microseconds more(tandem::fake::number("product-time." + name).load()),
      said(tandem::fake::number("product-cost." + name).load()),
      power(tandem::fake::number("product-power." + name).load());
  // 1: from the end of K; 2: so, but not where the result has 32 rows.
  int64_t order = tandem::fake::number("product-order." + name).load();
  bool backwards = order == 1 || (order == 2 && of(d).columns != 32);
  tandem::fake::add(stream, [=, how = of(desc), ma = of(a), mb = of(b), md = of(d),
                             scale = *static_cast<const float *>(beta)] {
    std::this_thread::sleep_for(more);
    const auto *words = static_cast<const uint16_t *>(A);
    bool equal = std::equal(words + 1, words + 4, words);
    tandem::fake::pass(stream, equal ? said : said + power);
    for (int64_t i = 0; i < md.batch; ++i)
      multiply(how, ma, mb, md, static_cast<const float *>(A) + i * ma.stride,
               static_cast<const float *>(B) + i * mb.stride,
               static_cast<float *>(D) + i * md.stride, scale, backwards);
  });
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
