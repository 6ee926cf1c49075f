//===- Cublas.cpp - matmul by cuBLASLt ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// cuBLASLt uses column-major matrices. A row-major out[m, n] is a column-major n x m matrix, so we
// ask for out^T = b^T a^T: its A is our b, its B is our a, and its bias (one value per row) is our
// bias of n values.

#include "CudaApi.h"

#include "../../../Core/SharedLibrary.h"
#include "../Driver.h"

#include <algorithm>
#include <cstdlib>
#include <cublasLt.h>
#include <fmt/format.h>
#include <iterator>
#include <vector>

namespace tandem::gpu {

namespace {

#define TANDEM_CUBLASLT_FUNCTIONS(X)                                                               \
  X(cublasLtCreate)                                                                                \
  X(cublasLtDestroy)                                                                               \
  X(cublasLtGetVersion)                                                                            \
  X(cublasLtGetStatusString)                                                                       \
  X(cublasLtMatmul)                                                                                \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                \
  X(cublasLtMatmulDescCreate)                                                                      \
  X(cublasLtMatmulDescDestroy)                                                                     \
  X(cublasLtMatmulDescSetAttribute)                                                                \
  X(cublasLtMatrixLayoutCreate)                                                                    \
  X(cublasLtMatrixLayoutDestroy)                                                                   \
  X(cublasLtMatrixLayoutSetAttribute)                                                              \
  X(cublasLtMatmulPreferenceCreate)                                                                \
  X(cublasLtMatmulPreferenceDestroy)                                                               \
  X(cublasLtMatmulPreferenceSetAttribute)

struct Api {
#define X(name) decltype(&::name) name = nullptr;
  TANDEM_CUBLASLT_FUNCTIONS(X)
#undef X

  Status status(cublasStatus_t result, const char *what) const {
    if (result == CUBLAS_STATUS_SUCCESS)
      return Status();
    Code code = result == CUBLAS_STATUS_NOT_SUPPORTED ? Code::Unsupported : Code::Io;
    return Status(code, fmt::format("{}: {}", what, cublasLtGetStatusString(result)));
  }
};

Expected<Api> load() {
  TANDEM_ASSIGN_OR_RETURN(SharedLibrary library,
                          SharedLibrary::open("TANDEM_CUBLASLT_LIBRARY",
                                              {"libcublasLt.so.13", "libcublasLt.so.12"},
                                              "device cuda: cuBLASLt, for matmul,"));
  Api api;
  TANDEM_CUBLASLT_FUNCTIONS(TANDEM_FIND_FUNCTION)
  return api;
}

Expected<const Api *> getApi() {
  static const Expected<Api> api = load();
  if (!api)
    return api.status();
  return &*api;
}

cudaDataType_t dataType(DType type) {
  return type == DType::F16 ? CUDA_R_16F : type == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

bool wantsTf32() {
  const char *given = std::getenv("TANDEM_TF32");
  return given && *given == '1';
}

class CublasPlan final : public ProductPlan {
public:
  CublasPlan(const Api &api, Driver &driver, cublasLtHandle_t handle, const Product &product)
      : api(api), driver(driver), handle(handle), product(product) {}
  ~CublasPlan() override {
    for (cublasLtMatrixLayout_t layout : {a, b, out})
      if (layout)
        api.cublasLtMatrixLayoutDestroy(layout);
    if (desc)
      api.cublasLtMatmulDescDestroy(desc);
  }

  Status make(unsigned maxCandidates) {
    const Product &p = product;
    // Plain f32 unless tf32 was requested: tf32 keeps 10 mantissa bits.
    cublasComputeType_t compute =
        wantsTf32() && p.dtype == DType::F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    TANDEM_RETURN_IF_ERROR(api.status(api.cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F),
                                      "cublasLtMatmulDescCreate"));
    TANDEM_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_TRANSA, p.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N));
    TANDEM_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_TRANSB, p.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (p.bias) {
      TANDEM_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      TANDEM_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, dataType(p.outType)));
    }
    TANDEM_RETURN_IF_ERROR(
        layout(&a, p.dtype, p.transposeB ? p.k : p.n, p.transposeB ? p.n : p.k, p.ldb, p.strideB));
    TANDEM_RETURN_IF_ERROR(
        layout(&b, p.dtype, p.transposeA ? p.m : p.k, p.transposeA ? p.k : p.m, p.lda, p.strideA));
    TANDEM_RETURN_IF_ERROR(layout(&out, p.outType, p.n, p.m, p.ldo, p.strideOut));
    return search(maxCandidates);
  }

  unsigned candidates() const override { return static_cast<unsigned>(found.size()); }
  void select(unsigned candidate) override { chosen = candidate; }
  unsigned add(const ProductPlan &other) override {
    // All plans are of this library.
    const cublasLtMatmulHeuristicResult_t &added =
        static_cast<const CublasPlan &>(other).found.front();
    auto isSame = [&](const cublasLtMatmulHeuristicResult_t &known) {
      return std::equal(std::begin(known.algo.data), std::end(known.algo.data),
                        std::begin(added.algo.data));
    };
    auto same = std::find_if(found.begin(), found.end(), isSame);
    auto number = static_cast<unsigned>(same - found.begin());
    if (same == found.end())
      found.push_back(added);
    return number;
  }
  void keep(const std::vector<unsigned> &numbers) override {
    std::vector<cublasLtMatmulHeuristicResult_t> kept;
    for (unsigned number : numbers)
      kept.push_back(found[number]);
    found = std::move(kept);
    chosen = 0;
  }
  std::string algorithm(unsigned candidate) const override {
    std::string name;
    for (uint64_t word : found[candidate].algo.data)
      name += fmt::format("{}{:x}", name.empty() ? "" : ".", word);
    return name;
  }
  uint64_t workspaceBytes() const override { return found[chosen].workspaceSize; }

  Status run(StreamHandle stream, void *workspace, const void *aData, const void *bData,
             void *outData, const void *bias) override {
    if (product.bias) // the library rejects a bias pointer without the bias epilogue
      TANDEM_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    float one = 1, beta = product.accumulate ? 1 : 0;
    const cublasLtMatmulHeuristicResult_t &how = found[chosen];
    return driver.within([&] {
      return api.status(api.cublasLtMatmul(handle, desc, &one, bData, a, aData, b, &beta, outData,
                                           out, outData, out, &how.algo, workspace,
                                           how.workspaceSize, static_cast<CUstream>(stream)),
                        "cublasLtMatmul");
    });
  }

private:
  template <typename T> Status set(cublasLtMatmulDescAttributes_t what, const T &value) {
    return api.status(api.cublasLtMatmulDescSetAttribute(
                          desc, what, static_cast<const void *>(&value), sizeof value),
                      "cublasLtMatmulDescSetAttribute");
  }

  Status layout(cublasLtMatrixLayout_t *made, DType type, int64_t rows, int64_t columns, int64_t ld,
                int64_t stride) {
    TANDEM_RETURN_IF_ERROR(
        api.status(api.cublasLtMatrixLayoutCreate(made, dataType(type), static_cast<uint64_t>(rows),
                                                  static_cast<uint64_t>(columns), ld),
                   "cublasLtMatrixLayoutCreate"));
    if (product.batch == 1)
      return Status();
    auto count = static_cast<int32_t>(product.batch);
    TANDEM_RETURN_IF_ERROR(
        api.status(api.cublasLtMatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                        &count, sizeof count),
                   "cublasLtMatrixLayoutSetAttribute"));
    return api.status(
        api.cublasLtMatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &stride, sizeof stride),
        "cublasLtMatrixLayoutSetAttribute");
  }

  Status search(unsigned maxCandidates) {
    cublasLtMatmulPreference_t preference = nullptr;
    TANDEM_RETURN_IF_ERROR(api.status(api.cublasLtMatmulPreferenceCreate(&preference),
                                      "cublasLtMatmulPreferenceCreate"));
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      api.cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    for (cublasLtMatmulPreferenceAttributes_t which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(which, static_cast<uint32_t>(product.alignment));
    if (product.ordered)
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE));
    found.resize(maxCandidates);
    int count = 0;
    cublasStatus_t result =
        api.cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, out, out, preference,
                                           static_cast<int>(maxCandidates), found.data(), &count);
    api.cublasLtMatmulPreferenceDestroy(preference);
    found.resize(result == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
    if (!found.empty())
      return Status();
    return Status(Code::Unsupported,
                  fmt::format("cuBLASLt has no algorithm for {} {}x{}x{} (batch {}): {}",
                              toString(product.dtype), product.m, product.n, product.k,
                              product.batch, api.cublasLtGetStatusString(result)));
  }

  const Api &api;
  Driver &driver;
  cublasLtHandle_t handle;
  Product product;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, out = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  unsigned chosen = 0;
};

class Cublas final : public Blas {
public:
  Cublas(const Api &api, Driver &driver) : api(api), driver(driver) {}
  ~Cublas() override {
    if (handle)
      driver
          .release([&api = api, handle = handle] {
            return api.status(api.cublasLtDestroy(handle), "cublasLtDestroy");
          })
          .ignore();
  }
  Status open() {
    return driver.within([&] { return api.status(api.cublasLtCreate(&handle), "cublasLtCreate"); });
  }
  std::string version() const override {
    return fmt::format("cublasLt {}{}", api.cublasLtGetVersion(), wantsTf32() ? " tf32" : "");
  }
  Expected<std::unique_ptr<ProductPlan>> plan(const Product &product,
                                              unsigned maxCandidates) override {
    auto made = std::make_unique<CublasPlan>(api, driver, handle, product);
    TANDEM_RETURN_IF_ERROR(driver.within([&] { return made->make(maxCandidates); }));
    return made;
  }

private:
  const Api &api;
  Driver &driver;
  cublasLtHandle_t handle = nullptr;
};

} // namespace

Expected<std::unique_ptr<Blas>> openCublas(Driver &driver) {
  TANDEM_ASSIGN_OR_RETURN(const Api *api, getApi());
  auto blas = std::make_unique<Cublas>(*api, driver);
  TANDEM_RETURN_IF_ERROR(blas->open());
  return blas;
}

} // namespace tandem::gpu
