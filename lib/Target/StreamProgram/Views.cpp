//===- Views.cpp - views of views -------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include <algorithm>

using namespace mlir;

namespace tandem::target {

namespace {

/// Computes the layout of a map's result, and how its offset depends on slots.
class MapEvaluation {
public:
  MapEvaluation(ViewMap &map, const Layout &source, ArrayRef<int64_t> ints, uint32_t rank)
      : map(map), source(source), ints(ints), rank(rank) {
    result.dtype = source.dtype;
  }

  LogicalResult run() {
    map.memoOffset = 0;
    map.memoTerms.clear();
    switch (map.transform) {
    case ViewMap::Subview:
      return subview();
    case ViewMap::Reinterpret:
      return reinterpret();
    case ViewMap::Permute:
      return permute();
    case ViewMap::Expand:
      return expand();
    case ViewMap::Collapse:
      return collapse();
    case ViewMap::Cast:
      return cast();
    }
    return failure();
  }

  Layout result;

private:
  InFlightDiagnostic error() {
    InFlightDiagnostic diag = map.op->emitOpError();
    diag << "rank " << rank << ": ";
    return diag;
  }
  int64_t value(const Operand &operand) const {
    return operand.isSlot ? ints[operand.value] : operand.value;
  }
  void dimension(int64_t extent, int64_t stride) {
    result.shape[result.rank] = extent;
    result.strides[result.rank++] = stride;
  }

  LogicalResult subview() {
    for (unsigned d = 0; d < source.rank; ++d) {
      int64_t extent = source.shape[d], size = value(map.sizes[d]), step = value(map.strides[d]);
      int64_t reach = 0, stride = 0;
      if (size < 0 || step < 0)
        return error() << "view out of bounds: size " << size << " and stride " << step
                       << " of dimension " << d;
      if (llvm::MulOverflow(std::max<int64_t>(size - 1, 0), step, reach) || reach > extent ||
          size > extent || (size > 0 && reach >= extent) ||
          llvm::MulOverflow(source.strides[d], step, stride))
        return error() << "view out of bounds: " << size << " indices with stride " << step
                       << " in dimension " << d << " of extent " << extent;
      int64_t limit = size == 0 ? extent : extent - 1 - reach;
      int64_t bytes = source.strides[d] * sizeOf(source.dtype);
      if (map.offsets[d].isSlot) {
        map.memoTerms.push_back({static_cast<uint32_t>(map.offsets[d].value), d, bytes, limit});
      } else {
        if (map.offsets[d].value < 0 || map.offsets[d].value > limit)
          return error() << "view out of bounds: offset " << map.offsets[d].value
                         << " in dimension " << d << " of extent " << extent << ", expected 0 to "
                         << limit;
        map.memoOffset += map.offsets[d].value * bytes;
      }
      if (!map.dropped.test(d))
        dimension(size, stride);
    }
    return success();
  }

  LogicalResult reinterpret() {
    // Offsets count from the buffer, not from the source.
    int64_t bytes = sizeOf(source.dtype);
    if (map.offsets[0].isSlot)
      map.memoTerms.push_back(
          {static_cast<uint32_t>(map.offsets[0].value), 0, bytes, (int64_t(1) << 60) / bytes});
    else if (map.offsets[0].value < 0)
      return error() << "view out of bounds: offset " << map.offsets[0].value;
    else
      map.memoOffset = map.offsets[0].value * bytes;
    for (auto [size, stride] : llvm::zip(map.sizes, map.strides))
      dimension(value(size), value(stride));
    if (!spanOf(result))
      return error() << "expected sizes and strides that are not negative nor too large, found "
                     << result.str();
    return success();
  }

  LogicalResult permute() {
    for (unsigned d : map.permutation)
      dimension(source.shape[d], source.strides[d]);
    return success();
  }

  LogicalResult expand() {
    // A view of rank 0 has no groups: all extents are 1.
    result.rank = static_cast<uint8_t>(map.sizes.size());
    std::fill_n(result.shape.begin(), result.rank, 1);
    std::fill_n(result.strides.begin(), result.rank, 1);
    for (auto [d, group] : llvm::enumerate(map.groups)) {
      int64_t stride = source.strides[d], count = 1;
      for (int64_t i : llvm::reverse(group)) {
        int64_t extent = value(map.sizes[i]);
        result.shape[i] = extent;
        result.strides[i] = stride;
        if (extent < 0 || llvm::MulOverflow(count, extent, count) ||
            llvm::MulOverflow(stride, std::max<int64_t>(extent, 1), stride))
          return error() << "extent " << extent << " of dimension " << i;
      }
      if (count != source.shape[d])
        return error() << "dimension " << d << " of extent " << source.shape[d]
                       << " is expanded to " << count << " indices";
    }
    return success();
  }

  LogicalResult collapse() {
    bool isEmpty = source.numElements() == 0;
    for (const ReassociationIndices &group : map.groups) {
      // Dimensions of extent 1 may have any stride.
      int64_t count = 1, stride = group.empty() ? 1 : source.strides[group.back()];
      bool sawOne = false;
      for (int64_t i : llvm::reverse(group)) {
        if (source.shape[i] == 1)
          continue;
        if (!sawOne)
          stride = source.strides[i];
        else if (source.strides[i] != stride * count && !isEmpty)
          return error() << "dimensions that are not contiguous cannot be merged: " << source.str();
        sawOne = true;
        count *= source.shape[i];
      }
      dimension(count, stride);
    }
    return success();
  }

  LogicalResult cast() {
    result = source;
    SmallVector<int64_t> strides;
    int64_t offset = 0;
    bool holds = source.rank == static_cast<unsigned>(map.resultType.getRank()) &&
                 dtypeOf(map.resultType.getElementType()) == source.dtype &&
                 succeeded(map.resultType.getStridesAndOffset(strides, offset));
    for (unsigned d = 0; holds && d < source.rank; ++d) {
      int64_t extent = map.resultType.getDimSize(d);
      holds = (ShapedType::isDynamic(extent) || extent == source.shape[d]) &&
              (ShapedType::isDynamic(strides[d]) || strides[d] == source.strides[d] ||
               source.shape[d] <= 1);
    }
    if (!holds)
      return error() << "the cast does not hold: found " << source.str() << ", expected "
                     << map.resultType;
    return success();
  }

  ViewMap &map;
  const Layout &source;
  ArrayRef<int64_t> ints;
  uint32_t rank;
};

} // namespace

LogicalResult applyMap(ViewMap &map, const View &source, ArrayRef<int64_t> ints,
                       LayoutTable &layouts, uint32_t rank, View &result) {
  if (LLVM_UNLIKELY(!map.layoutIsStatic || map.memoSource != source.layout)) {
    map.memoSource = kNone;
    Layout layout = layouts[source.layout];
    MapEvaluation evaluation(map, layout, ints, rank);
    if (failed(evaluation.run()))
      return failure();
    map.memoResult = layouts.intern(evaluation.result);
    map.memoSource = source.layout;
  }
  int64_t offset = map.memoOffset;
  for (const ViewMap::Term &term : map.memoTerms) {
    int64_t index = ints[term.slot];
    if (LLVM_UNLIKELY(index < 0 || index > term.limit))
      return map.op->emitOpError()
             << "rank " << rank << ": view out of bounds: offset " << index << " in dimension "
             << term.dim << ", expected 0 to " << term.limit;
    offset += index * term.bytes;
  }
  result.buffer = source.buffer;
  result.layout = map.memoResult;
  result.offset = map.transform == ViewMap::Reinterpret ? offset : source.offset + offset;
  return success();
}

} // namespace tandem::target
