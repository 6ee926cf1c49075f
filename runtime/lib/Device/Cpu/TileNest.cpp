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

LoopDim take(std::vector<LoopDim> &dims, size_t i) {
  LoopDim dim = std::move(dims[i]);
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
  std::vector<LoopDim> dims = mergeLoops(layouts);
  bool transposes = false;
  if (!dims.empty()) {
    LoopDim columns = take(dims, dims.size() - 1);
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
    LoopDim rows = take(dims, along);
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
    for (const LoopDim &dim : dims)
      operandSteps[k].isInvariant &= dim.strides[k] == 0;
  }
  outer = std::move(dims);
  for (LoopDim &dim : outer)
    for (size_t k = 0; k < count; ++k)
      dim.strides[k] *= elementBytes[k];
}

} // namespace tandem::cpu
