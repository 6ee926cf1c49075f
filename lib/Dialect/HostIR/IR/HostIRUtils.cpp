//===- HostIRUtils.cpp - building pieces of host programs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

Value hostir::buildGroupPosition(OpBuilder &builder, Location loc, ChannelOp channel) {
  IndexBuilder math(builder, loc);
  Value position;
  for (StringRef axis : channel.getAxes().getAsValueRange<StringAttr>())
    if (int64_t size = channel.getMesh().axisSize(axis); size > 1)
      position = math.linear(position, size,
                             DeviceIndexOp::create(math, builder.getIndexType(), channel.getMesh(),
                                                   builder.getStringAttr(axis)));
  return position ? position : math.constant(0);
}

Value hostir::buildElementView(OpBuilder &builder, Location loc, Value buffer,
                               ArrayRef<OpFoldResult> leading) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<OpFoldResult> offsets(leading);
  SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(builder.getContext(), type.getShape());
  SmallVector<OpFoldResult> strides(type.getRank(), builder.getIndexAttr(1));
  offsets.resize(type.getRank(), builder.getIndexAttr(0));
  std::fill_n(sizes.begin(), leading.size(), builder.getIndexAttr(1));
  MemRefType viewType = memref::SubViewOp::inferRankReducedResultType(
      type.getShape().drop_front(leading.size()), type, offsets, sizes, strides);
  return memref::SubViewOp::create(builder, loc, viewType, buffer, offsets, sizes, strides);
}

Value hostir::buildRangeView(OpBuilder &builder, Location loc, Value buffer, int64_t dim,
                             OpFoldResult offset, int64_t size) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0));
  SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(builder.getContext(), type.getShape());
  SmallVector<OpFoldResult> strides(type.getRank(), builder.getIndexAttr(1));
  offsets[dim] = offset;
  sizes[dim] = builder.getIndexAttr(size);
  return memref::SubViewOp::create(builder, loc, buffer, offsets, sizes, strides);
}

Value hostir::allocLike(OpBuilder &builder, Location loc, Value view, Value stream, Type element) {
  auto type = cast<MemRefType>(view.getType());
  return AllocOp::create(builder, loc, type.getShape(), element ? element : type.getElementType(),
                         stream);
}

bool hostir::isDense(MemRefType type) {
  return llvm::is_contained(type.getShape(), 0) || type.areTrailingDimsContiguous(type.getRank());
}

bool hostir::isArrayOfRows(MemRefType type, int64_t inner) {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  if (failed(type.getStridesAndOffset(strides, offset)) || ShapedType::isDynamicShape(strides))
    return false;
  ArrayRef<int64_t> shape = type.getShape();
  if (shape.back() != 1 && strides.back() != 1)
    return false;
  for (int64_t dim = 1; dim < type.getRank() - inner; ++dim)
    if (shape[dim - 1] != 1 && strides[dim - 1] != strides[dim] * shape[dim])
      return false;
  return true;
}

llvm::SmallBitVector hostir::getDroppedDims(memref::SubViewOp op) {
  ArrayRef<int64_t> sizes = op.getStaticSizes(), shape = op.getType().getShape();
  llvm::SmallBitVector dropped = op.getDroppedDims();
  SmallVector<int64_t> kept;
  for (auto [i, size] : llvm::enumerate(sizes))
    if (!dropped.test(i))
      kept.push_back(size);
  if (ArrayRef(kept) == shape)
    return dropped;
  // Several dimensions have this stride. Any of those of extent 1 may stay: its stride is unused.
  dropped.reset();
  size_t next = 0;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (next < shape.size() && shape[next] == size)
      ++next;
    else
      dropped.set(i);
  }
  return dropped;
}
