//===- LtPlan.h - matmul by cuBLASLt or hipBLASLt ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// hipBLASLt's interface is that of cuBLASLt with other names and numbers, so one class asks both.
// `Lt` is the library: a table of its functions under common names (`api.matmul(...)`), with its
// types and numbers. Cuda/Cublas.cpp and Hip/Hipblaslt.cpp define one each.
//
// The libraries use column-major matrices. A row-major out[m, n] is a column-major n x m matrix, so
// we ask for out^T = b^T a^T: its A is our b, its B is our a, and its bias (one value per row) is
// our bias of n values.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_LTPLAN_H
#define TANDEM_LIB_DEVICE_GPU_LTPLAN_H

#include "Driver.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

namespace tandem::gpu {

inline bool wantsTf32() {
  const char *given = std::getenv("TANDEM_TF32");
  return given && *given == '1';
}

/// The algorithms of one product.
template <typename Lt> class LtPlan final : public ProductPlan {
public:
  LtPlan(const Lt &api, Driver &driver, typename Lt::Handle handle, const Product &product)
      : api(api), driver(driver), handle(handle), product(product) {}
  ~LtPlan() override {
    for (typename Lt::Layout layout : {a, b, out, term})
      if (layout)
        static_cast<void>(api.layoutDestroy(layout));
    if (desc)
      static_cast<void>(api.descDestroy(desc));
  }

  Status make(unsigned maxCandidates) {
    const Product &p = product;
    if (p.ordered && !Lt::kHasOrdered)
      return Status(Code::Unsupported,
                    fmt::format("{} cannot be told not to split sums, as a deterministic program "
                                "needs it",
                                Lt::kTitle));
    // Plain f32 unless tf32 was requested: tf32 keeps 10 mantissa bits.
    auto compute = wantsTf32() && p.dtype == DType::F32 ? Lt::kComputeTf32 : Lt::kComputeF32;
    TANDEM_RETURN_IF_ERROR(
        api.status(api.descCreate(&desc, compute, Lt::dataType(DType::F32)), "MatmulDescCreate"));
    TANDEM_RETURN_IF_ERROR(set(Lt::kTransA, p.transposeB ? Lt::kTransposed : Lt::kNotTransposed));
    TANDEM_RETURN_IF_ERROR(set(Lt::kTransB, p.transposeA ? Lt::kTransposed : Lt::kNotTransposed));
    if (p.bias || p.activation != program::Activation::None)
      TANDEM_RETURN_IF_ERROR(set(Lt::kEpilogue, epilogueOf(p)));
    if (p.bias)
      TANDEM_RETURN_IF_ERROR(set(Lt::kBiasDataType, Lt::dataType(p.outType)));
    TANDEM_RETURN_IF_ERROR(describeScales());
    TANDEM_RETURN_IF_ERROR(
        layout(&a, p.bType, p.transposeB ? p.k : p.n, p.transposeB ? p.n : p.k, p.ldb, p.strideB));
    TANDEM_RETURN_IF_ERROR(
        layout(&b, p.dtype, p.transposeA ? p.m : p.k, p.transposeA ? p.k : p.m, p.lda, p.strideA));
    TANDEM_RETURN_IF_ERROR(layout(&out, p.outType, p.n, p.m, p.ldo, p.strideOut));
    if (p.adds)
      TANDEM_RETURN_IF_ERROR(layout(&term, p.outType, p.n, p.m, p.ldTerm, 0));
    return search(maxCandidates);
  }

  unsigned candidates() const override { return static_cast<unsigned>(found.size()); }
  void select(unsigned candidate) override { chosen = candidate; }
  unsigned add(const ProductPlan &other) override {
    // All plans are of this library.
    const typename Lt::Found &added = static_cast<const LtPlan &>(other).found.front();
    auto same = std::find_if(found.begin(), found.end(), [&](const typename Lt::Found &known) {
      return Lt::name(known.algo) == Lt::name(added.algo);
    });
    auto number = static_cast<unsigned>(same - found.begin());
    if (same == found.end())
      found.push_back(added);
    return number;
  }
  void keep(const std::vector<unsigned> &numbers) override {
    std::vector<typename Lt::Found> kept;
    for (unsigned number : numbers)
      kept.push_back(found[number]);
    found = std::move(kept);
    chosen = 0;
  }
  std::string algorithm(unsigned candidate) const override {
    return Lt::name(found[candidate].algo);
  }
  uint64_t workspaceBytes() const override { return found[chosen].workspaceSize; }
  void setScales(const void *row, const void *column) override {
    product.rowScale = row;
    product.columnScale = column;
  }

  Status run(StreamHandle stream, void *workspace, const void *aData, const void *bData,
             void *outData, const void *added, const void *residual) override {
    if (product.bias) // the library rejects a bias pointer without the bias epilogue
      TANDEM_RETURN_IF_ERROR(set(Lt::kBiasPointer, added));
    TANDEM_RETURN_IF_ERROR(setScalePointers());
    float alpha = product.alpha, beta = product.accumulate || product.adds ? 1 : product.beta;
    const void *old = product.adds ? added : residual ? residual : outData;
    const typename Lt::Found &how = found[chosen];
    return driver.within([&] {
      return api.status(api.matmul(handle, desc, &alpha, bData, a, aData, b, &beta, old,
                                   oldLayout(), outData, out, &how.algo, workspace,
                                   how.workspaceSize, static_cast<typename Lt::Stream>(stream)),
                        "Matmul");
    });
  }

private:
  static auto epilogueOf(const Product &p) {
    switch (p.activation) {
    case program::Activation::Relu:
      return p.bias ? Lt::kEpilogueReluBias : Lt::kEpilogueRelu;
    case program::Activation::Gelu:
      return p.bias ? Lt::kEpilogueGeluBias : Lt::kEpilogueGelu;
    case program::Activation::None:
    case program::Activation::Silu: // it has none
      break;
    }
    return Lt::kEpilogueBias;
  }

  /// A is our b.
  Status setScalePointers() {
    if constexpr (Lt::kHasFp8) {
      if (product.columnScale)
        TANDEM_RETURN_IF_ERROR(set(Lt::kScaleA, product.columnScale));
      if (product.rowScale)
        TANDEM_RETURN_IF_ERROR(set(Lt::kScaleB, product.rowScale));
    }
    return Status();
  }
  Status describeScales() {
    if constexpr (Lt::kHasFp8) {
      if (product.scaleVectors)
        for (auto what : {Lt::kScaleModeA, Lt::kScaleModeB})
          if (Status status = set(what, Lt::kOuterVector); !status.ok())
            return Status(Code::Unsupported, fmt::format("{} has no scales of rows and columns: {}",
                                                         Lt::kTitle, status.message()));
    }
    return setScalePointers();
  }

  template <typename T> Status set(typename Lt::DescAttribute what, const T &value) {
    return api.status(
        api.descSetAttribute(desc, what, static_cast<const void *>(&value), sizeof value),
        "MatmulDescSetAttribute");
  }

  Status layout(typename Lt::Layout *made, DType type, int64_t rows, int64_t columns, int64_t ld,
                int64_t stride) {
    TANDEM_RETURN_IF_ERROR(
        api.status(api.layoutCreate(made, Lt::dataType(type), static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(columns), ld),
                   "MatrixLayoutCreate"));
    if (product.batch == 1)
      return Status();
    auto count = static_cast<int32_t>(product.batch);
    TANDEM_RETURN_IF_ERROR(
        api.status(api.layoutSetAttribute(*made, Lt::kBatchCount, &count, sizeof count),
                   "MatrixLayoutSetAttribute"));
    return api.status(api.layoutSetAttribute(*made, Lt::kBatchStride, &stride, sizeof stride),
                      "MatrixLayoutSetAttribute");
  }

  /// Of what beta scales.
  typename Lt::Layout oldLayout() const { return product.adds ? term : out; }

  Status search(unsigned maxCandidates) {
    typename Lt::Preference preference = nullptr;
    TANDEM_RETURN_IF_ERROR(api.status(api.preferenceCreate(&preference), "MatmulPreferenceCreate"));
    Lt::prefer(product, [&](typename Lt::PreferenceAttribute what, auto value) {
      static_cast<void>(api.preferenceSetAttribute(preference, what, &value, sizeof value));
    });
    found.resize(maxCandidates);
    int count = 0;
    auto result = api.getHeuristic(handle, desc, a, b, oldLayout(), out, preference,
                                   static_cast<int>(maxCandidates), found.data(), &count);
    static_cast<void>(api.preferenceDestroy(preference));
    Status status = api.status(result, "MatmulAlgoGetHeuristic");
    found.resize(status.ok() ? static_cast<size_t>(count) : 0);
    if (!found.empty())
      return Status();
    return Status(Code::Unsupported,
                  fmt::format("{} has no algorithm for {} {}x{}x{} (batch {}){}{}", Lt::kTitle,
                              toString(product.dtype), product.m, product.n, product.k,
                              product.batch, status.ok() ? "" : ": ", status.message()));
  }

  const Lt &api;
  Driver &driver;
  typename Lt::Handle handle;
  Product product;
  typename Lt::Desc desc = nullptr;
  typename Lt::Layout a = nullptr, b = nullptr, out = nullptr, term = nullptr;
  std::vector<typename Lt::Found> found;
  unsigned chosen = 0;
};

template <typename Lt> class LtBlas final : public Blas {
public:
  /// `api`: static lifetime.
  LtBlas(const Lt &api, Driver &driver) : api(api), driver(driver) {}
  ~LtBlas() override {
    if (handle)
      driver
          .release(
              [&api = api, handle = handle] { return api.status(api.destroy(handle), "Destroy"); })
          .ignore();
  }
  Status open() {
    return driver.within([&] { return api.status(api.create(&handle), "Create"); });
  }
  std::string version() const override {
    return fmt::format("{} {}{}", Lt::kName, api.version(handle), wantsTf32() ? " tf32" : "");
  }
  bool hasFp8() const override { return Lt::kHasFp8; }
  Expected<std::unique_ptr<ProductPlan>> plan(const Product &product,
                                              unsigned maxCandidates) override {
    auto made = std::make_unique<LtPlan<Lt>>(api, driver, handle, product);
    TANDEM_RETURN_IF_ERROR(driver.within([&] { return made->make(maxCandidates); }));
    return made;
  }

  /// Vendor::openBlas for a library that `load` opens.
  template <typename Load>
  static Expected<std::unique_ptr<Blas>> make(Driver &driver, Load &&load) {
    static const Expected<Lt> api = load();
    if (!api)
      return api.status();
    auto blas = std::make_unique<LtBlas>(*api, driver);
    TANDEM_RETURN_IF_ERROR(blas->open());
    return blas;
  }

private:
  const Lt &api;
  Driver &driver;
  typename Lt::Handle handle = nullptr;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_LTPLAN_H
