//===- OpVerify.cpp - helpers of op verifiers -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tandem;

std::string fusion::formatShape(ArrayRef<int64_t> shape) { return shapes::text(shape.vec()); }

LogicalResult fusion::verifyElementType(Operation *op, StringRef what, RankedTensorType found,
                                        Type expected) {
  if (found.getElementType() == expected)
    return success();
  return op->emitOpError() << "expected element type " << expected << " of " << what << ", found "
                           << found.getElementType();
}

LogicalResult fusion::verifyProduct(Operation *op) {
  // The usual case, without names: to print a type takes longer than all else here.
  Type type = getElementTypeOrSelf(op->getOperand(0));
  if (type.isFloat() && type.getIntOrFloatBitWidth() > 8 &&
      type == getElementTypeOrSelf(op->getOperand(1)) &&
      type == getElementTypeOrSelf(op->getResult(0)))
    return verifyInferred(op);
  auto nameOf = [](Value value) {
    std::string name;
    llvm::raw_string_ostream(name) << getElementTypeOrSelf(value);
    return name;
  };
  std::string error = shapes::productError(nameOf(op->getOperand(0)), nameOf(op->getOperand(1)),
                                           nameOf(op->getResult(0)));
  return error.empty() ? verifyInferred(op) : op->emitOpError() << error;
}

LogicalResult fusion::verifyShape(Operation *op, StringRef what, ArrayRef<int64_t> found,
                                  ArrayRef<int64_t> expected) {
  bool same = found.size() == expected.size();
  for (size_t i = 0; same && i < found.size(); ++i)
    same = shapes::areCompatible(found[i], expected[i]);
  if (same)
    return success();
  return op->emitOpError() << "expected shape [" << formatShape(expected) << "] of " << what
                           << ", found [" << formatShape(found) << "]";
}

LogicalResult fusion::appendShape(Operation *op, const shapes::Inferred &inferred,
                                  SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  if (!inferred.error.empty())
    return op->emitOpError() << inferred.error;
  shapes.emplace_back(ArrayRef(inferred.shape));
  return success();
}

LogicalResult fusion::verifyInferred(Operation *op) {
  SmallVector<SmallVector<int64_t>> shapes;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  return failure(failed(cast<FusionTensorOpInterface>(op).inferResultShapes(shapes)) ||
                 failed(verifyShape(op, "the result", type.getShape(), shapes.front())));
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
