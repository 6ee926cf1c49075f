//===- SpecializeExtents.h - `?` extents become numbers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEEXTENTS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEEXTENTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <deque>

namespace tandem::fusion {

/// "argument 0", with its name if it has one.
std::string describe(BlockArgument argument);

/// An error at a value; names an argument.
InFlightDiagnostic emitErrorAt(Value value);

/// Verifies that the axes fit the type's new extents.
LogicalResult verifyAxes(Value value);

/// Fills the `?` extents of one function's values, forward and backward through its ops.
class Extents {
public:
  /// Records the written types of broadcasts; construct before filling any extent.
  explicit Extents(func::FuncOp function);

  /// Fills the `?` extents of a value from known extents of `shape`. An error at the value if they
  /// contradict or its digits do not fit.
  LogicalResult refine(Value value, ArrayRef<int64_t> shape, const Twine &source);

  /// Propagates extents to a fixed point. An op is revisited only when an extent of its operands or
  /// results becomes known, so the time is linear.
  LogicalResult propagate();

  /// Extents filled up to now.
  unsigned getNumFilled() const { return numFilled; }

private:
  using Dim = std::pair<Value, int64_t>;

  /// How a broadcast's result extent follows from the operand's dimension.
  enum class Stretch {
    Same,     // the result's `?` is the operand's extent
    Repeated, // 1 as written: the result's `?` is decided elsewhere, else 1
    Open      // a written extent: the operand's may be equal or 1
  };

  void push(Operation *op);
  LogicalResult drain();
  LogicalResult visit(Operation *op);
  LogicalResult visitResults(FusionTensorOpInterface op);
  LogicalResult visitLocal(Operation *op);
  LogicalResult visitBroadcast(BroadcastOp op);
  LogicalResult visitReshape(ReshapeOp op);
  LogicalResult visitReturn(func::ReturnOp op);
  LogicalResult settleRepeated(BroadcastOp op);

  /// Dimension d of `to` has the extent of dimension `dims[d]` of `from` (-1: another one).
  LogicalResult flow(Value from, Value to, ArrayRef<int64_t> dims, const Twine &source);
  /// Both ways between an op's operand and result; `dims`: the operand's dimension per result
  /// dimension.
  LogicalResult tie(Value operand, Value result, ArrayRef<int64_t> dims);
  LogicalResult refine(Value value, ArrayRef<int64_t> shape, const Twine &source, Value from,
                       ArrayRef<int64_t> dims);
  Dim getOrigin(Dim dim) const;

  func::FuncOp function;
  unsigned numFilled = 0;
  std::deque<Operation *> worklist;
  llvm::DenseSet<Operation *> queued;
  llvm::DenseMap<Operation *, SmallVector<Stretch>> stretches;
  /// The source of each filled extent.
  llvm::DenseMap<Dim, Dim> origins;
};

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEEXTENTS_H
