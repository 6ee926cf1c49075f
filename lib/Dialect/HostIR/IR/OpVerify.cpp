//===- OpVerify.cpp - helpers of op verifiers -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

static MemRefType typeOf(Value buffer) { return cast<MemRefType>(buffer.getType()); }

std::string hostir::printShape(ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, "x");
  return text;
}

LogicalResult hostir::verifyShape(Operation *op, StringRef what, Value value,
                                  ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return success();
  return op->emitOpError() << "expected " << what << " of shape " << printShape(shape) << ", found "
                           << printShape(typeOf(value).getShape());
}

LogicalResult hostir::verifySameElementType(Operation *op, Value source, Value target) {
  Type from = typeOf(source).getElementType(), to = typeOf(target).getElementType();
  if (from == to)
    return success();
  return op->emitOpError() << "expected equal element types, found " << from << " and " << to;
}

LogicalResult hostir::verifySameShapeAndElementType(Operation *op, Value source, Value target) {
  if (failed(verifySameElementType(op, source, target)))
    return failure();
  ArrayRef<int64_t> from = typeOf(source).getShape(), to = typeOf(target).getShape();
  if (from == to)
    return success();
  return op->emitOpError() << "expected equal shapes, found " << printShape(from) << " and "
                           << printShape(to);
}

LogicalResult hostir::verifyCapability(Operation *op, Value channel, Capability capability) {
  ChannelOp channelOp = getChannelOp(channel);
  if (!channelOp || channelOp.can(capability))
    return success();
  InFlightDiagnostic diag = op->emitOpError() << "expected a channel with '"
                                              << stringifyCapability(capability) << "'";
  diag.attachNote(channelOp.getLoc()) << "channel " << channelOp.getNameAttr() << " cannot";
  return diag;
}

LogicalResult hostir::verifyConstantAtLeast(Operation *op, StringRef what, Value value,
                                            int64_t least) {
  std::optional<int64_t> constant = getConstantIntValue(value);
  if (!constant || *constant >= least)
    return success();
  return op->emitOpError() << "expected " << what << " of at least " << least << ", found "
                           << *constant;
}

LogicalResult hostir::verifyPosition(Operation *op, StringRef what, Value position, Value channel) {
  std::optional<int64_t> constant = getConstantIntValue(position);
  ChannelOp channelOp = getChannelOp(channel);
  // The channel op reports a missing axis.
  if (!constant || !channelOp || channelOp.groupSize() < 0)
    return success();
  int64_t size = channelOp.groupSize();
  if (*constant >= 0 && *constant < size)
    return success();
  return op->emitOpError() << "expected " << what << " in the channel's group of " << size
                           << ", found " << *constant;
}
