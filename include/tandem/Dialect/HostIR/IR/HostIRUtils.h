//===- HostIRUtils.h - building pieces of host programs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_IR_HOSTIRUTILS_H
#define TANDEM_DIALECT_HOSTIR_IR_HOSTIRUTILS_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

/// This device's position in the channel's group, row-major over the channel's axes. Undefined on
/// ranks outside the channel's mesh. Example: 1 for rank 5 and axis "gpu" of ["node" = 2, "gpu" =
/// 4].
Value buildGroupPosition(OpBuilder &builder, Location loc, ChannelOp channel);

/// `buffer[index, ...]`: the view without the first dimension.
Value buildElementView(OpBuilder &builder, Location loc, Value buffer, OpFoldResult index);

/// The view of `size` indices of dimension `dim` from `offset` on; the rank stays.
Value buildRangeView(OpBuilder &builder, Location loc, Value buffer, int64_t dim,
                     OpFoldResult offset, int64_t size);

/// Whether the elements of a buffer or view of static strides are row-major without gaps.
bool isDense(MemRefType type);

/// The dimensions of extent 1 that a subview drops. Unlike upstream's version, which compares
/// strides, the other dimensions have the result's extents in order.
llvm::SmallBitVector getDroppedDims(memref::SubViewOp op);

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_IR_HOSTIRUTILS_H
