//===- OpVerify.h - helpers of op verifiers ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_IR_OPVERIFY_H
#define TANDEM_LIB_DIALECT_HOSTIR_IR_OPVERIFY_H

#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

/// Extents as `4x8`, or `scalar`.
std::string printShape(ArrayRef<int64_t> shape);

/// Success if `value` has `shape`; `what` names it in the error.
LogicalResult verifyShape(Operation *op, StringRef what, Value value, ArrayRef<int64_t> shape);

/// Success if both have the same element type.
LogicalResult verifySameElementType(Operation *op, Value source, Value target);

/// Success if both have the same shape and element type.
LogicalResult verifySameShapeAndElementType(Operation *op, Value source, Value target);

/// The op that defines a channel, or null if unknown (a block argument).
inline ChannelOp getChannelOp(Value channel) { return channel.getDefiningOp<ChannelOp>(); }

/// Success if the channel has `capability` or is unknown.
LogicalResult verifyCapability(Operation *op, Value channel, Capability capability);

/// Success if a constant `value` is at least `least`, or is not constant.
LogicalResult verifyConstantAtLeast(Operation *op, StringRef what, Value value, int64_t least);

/// Success if a constant position in the channel's group is in range.
LogicalResult verifyPosition(Operation *op, StringRef what, Value position, Value channel);

/// Syntax of a channel's capabilities: `[two_sided, collectives]`.
ParseResult parseCapabilities(OpAsmParser &parser, ArrayAttr &capabilities);
void printCapabilities(OpAsmPrinter &p, Operation *op, ArrayAttr capabilities);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_IR_OPVERIFY_H
