//===- MatmulOperands.cpp - how a library reads matrices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatmulOperands.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::gpu {

Matrix matrixOf(const Layout &layout, bool transpose) {
  unsigned r = layout.rank - 2u, c = layout.rank - 1u;
  if (transpose)
    std::swap(r, c);
  return {layout.shape[r], layout.shape[c], layout.strides[r], layout.strides[c]};
}

int64_t leadingStride(const Matrix &m) {
  if (m.columnStride != 1 && m.columns > 1)
    return 0;
  if (m.rows == 1)
    return std::max<int64_t>(m.columns, 1);
  return m.rowStride >= m.columns ? m.rowStride : 0;
}

Matrix transposed(const Matrix &m) { return {m.columns, m.rows, m.columnStride, m.rowStride}; }

bool isByColumns(const Layout &layout) {
  return layout.strides[layout.rank - 1] != 1 && layout.strides[layout.rank - 2] == 1;
}

int64_t paddedCount(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

Reading readingOf(const Layout &layout, bool transpose, int64_t unit) {
  Matrix m = matrixOf(layout, transpose);
  if (unit == 1)
    return leadingStride(m) != 0 ? Reading{false, leadingStride(m)}
                                 : Reading{true, leadingStride(transposed(m))};
  Matrix stored = matrixOf(layout, isByColumns(layout));
  int64_t stride = leadingStride(stored);
  return {isByColumns(layout) != transpose,
          stride != 0 && stored.rows == 1 ? paddedCount(stored.columns, unit) : stride};
}

static int64_t batchStride(const Layout &layout, unsigned outRank, unsigned d) {
  unsigned missing = outRank - layout.rank;
  return d < missing || layout.shape[d - missing] == 1 ? 0 : layout.strides[d - missing];
}

std::vector<BatchDim> batchDims(const Layout &out, const Layout &a, const Layout &b) {
  std::vector<BatchDim> dims;
  for (unsigned d = 0; d + 2 < out.rank; ++d) {
    BatchDim dim{out.shape[d],
                 {batchStride(a, out.rank, d), batchStride(b, out.rank, d), out.strides[d]}};
    if (dim.extent == 1)
      continue;
    bool merges = !dims.empty();
    for (int k = 0; k < 3; ++k)
      merges = merges && dims.back().strides[k] == dim.strides[k] * dim.extent;
    if (merges)
      dim.extent *= dims.back().extent, dims.back() = dim;
    else
      dims.push_back(dim);
  }
  return dims;
}

Layout denseLike(const Layout &layout, int64_t unit, bool byColumns, uint64_t &bytes) {
  Layout dense = Layout::dense(layout.dtype, layout.shape.data(), layout.rank);
  unsigned inner = layout.rank - 1u, outer = layout.rank - 2u;
  if (byColumns)
    std::swap(inner, outer);
  dense.strides[inner] = 1;
  dense.strides[outer] = paddedCount(layout.shape[inner], unit);
  int64_t stride = dense.strides[outer] * paddedCount(layout.shape[outer], unit);
  for (unsigned d = layout.rank - 2u; d-- > 0;) {
    dense.strides[d] = stride;
    stride *= layout.shape[d];
  }
  bytes = static_cast<uint64_t>(stride) * sizeOf(layout.dtype);
  return dense;
}

bool needsCopy(const Operand &operand, bool isResult, int64_t unit, bool pads) {
  const Layout &layout = operand.layout;
  Reading reading = readingOf(layout, false, unit);
  if (reading.stride == 0 || (isResult && reading.transpose) || pads)
    return true;
  int64_t strides = reading.stride;
  for (unsigned d = 0; d + 2 < layout.rank; ++d)
    strides |= layout.shape[d] > 1 ? layout.strides[d] : 0;
  return strides % unit != 0 || (unit > 1 && operand.alignment % kRowBytes != 0);
}

} // namespace tandem::gpu
