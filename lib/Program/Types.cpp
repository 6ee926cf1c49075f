//===- Types.cpp - element types, layouts, tensor views ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace tandem {

std::string_view toString(DType type) {
  static constexpr std::string_view names[kNumDTypes] = {
      "f32", "f16", "bf16", "i32", "f64", "i64", "i8", "i1", "i16", "f8E4M3FN", "f8E5M2"};
  auto i = static_cast<size_t>(type);
  return i < std::size(names) ? names[i] : "unknown";
}

std::string_view toString(ReduceOp op) {
  switch (op) {
  case ReduceOp::Sum:
    return "sum";
  case ReduceOp::Max:
    return "max";
  case ReduceOp::Min:
    return "min";
  }
  return "unknown";
}

std::string_view toString(CollectiveKind kind) {
  static constexpr std::string_view names[] = {"all_gather", "all_reduce", "reduce_scatter",
                                               "all_to_all", "broadcast",  "reduce",
                                               "gather",     "scatter"};
  auto i = static_cast<size_t>(kind);
  return i < std::size(names) ? names[i] : "unknown";
}

Layout Layout::dense(DType dtype, const int64_t *shape, unsigned rank) {
  Layout layout;
  layout.dtype = dtype;
  layout.rank = static_cast<uint8_t>(rank < kMaxRank ? rank : kMaxRank);
  int64_t stride = 1;
  for (unsigned d = layout.rank; d-- > 0;) {
    layout.shape[d] = shape[d];
    layout.strides[d] = stride;
    stride *= shape[d] > 0 ? shape[d] : 1;
  }
  return layout;
}

int64_t Layout::numElements() const {
  int64_t n = 1;
  for (unsigned d = 0; d < rank; ++d)
    n *= shape[d];
  return n;
}

uint64_t Layout::spanBytes() const {
  if (numElements() == 0)
    return 0;
  uint64_t last = 0;
  for (unsigned d = 0; d < rank; ++d)
    last += static_cast<uint64_t>(shape[d] - 1) * static_cast<uint64_t>(strides[d]);
  return (last + 1) * sizeOf(dtype);
}

bool Layout::isDense() const {
  if (numElements() == 0)
    return true;
  int64_t stride = 1;
  for (unsigned d = rank; d-- > 0;) {
    if (shape[d] != 1 && strides[d] != stride)
      return false;
    stride *= shape[d];
  }
  return true;
}

Layout Layout::select(uint64_t mask, bool wanted) const {
  Layout result;
  result.dtype = dtype;
  for (unsigned d = 0; d < rank; ++d)
    if (bool(mask >> d & 1) == wanted) {
      result.shape[result.rank] = shape[d];
      result.strides[result.rank++] = strides[d];
    }
  return result;
}

Layout Layout::normalized() const {
  Layout result = *this;
  for (unsigned d = rank; d-- > 0;)
    if (shape[d] == 1)
      result.strides[d] = d + 1 == rank ? 1 : result.strides[d + 1] * shape[d + 1];
  return result;
}

bool Layout::sameShape(const Layout &other) const {
  if (rank != other.rank)
    return false;
  for (unsigned d = 0; d < rank; ++d)
    if (shape[d] != other.shape[d])
      return false;
  return true;
}

std::vector<LoopDim> mergeLoops(const std::vector<Layout> &layouts, bool inOrder) {
  const Layout &first = layouts.front();
  std::vector<unsigned> order;
  for (unsigned d = 0; d < first.rank; ++d)
    if (first.shape[d] != 1)
      order.push_back(d);
  std::sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
    return !inOrder && first.strides[a] != first.strides[b] ? first.strides[a] > first.strides[b]
                                                            : a < b;
  });
  std::vector<LoopDim> loops;
  for (unsigned d : order) {
    LoopDim dim{first.shape[d], {}};
    for (const Layout &layout : layouts)
      dim.strides.push_back(layout.strides[d]);
    bool follows = !loops.empty();
    for (size_t k = 0; follows && k < layouts.size(); ++k)
      follows = loops.back().strides[k] == dim.strides[k] * dim.extent;
    if (follows) {
      loops.back().extent *= dim.extent;
      loops.back().strides = std::move(dim.strides);
    } else {
      loops.push_back(std::move(dim));
    }
  }
  return loops;
}

bool operator==(const Layout &a, const Layout &b) {
  if (a.dtype != b.dtype || !a.sameShape(b))
    return false;
  for (unsigned d = 0; d < a.rank; ++d)
    if (a.strides[d] != b.strides[d])
      return false;
  return true;
}

std::string Layout::str() const {
  std::string text =
      fmt::format("{}[{}]", toString(dtype), fmt::join(shape.begin(), shape.begin() + rank, ","));
  if (!isDense())
    text += fmt::format("{{{}}}", fmt::join(strides.begin(), strides.begin() + rank, ","));
  return text;
}

TensorView TensorView::slice(int64_t i) const {
  TensorView result;
  result.data = bytes() + i * layout.strides[0] * static_cast<int64_t>(sizeOf(layout.dtype));
  result.layout.dtype = layout.dtype;
  result.layout.rank = static_cast<uint8_t>(layout.rank - 1);
  for (unsigned d = 1; d < layout.rank; ++d) {
    result.layout.shape[d - 1] = layout.shape[d];
    result.layout.strides[d - 1] = layout.strides[d];
  }
  return result;
}

} // namespace tandem
