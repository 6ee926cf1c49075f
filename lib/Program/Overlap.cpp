//===- Overlap.cpp - do two views touch the same bytes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramImpl.h"

#include <algorithm>

namespace tandem::program {

namespace {

struct Dim {
  int64_t extent, stride;
};

/// Dimensions larger than 1, largest stride first, with adjacent ones merged.
std::vector<Dim> normalize(const Layout &layout) {
  std::vector<Dim> dims;
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.shape[d] > 1)
      dims.push_back({layout.shape[d], layout.strides[d]});
  std::sort(dims.begin(), dims.end(),
            [](const Dim &a, const Dim &b) { return a.stride > b.stride; });
  std::vector<Dim> merged;
  for (const Dim &dim : dims) {
    if (!merged.empty() && merged.back().stride == dim.stride * dim.extent) {
      merged.back().extent *= dim.extent;
      merged.back().stride = dim.stride;
    } else {
      merged.push_back(dim);
    }
  }
  return merged;
}

struct Piece {
  uint64_t begin, end;
};

/// The same elements in the same order; ignores strides of dimensions of size 1.
bool sameElements(const Layout &a, const Layout &b) {
  if (a.dtype != b.dtype || !a.sameShape(b))
    return false;
  for (unsigned d = 0; d < a.rank; ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d])
      return false;
  return true;
}

constexpr uint64_t kMaxPieces = 1u << 14;

/// The contiguous pieces of a view, sorted; false if there are too many.
bool pieces(uint64_t base, const Layout &layout, std::vector<Piece> &out) {
  std::vector<Dim> dims = normalize(layout);
  uint64_t element = sizeOf(layout.dtype), length = element;
  if (!dims.empty() && dims.back().stride == 1) {
    length = static_cast<uint64_t>(dims.back().extent) * element;
    dims.pop_back();
  }
  uint64_t count = 1;
  for (const Dim &dim : dims) {
    count *= static_cast<uint64_t>(dim.extent);
    if (count > kMaxPieces)
      return false;
  }
  std::vector<int64_t> index(dims.size(), 0);
  for (uint64_t n = 0; n < count; ++n) {
    uint64_t at = base;
    for (size_t d = 0; d < dims.size(); ++d)
      at += static_cast<uint64_t>(index[d]) * static_cast<uint64_t>(dims[d].stride) * element;
    out.push_back({at, at + length});
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d].extent)
        break;
      index[d] = 0;
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Piece &a, const Piece &b) { return a.begin < b.begin; });
  return true;
}

} // namespace

bool isInjective(const Layout &layout) {
  if (layout.numElements() == 0)
    return true;
  std::vector<Dim> dims = normalize(layout);
  uint64_t inner = 1; // elements spanned by the inner dimensions
  for (size_t d = dims.size(); d-- > 0;) {
    if (static_cast<uint64_t>(dims[d].stride) < inner)
      return false;
    inner += static_cast<uint64_t>(dims[d].extent - 1) * static_cast<uint64_t>(dims[d].stride);
  }
  return true;
}

Overlap overlap(uint64_t a, const Layout &layoutA, uint64_t b, const Layout &layoutB) {
  uint64_t spanA = layoutA.spanBytes(), spanB = layoutB.spanBytes();
  if (spanA == 0 || spanB == 0 || a + spanA <= b || b + spanB <= a)
    return Overlap::None;
  if (a == b && sameElements(layoutA, layoutB))
    return Overlap::Same;
  std::vector<Piece> piecesA, piecesB;
  if (!pieces(a, layoutA, piecesA) || !pieces(b, layoutB, piecesB))
    return Overlap::None;
  for (size_t i = 0, j = 0; i < piecesA.size() && j < piecesB.size();) {
    if (piecesA[i].end <= piecesB[j].begin)
      ++i;
    else if (piecesB[j].end <= piecesA[i].begin)
      ++j;
    else
      return Overlap::Partial;
  }
  return Overlap::None;
}

} // namespace tandem::program
