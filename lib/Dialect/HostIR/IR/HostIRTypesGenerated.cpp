//===- HostIRTypesGenerated.cpp - generated code of types and attributes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::hostir;

#include "tandem/Dialect/HostIR/IR/HostIREnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIRTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIRAttrs.cpp.inc"

// Defined here because it needs the storage classes.
void HostIRDialect::registerTypesAndAttributes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "tandem/Dialect/HostIR/IR/HostIRTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/HostIR/IR/HostIRAttrs.cpp.inc"
      >();
}
