//===- Matmul.cpp - matmul by the vendor's library ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatmulOperands.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::gpu {

namespace {

class MatmulOperation final : public GpuOperation {
public:
  explicit MatmulOperation(Tools tools) : tools(std::move(tools)) {}

  /// Unsupported if the library does not compute all of the epilogue.
  Status prepare(const MatmulDesc &desc, const EpilogueDesc &epilogue) {
    product.activation = epilogue.activation;
    product.alpha = epilogue.alpha;
    residual = epilogue.residual;
    rowScale = epilogue.rowScale;
    columnScale = epilogue.columnScale;
    product.beta = residual.present() ? epilogue.beta : 0;
    if (isFp8(desc.a.layout.dtype)) // a launch costs less than converted factors
      return prepareFp8(desc);
    if (rowScale.present() || columnScale.present())
      return Status(Code::Unsupported, "scales of factors that do not have 8 bits");
    return prepareAs(desc, desc.a.layout.dtype);
  }

  Status prepare(const MatmulDesc &desc) {
    if (!isFp8(desc.a.layout.dtype))
      return prepareAs(desc, desc.a.layout.dtype);
    if (!desc.ordered) {
      Status status = prepareFp8(desc);
      if (status.code() != Code::Unsupported)
        return status;
    }
    // Both types are exact in f16 and in bf16. The library has no bf16 products with f16 results.
    return prepareAs(desc, desc.out.layout.dtype == DType::F16 ? DType::F16 : DType::BF16);
  }

private:
  /// The library's own products of 8 bits: it reads both factors along K. Unsupported if it has
  /// none for these shapes.
  Status prepareFp8(const MatmulDesc &desc) {
    TANDEM_ASSIGN_OR_RETURN(Blas * blas, tools->matrixLibrary());
    if (!blas->hasFp8())
      return Status(Code::Unsupported, "the library has no products of 8 bits");
    Matrix left = matrixOf(desc.a.layout, desc.transposeA),
           result = matrixOf(desc.out.layout, false);
    int64_t outBytes = result.columns * static_cast<int64_t>(sizeOf(desc.out.layout.dtype));
    if (left.columns % kRowBytes != 0 || outBytes % kRowBytes != 0)
      return Status(Code::Unsupported, "rows are no multiples of 16 bytes");
    accumulate = desc.accumulate;
    auto alongK = [&](const Operand &operand, bool transpose, bool isRight) {
      Reading reading = readingOf(operand.layout, transpose, 1);
      bool copy = reading.stride == 0 || reading.transpose != isRight ||
                  !isAligned(operand, reading.stride);
      return StagedOperand::make(tools, operand, copy, 1, true, false, operand.layout.dtype,
                                 transpose != isRight);
    };
    TANDEM_ASSIGN_OR_RETURN(a, alongK(desc.a, desc.transposeA, false));
    TANDEM_ASSIGN_OR_RETURN(b, alongK(desc.b, desc.transposeB, true));
    bool copy = needsCopy(desc.out, true, 1, false) ||
                !isAligned(desc.out, readingOf(desc.out.layout, false, 1).stride);
    TANDEM_ASSIGN_OR_RETURN(out, StagedOperand::make(tools, desc.out, copy, 1, accumulate, true));
    product.m = result.rows;
    product.n = result.columns;
    if (residual.present() &&
        (out.copied || !isAligned(residual, readingOf(desc.out.layout, false, 1).stride)))
      return Status(Code::Unsupported,
                    "a residual or a result that is not at multiples of 16 bytes");
    TANDEM_RETURN_IF_ERROR(prepareBias(desc));
    describe(desc);
    TANDEM_RETURN_IF_ERROR(prepareScales());
    Status status = makePlans();
    if (!status.ok()) { // start again
      a = StagedOperand();
      b = StagedOperand();
      out = StagedOperand();
      bias = BiasRow();
      term = BiasMatrix();
      product = Product();
      dims.clear();
      plans.clear();
    }
    return status;
  }

  /// cuBLASLt multiplies by one number for each factor, or by one per row and one per column.
  Status prepareScales() {
    if (!rowScale.present() && !columnScale.present())
      return Status();
    auto step = [](const Operand &operand, unsigned fromLast) -> int64_t {
      const Layout &layout = operand.layout;
      unsigned d = layout.rank - fromLast;
      return operand.present() && layout.shape[d] > 1 ? layout.strides[d] : 0;
    };
    int64_t rowStep = step(rowScale, 2), columnStep = step(columnScale, 1);
    product.scaleVectors = rowStep != 0 || columnStep != 0;
    if (product.scaleVectors) {
      if (rowStep != 1 || columnStep != 1)
        return Status(Code::Unsupported,
                      "scales that are neither one number each nor dense vectors of both");
      if (rowScale.alignment % kRowBytes != 0 || columnScale.alignment % kRowBytes != 0)
        return Status(Code::Unsupported, "scales that are not at multiples of 16 bytes");
      if (!dims.empty())
        return Status(Code::Unsupported, "scales of rows and columns of a batch");
    }
    auto bytes = static_cast<uint64_t>(std::max(product.m, product.n)) * sizeof(float);
    TANDEM_ASSIGN_OR_RETURN(Scratch made, Scratch::make(tools->state, bytes));
    anyScales = std::make_shared<Scratch>(std::move(made));
    TANDEM_RETURN_IF_ERROR(tools->driver().fill(anyScales->data(), 0x3f, bytes)); // about 0.75
    product.rowScale = rowScale.present() ? anyScales->data() : nullptr;
    product.columnScale = columnScale.present() ? anyScales->data() : nullptr;
    return Status();
  }

  /// Whether the matrices, with `stride` elements from row to row, are at multiples of 16
  /// bytes.
  static bool isAligned(const Operand &operand, int64_t stride) {
    const Layout &layout = operand.layout;
    int64_t strides = stride;
    for (unsigned d = 0; d + 2 < layout.rank; ++d)
      strides |= layout.shape[d] > 1 ? layout.strides[d] : 0;
    return operand.alignment % kRowBytes == 0 &&
           strides * static_cast<int64_t>(sizeOf(layout.dtype)) % kRowBytes == 0;
  }

  /// `type`: of the factors when they are multiplied.
  Status prepareAs(const MatmulDesc &desc, DType type) {
    accumulate = desc.accumulate;
    product.ordered = desc.ordered;
    unit = desc.ordered ? kRowBytes / sizeOf(type) : 1;
    Matrix result = matrixOf(desc.out.layout, false);
    bool readsByColumns = readingOf(desc.a.layout, desc.transposeA, unit).transpose;
    bool padsRows = readsByColumns && result.rows % unit != 0;
    bool padsColumns = result.columns % unit != 0;
    product.m = padsRows ? paddedCount(result.rows, unit) : result.rows;
    product.n = paddedCount(result.columns, unit);
    auto stage = [&](const Operand &operand, bool load, bool isResult, bool pads) {
      bool copy = needsCopy(operand, isResult, unit, pads);
      if (!isResult && operand.layout.dtype != type) // by rows or by columns, as it is
        return StagedOperand::make(tools, operand, true, unit, true, false, type,
                                   isByColumns(operand.layout));
      return StagedOperand::make(tools, operand, copy, unit, load, isResult);
    };
    TANDEM_ASSIGN_OR_RETURN(a, stage(desc.a, true, false, padsRows));
    TANDEM_ASSIGN_OR_RETURN(b, stage(desc.b, true, false, padsColumns));
    TANDEM_ASSIGN_OR_RETURN(out, stage(desc.out, accumulate, true, padsRows || padsColumns));
    TANDEM_RETURN_IF_ERROR(prepareBias(desc));
    if (residual.present() && out.copied)
      return Status(Code::Unsupported, "a residual beside a result that is copied");
    describe(desc);
    return makePlans();
  }

  Status prepareBias(const MatmulDesc &desc) {
    if (desc.hasRowBias())
      return bias.prepare(tools, desc.bias, desc.out.layout.dtype, product.n);
    if (!desc.hasWholeBias())
      return Status();
    return term.prepare(tools, desc.bias, out, desc.ordered, isFp8(a.layout.dtype));
  }

public:
  /// What multiply() looks at, if it has no plan for other addresses.
  void alignments(const std::function<void(uint32_t, uint32_t)> &note) const override {
    bool takesAny = std::any_of(plans.begin(), plans.end(),
                                [](const auto &plan) { return plan.first < kRowBytes; });
    if (plans.empty() || takesAny)
      return;
    for (const StagedOperand *staged : {&a, &b, &out})
      if (!staged->copied)
        note(staged->slot, kRowBytes);
    if (product.adds)
      note(term.place(), kRowBytes);
    note(residual.slot, kRowBytes);
    if (product.scaleVectors)
      for (const Operand *scale : {&rowScale, &columnScale})
        note(scale->slot, kRowBytes);
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    const Kernels &kernels = *tools->kernels;
    for (StagedOperand *staged : {&a, &b, &out})
      if (staged->copied && (staged != &out || accumulate))
        TANDEM_RETURN_IF_ERROR(staged->enter(kernels, stream.native(), frame));
    std::byte *bases[3] = {a.data(frame), b.data(frame), out.data(frame)};
    if (bias.present())
      TANDEM_RETURN_IF_ERROR(bias.load(*tools, stream, frame));
    const void *added = bias.present() ? bias.data() : nullptr;
    if (term.present() && term.isInPlace())
      added = term.data(frame);
    else if (term.present())
      TANDEM_RETURN_IF_ERROR(term.load(kernels, stream.native(), frame, bases[2]));
    if (residual.present())
      residualBase = static_cast<const std::byte *>(frame.pointers[residual.slot]);
    resultBase = bases[2];
    scales[0] = rowScale.present() ? frame.pointers[rowScale.slot] : nullptr;
    scales[1] = columnScale.present() ? frame.pointers[columnScale.slot] : nullptr;
    TANDEM_RETURN_IF_ERROR(multiply(stream, bases, 0, added));
    if (!out.copied)
      return Status();
    return out.out.run(kernels, stream.native(), frame.pointers[out.slot], out.memory.data());
  }

private:
  void describe(const MatmulDesc &desc) {
    const Layout &o = out.layout;
    dims = batchDims(o, a.layout, b.layout);
    product.dtype = a.layout.dtype;
    product.bType = b.layout.dtype;
    product.k = matrixOf(a.layout, desc.transposeA).columns;
    Reading ra = readingOf(a.layout, desc.transposeA, unit);
    Reading rb = readingOf(b.layout, desc.transposeB, unit);
    product.lda = ra.stride;
    product.transposeA = ra.transpose;
    product.ldb = rb.stride;
    product.transposeB = rb.transpose;
    product.ldo = readingOf(o, false, unit).stride;
    product.adds = term.present() && term.isInPlace();
    product.ldTerm = product.adds ? term.rowStride() : 0;
    product.accumulate = accumulate || (term.present() && !product.adds);
    product.bias = bias.present();
    product.outType = o.dtype;
    element = sizeOf(a.layout.dtype);
    outElement = sizeOf(o.dtype);
  }

  Status makePlans() {
    TANDEM_ASSIGN_OR_RETURN(Blas * blas, tools->matrixLibrary());
    if (!dims.empty()) {
      const BatchDim &inner = dims.back();
      product.batch = inner.extent;
      product.strideA = inner.strides[0];
      product.strideB = inner.strides[1];
      product.strideOut = inner.strides[2];
      auto whole = addPlans(*blas);
      if (whole.ok()) {
        dims.pop_back();
        return Status();
      }
      product.batch = 1; // then run them one after the other
      plans.clear();
    }
    return addPlans(*blas);
  }

  /// One plan per possible alignment of the addresses, best first.
  Status addPlans(Blas &blas) {
    int64_t steps = 0; // bytes
    auto step = [&](int64_t a, int64_t b, int64_t out) {
      steps |= (a | b) * static_cast<int64_t>(element) | out * static_cast<int64_t>(outElement);
    };
    for (const BatchDim &dim : dims)
      step(dim.strides[0], dim.strides[1], dim.strides[2]);
    step(product.strideA, product.strideB, product.strideOut);
    std::vector<unsigned> alignments{16};
    if (!isFp8(product.dtype))
      alignments.push_back(element);
    for (unsigned alignment : alignments) {
      if (alignment > element && steps % alignment != 0)
        continue;
      Product wanted = product;
      wanted.alignment = alignment;
      // Few of the library's suggestions add in another order; they are found among the first.
      TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<ProductPlan> plan,
                              blas.plan(wanted, wanted.ordered ? 16 : 8));
      Candidate candidate{keyOf(wanted), plan, {}, anyScales};
      candidate.bytes[0] = a.bytes;
      candidate.bytes[1] = b.bytes;
      candidate.bytes[2] = out.bytes;
      int64_t added = product.adds ? product.ldTerm * product.m : product.n;
      candidate.bytes[3] = static_cast<uint64_t>(added) * outElement;
      if (wanted.ordered) {
        Status kept = keepOrdered(*tools, blas, wanted, candidate);
        // Addresses that are not aligned are rare: a run that has them says so.
        if (kept.code() == Code::Unsupported && !plans.empty())
          break;
        TANDEM_RETURN_IF_ERROR(kept);
      }
      TANDEM_RETURN_IF_ERROR(warmUp(*tools, candidate));
      std::lock_guard<std::mutex> lock(tools->mutex);
      // Only the first plan is timed: other alignments are rare and keep the library's choice.
      if (auto known = tools->choices.find(candidate.key); known != tools->choices.end())
        selectAlgorithm(*plan, known->second, *tools->log);
      else if (plans.empty())
        tools->candidates.push_back(std::move(candidate));
      plans.push_back({alignment, std::move(plan)});
    }
    if (plans.empty())
      return Status(Code::Unsupported, "this product needs operands at multiples of 16 bytes");
    return Status();
  }

  static std::string keyOf(const Product &p) {
    std::string_view bType = p.bType == p.dtype ? "" : toString(p.bType);
    std::string_view activation = p.activation == program::Activation::Relu   ? " relu"
                                  : p.activation == program::Activation::Gelu ? " gelu"
                                                                              : "";
    std::string_view scaling = p.scaleVectors                ? " scales"
                               : p.rowScale && p.columnScale ? " ss"
                               : p.rowScale || p.columnScale ? " s"
                                                             : "";
    return fmt::format(
        "{}{}{} {} {}x{}x{} ld {},{},{} {}{}{}{}{}{}{}{}{} batch {} {},{},{} align {}",
        toString(p.dtype), bType.empty() ? "" : " ", bType, toString(p.outType), p.m, p.n, p.k,
        p.lda, p.ldb, p.ldo, p.transposeA ? "t" : "n", p.transposeB ? "t" : "n",
        p.accumulate ? "+" : "", p.bias ? "b" : "", p.adds ? fmt::format("+{}", p.ldTerm) : "",
        p.ordered ? "o" : "", p.beta != 0 ? "r" : "", scaling, activation, p.batch, p.strideA,
        p.strideB, p.strideOut, p.alignment);
  }

  /// The residual of the result at this address: they have one layout. Null: there is none.
  const std::byte *beside(const std::byte *result) const {
    return residual.present() ? residualBase + (result - resultBase) : nullptr;
  }

  Status multiply(GpuStream &stream, std::byte *const (&at)[3], size_t d, const void *added) {
    if (d == dims.size()) {
      uintptr_t bits = product.adds ? reinterpret_cast<uintptr_t>(added) : 0;
      for (std::byte *address : at)
        bits |= reinterpret_cast<uintptr_t>(address);
      const std::byte *rest = beside(at[2]);
      bits |= reinterpret_cast<uintptr_t>(rest);
      for (const auto &[alignment, plan] : plans)
        if (bits % alignment == 0 || alignment == element)
          return tools->driver().library(
              stream.native(), {at[0], at[1], at[2], added, rest, scales[0], scales[1]},
              [&, &plan = plan]() -> Status {
                TANDEM_ASSIGN_OR_RETURN(void *workspace, stream.workspace());
                if (product.rowScale || product.columnScale)
                  plan->setScales(scales[0], scales[1]);
                return plan->run(stream.native(), workspace, at[0], at[1], at[2], added, rest);
              });
      return Status(Code::Unsupported,
                    fmt::format("{} product needs operands at multiples of 16 bytes "
                                "on this GPU",
                                product.ordered ? "an ordered" : "this"));
    }
    for (int64_t i = 0; i < dims[d].extent; ++i) {
      std::byte *next[3];
      for (int k = 0; k < 3; ++k)
        next[k] =
            at[k] + i * dims[d].strides[k] * static_cast<int64_t>(k == 2 ? outElement : element);
      TANDEM_RETURN_IF_ERROR(multiply(stream, next, d + 1, added));
    }
    return Status();
  }

  Tools tools; ///< first: outlives the plans
  StagedOperand a, b, out;
  BiasRow bias;
  BiasMatrix term;
  Operand residual;
  const std::byte *residualBase = nullptr, *resultBase = nullptr; ///< in this run
  Operand rowScale, columnScale;
  const void *scales[2] = {};         ///< in this run
  std::shared_ptr<Scratch> anyScales; ///< while algorithms are timed, which may outlive this
  bool accumulate = false;
  unsigned element = 4, outElement = 4;
  int64_t unit = 1; ///< see paddedCount()
  Product product;
  std::vector<BatchDim> dims; ///< dimensions looped over here
  std::vector<std::pair<unsigned, std::shared_ptr<ProductPlan>>> plans;
};

/// For k = 0: out (+)= bias, or zero.
Expected<std::unique_ptr<Operation>> prepareEmptyProduct(const Tools &tools,
                                                         const MatmulDesc &desc) {
  const Layout &out = desc.out.layout;
  if (desc.hasWholeBias()) {
    TANDEM_ASSIGN_OR_RETURN(CopyPlan plan, CopyPlan::make(*tools->kernels, out, desc.bias.layout));
    return runPlan(tools, std::move(plan), desc.out, desc.bias);
  }
  BiasRow bias;
  if (desc.bias.present())
    TANDEM_RETURN_IF_ERROR(bias.prepare(tools, desc.bias, out.dtype, desc.bias.layout.shape[0]));
  TANDEM_ASSIGN_OR_RETURN(Scratch zero, Scratch::make(tools->state, 64));
  TANDEM_RETURN_IF_ERROR(tools->driver().fill(zero.data(), 0, 64));
  // The bias repeats in every dimension but the last.
  Layout term = out;
  for (unsigned d = 0; d < term.rank; ++d)
    term.strides[d] = desc.bias.present() && d + 1 == term.rank ? 1 : 0;
  CopyPlan copy;
  CombinePlan add;
  if (desc.accumulate) {
    TANDEM_ASSIGN_OR_RETURN(add, CombinePlan::make(*tools->kernels, out, out, term, ReduceOp::Sum));
  } else {
    TANDEM_ASSIGN_OR_RETURN(copy, CopyPlan::make(*tools->kernels, out, term));
  }
  return makeGpuOperation(
      [tools = tools, bias = std::move(bias), zero = std::move(zero), copy = std::move(copy),
       add = std::move(add), slot = desc.out.slot,
       accumulates = desc.accumulate](GpuStream &stream, const Frame &frame) mutable -> Status {
        if (bias.present())
          TANDEM_RETURN_IF_ERROR(bias.load(*tools, stream, frame));
        const void *added = bias.present() ? bias.data() : zero.data();
        void *target = frame.pointers[slot];
        return accumulates ? add.run(*tools->kernels, stream.native(), target, target, added)
                           : copy.run(*tools->kernels, stream.native(), target, added);
      });
}

} // namespace

Expected<std::unique_ptr<Operation>> prepareEpilogue(const Tools &tools, const MatmulDesc &desc,
                                                     const EpilogueDesc &epilogue) {
  const DType type = desc.a.layout.dtype, biasType = desc.bias.layout.dtype;
  const DType outType = desc.out.layout.dtype;
  if (!isFloat(type) || type == DType::F64)
    return Status(Code::Unsupported, fmt::format("no epilogues of {}", toString(type)));
  if (epilogue.activation == program::Activation::Silu)
    return Status(Code::Unsupported, "the library has no silu");
  if (desc.hasWholeBias())
    return Status(Code::Unsupported, "a bias of the result's shape");
  if (desc.bias.present() && biasType != outType &&
      (outType != DType::F32 || (biasType != DType::F16 && biasType != DType::BF16)))
    return Status(Code::Unsupported, fmt::format("a bias of {} for a result of {}",
                                                 toString(biasType), toString(outType)));
  if (desc.a.layout.shape[desc.a.layout.rank - (desc.transposeA ? 2 : 1)] == 0 ||
      desc.out.layout.numElements() == 0)
    return Status(Code::Unsupported, "an empty product");
  auto operation = std::make_unique<MatmulOperation>(tools);
  Status status = operation->prepare(desc, epilogue);
  // The library may refuse at the first run what it has promised.
  if (status.code() == Code::Io)
    return Status(Code::Unsupported, status.message());
  TANDEM_RETURN_IF_ERROR(status);
  return std::unique_ptr<Operation>(std::move(operation));
}

Expected<std::unique_ptr<Operation>> prepareMatmul(const Tools &tools, const MatmulDesc &desc) {
  if (DType type = desc.a.layout.dtype; !isFloat(type) || type == DType::F64)
    return Status(Code::Unsupported,
                  fmt::format("the gpu device has no matmul of {}", toString(type)));
  int64_t k = desc.a.layout.shape[desc.a.layout.rank - (desc.transposeA ? 2 : 1)];
  if (k == 0 || desc.out.layout.numElements() == 0)
    return prepareEmptyProduct(tools, desc);
  auto operation = std::make_unique<MatmulOperation>(tools);
  TANDEM_RETURN_IF_ERROR(operation->prepare(desc).withPrefix(fmt::format(
      "{} by {} into {}: ", desc.a.layout.str(), desc.b.layout.str(), desc.out.layout.str())));
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace tandem::gpu
