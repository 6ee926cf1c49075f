//===- HostIRUtils.cpp - building pieces of host programs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

Value hostir::buildGroupPosition(OpBuilder &builder, Location loc, ChannelOp channel) {
  Value position;
  for (StringRef axis : channel.getAxes().getAsValueRange<StringAttr>()) {
    int64_t size = channel.getMesh().axisSize(axis);
    if (size == 1)
      continue;
    Value index = DeviceIndexOp::create(builder, loc, builder.getIndexType(), channel.getMesh(),
                                        builder.getStringAttr(axis));
    if (!position) {
      position = index;
      continue;
    }
    Value extent = arith::ConstantIndexOp::create(builder, loc, size);
    position = builder.createOrFold<arith::MulIOp>(loc, position, extent);
    position = builder.createOrFold<arith::AddIOp>(loc, position, index);
  }
  return position ? position : arith::ConstantIndexOp::create(builder, loc, 0).getResult();
}

Value hostir::buildElementView(OpBuilder &builder, Location loc, Value buffer, OpFoldResult index) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0));
  SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(builder.getContext(), type.getShape());
  SmallVector<OpFoldResult> strides(type.getRank(), builder.getIndexAttr(1));
  offsets[0] = index;
  sizes[0] = builder.getIndexAttr(1);
  MemRefType viewType = memref::SubViewOp::inferRankReducedResultType(
      type.getShape().drop_front(), type, offsets, sizes, strides);
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

bool hostir::isDense(MemRefType type) {
  if (llvm::is_contained(type.getShape(), 0))
    return true;
  SmallVector<int64_t> strides;
  int64_t offset = 0, expected = 1;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  for (auto [extent, stride] : llvm::reverse(llvm::zip_equal(type.getShape(), strides))) {
    if (extent != 1 && stride != expected)
      return false;
    expected *= extent;
  }
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
