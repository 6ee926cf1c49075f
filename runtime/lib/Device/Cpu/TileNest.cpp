//===- TileNest.cpp - the tiles of elementwise work ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileNest.h"

#include <algorithm>

namespace tandem::cpu {

namespace {

struct Dim {
  int64_t extent;
  std::vector<int64_t> strides; ///< elements, per operand
};

/// Largest stride of the first operand outermost; neighbours that every operand walks as one are
/// one.
std::vector<Dim> mergedDims(const std::vector<Layout> &layouts) {
  std::vector<Dim> dims;
  for (unsigned d = 0; d < layouts.front().rank; ++d) {
    if (layouts.front().shape[d] == 1)
      continue;
    Dim dim{layouts.front().shape[d], {}};
    for (const Layout &layout : layouts)
      dim.strides.push_back(layout.strides[d]);
    dims.push_back(std::move(dim));
  }
  std::sort(dims.begin(), dims.end(),
            [](const Dim &a, const Dim &b) { return a.strides[0] > b.strides[0]; });
  std::vector<Dim> merged;
  for (Dim &dim : dims) {
    bool follows = !merged.empty();
    for (size_t k = 0; follows && k < layouts.size(); ++k)
      follows = merged.back().strides[k] == dim.strides[k] * dim.extent;
    if (follows) {
      merged.back().extent *= dim.extent;
      merged.back().strides = dim.strides;
    } else {
      merged.push_back(std::move(dim));
    }
  }
  return merged;
}

Dim take(std::vector<Dim> &dims, size_t i) {
  Dim dim = std::move(dims[i]);
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(i));
  return dim;
}

} // namespace

TileNest::TileNest(const std::vector<Layout> &layouts, int64_t maxElements) {
  size_t count = layouts.size();
  operandSteps.resize(count);
  for (const Layout &layout : layouts)
    elementBytes.push_back(sizeOf(layout.dtype));
  empty = layouts.front().numElements() == 0;
  if (empty)
    return;
  std::vector<Dim> dims = mergedDims(layouts);
  bool transposes = false;
  if (!dims.empty()) {
    Dim columns = take(dims, dims.size() - 1);
    numColumns = columns.extent;
    for (size_t k = 0; k < count; ++k)
      operandSteps[k].column = columns.strides[k];
  }
  if (!dims.empty()) {
    size_t along = dims.size() - 1;
    for (size_t d = 0; d < dims.size(); ++d)
      for (size_t k = 0; k < count; ++k)
        if (dims[d].strides[k] == 1 && operandSteps[k].column > 1) {
          along = d;
          transposes = true;
        }
    Dim rows = take(dims, along);
    numRows = rows.extent;
    for (size_t k = 0; k < count; ++k)
      operandSteps[k].row = rows.strides[k];
  }
  // Square tiles read and write whole cache lines on both sides of a transposition.
  constexpr int64_t transposedColumns = 64;
  tileColumns = std::min({numColumns, maxElements, transposes ? transposedColumns : maxElements});
  if (transposes || tileColumns == numColumns)
    tileRows = std::min(numRows, std::max<int64_t>(1, maxElements / tileColumns));
  for (size_t k = 0; k < count; ++k) {
    operandSteps[k].isInvariant = operandSteps[k].row == 0;
    for (const Dim &dim : dims)
      operandSteps[k].isInvariant &= dim.strides[k] == 0;
  }
  for (Dim &dim : dims) {
    extents.push_back(dim.extent);
    strides.push_back(std::move(dim.strides));
  }
}

} // namespace tandem::cpu
