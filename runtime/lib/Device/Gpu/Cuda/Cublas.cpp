//===- Cublas.cpp - cuBLASLt by symbol table ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaApi.h"

#include "../../../Core/SharedLibrary.h"
#include "../LtPlan.h"

#include <cublasLt.h>

namespace tandem::gpu {

namespace {

/// See LtPlan.h.
struct CublasLt {
  using Handle = cublasLtHandle_t;
  using Desc = cublasLtMatmulDesc_t;
  using Layout = cublasLtMatrixLayout_t;
  using Preference = cublasLtMatmulPreference_t;
  using Found = cublasLtMatmulHeuristicResult_t;
  using DescAttribute = cublasLtMatmulDescAttributes_t;
  using PreferenceAttribute = cublasLtMatmulPreferenceAttributes_t;
  using Stream = CUstream;

  static constexpr const char *kTitle = "cuBLASLt", *kName = "cublasLt";
  static constexpr auto kComputeF32 = CUBLAS_COMPUTE_32F,
                        kComputeTf32 = CUBLAS_COMPUTE_32F_FAST_TF32;
  static constexpr auto kTransA = CUBLASLT_MATMUL_DESC_TRANSA,
                        kTransB = CUBLASLT_MATMUL_DESC_TRANSB,
                        kEpilogue = CUBLASLT_MATMUL_DESC_EPILOGUE,
                        kBiasPointer = CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                        kBiasDataType = CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
  static constexpr auto kScaleA = CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                        kScaleB = CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                        kScaleModeA = CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
                        kScaleModeB = CUBLASLT_MATMUL_DESC_B_SCALE_MODE;
  /// CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, since CUDA 12.9.
  static constexpr int32_t kOuterVector = 3;
  static constexpr auto kNotTransposed = CUBLAS_OP_N, kTransposed = CUBLAS_OP_T;
  static constexpr auto kEpilogueBias = CUBLASLT_EPILOGUE_BIAS,
                        kEpilogueRelu = CUBLASLT_EPILOGUE_RELU,
                        kEpilogueReluBias = CUBLASLT_EPILOGUE_RELU_BIAS,
                        kEpilogueGelu = CUBLASLT_EPILOGUE_GELU, // the form with tanh
      kEpilogueGeluBias = CUBLASLT_EPILOGUE_GELU_BIAS;
  static constexpr auto kBatchCount = CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                        kBatchStride = CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
  static constexpr bool kHasOrdered = true, kHasFp8 = true;

#define TANDEM_LT_FUNCTIONS(X)                                                                     \
  X(create, cublasLtCreate)                                                                        \
  X(destroy, cublasLtDestroy)                                                                      \
  X(getVersion, cublasLtGetVersion)                                                                \
  X(statusString, cublasLtGetStatusString)                                                         \
  X(matmul, cublasLtMatmul)                                                                        \
  X(getHeuristic, cublasLtMatmulAlgoGetHeuristic)                                                  \
  X(descCreate, cublasLtMatmulDescCreate)                                                          \
  X(descDestroy, cublasLtMatmulDescDestroy)                                                        \
  X(descSetAttribute, cublasLtMatmulDescSetAttribute)                                              \
  X(layoutCreate, cublasLtMatrixLayoutCreate)                                                      \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy)                                                    \
  X(layoutSetAttribute, cublasLtMatrixLayoutSetAttribute)                                          \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate)                                              \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy)                                            \
  X(preferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute)
#define X(member, name) decltype(&::name) member = nullptr;
  TANDEM_LT_FUNCTIONS(X)
#undef X

  size_t version(Handle) const { return getVersion(); }
  Status status(cublasStatus_t result, const char *what) const {
    if (result == CUBLAS_STATUS_SUCCESS)
      return Status();
    Code code = result == CUBLAS_STATUS_NOT_SUPPORTED ? Code::Unsupported : Code::Io;
    return Status(code, fmt::format("cublasLt{}: {}", what, statusString(result)));
  }
  static cudaDataType_t dataType(DType type) {
    switch (type) {
    case DType::F16:
      return CUDA_R_16F;
    case DType::BF16:
      return CUDA_R_16BF;
    case DType::F8E4M3FN:
      return CUDA_R_8F_E4M3;
    case DType::F8E5M2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
    }
  }
  static std::string name(const cublasLtMatmulAlgo_t &algorithm) {
    std::string name;
    for (uint64_t word : algorithm.data)
      name += fmt::format("{}{:x}", name.empty() ? "" : ".", word);
    return name;
  }
  template <typename Set> static void prefer(const Product &product, Set &&set) {
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    for (PreferenceAttribute which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(which, static_cast<uint32_t>(product.alignment));
    if (product.ordered)
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE));
  }

  static Expected<CublasLt> load() {
    TANDEM_ASSIGN_OR_RETURN(SharedLibrary library,
                            SharedLibrary::open("TANDEM_CUBLASLT_LIBRARY",
                                                {"libcublasLt.so.13", "libcublasLt.so.12"},
                                                "device cuda: cuBLASLt, for matmul,"));
    CublasLt api;
#define X(member, name) TANDEM_RETURN_IF_ERROR(library.find(api.member, TANDEM_SYMBOL_NAME(name)));
    TANDEM_LT_FUNCTIONS(X)
#undef X
    return api;
  }
};

} // namespace

Expected<std::unique_ptr<Blas>> openCublas(Driver &driver) {
  return LtBlas<CublasLt>::make(driver, CublasLt::load);
}

} // namespace tandem::gpu
