//===- FakeHipblaslt.cpp - matmul of the stand-in driver, for HIP ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of hipBLASLt that device hip calls, over those of FakeCublas.cpp. Numbers and
// structures are hipBLASLt's.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <cstring>
#include <cublasLt.h>
#include <vector>

namespace {

struct Algorithm {
  uint8_t data[16];
  size_t most;
};
struct Found {
  Algorithm algo;
  size_t workspaceSize;
  int state;
  float waves;
  int reserved[4];
};

int from(cublasStatus_t result) {
  return result == CUBLAS_STATUS_SUCCESS ? 0 : result == CUBLAS_STATUS_NOT_SUPPORTED ? 7 : 6;
}

template <typename To> To as(void *handle) { return static_cast<To>(handle); }

/// hipDataType is cudaDataType for f32 (0), f16 (2) and bf16 (14).
cudaDataType typeOf(int type) { return static_cast<cudaDataType>(type); }

} // namespace

extern "C" {

int hipblasLtCreate(void **handle) {
  return from(cublasLtCreate(reinterpret_cast<cublasLtHandle_t *>(handle)));
}
int hipblasLtDestroy(void *) { return 0; }
int hipblasLtGetVersion(void *, int *version) { return *version = 1000, 0; }

int hipblasLtMatmulDescCreate(void **desc, int compute, int scale) {
  if ((compute != 2 && compute != 6) || scale != 0)
    return 3; // HIPBLAS_STATUS_INVALID_VALUE
  return from(cublasLtMatmulDescCreate(reinterpret_cast<cublasLtMatmulDesc_t *>(desc),
                                       CUBLAS_COMPUTE_32F, CUDA_R_32F));
}
int hipblasLtMatmulDescDestroy(void *desc) {
  return from(cublasLtMatmulDescDestroy(as<cublasLtMatmulDesc_t>(desc)));
}
int hipblasLtMatmulDescSetAttribute(void *desc, int which, const void *value, size_t size) {
  static constexpr cublasLtMatmulDescAttributes_t kNames[] = {
      CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_EPILOGUE,
      CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE};
  if (which < 0 || which > 4)
    return 3;
  int number = 0;
  if (which <= 2) {
    if (size != sizeof number)
      return 3;
    std::memcpy(&number, value, sizeof number);
    // Epilogues have cuBLASLt's numbers: relu, bias, both, gelu, gelu and bias.
    bool isEpilogue = number == 2 || number == 4 || number == 6 || number == 32 || number == 36;
    if (which == 2 ? !isEpilogue : number != 111 && number != 112) // none, transposed
      return 3;
    number = which == 2      ? number
             : number == 112 ? static_cast<int>(CUBLAS_OP_T)
                             : static_cast<int>(CUBLAS_OP_N);
    value = &number;
  }
  return from(
      cublasLtMatmulDescSetAttribute(as<cublasLtMatmulDesc_t>(desc), kNames[which], value, size));
}

int hipblasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                                int64_t ld) {
  return from(cublasLtMatrixLayoutCreate(reinterpret_cast<cublasLtMatrixLayout_t *>(layout),
                                         typeOf(type), rows, columns, ld));
}
int hipblasLtMatrixLayoutDestroy(void *layout) {
  return from(cublasLtMatrixLayoutDestroy(as<cublasLtMatrixLayout_t>(layout)));
}
int hipblasLtMatrixLayoutSetAttribute(void *layout, int which, const void *value, size_t size) {
  if (which != 0 && which != 1)
    return 3;
  return from(cublasLtMatrixLayoutSetAttribute(
      as<cublasLtMatrixLayout_t>(layout),
      which == 0 ? CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT : CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
      value, size));
}

int hipblasLtMatmulPreferenceCreate(void **preference) { return *preference = nullptr, 0; }
int hipblasLtMatmulPreferenceDestroy(void *) { return 0; }
int hipblasLtMatmulPreferenceSetAttribute(void *, int which, const void *, size_t size) {
  return which == 1 && size == 8 ? 0 : 3;
}

int hipblasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                    void *, int most, void *results, int *count) {
  auto *found = static_cast<Found *>(results);
  std::vector<cublasLtMatmulHeuristicResult_t> answers(static_cast<size_t>(most));
  int result = from(cublasLtMatmulAlgoGetHeuristic(
      as<cublasLtHandle_t>(handle), as<cublasLtMatmulDesc_t>(desc), as<cublasLtMatrixLayout_t>(a),
      as<cublasLtMatrixLayout_t>(b), as<cublasLtMatrixLayout_t>(c), as<cublasLtMatrixLayout_t>(d),
      nullptr, most, answers.data(), count));
  for (int i = 0; result == 0 && i < *count; ++i) {
    std::memset(&found[i], 0, sizeof found[i]);
    std::memcpy(found[i].algo.data, &answers[static_cast<size_t>(i)].algo.data[0], 8);
  }
  return result;
}
int hipblasLtMatmul(void *handle, void *desc, const void *alpha, const void *A, void *a,
                    const void *B, void *b, const void *beta, const void *C, void *c, void *D,
                    void *d, const void *algorithm, void *workspace, size_t bytes, void *stream) {
  cublasLtMatmulAlgo_t how{};
  std::memcpy(&how.data[0], static_cast<const Algorithm *>(algorithm)->data, 8);
  return from(cublasLtMatmul(as<cublasLtHandle_t>(handle), as<cublasLtMatmulDesc_t>(desc), alpha, A,
                             as<cublasLtMatrixLayout_t>(a), B, as<cublasLtMatrixLayout_t>(b), beta,
                             C, as<cublasLtMatrixLayout_t>(c), D, as<cublasLtMatrixLayout_t>(d),
                             &how, workspace, bytes, static_cast<cudaStream_t>(stream)));
}

} // extern "C"
