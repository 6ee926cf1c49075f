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

/// "argument 0", with its name if it has one: who gives shapes knows nothing of locations.
std::string describe(BlockArgument argument);

/// An error at a value; it names an argument.
InFlightDiagnostic emitErrorAt(Value value);

/// The axes still fit the type, now that more is known.
LogicalResult verifyAxes(Value value);

/// Fills the `?` extents of one function's values, forward and backward through its ops.
class Extents {
public:
  /// Notes what the types as they are written say of its broadcasts: to be made before any of its
  /// extents is filled.
  explicit Extents(func::FuncOp function);

  /// Fills the `?` extents of a value from `shape` (where that knows them). An error at the value
  /// where they contradict each other, or its digits do not fit.
  LogicalResult refine(Value value, ArrayRef<int64_t> shape, const Twine &source);

  /// Fills what follows from what is known, to a fixed point: an op is looked at again only when
  /// an extent of an operand or result has become known, of which each does once.
  LogicalResult propagate();

  /// Extents filled up to now.
  unsigned getNumFilled() const { return numFilled; }

private:
  using Dim = std::pair<Value, int64_t>;

  /// Of the dimensions of a broadcast's operand: how the result's extent follows.
  enum class Stretch {
    Same,     // the result's `?` is the operand's extent
    Repeated, // 1 as written: the result's `?` is what else says it, or 1
    Open      // a written extent: the operand's may be it, or 1
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
  /// Both ways, for an op's operand and result: `dims` are the operand's, by dimension of the
  /// result.
  LogicalResult tie(Value operand, Value result, ArrayRef<int64_t> dims);
  LogicalResult refine(Value value, ArrayRef<int64_t> shape, const Twine &source, Value from,
                       ArrayRef<int64_t> dims);
  Dim getOrigin(Dim dim) const;

  func::FuncOp function;
  unsigned numFilled = 0;
  std::deque<Operation *> worklist;
  llvm::DenseSet<Operation *> queued;
  llvm::DenseMap<Operation *, SmallVector<Stretch>> stretches;
  /// Whose extent a filled one is.
  llvm::DenseMap<Dim, Dim> origins;
};

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEEXTENTS_H
