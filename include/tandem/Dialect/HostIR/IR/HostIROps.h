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
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/HostIR/IR/HostIRDialect.h"

#include "tandem/Dialect/HostIR/IR/HostIREnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIRAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIRTypes.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIROps.h.inc"

namespace mlir::tandem::hostir {

/// Argument attributes of `hostir.program`; see there.
inline constexpr llvm::StringLiteral kNameAttrName = "hostir.name";
inline constexpr llvm::StringLiteral kTypeAttrName = "hostir.type";
inline constexpr llvm::StringLiteral kResultAttrName = "hostir.result";

/// Whether a memref lies in symmetric memory.
bool isSymmetric(Type type);

} // namespace mlir::tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_IR_HOSTIROPS_H
