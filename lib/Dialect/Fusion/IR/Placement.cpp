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
  // With an extent of 0, the innermost serial digit and all weights are 0.
  int64_t weight = 1;
  for (ResolvedDigit &digit : llvm::reverse(digits)) {
    digit.weight =
        digit.ragged ? static_cast<int64_t>(llvm::divideCeil(digit.ragged, digit.size)) : weight;
    weight *= digit.span();
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

/// Shape without the device digits, and without the stream digits if `dropStream`.
static FailureOr<SmallVector<int64_t>> getShapeOf(RankedTensorType type, bool dropStream) {
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
      if (dropStream && digit.ragged)
        local = local / digit.ragged * digit.weight;
      else if (digit.kind == DigitKind::Device || (dropStream && digit.kind == DigitKind::Stream))
        local /= digit.size;
    shape.push_back(local);
  }
  return shape;
}

FailureOr<SmallVector<int64_t>> fusion::getLocalShape(RankedTensorType type) {
  return getShapeOf(type, /*dropStream=*/false);
}

FailureOr<SmallVector<int64_t>> AxesAttr::getLocalShape(RankedTensorType type) const {
  return fusion::getLocalShape(type);
}

FailureOr<SmallVector<int64_t>> fusion::getSliceShape(RankedTensorType type) {
  return getShapeOf(type, /*dropStream=*/true);
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

FailureOr<int64_t> fusion::getNumSlices(RankedTensorType type) {
  FailureOr<SmallVector<int64_t>> sizes = getStreamSizes(type);
  if (failed(sizes))
    return failure();
  int64_t count = 1;
  for (int64_t size : *sizes)
    if (llvm::MulOverflow(count, size, count))
      return failure();
  return count;
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
      extent -= getCoordinate(digit.axis) * digit.weight;
      if (extent >= digit.weight)
        return count + inner;
      if (extent <= 0)
        return count;
      continue;
    }
    int64_t weight = digit.ragged ? 1 : digit.weight,
            whole = std::min(extent / weight, digit.span());
    inner /= digit.span();
    count += whole * inner;
    extent -= whole * weight;
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

/// The first `count` elements of a walk over one dimension.
static LogicalResult takeFirst(MutableArrayRef<int64_t> shape, int64_t count) {
  int64_t inner = 1;
  for (int64_t extent : shape)
    inner *= extent;
  for (int64_t &extent : shape) {
    if (count == inner)
      return success();
    inner = extent ? inner / extent : 0;
    if (inner == 0 || count % inner == 0) {
      extent = inner ? count / inner : 0;
      return success();
    }
    if (count > inner)
      return failure();
    extent = 1;
  }
  return success(count == inner);
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
        walk.offset += coordinates[mesh.axisIndex(digit.axis.getValue())] * digit.weight * stride;
        continue;
      }
      // Adjacent digits that continue each other become one loop, whether sliced or not.
      int64_t inner = (digit.ragged ? 1 : digit.weight) * stride;
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
    if (failed(takeFirst(MutableArrayRef(walk.shape).drop_front(first), count)))
      return failure();
  }
  // A shard of padding only is nowhere in the tensor.
  if (llvm::is_contained(*valid, 0) && !llvm::is_contained(type.getShape(), 0))
    walk.offset = 0;
  return walk;
}

FailureOr<SmallVector<SmallVector<LocalDigit>>> fusion::getLocalDigits(RankedTensorType type) {
  FailureOr<SmallVector<SmallVector<ResolvedDigit>>> dims = resolveDims(type);
  if (failed(dims))
    return failure();
  SmallVector<SmallVector<LocalDigit>> local;
  for (const SmallVector<ResolvedDigit> &digits : *dims) {
    SmallVector<LocalDigit> &list = local.emplace_back();
    for (const ResolvedDigit &digit : digits)
      if (digit.kind != DigitKind::Device)
        list.push_back({digit.kind == DigitKind::Stream, digit.size, digit.weight, digit.ragged});
    if (list.empty())
      list.push_back({false, 1, 1});
    int64_t weight = 1;
    for (LocalDigit &digit : llvm::reverse(list)) {
      if (!digit.ragged)
        digit.weight = weight;
      weight *= digit.ragged ? digit.ragged : digit.size;
    }
  }
  return local;
}

/// The stream digits of iteration `iteration`, in the order of `getStreamSizes`.
static FailureOr<SmallVector<int64_t>> decodeIteration(RankedTensorType type, int64_t iteration) {
  FailureOr<SmallVector<int64_t>> sizes = getStreamSizes(type);
  FailureOr<int64_t> count = getNumSlices(type);
  if (failed(sizes) || failed(count) || iteration < 0 || iteration >= *count)
    return failure();
  SmallVector<int64_t> digits(sizes->size());
  for (int64_t i = static_cast<int64_t>(sizes->size()) - 1; i >= 0; --i) {
    digits[i] = iteration % (*sizes)[i];
    iteration /= (*sizes)[i];
  }
  return digits;
}

FailureOr<StridedWalk> fusion::getLocalSlice(RankedTensorType type, int64_t iteration) {
  FailureOr<SmallVector<SmallVector<LocalDigit>>> local = getLocalDigits(type);
  FailureOr<SmallVector<int64_t>> shape = getLocalShape(type);
  FailureOr<SmallVector<int64_t>> stream = decodeIteration(type, iteration);
  if (failed(local) || failed(shape) || failed(stream))
    return failure();
  FailureOr<SmallVector<int64_t>> strides = rowMajorStrides(*shape);
  if (failed(strides))
    return failure();
  StridedWalk walk;
  const int64_t *value = stream->begin();
  for (auto [digits, stride] : llvm::zip_equal(*local, *strides)) {
    size_t first = walk.shape.size();
    for (const LocalDigit &digit : digits) {
      if (digit.isStream) {
        int64_t begin = *value++ * digit.weight;
        walk.offset += begin * stride;
        if (digit.ragged) {
          walk.shape.push_back(std::min(digit.weight, digit.ragged - begin));
          walk.strides.push_back(stride);
        }
      } else {
        walk.shape.push_back(digit.size);
        walk.strides.push_back(digit.weight * stride);
      }
    }
    if (walk.shape.size() == first) {
      walk.shape.push_back(1);
      walk.strides.push_back(stride);
    }
  }
  return walk;
}

FailureOr<SliceBox> fusion::getLocalSliceBox(RankedTensorType type, int64_t iteration) {
  FailureOr<SmallVector<SmallVector<LocalDigit>>> local = getLocalDigits(type);
  FailureOr<SmallVector<int64_t>> stream = decodeIteration(type, iteration);
  if (failed(local) || failed(stream))
    return failure();
  SliceBox box;
  const int64_t *value = stream->begin();
  for (const SmallVector<LocalDigit> &digits : *local) {
    int64_t offset = 0, size = 1, stride = 1;
    for (const LocalDigit &digit : digits) {
      int64_t count = digit.size, weight = digit.weight;
      if (digit.isStream) {
        int64_t begin = *value++ * digit.weight;
        offset += begin;
        count = digit.ragged ? std::min(digit.weight, digit.ragged - begin) : 1;
        weight = 1;
      }
      if (count == 1)
        continue;
      // The indices so far have the step `stride`; this digit must fill one step.
      if (size > 1 && stride != weight * count)
        return failure();
      size *= count;
      stride = weight;
    }
    box.offsets.push_back(offset);
    box.sizes.push_back(size);
    box.strides.push_back(size == 1 ? 1 : stride);
  }
  return box;
}

FailureOr<SmallVector<int64_t>> fusion::ownersOf(RankedTensorType type, ArrayRef<int64_t> index) {
  AxesAttr axes = getAxes(type);
  FailureOr<SmallVector<SmallVector<ResolvedDigit>>> dims = resolveDims(type);
  if (failed(dims) || index.size() != dims->size() || !axes.getMesh().isStatic())
    return failure();
  MeshAttr mesh = axes.getMesh();
  // Per mesh axis, the coordinate of the index's owners; -1: any.
  SmallVector<int64_t> wanted(mesh.getAxes().size(), -1);
  for (auto [digits, i, extent] : llvm::zip_equal(*dims, index, type.getShape())) {
    if (i < 0 || i >= extent)
      return failure();
    for (const ResolvedDigit &digit : digits)
      if (digit.kind == DigitKind::Device)
        wanted[mesh.axisIndex(digit.axis.getValue())] = i / digit.weight % digit.size;
  }
  SmallVector<int64_t> owners{0};
  for (auto [axis, coordinate] : llvm::zip_equal(mesh.getAxes(), wanted)) {
    SmallVector<int64_t> next;
    for (int64_t owner : owners)
      for (int64_t c = coordinate < 0 ? 0 : coordinate;
           c < (coordinate < 0 ? axis.size : coordinate + 1); ++c)
        next.push_back(owner * axis.size + c);
    owners = std::move(next);
  }
  return owners;
}

RankedTensorType fusion::eraseParallelAxes(RankedTensorType type) {
  MLIRContext *context = type.getContext();
  auto mesh = MeshAttr::get(context, StringAttr::get(context, "one"), {}, {});
  return withAxes(type, AxesAttr::getReplicated(mesh, type.getRank()));
}
