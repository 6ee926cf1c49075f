//===- OpVerify.h - helpers of op verifiers ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_IR_OPVERIFY_H
#define TANDEM_LIB_DIALECT_FUSION_IR_OPVERIFY_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "tandem/Dialect/Fusion/IR/Shapes.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// A value's extents as Shapes.h has them.
inline shapes::Shape shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().vec();
}

/// Appends an inferred shape; reports its error at `op`.
LogicalResult appendShape(Operation *op, const shapes::Inferred &inferred,
                          SmallVectorImpl<SmallVector<int64_t>> &shapes);

/// The result of an op of fusion has the shape that the op infers.
LogicalResult verifyInferred(Operation *op);

/// "4x?x8".
std::string formatShape(ArrayRef<int64_t> shape);

/// `found` has the element type `expected`.
LogicalResult verifyElementType(Operation *op, StringRef what, RankedTensorType found,
                                Type expected);

/// The first two operands and the result have element types of a product, and the inferred shape.
LogicalResult verifyProduct(Operation *op);

/// `found` has a shape that is compatible with `expected`.
LogicalResult verifyShape(Operation *op, StringRef what, ArrayRef<int64_t> found,
                          ArrayRef<int64_t> expected);

/// The end of an error about an unknown name: `; did you mean 'transpose_b'?` for `tranpose_b`, or
/// the list of known names if none is close. Ignores the dialect prefix: `gather` is close to
/// `fusion.gather`.
std::string suggestName(StringRef found, ArrayRef<StringRef> known);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_OPVERIFY_H
