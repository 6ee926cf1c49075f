//===- MatmulOperands.h - how a library reads matrices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The vendor's library takes matrices whose rows, or columns, are stored one after the other. This
// says which operands of a product it can use in place, and copies the others.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_DEVICE_GPU_MATMULOPERANDS_H
#define TANDEM_RUNTIME_LIB_DEVICE_GPU_MATMULOPERANDS_H

#include "GpuDevice.h"

#include <fmt/format.h>
#include <vector>

namespace tandem::gpu {

/// A matrix as strides of its logical rows and columns.
struct Matrix {
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;
};

/// The two innermost dimensions, transposed if `transpose`.
Matrix matrixOf(const Layout &layout, bool transpose);

/// Elements between rows if the library accepts the matrix row by row, else 0.
int64_t leadingStride(const Matrix &m);
Matrix transposed(const Matrix &m);

/// Of an operand of an ordered product: whether its columns are stored one after the other. It
/// depends on strides alone, so that pieces of a matrix are multiplied by the algorithm of the
/// whole.
bool isByColumns(const Layout &layout);

/// Ordered products have rows, and numbers of rows and columns, that are multiples of `unit`
/// elements (kRowBytes): the algorithms that the library has for large products refuse others, of
/// those dimensions whose elements are stored one after the other. So they compute more columns
/// than asked for, and leave them. Usual products have a unit of 1.
int64_t paddedCount(int64_t count, int64_t unit);

/// How the library reads an operand of a product; `stride`: elements between the rows of what is
/// stored, 0 if the operand must be copied.
struct Reading {
  bool transpose = false;
  int64_t stride = 0;
};

Reading readingOf(const Layout &layout, bool transpose, int64_t unit);

/// A dimension outside the matrices, with the strides of a, b and out.
struct BatchDim {
  int64_t extent = 1;
  int64_t strides[3] = {};
};

/// Outermost first; drops extent 1 and merges adjacent dimensions.
std::vector<BatchDim> batchDims(const Layout &out, const Layout &a, const Layout &b);

/// Dense, for `bytes`. Of ordered products: with space for padded matrices. `byColumns`: columns
/// are stored one after the other.
Layout denseLike(const Layout &layout, int64_t unit, bool byColumns, uint64_t &bytes);

/// An operand that the library reads in place or from a dense copy.
struct StagedOperand {
  uint32_t slot = Operand::kNone;
  Layout layout;      ///< as the library sees it
  uint64_t bytes = 0; ///< that the library reads or writes
  bool copied = false, converted = false;
  CopyPlan in, out;
  ConvertPlan convert; ///< instead of `in`
  Scratch memory;

  /// Of ordered products: what is stored by columns remains so, unless it is a result.
  static Expected<StagedOperand> make(const Tools &tools, const Operand &operand, bool copy,
                                      int64_t unit, bool load, bool store) {
    bool byColumns = unit > 1 && !store && isByColumns(operand.layout);
    return make(tools, operand, copy, unit, load, store, operand.layout.dtype, byColumns);
  }
  static Expected<StagedOperand> make(const Tools &tools, const Operand &operand, bool copy,
                                      int64_t unit, bool load, bool store, DType type,
                                      bool byColumns) {
    StagedOperand staged;
    staged.slot = operand.slot;
    staged.layout = operand.layout;
    staged.bytes = staged.layout.spanBytes();
    staged.copied = copy;
    if (!copy)
      return staged;
    Layout source = operand.layout;
    source.dtype = type;
    staged.layout = denseLike(source, unit, byColumns, staged.bytes);
    TANDEM_ASSIGN_OR_RETURN(staged.memory, Scratch::make(tools->state, staged.bytes));
    if (type != operand.layout.dtype) {
      TANDEM_ASSIGN_OR_RETURN(staged.convert,
                              ConvertPlan::make(*tools->kernels, staged.layout, operand.layout));
      staged.converted = true;
      return staged;
    }
    if (load) {
      TANDEM_ASSIGN_OR_RETURN(staged.in,
                              CopyPlan::make(*tools->kernels, staged.layout, operand.layout));
    }
    if (store) {
      TANDEM_ASSIGN_OR_RETURN(staged.out,
                              CopyPlan::make(*tools->kernels, operand.layout, staged.layout));
    }
    return staged;
  }
  Status enter(const Kernels &kernels, StreamHandle stream, const Frame &frame) const {
    const void *from = frame.pointers[slot];
    return converted ? convert.run(kernels, stream, memory.data(), from)
                     : in.run(kernels, stream, memory.data(), from);
  }
  std::byte *data(const Frame &frame) const {
    return static_cast<std::byte *>(copied ? memory.data() : frame.pointers[slot]);
  }
};

/// The added row, copied to dense memory in the type of the result: the library reads it in packs,
/// and a slice of a buffer may begin at any element.
class BiasRow {
public:
  /// `columns`: of the product, at least as many as the row has.
  Status prepare(const Tools &tools, const Operand &operand, DType type, int64_t columns) {
    slot = operand.slot;
    count = static_cast<uint64_t>(operand.layout.shape[0]);
    stride = operand.layout.strides[0];
    Layout dense = Layout::dense(type, {operand.layout.shape[0]});
    TANDEM_ASSIGN_OR_RETURN(
        memory, Scratch::make(tools->state, static_cast<uint64_t>(columns) * sizeOf(type)));
    if (operand.layout.dtype == type) {
      TANDEM_ASSIGN_OR_RETURN(copy, CopyPlan::make(*tools->kernels, dense, operand.layout));
      return Status();
    }
    TANDEM_ASSIGN_OR_RETURN(
        widen, tools->kernels->get(fmt::format("widen_{}", toString(operand.layout.dtype))));
    return Status();
  }
  Status load(const Toolbox &tools, GpuStream &stream, const Frame &frame) {
    void *to = memory.data(), *from = frame.pointers[slot];
    if (!widen)
      return copy.run(*tools.kernels, stream.native(), to, from);
    void *arguments[] = {argument(count), argument(stride), argument(to), argument(from)};
    return tools.kernels->launch(widen, count, stream.native(), arguments);
  }
  bool present() const { return memory.data() != nullptr; }
  const void *data() const { return memory.data(); }

private:
  uint32_t slot = Operand::kNone;
  uint64_t count = 0;
  int64_t stride = 1;
  Scratch memory;
  CopyPlan copy;
  FunctionHandle widen = nullptr;
};

/// A bias of the result's shape. The library reads it in place. Where it cannot, the bias is copied
/// into the result first, and the product is added to that.
class BiasMatrix {
public:
  /// `out`: where the library writes.
  /// `aligned`: the library reads rows at multiples of kRowBytes only.
  Status prepare(const Tools &tools, const Operand &operand, const StagedOperand &out, bool ordered,
                 bool aligned) {
    slot = operand.slot;
    const Layout &layout = operand.layout;
    int64_t matrices = 1;
    for (unsigned d = 0; d + 2 < layout.rank; ++d)
      matrices *= layout.shape[d];
    stride = leadingStride(matrixOf(layout, false));
    uint64_t places = static_cast<uint64_t>(stride) * sizeOf(layout.dtype) | operand.alignment;
    inPlace = matrices == 1 && stride != 0 && !out.copied && !ordered &&
              (!aligned || places % kRowBytes == 0);
    if (inPlace)
      return Status();
    TANDEM_ASSIGN_OR_RETURN(copy, CopyPlan::make(*tools->kernels, out.layout, layout));
    return Status();
  }
  bool present() const { return slot != Operand::kNone; }
  /// Whether the library reads it; else load() comes before the product.
  bool isInPlace() const { return inPlace; }
  int64_t rowStride() const { return stride; }
  uint32_t place() const { return slot; } ///< of its address in a frame
  Status load(const Kernels &kernels, StreamHandle stream, const Frame &frame, void *out) {
    return copy.run(kernels, stream, out, frame.pointers[slot]);
  }
  void *data(const Frame &frame) const { return frame.pointers[slot]; }

private:
  uint32_t slot = Operand::kNone;
  int64_t stride = 0;
  bool inPlace = false;
  CopyPlan copy;
};

/// Whether the library cannot read (or, if `isResult`, write) an operand in place. Matrices and
/// rows of ordered products begin at multiples of kRowBytes. `pads`: this one is padded.
bool needsCopy(const Operand &operand, bool isResult, int64_t unit, bool pads);

} // namespace tandem::gpu

#endif // TANDEM_RUNTIME_LIB_DEVICE_GPU_MATMULOPERANDS_H
