//===- ByteSet.cpp - which bytes a view covers ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/ByteSet.h"

#include "ProgramImpl.h"

#include <algorithm>

namespace tandem {

ByteSet::ByteSet(const Layout &layout) {
  uint64_t element = sizeOf(layout.dtype);
  if (layout.numElements() == 0)
    return;
  std::vector<Dim> sorted;
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.shape[d] > 1 && layout.strides[d] > 0)
      sorted.push_back({static_cast<uint64_t>(layout.shape[d]),
                        static_cast<uint64_t>(layout.strides[d]) * element});
  std::sort(sorted.begin(), sorted.end(),
            [](const Dim &a, const Dim &b) { return a.stride > b.stride; });
  // Innermost first: merge dimensions that continue the run.
  run = element;
  while (!sorted.empty() && sorted.back().stride <= run) {
    run = sorted.back().stride * (sorted.back().extent - 1) + run;
    sorted.pop_back();
  }
  for (const Dim &dim : sorted) {
    if (!dims.empty() && dims.back().stride == dim.stride * dim.extent)
      dims.back() = {dims.back().extent * dim.extent, dim.stride};
    else
      dims.push_back(dim);
  }
  span = run;
  bytes = run;
  for (size_t d = dims.size(); d-- > 0;) {
    isNested &= dims[d].stride >= span;
    span += (dims[d].extent - 1) * dims[d].stride;
    bytes *= dims[d].extent;
  }
  std::vector<Interval> pieces;
  if (!isNested && intervals(0, *this, pieces)) {
    bytes = 0;
    for (const Interval &piece : pieces)
      bytes += piece.end - piece.begin;
  }
}

namespace {

constexpr uint64_t kMaxIntervals = uint64_t(1) << 20;
constexpr unsigned kMaxLevels = 34;

/// An interval of digits per level of a mixed-radix number.
struct Box {
  Interval digits[kMaxLevels];
};

/// Reads addresses as mixed-radix numbers whose radices are the strides of two sets. Both sets
/// become a few boxes, which are compared level by level.
class Grid {
public:
  /// False if the strides do not divide one another.
  bool build(const ByteSet &a, const ByteSet &b) {
    unit[0] = 1;
    levels = 1;
    std::vector<uint64_t> strides;
    for (const ByteSet *set : {&a, &b})
      for (const ByteSet::Dim &dim : set->dims)
        strides.push_back(dim.stride);
    std::sort(strides.begin(), strides.end());
    for (uint64_t stride : strides) {
      if (stride == unit[levels - 1])
        continue;
      if (stride % unit[levels - 1] != 0 || levels == kMaxLevels)
        return false;
      unit[levels++] = stride;
    }
    return true;
  }

  /// False if a digit carries over.
  bool boxes(uint64_t address, const ByteSet &set, std::vector<Box> &out) const {
    Box outer;
    unsigned lowest = levels;
    for (unsigned l = 0; l < levels; ++l)
      outer.digits[l] = {digit(address, l), digit(address, l) + 1};
    for (const ByteSet::Dim &dim : set.dims) {
      unsigned l = 0;
      while (unit[l] != dim.stride)
        ++l;
      outer.digits[l].end = outer.digits[l].begin + dim.extent;
      if (l + 1 < levels && outer.digits[l].end > radix(l))
        return false;
      lowest = std::min(lowest, l);
    }
    uint64_t begin = address, end = address + set.run;
    if (lowest < levels) {
      if (begin / unit[lowest] != (end - 1) / unit[lowest])
        return false;
      begin %= unit[lowest];
      end = begin + set.run;
    }
    split(outer, lowest, begin, end, out);
    return true;
  }

  uint64_t common(const Box &a, const Box &b) const {
    uint64_t product = 1;
    for (unsigned l = 0; l < levels; ++l) {
      uint64_t begin = std::max(a.digits[l].begin, b.digits[l].begin);
      uint64_t end = std::min(a.digits[l].end, b.digits[l].end);
      if (begin >= end)
        return 0;
      product *= end - begin;
    }
    return product;
  }

private:
  uint64_t radix(unsigned l) const { return unit[l + 1] / unit[l]; }
  uint64_t digit(uint64_t address, unsigned l) const {
    uint64_t quotient = address / unit[l];
    return l + 1 < levels ? quotient % radix(l) : quotient;
  }

  /// Splits [begin, end) below level `top` into boxes: partial ends at each level, whole units
  /// between.
  void split(Box box, unsigned top, uint64_t begin, uint64_t end, std::vector<Box> &out) const {
    for (unsigned l = 0; l < top; ++l)
      if (l + 1 < top)
        box.digits[l] = {0, radix(l)};
    while (begin < end) {
      // The largest aligned unit that starts here and fits.
      unsigned l = 0;
      while (l + 1 < top && begin % unit[l + 1] == 0 && begin + unit[l + 1] <= end)
        ++l;
      uint64_t most = l + 1 < top ? (begin / unit[l + 1] + 1) * unit[l + 1] : end;
      uint64_t stop = begin + (std::min(most, end) - begin) / unit[l] * unit[l];
      Box piece = box;
      uint64_t at = begin / unit[l];
      for (unsigned k = l; k < top; ++k) {
        uint64_t d = k + 1 < top ? at % radix(k) : at;
        piece.digits[k] = {d, d + 1};
        if (k + 1 < top)
          at /= radix(k);
      }
      piece.digits[l].end = piece.digits[l].begin + (stop - begin) / unit[l];
      out.push_back(piece);
      begin = stop;
    }
  }

  uint64_t unit[kMaxLevels] = {};
  unsigned levels = 0;
};

std::optional<uint64_t> commonOfIntervals(uint64_t a, const ByteSet &setA, uint64_t b,
                                          const ByteSet &setB) {
  std::vector<Interval> x, y;
  if (!intervals(a, setA, x) || !intervals(b, setB, y))
    return std::nullopt;
  uint64_t common = 0;
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    uint64_t begin = std::max(x[i].begin, y[j].begin), end = std::min(x[i].end, y[j].end);
    common += begin < end ? end - begin : 0;
    x[i].end < y[j].end ? ++i : ++j;
  }
  return common;
}

} // namespace

std::optional<uint64_t> commonBytes(uint64_t a, const ByteSet &setA, uint64_t b,
                                    const ByteSet &setB) {
  if (setA.run == 0 || setB.run == 0 || a + setA.span <= b || b + setB.span <= a)
    return uint64_t(0);
  if (setA.dims.empty() && setB.dims.empty())
    return std::min(a + setA.span, b + setB.span) - std::max(a, b);
  Grid grid;
  std::vector<Box> boxesA, boxesB;
  // Where steps of two dimensions lead to the same byte, digits are not unique.
  if (!setA.isNested || !setB.isNested || !grid.build(setA, setB) || !grid.boxes(a, setA, boxesA) ||
      !grid.boxes(b, setB, boxesB))
    return commonOfIntervals(a, setA, b, setB);
  uint64_t common = 0;
  for (const Box &x : boxesA)
    for (const Box &y : boxesB)
      common += grid.common(x, y);
  return common;
}

bool intervals(uint64_t address, const ByteSet &set, std::vector<Interval> &out) {
  uint64_t count = set.run ? 1 : 0;
  for (const ByteSet::Dim &dim : set.dims) {
    count *= dim.extent;
    if (count > kMaxIntervals)
      return false;
  }
  std::vector<uint64_t> index(set.dims.size(), 0);
  std::vector<Interval> raw;
  for (uint64_t n = 0; n < count; ++n) {
    uint64_t at = address;
    for (size_t d = 0; d < index.size(); ++d)
      at += index[d] * set.dims[d].stride;
    raw.push_back({at, at + set.run});
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < set.dims[d].extent)
        break;
      index[d] = 0;
    }
  }
  std::sort(raw.begin(), raw.end(),
            [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
  size_t before = out.size(); // set by other calls
  for (const Interval &piece : raw) {
    if (out.size() > before && piece.begin <= out.back().end)
      out.back().end = std::max(out.back().end, piece.end);
    else
      out.push_back(piece);
  }
  return true;
}

} // namespace tandem

namespace tandem::program {

Overlap overlap(uint64_t a, const Layout &layoutA, uint64_t b, const Layout &layoutB) {
  uint64_t spanA = layoutA.spanBytes(), spanB = layoutB.spanBytes();
  if (spanA == 0 || spanB == 0 || a + spanA <= b || b + spanB <= a)
    return Overlap::None;
  if (a == b && layoutA.normalized() == layoutB.normalized())
    return Overlap::Same;
  return commonBytes(a, ByteSet(layoutA), b, ByteSet(layoutB)).value_or(0) ? Overlap::Partial
                                                                           : Overlap::None;
}

Overlap overlap(const PlacedView &a, const PlacedView &b) {
  return a.buffer == b.buffer ? overlap(a.address, a.layout, b.address, b.layout) : Overlap::None;
}

bool isInjective(const Layout &layout) {
  ByteSet set(layout);
  return set.isNested && set.bytes == layout.numBytes();
}

} // namespace tandem::program
