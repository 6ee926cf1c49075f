//===- Layouts.cpp - shapes and strides, numbered ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tandem::target {

std::optional<DType> dtypeOf(Type type) {
  if (type.isF32())
    return DType::F32;
  if (type.isF16())
    return DType::F16;
  if (type.isBF16())
    return DType::BF16;
  if (isa<Float8E4M3FNType>(type))
    return DType::F8E4M3FN;
  if (isa<Float8E5M2Type>(type))
    return DType::F8E5M2;
  if (type.isF64())
    return DType::F64;
  if (type.isSignlessInteger(64))
    return DType::I64;
  if (type.isSignlessInteger(32))
    return DType::I32;
  if (type.isSignlessInteger(8))
    return DType::I8;
  if (type.isSignlessInteger(1))
    return DType::I1;
  if (type.isSignlessInteger(16))
    return DType::I16;
  return std::nullopt;
}

std::optional<Layout> denseLayout(MemRefType type) {
  std::optional<DType> dtype = dtypeOf(type.getElementType());
  if (!dtype || !type.hasStaticShape() || type.getRank() > kMaxRank)
    return std::nullopt;
  int64_t stride = 1;
  // Empty dimensions count as 1: the strides of an empty tensor stay valid.
  for (int64_t extent : llvm::reverse(type.getShape()))
    if (llvm::MulOverflow(stride, std::max<int64_t>(extent, 1), stride) ||
        stride > (int64_t(1) << 60))
      return std::nullopt;
  return Layout::dense(*dtype, type.getShape().data(), type.getRank());
}

std::optional<int64_t> spanOf(const Layout &layout) {
  int64_t last = 0, elements = 1;
  for (unsigned d = 0; d < layout.rank; ++d) {
    int64_t extent = layout.shape[d], stride = layout.strides[d], reach = 0;
    if (extent < 0 || stride < 0 || llvm::MulOverflow(elements, extent, elements))
      return std::nullopt;
    if (extent > 1 && (llvm::MulOverflow(extent - 1, stride, reach) ||
                       llvm::AddOverflow(last, reach, last) || last > (int64_t(1) << 60)))
      return std::nullopt;
  }
  return elements == 0 ? 0 : (last + 1) * sizeOf(layout.dtype);
}

uint32_t LayoutTable::intern(const Layout &layout) {
  ArrayRef<int64_t> shape(layout.shape.data(), layout.rank),
      strides(layout.strides.data(), layout.rank);
  uint64_t hash = llvm::hash_combine(static_cast<unsigned>(layout.dtype),
                                     llvm::hash_combine_range(shape.begin(), shape.end()),
                                     llvm::hash_combine_range(strides.begin(), strides.end()));
  // Avoids the two keys reserved by DenseMap.
  SmallVector<uint32_t, 1> &bucket = byHash[hash >> 2];
  for (uint32_t id : bucket)
    if (layouts[id] == layout)
      return id;
  uint32_t id = layouts.size();
  layouts.push_back(layout);
  spans.push_back(spanOf(layout).value_or(-1));
  bucket.push_back(id);
  return id;
}

} // namespace tandem::target
