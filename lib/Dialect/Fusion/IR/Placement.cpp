//===- Placement.cpp - elements of a device, and of an iteration -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/Placement.h"

#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

bool fusion::isSliceCount(int64_t extent, int64_t count) {
  if (count < 1 || extent < 1)
    return count == 1;
  auto slice = static_cast<int64_t>(llvm::divideCeil(extent, count));
  return static_cast<int64_t>(llvm::divideCeil(extent, slice)) == count;
}

FailureOr<SmallVector<ResolvedDigit>> fusion::resolveDim(DimAxesAttr dim, int64_t extent,
                                                         MeshAttr mesh) {
  if (ShapedType::isDynamic(extent))
    return failure();
  SmallVector<ResolvedDigit> digits;
  int64_t rest = extent, ragged = 0;
  for (const Digit &digit : dim.getDigits()) {
    // A loop over an extent of 0 has one, empty iteration: only the last digit may be 0.
    int64_t size = digit.isRest() ? std::max<int64_t>(rest, 1) : getDigitSize(digit, mesh);
    if (ShapedType::isDynamic(size))
      return failure();
    bool divides = rest % size == 0;
    bool isLast = &digit == &dim.getDigits().back();
    if (!divides && (!isLast || !digit.isStream() || !isSliceCount(rest, size)))
      return failure();
    if (!divides)
      ragged = rest;
    digits.push_back({digit.kind, digit.isDevice() ? digit.axis : StringAttr(), size, 0, ragged});
    rest = ragged ? 1 : rest / size;
  }
  if (rest != 1 || digits.empty())
    digits.push_back({DigitKind::Serial, {}, rest, 0});
  // With an extent of 0, the innermost serial digit and all strides are 0.
  int64_t stride = 1;
  for (ResolvedDigit &digit : llvm::reverse(digits)) {
    digit.stride =
        digit.ragged ? static_cast<int64_t>(llvm::divideCeil(digit.ragged, digit.size)) : stride;
    stride *= digit.span();
  }
  return digits;
}

FailureOr<SmallVector<SmallVector<ResolvedDigit>>> fusion::resolveDims(RankedTensorType type) {
  AxesAttr axes = getAxes(type);
  if (!axes)
    return failure();
  SmallVector<SmallVector<ResolvedDigit>> dims;
  for (auto [dim, extent] : llvm::zip_equal(axes.getDims(), type.getShape())) {
    FailureOr<SmallVector<ResolvedDigit>> digits = resolveDim(dim, extent, axes.getMesh());
    if (failed(digits))
      return failure();
    dims.push_back(std::move(*digits));
  }
  return dims;
}

FailureOr<SmallVector<int64_t>> fusion::getLocalShape(RankedTensorType type) {
  AxesAttr axes = getAxes(type);
  if (!axes)
    return failure();
  SmallVector<int64_t> shape;
  for (auto [dim, extent] : llvm::zip_equal(axes.getDims(), type.getShape())) {
    if (ShapedType::isDynamic(extent)) {
      shape.push_back(extent);
      continue;
    }
    int64_t local = extent;
    FailureOr<SmallVector<ResolvedDigit>> digits = resolveDim(dim, extent, axes.getMesh());
    if (failed(digits))
      return failure();
    for (const ResolvedDigit &digit : *digits)
      if (digit.kind == DigitKind::Device)
        local /= digit.size;
    shape.push_back(local);
  }
  return shape;
}

FailureOr<SmallVector<int64_t>> AxesAttr::getLocalShape(RankedTensorType type) const {
  return fusion::getLocalShape(type);
}

FailureOr<SmallVector<int64_t>> fusion::getStreamSizes(RankedTensorType type) {
  AxesAttr axes = getAxes(type);
  if (!axes)
    return failure();
  SmallVector<int64_t> sizes;
  for (auto [dim, extent] : llvm::zip_equal(axes.getDims(), type.getShape())) {
    if (!dim.hasStream())
      continue;
    FailureOr<SmallVector<ResolvedDigit>> digits = resolveDim(dim, extent, axes.getMesh());
    if (failed(digits))
      return failure();
    for (const ResolvedDigit &digit : *digits)
      if (digit.kind == DigitKind::Stream)
        sizes.push_back(digit.size);
  }
  return sizes;
}

/// Row-major strides of `shape`; failure on overflow.
static FailureOr<SmallVector<int64_t>> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    // Outer strides of an empty tensor are unused; 1 keeps them valid.
    if (llvm::MulOverflow(stride, std::max<int64_t>(shape[i], 1), stride))
      return failure();
  }
  return strides;
}

/// Local indices of a dimension with these digits that stand for an index below `extent`. Local
/// indices ascend with the index, so they are the first ones.
static int64_t countValid(ArrayRef<ResolvedDigit> digits, int64_t extent,
                          function_ref<int64_t(StringAttr)> getCoordinate) {
  int64_t inner = 1, count = 0;
  for (const ResolvedDigit &digit : digits)
    if (digit.kind != DigitKind::Device)
      inner *= digit.span();
  if (inner == 0)
    return 0;
  for (const ResolvedDigit &digit : digits) {
    if (digit.kind == DigitKind::Device) {
      extent -= getCoordinate(digit.axis) * digit.stride;
      if (extent >= digit.stride)
        return count + inner;
      if (extent <= 0)
        return count;
      continue;
    }
    int64_t step = digit.ragged ? 1 : digit.stride, whole = std::min(extent / step, digit.span());
    inner /= digit.span();
    count += whole * inner;
    extent -= whole * step;
    if (whole == digit.span() || extent == 0)
      return count;
  }
  return count + (extent > 0 ? 1 : 0);
}

FailureOr<SmallVector<int64_t>> fusion::getValidShape(RankedTensorType type,
                                                      ArrayRef<int64_t> extents, int64_t position) {
  AxesAttr axes = getAxes(type);
  FailureOr<SmallVector<SmallVector<ResolvedDigit>>> dims = resolveDims(type);
  if (failed(dims) || extents.size() != dims->size())
    return failure();
  MeshAttr mesh = axes.getMesh();
  if (!mesh.isStatic() || position < 0 || position >= mesh.numDevices())
    return failure();
  SmallVector<int64_t> coordinates = mesh.coordinates(position), shape;
  for (auto [digits, extent] : llvm::zip_equal(*dims, extents))
    shape.push_back(countValid(digits, extent, [&](StringAttr axis) {
      return coordinates[mesh.axisIndex(axis.getValue())];
    }));
  return shape;
}

/// The smallest loops over one dimension that visit its first `count` indices first.
static void takeFirst(MutableArrayRef<int64_t> shape, int64_t count) {
  int64_t inner = 1;
  for (int64_t extent : shape)
    inner *= extent;
  for (int64_t &extent : shape) {
    if (count == inner)
      return;
    inner = extent ? inner / extent : 0;
    extent = inner ? llvm::divideCeil(count, inner) : 0;
    if (extent != 1)
      return;
  }
}

FailureOr<StridedWalk> fusion::getShard(RankedTensorType type, int64_t position) {
  return getShard(type, type.getShape(), position);
}

FailureOr<StridedWalk> fusion::getShard(RankedTensorType type, ArrayRef<int64_t> extents,
                                        int64_t position) {
  AxesAttr axes = getAxes(type);
  FailureOr<SmallVector<SmallVector<ResolvedDigit>>> dims = resolveDims(type);
  FailureOr<SmallVector<int64_t>> valid = getValidShape(type, extents, position);
  if (failed(dims) || failed(valid))
    return failure();
  FailureOr<SmallVector<int64_t>> strides = rowMajorStrides(extents);
  MeshAttr mesh = axes.getMesh();
  if (failed(strides))
    return failure();
  SmallVector<int64_t> coordinates = mesh.coordinates(position);
  StridedWalk walk;
  for (auto [digits, stride, count] : llvm::zip_equal(*dims, *strides, *valid)) {
    size_t first = walk.shape.size();
    for (const ResolvedDigit &digit : digits) {
      if (digit.kind == DigitKind::Device) {
        walk.offset += coordinates[mesh.axisIndex(digit.axis.getValue())] * digit.stride * stride;
        continue;
      }
      // Adjacent digits that continue each other become one loop, whether sliced or not.
      int64_t inner = (digit.ragged ? 1 : digit.stride) * stride;
      if (walk.shape.size() > first && walk.strides.back() == inner * digit.span()) {
        walk.shape.back() *= digit.span();
        walk.strides.back() = inner;
      } else {
        walk.shape.push_back(digit.span());
        walk.strides.push_back(inner);
      }
    }
    if (walk.shape.size() == first) {
      walk.shape.push_back(1);
      walk.strides.push_back(stride);
    }
    takeFirst(MutableArrayRef(walk.shape).drop_front(first), count);
  }
  // A shard of padding only is nowhere in the tensor.
  if (llvm::is_contained(*valid, 0) && !llvm::is_contained(type.getShape(), 0))
    walk.offset = 0;
  return walk;
}

RankedTensorType fusion::eraseParallelAxes(RankedTensorType type) {
  MLIRContext *context = type.getContext();
  auto mesh = MeshAttr::get(context, StringAttr::get(context, "one"), {}, {});
  return withAxes(type, AxesAttr::getReplicated(mesh, type.getRank()));
}
