//===- Lowering.h - ops on shards become ops on logical tensors -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_SHARDTOFUSION_LOWERING_H
#define TANDEM_LIB_CONVERSION_SHARDTOFUSION_LOWERING_H

#include "Layouts.h"
#include "StructuredOp.h"

namespace tandem::shardfusion {

/// Writes the fusion ops of a function whose layouts are known.
class Lowering {
public:
  Lowering(OpBuilder &builder, const Layouts &layouts) : builder(builder), layouts(layouts) {}

  /// `value`, an argument, becomes `logical`.
  void map(Value value, Value logical) { values[value] = logical; }
  /// Writes the ops for one op. Fails with an error at it.
  LogicalResult lower(Operation *op);
  /// The logical tensor of a returned value.
  Value getReturned(Operation *op, Value value);

private:
  /// The iteration space of a structured op: the place of each loop, and a tensor over them.
  struct Space {
    SmallVector<size_t> position;
    Layout layout;
  };

  LogicalResult verifyExtents(StructuredOp &s) const;
  LogicalResult lowerStructured(StructuredOp &s);
  LogicalResult lowerContraction(StructuredOp &s, Value &result);
  LogicalResult merge(Operation *op, Value &value, Layout &layout, size_t first, size_t count);
  Value getFactor(StructuredOp &s, unsigned operand, ArrayRef<unsigned> prefix,
                  ArrayRef<unsigned> a, ArrayRef<unsigned> b, bool &transposed);
  LogicalResult lowerBody(StructuredOp &s, const Space &space, Value &result);
  LogicalResult lowerCollective(Operation *op, const Collective &collective);
  LogicalResult lowerAlike(Operation *op);
  LogicalResult addInit(StructuredOp &s, Value &result);
  Space makeSpace(StructuredOp &s, ArrayRef<unsigned> order) const;
  Value getInSpace(Location loc, StructuredOp &s, unsigned operand, const Space &space);
  void lowerScalar(Operation *op);
  Value getNumber(Operation *user, Value scalar);
  Value getScalar(Operation *user, Value scalar, const Layout &layout, Type element);
  Value getConstant(Location loc, TypedAttr number, const Layout &layout);
  Value broadcast(Location loc, Value tensor, RankedTensorType type);
  Value permute(Location loc, Value value, Layout &layout, ArrayRef<int64_t> permutation);
  /// The logical tensor of a value that is no splat. Fails if it waits for an addend.
  FailureOr<Value> use(Operation *user, Value value);

  OpBuilder &builder;
  const Layouts &layouts;
  DenseMap<Value, Value> values;
  /// What is added to partial results once they are reduced: replicated along their axes.
  DenseMap<Value, Value> addends;
};

} // namespace tandem::shardfusion

#endif // TANDEM_LIB_CONVERSION_SHARDTOFUSION_LOWERING_H
