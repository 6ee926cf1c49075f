//===- LoopNest.cpp - strided loops and copies ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/HostOps.h"

#include <algorithm>

namespace tandem {

LoopNest::LoopNest(const std::vector<Layout> &layouts, bool inOrder) {
  const Layout &first = layouts.front();
  innerStrides.assign(layouts.size(), 1);
  if (first.numElements() == 0)
    return;
  // By default in the order of the destination's addresses.
  std::vector<LoopDim> merged = mergeLoops(layouts, inOrder);
  inner = 1;
  rows = 1;
  if (merged.empty())
    return;
  inner = merged.back().extent;
  innerStrides = merged.back().strides;
  merged.pop_back();
  outer = std::move(merged);
  for (LoopDim &dim : outer) {
    rows *= dim.extent;
    for (size_t k = 0; k < layouts.size(); ++k)
      dim.strides[k] *= static_cast<int64_t>(sizeOf(layouts[k].dtype));
  }
}

CopyPlan::CopyPlan(const Layout &dst, const Layout &src) : element(sizeOf(dst.dtype)) {
  if (!findTranspose(dst, src))
    nest = LoopNest({dst, src});
}

bool CopyPlan::findTranspose(const Layout &dst, const Layout &src) {
  constexpr int64_t worthIt = 8;
  unsigned i = dst.rank, j = dst.rank;
  for (unsigned d = 0; d < dst.rank; ++d) {
    if (dst.shape[d] < worthIt)
      continue;
    if (dst.strides[d] == 1 && src.strides[d] > 1)
      i = d;
    if (src.strides[d] == 1 && dst.strides[d] > 1)
      j = d;
  }
  if (i == dst.rank || j == dst.rank)
    return false;
  transposes = true;
  alongDst = dst.shape[i];
  alongSrc = dst.shape[j];
  srcStep = src.strides[i];
  dstStep = dst.strides[j];
  Layout outerDst, outerSrc;
  outerDst.dtype = outerSrc.dtype = dst.dtype;
  for (unsigned d = 0; d < dst.rank; ++d) {
    if (d == i || d == j)
      continue;
    outerDst.shape[outerDst.rank] = outerSrc.shape[outerDst.rank] = dst.shape[d];
    outerSrc.strides[outerDst.rank] = src.strides[d];
    outerDst.strides[outerDst.rank++] = dst.strides[d];
  }
  outerSrc.rank = outerDst.rank;
  nest = LoopNest({outerDst, outerSrc});
  return true;
}

namespace {

template <typename T>
void copyRow(std::byte *dst, int64_t dstStride, const std::byte *src, int64_t srcStride,
             int64_t n) {
  auto *to = reinterpret_cast<T *>(dst);
  const auto *from = reinterpret_cast<const T *>(src);
  for (int64_t i = 0; i < n; ++i)
    to[i * dstStride] = from[i * srcStride];
}

template <typename T>
void transposeTiles(std::byte *dst, const std::byte *src, int64_t alongDst, int64_t alongSrc,
                    int64_t srcStep, int64_t dstStep) {
  constexpr int64_t tile = 16;
  auto *to = reinterpret_cast<T *>(dst);
  const auto *from = reinterpret_cast<const T *>(src);
  for (int64_t i = 0; i < alongDst; i += tile)
    for (int64_t j = 0; j < alongSrc; j += tile) {
      int64_t iEnds = std::min(i + tile, alongDst), jEnds = std::min(j + tile, alongSrc);
      for (int64_t b = j; b < jEnds; ++b)
        for (int64_t a = i; a < iEnds; ++a)
          to[b * dstStep + a] = from[a * srcStep + b];
    }
}

} // namespace

void CopyPlan::run(void *dst, const void *src) const {
  if (!transposes && dst == src && nest.rowStride(0) == nest.rowStride(1) && nest.numRows() == 1)
    return;
  int64_t n = nest.rowLength(), ds = nest.rowStride(0), ss = nest.rowStride(1);
  // The nest only passes pointers; the source is not written.
  auto *from = static_cast<std::byte *>(const_cast<void *>(src));
  nest.run({static_cast<std::byte *>(dst), from}, [&](std::byte *const *at) {
    if (transposes) {
      for (int64_t e = 0; e < n; ++e) {
        std::byte *to = at[0] + e * ds * element;
        const std::byte *row = at[1] + e * ss * element;
        withUnsigned(element, [&](auto zero) {
          transposeTiles<decltype(zero)>(to, row, alongDst, alongSrc, srcStep, dstStep);
        });
      }
    } else if (ds == 1 && ss == 1) {
      std::memmove(at[0], at[1], static_cast<size_t>(n) * element);
    } else {
      withUnsigned(element, [&](auto zero) { copyRow<decltype(zero)>(at[0], ds, at[1], ss, n); });
    }
  });
}

} // namespace tandem
