//===- Hipblaslt.cpp - hipBLASLt by symbol table ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Debian has no header of hipBLASLt, so what is needed of hipblaslt.h and hipblas-common.h is
// declared here, as in ROCm 6.2 and later (hipBLASLt 0.8). Sizes and numbers are part of its ABI.
//
//===----------------------------------------------------------------------===//

#include "HipApi.h"

#include "../../../Core/SharedLibrary.h"
#include "../LtPlan.h"

namespace tandem::gpu {

namespace {

/// See LtPlan.h.
struct HipblasLt {
  // Pointers to structures that only the library looks into. Its functions are declared by void
  // pointers only, so that a sanitizer can compare them with those of the tests' stand-in.
  using Handle = void *;
  using Desc = void *;
  using Layout = void *;
  using Preference = void *;
  using Stream = hipStream_t;
  using Result = int; ///< hipblasStatus_t
  using DescAttribute = int;
  using PreferenceAttribute = int;

  struct Algorithm {
    uint8_t data[16] = {};
    size_t maxWorkspaceBytes = 0;
  };
  struct Found {
    Algorithm algo;
    size_t workspaceSize = 0;
    Result state = 0;
    float wavesCount = 1;
    int reserved[4] = {};
  };
  static_assert(sizeof(Algorithm) == 24 && sizeof(Found) == 56, "the ABI of hipBLASLt");

  static constexpr const char *kTitle = "hipBLASLt", *kName = "hipblasLt";
  static constexpr Result kSuccess = 0, kNotSupported = 7;
  static constexpr int kComputeF32 = 2, kComputeTf32 = 6; ///< hipblasComputeType_t
  static constexpr int kTransA = 0, kTransB = 1, kEpilogue = 2, kBiasPointer = 3,
                       kBiasDataType = 4;                       ///< hipblasLtMatmulDescAttributes_t
  static constexpr int kNotTransposed = 111, kTransposed = 112; ///< hipblasOperation_t
  static constexpr int kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueReluBias = 6,
                       kEpilogueGelu = 32, kEpilogueGeluBias = 36; ///< hipblasLtEpilogue_t
  static constexpr int kBatchCount = 0, kBatchStride = 1; ///< hipblasLtMatrixLayoutAttribute_t
  static constexpr int kMaxWorkspaceBytes = 1;            ///< of the preferences
  static constexpr bool kHasOrdered = false, kHasFp8 = false;

#define TANDEM_LT_FUNCTIONS(X)                                                                     \
  X(create, hipblasLtCreate, Handle *)                                                             \
  X(destroy, hipblasLtDestroy, Handle)                                                             \
  X(getVersion, hipblasLtGetVersion, Handle, int *)                                                \
  X(matmul, hipblasLtMatmul, Handle, Desc, const void *, const void *, Layout, const void *,       \
    Layout, const void *, const void *, Layout, void *, Layout, const void *, void *, size_t,      \
    void *)                                                                                        \
  X(getHeuristic, hipblasLtMatmulAlgoGetHeuristic, Handle, Desc, Layout, Layout, Layout, Layout,   \
    Preference, int, void *, int *)                                                                \
  X(descCreate, hipblasLtMatmulDescCreate, Desc *, int, int)                                       \
  X(descDestroy, hipblasLtMatmulDescDestroy, Desc)                                                 \
  X(descSetAttribute, hipblasLtMatmulDescSetAttribute, Desc, int, const void *, size_t)            \
  X(layoutCreate, hipblasLtMatrixLayoutCreate, Layout *, int, uint64_t, uint64_t, int64_t)         \
  X(layoutDestroy, hipblasLtMatrixLayoutDestroy, Layout)                                           \
  X(layoutSetAttribute, hipblasLtMatrixLayoutSetAttribute, Layout, int, const void *, size_t)      \
  X(preferenceCreate, hipblasLtMatmulPreferenceCreate, Preference *)                               \
  X(preferenceDestroy, hipblasLtMatmulPreferenceDestroy, Preference)                               \
  X(preferenceSetAttribute, hipblasLtMatmulPreferenceSetAttribute, Preference, int, const void *,  \
    size_t)
#define X(member, name, ...) Result (*member)(__VA_ARGS__) = nullptr;
  TANDEM_LT_FUNCTIONS(X)
#undef X

  int version(Handle handle) const {
    int number = 0;
    return getVersion(handle, &number) == kSuccess ? number : 0;
  }
  Status status(Result result, const char *what) const {
    if (result == kSuccess)
      return Status();
    return Status(result == kNotSupported ? Code::Unsupported : Code::Io,
                  fmt::format("hipblasLt{}: {}", what,
                              result == kNotSupported ? "not supported"
                                                      : fmt::format("hipblasStatus_t {}", result)));
  }
  /// A hipDataType.
  static int dataType(DType type) { return type == DType::F16 ? 2 : type == DType::BF16 ? 14 : 0; }
  static std::string name(const Algorithm &algorithm) {
    std::string name;
    for (uint8_t byte : algorithm.data)
      name += fmt::format("{:02x}", byte);
    return name;
  }
  template <typename Set> static void prefer(const Product &, Set &&set) {
    set(kMaxWorkspaceBytes, kWorkspaceBytes);
  }

  static Expected<HipblasLt> load() {
    TANDEM_ASSIGN_OR_RETURN(SharedLibrary library,
                            SharedLibrary::open("TANDEM_HIPBLASLT_LIBRARY",
                                                {"libhipblaslt.so.1", "libhipblaslt.so.0"},
                                                "device hip: hipBLASLt, for matmul,"));
    HipblasLt api;
#define X(member, name, ...)                                                                       \
  TANDEM_RETURN_IF_ERROR(library.find(api.member, TANDEM_SYMBOL_NAME(name)));
    TANDEM_LT_FUNCTIONS(X)
#undef X
    return api;
  }
};

} // namespace

Expected<std::unique_ptr<Blas>> openHipblaslt(Driver &driver) {
  return LtBlas<HipblasLt>::make(driver, HipblasLt::load);
}

} // namespace tandem::gpu
