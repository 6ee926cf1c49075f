//===- HostIROps.h - hostir operations -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_IR_HOSTIROPS_H
#define TANDEM_DIALECT_HOSTIR_IR_HOSTIROPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "tandem/Dialect/HostIR/IR/HostIRDialect.h"
#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "tandem/Support/LLVM.h"

#include "tandem/Dialect/HostIR/IR/HostIREnums.h.inc"

namespace tandem::hostir {

/// The resource that keeps commands in order: see `HostIR_Command`.
struct IssueOrder : public mlir::SideEffects::Resource::Base<IssueOrder> {
  StringRef getName() final { return "hostir.issue_order"; }
};

/// Whether a memref has static offset and strides.
bool hasStaticStrides(MemRefType type);
bool isBufferSpace(MemRefType type);

} // namespace tandem::hostir

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIRAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIRTypes.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIROps.h.inc"

namespace tandem::hostir {

/// Argument attributes of `hostir.program`; see there.
inline constexpr llvm::StringLiteral kNameAttrName = "hostir.name";
inline constexpr llvm::StringLiteral kTypeAttrName = "hostir.type";
inline constexpr llvm::StringLiteral kResultAttrName = "hostir.result";
inline constexpr llvm::StringLiteral kExtentsAttrName = "hostir.extents";
inline constexpr llvm::StringLiteral kPartsAttrName = "hostir.parts";

/// Default size of the pool of worker streams.
inline constexpr int64_t kDefaultWorkers = 4;
inline constexpr int64_t kMaxWorkers = 1024;
/// Alignment of buffers in arenas, in bytes.
inline constexpr int64_t kBufferAlignment = 64;

/// Broadcast, reduce, gather and scatter.
bool hasRoot(CollectiveKind kind);
/// All-reduce, reduce-scatter and reduce.
bool isReducing(CollectiveKind kind);

/// Whether two values are provably one stream.
bool isSameStream(Value a, Value b);

/// Whether a memref lies in symmetric memory.
bool isSymmetric(Type type);

/// The stream of a command or alloc; the group's for a send or receive, the waiter's for a sync,
/// null for other ops.
Value getStream(Operation *op);

/// Whether `op` makes a view of its first operand: the same memory with another shape or layout.
bool isView(Operation *op);

/// The buffer under any number of views: an alloc's result or a program argument.
Value getViewRoot(Value buffer);

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_IR_HOSTIROPS_H
