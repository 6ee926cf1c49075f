//===- BufferOps.cpp - allocation and copies -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

LogicalResult AllocOp::verify() {
  if (!getType().getLayout().isIdentity())
    return emitOpError() << "expected the identity layout, found " << getType();
  for (auto [name, value] :
       {std::pair(getOffsetAttrName(), getOffset()), std::pair(getPitchAttrName(), getPitch())}) {
    if (!value)
      continue;
    auto bytes = static_cast<int64_t>(*value);
    bool mayBeNegative = name == getOffsetAttrName() && getPitch().value_or(0) != 0;
    if ((bytes < 0 && !mayBeNegative) || bytes % kBufferAlignment != 0)
      return emitOpError() << "expected '" << name.getValue() << "' that is a multiple of "
                           << kBufferAlignment << " and not negative, found " << bytes;
  }
  return success();
}

LogicalResult DeallocOp::verify() {
  if (getBuffer().getDefiningOp<AllocOp>())
    return success();
  return emitOpError() << "expected the result of 'hostir.alloc', found another value";
}

LogicalResult CopyOp::verify() {
  return verifySameShapeAndElementType(*this, getSource(), getTarget());
}
