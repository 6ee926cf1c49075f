//===- DataMemory.cpp - memory that holds numbers of a field ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"

namespace tandem::check {

static constexpr Value kTail = ~Value(0);

DataMemory::DataMemory(uint64_t bytes, bool narrow, uint64_t salt)
    : salt(salt), shift(narrow ? 1 : 2) {
  // One more, so that the slot behind an element can always be asked.
  slots.resize((bytes >> shift) + 2);
  for (uint64_t s = 0; s < slots.size(); ++s)
    slots[s] = poison(s);
}

bool DataMemory::isPoison(uint64_t address, Value value) const {
  return value == poison(address >> shift);
}

Value DataMemory::read(uint64_t address, DType dtype) const {
  uint64_t slot = address >> shift;
  if (shift == 2)
    return slots[slot];
  // An element of the other width is no value.
  bool wide = slots[slot + 1] == kTail;
  return slots[slot] == kTail || wide != (sizeOf(dtype) == 4) ? poison(slot) : slots[slot];
}

void DataMemory::read(uint64_t address, const Layout &layout, Values &out) const {
  out.resize(static_cast<size_t>(layout.numElements()));
  Value *to = out.data();
  unsigned size = sizeOf(layout.dtype);
  forEachRun(layout, [&](int64_t first, int64_t count, int64_t step) {
    uint64_t from = address + static_cast<uint64_t>(first) * size;
    if (shift == 2) {
      const Value *at = slots.data() + (from >> 2);
      for (int64_t i = 0; i < count; ++i)
        to[i] = at[i * step];
    } else {
      for (int64_t i = 0; i < count; ++i)
        to[i] = read(from + static_cast<uint64_t>(i * step) * size, layout.dtype);
    }
    to += count;
  });
}

void DataMemory::write(uint64_t address, const Layout &layout, const Value *values) {
  unsigned size = sizeOf(layout.dtype);
  forEachRun(layout, [&](int64_t first, int64_t count, int64_t step) {
    uint64_t slot = (address + static_cast<uint64_t>(first) * size) >> shift;
    auto distance = static_cast<uint64_t>(step) * size >> shift;
    for (int64_t i = 0; i < count; ++i, slot += distance) {
      slots[slot] = *values++;
      if (shift == 2)
        continue;
      uint64_t behind = slot + size / 2;
      if (size == 4)
        slots[slot + 1] = kTail;
      // What loses its first half is no value any more.
      if (slots[behind] == kTail)
        slots[behind] = poison(behind);
    }
  });
}

} // namespace tandem::check
