//===- DataSample.cpp - memory of which a few elements are there ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataSample.h"

#include "DataTrace.h"

#include <algorithm>
#include <numeric>

namespace tandem::check {

const Value *Sample::find(uint64_t i) const {
  auto at = std::lower_bound(index.begin(), index.end(), i);
  return at != index.end() && *at == i ? &value[static_cast<size_t>(at - index.begin())] : nullptr;
}

void Sample::sort() {
  if (std::is_sorted(index.begin(), index.end()))
    return;
  std::vector<size_t> order(size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return index[a] < index[b]; });
  Sample sorted;
  for (size_t i : order)
    sorted.add(index[i], value[i]);
  *this = std::move(sorted);
}

std::vector<uint64_t> keptIndices(uint64_t extent, uint64_t most) {
  std::vector<uint64_t> kept;
  uint64_t pieces = std::min(extent, most);
  for (uint64_t p = 0; p < pieces; ++p) {
    uint64_t begin = p * extent / pieces, end = (p + 1) * extent / pieces;
    uint64_t at = begin + field::hash(extent, p) % (end - begin);
    // The first and the last of all, where an extent that is too short shows.
    kept.push_back(p == 0 ? begin : p + 1 == pieces ? end - 1 : at);
  }
  return kept;
}

Sample SampleMemory::read(uint64_t address, const Layout &layout) const {
  Sample sample;
  uint64_t end = address + layout.spanBytes();
  auto before = [](const Element &e, uint64_t a) { return e.address < a; };
  auto at = std::lower_bound(elements.begin(), elements.end(), address, before);
  for (; at != elements.end() && at->address < end; ++at)
    if (std::optional<uint64_t> element =
            elementOf(layout, (at->address - address) / sizeOf(layout.dtype)))
      sample.add(*element, at->value);
  sample.sort();
  return sample;
}

void SampleMemory::write(uint64_t address, const Layout &layout, const Sample &sample) {
  uint64_t end = address + layout.spanBytes();
  auto before = [](const Element &e, uint64_t a) { return e.address < a; };
  auto first = std::lower_bound(elements.begin(), elements.end(), address, before);
  auto last = std::lower_bound(first, elements.end(), end, before);
  std::vector<Element> now;
  for (auto at = first; at != last; ++at)
    if (!elementOf(layout, (at->address - address) / sizeOf(layout.dtype)))
      now.push_back(*at);
  for (size_t i = 0; i < sample.size(); ++i) {
    uint64_t rest = sample.index[i], offset = 0;
    for (unsigned d = layout.rank; d-- > 0;) {
      auto extent = static_cast<uint64_t>(layout.shape[d]);
      offset += rest % extent * static_cast<uint64_t>(layout.strides[d]);
      rest /= extent;
    }
    now.push_back({address + offset * sizeOf(layout.dtype), sample.value[i]});
  }
  std::sort(now.begin(), now.end(),
            [](const Element &a, const Element &b) { return a.address < b.address; });
  auto old = static_cast<size_t>(last - first);
  if (now.size() <= old) {
    elements.erase(std::copy(now.begin(), now.end(), first), last);
  } else {
    std::copy(now.begin(), now.begin() + static_cast<ptrdiff_t>(old), first);
    elements.insert(last, now.begin() + static_cast<ptrdiff_t>(old), now.end());
  }
}

const Value *SampleMemory::find(uint64_t address) const {
  auto at = std::lower_bound(elements.begin(), elements.end(), address,
                             [](const Element &e, uint64_t a) { return e.address < a; });
  return at != elements.end() && at->address == address ? &at->value : nullptr;
}

} // namespace tandem::check
