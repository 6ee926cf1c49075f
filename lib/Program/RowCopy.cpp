//===- RowCopy.cpp - copies that copy engines do ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/RowCopy.h"

namespace tandem::program {

/// Below this, a kernel copies rows faster.
static constexpr uint64_t kWideRow = 1024;

std::optional<RowCopy> describeRowCopy(const Layout &dst, const Layout &src) {
  std::vector<LoopDim> loops = mergeLoops({dst, src});
  uint64_t element = sizeOf(dst.dtype);
  RowCopy copy;
  copy.bytes = element;
  if (loops.empty())
    return copy;
  const LoopDim &inner = loops.back();
  if (inner.strides[0] != 1 || inner.strides[1] != 1)
    return std::nullopt;
  copy.bytes = static_cast<uint64_t>(inner.extent) * element;
  if (loops.size() == 1)
    return copy;
  if (loops.size() > 2 || copy.bytes < kWideRow)
    return std::nullopt;
  const LoopDim &outer = loops.front();
  // The engines read each row once, in ascending order: not repeated and overlapping rows. A
  // negative stride is a large pitch here, so it is looked at before it is converted.
  for (int64_t stride : outer.strides)
    if (stride < inner.extent)
      return std::nullopt;
  copy.rows = static_cast<uint64_t>(outer.extent);
  copy.dstPitch = static_cast<uint64_t>(outer.strides[0]) * element;
  copy.srcPitch = static_cast<uint64_t>(outer.strides[1]) * element;
  return copy;
}

bool isByCopyEngine(const Layout &dst, const Layout &src) {
  return (dst.isDense() && src.isDense()) || dst.numElements() == 0 || describeRowCopy(dst, src);
}

} // namespace tandem::program
