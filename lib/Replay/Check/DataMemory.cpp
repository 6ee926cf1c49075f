//===- DataMemory.cpp - memory that holds numbers of a field ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"
#include "DataTrace.h"

#include <algorithm>
#include <numeric>

namespace tandem::check {

static constexpr Value kTail = ~Value(0);

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

const Value *Elements::find(uint64_t i) const {
  // If all are kept, an element is at its index.
  if (i < index.size() && index[i] == i)
    return &value[i];
  auto at = std::lower_bound(index.begin(), index.end(), i);
  return at != index.end() && *at == i ? &value[static_cast<size_t>(at - index.begin())] : nullptr;
}

void Elements::sort() {
  if (std::is_sorted(index.begin(), index.end()))
    return;
  std::vector<size_t> order(size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return index[a] < index[b]; });
  Elements sorted;
  for (size_t i : order)
    sorted.add(index[i], value[i]);
  *this = std::move(sorted);
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// Calls f(offset) for each element of a view, in row-major order.
template <typename F> static void forEachOffset(const Layout &layout, F &&f) {
  int64_t extents[kMaxRank], strides[kMaxRank], index[kMaxRank] = {}, at = 0;
  unsigned dims = 0;
  for (unsigned d = 0; d < layout.rank; ++d) {
    if (layout.shape[d] == 0)
      return;
    if (layout.shape[d] == 1)
      continue;
    if (dims > 0 && strides[dims - 1] == layout.strides[d] * layout.shape[d]) {
      extents[dims - 1] *= layout.shape[d];
      strides[dims - 1] = layout.strides[d];
      continue;
    }
    extents[dims] = layout.shape[d];
    strides[dims++] = layout.strides[d];
  }
  if (dims == 0)
    return f(uint64_t(0));
  while (true) {
    for (int64_t i = 0; i < extents[dims - 1]; ++i)
      f(static_cast<uint64_t>(at + i * strides[dims - 1]));
    unsigned d = dims - 1;
    for (; d > 0; --d) {
      at += strides[d - 1];
      if (++index[d - 1] < extents[d - 1])
        break;
      at -= extents[d - 1] * strides[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0)
      return;
  }
}

std::optional<uint64_t> localOf(const Shard &shard, DType dtype, uint64_t logical) {
  // The shard as a view of the logical tensor.
  Layout held;
  held.dtype = dtype;
  held.rank = static_cast<uint8_t>(shard.shape.size());
  std::copy(shard.shape.begin(), shard.shape.end(), held.shape.begin());
  std::copy(shard.strides.begin(), shard.strides.end(), held.strides.begin());
  auto offset = static_cast<uint64_t>(shard.offset);
  if (!shard.present || logical < offset || shard.numElements() == 0)
    return std::nullopt;
  std::optional<uint64_t> element = elementOf(held, logical - offset);
  return element ? shard.localOf(static_cast<int64_t>(*element)) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

DataMemory::DataMemory(uint64_t bytes, unsigned widths, uint64_t salt)
    : isComplete(true), isUniform((widths & (widths - 1)) == 0), salt(salt) {
  while (widths && !(widths >> (1u << shift) & 1))
    ++shift;
  // One more slot, so the slot after an element always exists.
  slots.resize((bytes >> shift) + 2);
  for (uint64_t s = 0; s < slots.size(); ++s)
    slots[s] = poison(s);
}

Value DataMemory::at(uint64_t address, DType dtype) const {
  if (!isComplete) {
    auto at = std::lower_bound(elements.begin(), elements.end(), address,
                               [](const Element &e, uint64_t a) { return e.address < a; });
    return at != elements.end() && at->address == address ? at->value : kMissing;
  }
  uint64_t slot = address >> shift;
  if (isUniform)
    return slots[slot];
  // An element of another width is not a value.
  uint64_t end = slot + (sizeOf(dtype) >> shift);
  bool fits = slots[slot] != kTail && slots[end] != kTail;
  for (uint64_t s = slot + 1; s < end; ++s)
    fits &= slots[s] == kTail;
  return fits ? slots[slot] : poison(slot);
}

Elements DataMemory::read(uint64_t address, const Layout &layout) const {
  Elements result;
  if (!isComplete) {
    uint64_t end = address + layout.spanBytes();
    auto before = [](const Element &e, uint64_t a) { return e.address < a; };
    auto at = std::lower_bound(elements.begin(), elements.end(), address, before);
    for (; at != elements.end() && at->address < end; ++at)
      if (std::optional<uint64_t> element =
              elementOf(layout, (at->address - address) / sizeOf(layout.dtype)))
        result.add(*element, at->value);
    result.sort();
    return result;
  }
  // The same elements as addresses and as row-major indices.
  Layout places = layout, indices = Layout::dense(layout.dtype, layout.shape.data(), layout.rank);
  for (unsigned d = 0; d < layout.rank; ++d)
    if (layout.strides[d] == 0 && layout.shape[d] > 1)
      places.shape[d] = indices.shape[d] = 1;
  auto count = static_cast<size_t>(places.numElements());
  result.index.reserve(count);
  result.value.reserve(count);
  forEachOffset(indices, [&](uint64_t index) { result.index.push_back(index); });
  unsigned size = sizeOf(layout.dtype);
  forEachOffset(places, [&](uint64_t offset) {
    result.value.push_back(at(address + offset * size, layout.dtype));
  });
  return result;
}

void DataMemory::write(uint64_t address, const Layout &layout, const Elements &from) {
  if (!isComplete)
    return writeKept(address, layout, from);
  unsigned size = sizeOf(layout.dtype);
  const Value *value = from.value.data();
  forEachOffset(layout, [&](uint64_t offset) {
    uint64_t slot = (address + offset * size) >> shift, end = slot + (size >> shift);
    slots[slot] = *value++;
    if (isUniform)
      return;
    std::fill(slots.begin() + static_cast<ptrdiff_t>(slot + 1),
              slots.begin() + static_cast<ptrdiff_t>(end), kTail);
    // An element that lost its first slot is no longer a value.
    for (; slots[end] == kTail; ++end)
      slots[end] = poison(end);
  });
}

void DataMemory::writeKept(uint64_t address, const Layout &layout, const Elements &from) {
  uint64_t end = address + layout.spanBytes();
  auto before = [](const Element &e, uint64_t a) { return e.address < a; };
  auto first = std::lower_bound(elements.begin(), elements.end(), address, before);
  auto last = std::lower_bound(first, elements.end(), end, before);
  std::vector<Element> now;
  for (auto at = first; at != last; ++at)
    if (!elementOf(layout, (at->address - address) / sizeOf(layout.dtype)))
      now.push_back(*at);
  for (size_t i = 0; i < from.size(); ++i)
    now.push_back(
        {address + offsetOf(layout, from.index[i]) * sizeOf(layout.dtype), from.value[i]});
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

} // namespace tandem::check
