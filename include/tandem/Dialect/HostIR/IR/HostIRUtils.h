//===- HostIRUtils.h - building pieces of host programs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_IR_HOSTIRUTILS_H
#define TANDEM_DIALECT_HOSTIR_IR_HOSTIRUTILS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

/// Builds arithmetic on values of type `index`, none of them negative. Constants are folded.
class IndexBuilder : public mlir::ImplicitLocOpBuilder {
public:
  /// Inserts where `builder` does now.
  IndexBuilder(const OpBuilder &builder, Location loc) : mlir::ImplicitLocOpBuilder(loc, builder) {}

  Value constant(int64_t value) { return arith::ConstantIndexOp::create(*this, value); }
  /// a + b. Null `a`: b.
  Value add(Value a, Value b) { return a ? createOrFold<arith::AddIOp>(a, b) : b; }
  Value add(Value a, int64_t b) { return b == 0 ? a : add(a, constant(b)); }
  Value sub(Value a, Value b) { return createOrFold<arith::SubIOp>(a, b); }
  Value sub(Value a, int64_t b) { return b == 0 ? a : sub(a, constant(b)); }
  Value mul(Value a, int64_t b) { return b == 1 ? a : createOrFold<arith::MulIOp>(a, constant(b)); }
  Value div(Value a, int64_t b) {
    return b == 1 ? a : createOrFold<arith::DivUIOp>(a, constant(b));
  }
  Value mod(Value a, int64_t b) { return createOrFold<arith::RemUIOp>(a, constant(b)); }
  /// outer * size + inner: the row-major number of a pair. Null `outer`: inner.
  Value linear(Value outer, int64_t size, Value inner) {
    return outer ? add(mul(outer, size), inner) : inner;
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return createOrFold<arith::CmpIOp>(predicate, a, b);
  }
  Value isLess(Value a, int64_t b) { return compare(arith::CmpIPredicate::ult, a, constant(b)); }
  Value isEqual(Value a, Value b) { return compare(arith::CmpIPredicate::eq, a, b); }
  Value isEqual(Value a, int64_t b) { return isEqual(a, constant(b)); }
  /// Whether both conditions hold. Null `a`: b.
  Value both(Value a, Value b) { return a ? createOrFold<arith::AndIOp>(a, b) : b; }
};

/// This device's position in the channel's group, row-major over the channel's axes. Undefined on
/// ranks outside the channel's mesh. Example: 1 for rank 5 and axis "gpu" of ["node" = 2, "gpu" =
/// 4].
Value buildGroupPosition(OpBuilder &builder, Location loc, ChannelOp channel);

/// `buffer[leading..., ...]`: the view without the leading dimensions.
Value buildElementView(OpBuilder &builder, Location loc, Value buffer,
                       ArrayRef<OpFoldResult> leading);

/// The view of `size` indices of dimension `dim` from `offset` on; the rank stays.
Value buildRangeView(OpBuilder &builder, Location loc, Value buffer, int64_t dim,
                     OpFoldResult offset, int64_t size);

/// A buffer with the shape of a view, without gaps. `element`: null: that of the view.
Value allocLike(OpBuilder &builder, Location loc, Value view, Value stream, Type element = {});

/// Whether the elements of a buffer or view of static strides are row-major without gaps.
bool isDense(MemRefType type);

/// Whether the elements of a row are neighbours, and the dimensions before the last `inner` ones
/// could be collapsed into one.
bool isArrayOfRows(MemRefType type, int64_t inner);

/// The dimensions of extent 1 that a subview drops. Unlike upstream's version, which compares
/// strides, the other dimensions have the result's extents in order.
llvm::SmallBitVector getDroppedDims(memref::SubViewOp op);

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_IR_HOSTIRUTILS_H
