//===- Layouts.cpp - shapes and strides, numbered ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"

#include "tandem/Program/Types.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tandem::target {

std::optional<sp::DType> dtypeOf(Type type) {
  if (type.isF32())
    return sp::DType::f32;
  if (type.isF16())
    return sp::DType::f16;
  if (type.isBF16())
    return sp::DType::bf16;
  if (type.isSignlessInteger(32))
    return sp::DType::i32;
  if (type.isF64())
    return sp::DType::f64;
  if (type.isSignlessInteger(64))
    return sp::DType::i64;
  if (type.isSignlessInteger(8))
    return sp::DType::i8;
  if (type.isSignlessInteger(1))
    return sp::DType::i1;
  return std::nullopt;
}

unsigned sizeOf(sp::DType type) { return tandem::sizeOf(static_cast<tandem::DType>(type)); }

std::optional<Layout> Layout::dense(MemRefType type) {
  std::optional<sp::DType> dtype = dtypeOf(type.getElementType());
  if (!dtype || !type.hasStaticShape() || type.getRank() > kMaxRank)
    return std::nullopt;
  Layout layout{*dtype, SmallVector<int64_t, 4>(type.getShape()),
                SmallVector<int64_t, 4>(type.getRank())};
  int64_t stride = 1;
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    layout.strides[d] = stride;
    // Treat empty dimensions as 1: the strides of an empty tensor stay valid.
    if (llvm::MulOverflow(stride, std::max<int64_t>(layout.shape[d], 1), stride) ||
        stride > (int64_t(1) << 60))
      return std::nullopt;
  }
  return layout;
}

int64_t Layout::numElements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

std::optional<int64_t> Layout::span() const {
  int64_t last = 0, elements = 1;
  for (auto [extent, stride] : llvm::zip(shape, strides)) {
    int64_t reach = 0;
    if (extent < 0 || stride < 0 || llvm::MulOverflow(elements, extent, elements))
      return std::nullopt;
    if (extent > 1 && (llvm::MulOverflow(extent - 1, stride, reach) ||
                       llvm::AddOverflow(last, reach, last) || last > (int64_t(1) << 60)))
      return std::nullopt;
  }
  return elements == 0 ? 0 : (last + 1) * sizeOf(dtype);
}

std::string Layout::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << sp::EnumNameDType(dtype) << '[';
  llvm::interleave(shape, os, ",");
  os << ']';
  int64_t dense = 1;
  bool isDense = true;
  for (unsigned d = rank(); d-- > 0;) {
    isDense &= shape[d] <= 1 || strides[d] == dense;
    dense *= shape[d];
  }
  if (!isDense) {
    os << '{';
    llvm::interleave(strides, os, ",");
    os << '}';
  }
  return text;
}

uint32_t LayoutTable::intern(const Layout &layout) {
  uint64_t hash =
      llvm::hash_combine(static_cast<unsigned>(layout.dtype),
                         llvm::hash_combine_range(layout.shape.begin(), layout.shape.end()),
                         llvm::hash_combine_range(layout.strides.begin(), layout.strides.end()));
  // Avoids the two keys reserved by DenseMap.
  SmallVector<uint32_t, 1> &bucket = byHash[hash >> 2];
  for (uint32_t id : bucket)
    if (layouts[id] == layout)
      return id;
  uint32_t id = layouts.size();
  layouts.push_back(layout);
  spans.push_back(layout.span().value_or(-1));
  bucket.push_back(id);
  return id;
}

} // namespace tandem::target
