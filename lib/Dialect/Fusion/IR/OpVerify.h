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
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Equal, or one of them is unknown.
inline bool compatibleExtents(int64_t a, int64_t b) {
  return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
}

/// The known one of two compatible extents. Example: 4 for ? and 4.
inline int64_t knownExtent(int64_t a, int64_t b) { return ShapedType::isDynamic(a) ? b : a; }

/// "4x?x8".
std::string formatShape(ArrayRef<int64_t> shape);

/// `found` has the element type `expected`.
LogicalResult verifyElementType(Operation *op, StringRef what, RankedTensorType found,
                                Type expected);

/// `left` and `right` can be multiplied to `result`, given that the op takes elements of `left`: as
/// areFactors() and isProductType() of tandem/Program/Types.h say.
LogicalResult verifyProductTypes(Operation *op, StringRef leftName, RankedTensorType left,
                                 StringRef rightName, RankedTensorType right,
                                 RankedTensorType result);

/// `found` has a shape that is compatible with `expected`.
LogicalResult verifyShape(Operation *op, StringRef what, ArrayRef<int64_t> found,
                          ArrayRef<int64_t> expected);

/// The end of an error about an unknown name: `; did you mean 'transpose_b'?` for `tranpose_b`, or
/// the list of known names if none is close. Ignores the dialect prefix: `gather` is close to
/// `fusion.gather`.
std::string suggestName(StringRef found, ArrayRef<StringRef> known);

/// `dims` are ascending, distinct and in 0 ... rank - 1.
LogicalResult verifyAscendingDims(Operation *op, StringRef what, ArrayRef<int64_t> dims,
                                  int64_t rank);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_OPVERIFY_H
