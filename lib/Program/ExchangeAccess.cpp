//===- ExchangeAccess.cpp - what threads of an exchange touch ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExchangeAccess.h"

#include "ProgramImpl.h"

#include <algorithm>
#include <cstdlib>

namespace tandem::program {

namespace {

/// A dimension in which one of two boxes has more than one element.
struct Extent {
  int64_t stride, countA, countB;
  int64_t most() const { return std::max(countA, countB); }
};

/// Whether two boxes whose dimensions are nested have an element in common, if the second one
/// begins `distance` elements behind the first.
bool boxesOverlap(const std::vector<Extent> &dims, size_t first, int64_t distance) {
  if (first == dims.size())
    return distance == 0;
  // The inner dimensions together reach less far than a stride: there are two ways at most.
  const Extent &dim = dims[first];
  int64_t steps = distance / dim.stride - (distance % dim.stride < 0 ? 1 : 0);
  for (int64_t step : {steps, steps + 1})
    if (-dim.countB < step && step < dim.countA &&
        boxesOverlap(dims, first + 1, distance - step * dim.stride))
      return true;
  return false;
}

/// The dimensions of two views, outermost first; none if their strides differ.
std::optional<std::vector<Extent>> commonDims(const Layout &a, const Layout &b) {
  if (a.dtype != b.dtype || a.rank != b.rank)
    return std::nullopt;
  std::vector<Extent> dims;
  for (unsigned d = 0; d < a.rank; ++d) {
    if (a.shape[d] > 1 && b.shape[d] > 1 && a.strides[d] != b.strides[d])
      return std::nullopt;
    if (a.shape[d] > 1 || b.shape[d] > 1)
      dims.push_back({a.shape[d] > 1 ? a.strides[d] : b.strides[d], a.shape[d], b.shape[d]});
  }
  std::sort(dims.begin(), dims.end(),
            [](const Extent &x, const Extent &y) { return x.stride > y.stride; });
  return dims;
}

} // namespace

bool mayOverlap(const PlacedView &a, const PlacedView &b) {
  if (a.buffer != b.buffer || a.address >= b.address + b.layout.spanBytes() ||
      b.address >= a.address + a.layout.spanBytes())
    return false;
  auto distance = static_cast<int64_t>(b.address - a.address);
  auto bytes = static_cast<int64_t>(sizeOf(a.layout.dtype));
  auto dims = commonDims(a.layout, b.layout);
  if (!dims || distance % bytes != 0)
    return true;
  int64_t reach = 0; // of the inner dimensions
  for (auto dim = dims->rbegin(); dim != dims->rend(); ++dim) {
    if (dim->stride <= reach)
      return true;
    reach += dim->stride * (dim->most() - 1);
  }
  return boxesOverlap(*dims, 0, distance / bytes);
}

Expected<ExchangeReads> readsOf(const ExchangePart &part) {
  ExchangeReads reads{part.in, part.in.layout};
  if (part.kind != ExchangePart::Kind::Reduce)
    return reads;
  if (part.dims != 1)
    return invalid("expected a reduction of dimension 0 alone, found the dimensions {:#x}",
                   part.dims);
  reads.apart = isInjective(part.in.layout);
  reads.terms = part.in.layout.shape[0];
  reads.termStride = part.in.layout.strides[0];
  reads.element = part.in.layout.select(1, false);
  return reads;
}

std::optional<int64_t> termOf(const PlacedView &written, const ExchangeReads &reads) {
  if (!reads.apart || written.layout != reads.element || written.buffer != reads.whole.buffer ||
      written.address < reads.whole.address)
    return std::nullopt;
  uint64_t bytes = written.address - reads.whole.address;
  uint64_t pitch = static_cast<uint64_t>(reads.termStride) * sizeOf(written.layout.dtype);
  if (bytes == 0)
    return 0;
  if (pitch == 0 || bytes % pitch != 0 || bytes / pitch >= static_cast<uint64_t>(reads.terms))
    return std::nullopt;
  return static_cast<int64_t>(bytes / pitch);
}

} // namespace tandem::program
