//===- StructuredOp.h - what a linalg op computes ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_SHARDTOFUSION_STRUCTUREDOP_H
#define TANDEM_LIB_CONVERSION_SHARDTOFUSION_STRUCTUREDOP_H

#include "Placement.h"

#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"

namespace tandem::shardfusion {

enum class StructuredKind {
  Elementwise, ///< the result is the body, element by element
  Reduction,   ///< the result combines the body's values over the reduction loops
  Contraction, ///< a reduction by sum of products of two operands: fusion.matmul
};

/// The loops of a contraction, each list in the order of its dimensions.
struct ContractedLoops {
  SmallVector<unsigned> batch;   ///< of both factors and the result
  SmallVector<unsigned> rows;    ///< of lhs and the result
  SmallVector<unsigned> columns; ///< of rhs and the result
  SmallVector<unsigned> inner;   ///< of both factors: summed over
};

/// A linalg op with one result, read by its indexing maps and its body.
struct StructuredOp {
  mlir::linalg::LinalgOp op;
  StructuredKind kind = StructuredKind::Elementwise;
  ReduceKind reduceKind = ReduceKind::Sum;
  /// The body's value that is the result (elementwise), or that is combined.
  Value mapped;
  /// The op that combines `mapped` with the accumulator; null if elementwise.
  Operation *combiner = nullptr;
  /// The numbers of the factors of a contraction, and its loops.
  unsigned lhs = 0, rhs = 0;
  ContractedLoops contracted;
  /// Whether the initial value of the result is read.
  bool readsInit = false;
  /// The kinds of partial results that all operands may be, and the result then is.
  PlacementSet partialAlike;
  /// The loop of each dimension, per operand; the last operand is the initial value.
  SmallVector<SmallVector<unsigned>> loops;

  /// The initial value of the result.
  Value getInit();
  /// Whether the body reads the operand and it is a tensor.
  bool readsTensor(unsigned operand);
  /// See PlacementTable.
  PlacementTable getTable();
};

/// Reads an op. Fails, with an error at the op, if it is none that fusion expresses.
FailureOr<StructuredOp> readStructuredOp(mlir::linalg::LinalgOp op);

/// Whether partial operands of kind `kind` give a partial result of this op of a body.
bool commutesWith(Operation *op, ReduceKind kind);

} // namespace tandem::shardfusion

#endif // TANDEM_LIB_CONVERSION_SHARDTOFUSION_STRUCTUREDOP_H
