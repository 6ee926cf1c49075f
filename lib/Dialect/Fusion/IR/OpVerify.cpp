//===- OpVerify.cpp - helpers of op verifiers -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/ElementTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tandem;

std::string fusion::formatShape(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      shape, os, [&](int64_t n) { ShapedType::isDynamic(n) ? os << '?' : os << n; }, "x");
  return text;
}

LogicalResult fusion::verifyElementType(Operation *op, StringRef what, RankedTensorType found,
                                        Type expected) {
  if (found.getElementType() == expected)
    return success();
  return op->emitOpError() << "expected element type " << expected << " of " << what << ", found "
                           << found.getElementType();
}

LogicalResult fusion::verifyProductTypes(Operation *op, StringRef leftName, RankedTensorType left,
                                         StringRef rightName, RankedTensorType right,
                                         RankedTensorType result) {
  Type factor = left.getElementType(), product = result.getElementType();
  if (!isFp8(factor)) {
    bool mayBeF32 = factor.isF16() || factor.isBF16();
    return failure(failed(verifyElementType(op, rightName, right, factor)) ||
                   (!(mayBeF32 && product.isF32()) &&
                    failed(verifyElementType(op, "the result", result, factor))));
  }
  if (!isFp8(right.getElementType()))
    return op->emitOpError() << "expected " << rightName << " of f8E4M3FN or f8E5M2, as "
                             << leftName << ", found " << right.getElementType();
  if (!product.isF32() && !product.isF16() && !product.isBF16())
    return op->emitOpError() << "expected a result of f32, f16 or bf16 of factors of 8 bits, found "
                             << product;
  return success();
}

LogicalResult fusion::verifyShape(Operation *op, StringRef what, ArrayRef<int64_t> found,
                                  ArrayRef<int64_t> expected) {
  bool same = found.size() == expected.size();
  for (size_t i = 0; same && i < found.size(); ++i)
    same = compatibleExtents(found[i], expected[i]);
  if (same)
    return success();
  return op->emitOpError() << "expected shape [" << formatShape(expected) << "] of " << what
                           << ", found [" << formatShape(found) << "]";
}

std::string fusion::suggestName(StringRef found, ArrayRef<StringRef> known) {
  auto word = [](StringRef name) { return name.substr(name.rfind('.') + 1); };
  StringRef closest;
  unsigned least = word(found).size() / 3 + 2;
  for (StringRef name : known) {
    unsigned distance = word(found).edit_distance(word(name));
    if (distance < least) {
      least = distance;
      closest = name;
    }
  }
  if (!closest.empty())
    return "; did you mean '" + closest.str() + "'?";
  return known.empty() ? "; none are known" : "; known are '" + llvm::join(known, "', '") + "'";
}

LogicalResult fusion::verifyAttributeNames(Operation *op) {
  for (NamedAttribute attr : op->getDiscardableAttrs()) {
    StringRef name = attr.getName().getValue();
    if (name.contains('.'))
      continue;
    SmallVector<StringRef> known = llvm::map_to_vector(
        op->getName().getAttributeNames(), [](StringAttr known) { return known.getValue(); });
    if (isLocalComputation(op))
      known.append({kScheduleAttrName, kGatherAttrName});
    return op->emitOpError() << "expected an attribute of this op, found '" << name << "'"
                             << suggestName(name, known);
  }
  return success();
}

LogicalResult fusion::verifyAscendingDims(Operation *op, StringRef what, ArrayRef<int64_t> dims,
                                          int64_t rank) {
  int64_t last = -1;
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= rank)
      return op->emitOpError() << "expected '" << what << "' between 0 and " << rank - 1
                               << ", found " << dim;
    if (dim <= last)
      return op->emitOpError() << "expected '" << what << "' in ascending order, found " << dim
                               << " after " << last;
    last = dim;
  }
  return success();
}
