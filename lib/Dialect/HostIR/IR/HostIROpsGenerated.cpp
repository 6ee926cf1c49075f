//===- HostIROpsGenerated.cpp - generated code of the operations -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/IR/Builders.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"

using namespace mlir;
using namespace tandem::hostir;

#define GET_OP_CLASSES
#include "tandem/Dialect/HostIR/IR/HostIROps.cpp.inc"

void HostIRDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/HostIR/IR/HostIROps.cpp.inc"
      >();
}
