//===- Packing.cpp - strided operands as contiguous bytes -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Packing.h"

#include <cstring>

using namespace tandem;
using namespace tandem::ucx;

Runs::Runs(const Layout &layout) : run(sizeOf(layout.dtype)), total(layout.numBytes()) {
  // Innermost first: merge each dimension that continues the one inside it.
  for (unsigned d = layout.rank; d-- > 0;) {
    int64_t count = layout.shape[d];
    uint64_t stride = static_cast<uint64_t>(layout.strides[d]) * sizeOf(layout.dtype);
    if (count == 1 || total == 0)
      continue;
    if (dims.empty() && stride == run)
      run *= static_cast<uint64_t>(count);
    else if (!dims.empty() &&
             stride == dims.front().stride * static_cast<uint64_t>(dims.front().count))
      dims.front().count *= count;
    else
      dims.insert(dims.begin(), {count, stride});
  }
}

void Runs::pack(std::byte *packed, const void *strided) const {
  auto *from = static_cast<const std::byte *>(strided);
  forEach([&](uint64_t s, uint64_t p) { std::memcpy(packed + p, from + s, run); });
}

void Runs::unpack(void *strided, const std::byte *packed) const {
  auto *to = static_cast<std::byte *>(strided);
  forEach([&](uint64_t s, uint64_t p) { std::memcpy(to + s, packed + p, run); });
}
