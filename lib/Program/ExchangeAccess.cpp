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

/// A dimension of more than one element.
struct Extent {
  int64_t stride, count;
};

/// Whether two boxes whose dimensions are nested have an element in common, if one begins
/// `distance` elements behind the other.
bool boxesOverlap(const std::vector<Extent> &dims, size_t first, int64_t distance) {
  if (first == dims.size())
    return distance == 0;
  // The inner dimensions together reach less far than a stride: there are two ways at most.
  auto [stride, count] = dims[first];
  int64_t steps = distance / stride - (distance % stride < 0 ? 1 : 0);
  for (int64_t step : {steps, steps + 1})
    if (std::abs(step) < count && boxesOverlap(dims, first + 1, distance - step * stride))
      return true;
  return false;
}

} // namespace

bool mayOverlap(const PlacedView &a, const PlacedView &b) {
  if (a.buffer != b.buffer || a.address >= b.address + b.layout.spanBytes() ||
      b.address >= a.address + a.layout.spanBytes())
    return false;
  auto distance = static_cast<int64_t>(b.address - a.address);
  auto bytes = static_cast<int64_t>(sizeOf(a.layout.dtype));
  if (a.layout != b.layout || distance % bytes != 0)
    return true;
  std::vector<Extent> dims;
  for (unsigned d = 0; d < a.layout.rank; ++d)
    if (a.layout.shape[d] > 1)
      dims.push_back({a.layout.strides[d], a.layout.shape[d]});
  std::sort(dims.begin(), dims.end(),
            [](const Extent &x, const Extent &y) { return x.stride > y.stride; });
  int64_t reach = 0; // of the inner dimensions
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->stride <= reach)
      return true;
    reach += dim->stride * (dim->count - 1);
  }
  return boxesOverlap(dims, 0, distance / bytes);
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
