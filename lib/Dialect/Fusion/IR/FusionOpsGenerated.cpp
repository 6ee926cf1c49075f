//===- FusionOpsGenerated.cpp - generated code of the operations -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// `sum`, `max` or `min`, for `custom<Kind>`.
static ParseResult parseKind(OpAsmParser &parser, ReduceKindAttr &kind) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword(&word, {"sum", "max", "min"})))
    return parser.emitError(loc, "expected 'sum', 'max' or 'min'");
  kind = ReduceKindAttr::get(parser.getContext(), *symbolizeReduceKind(word));
  return success();
}

static void printKind(OpAsmPrinter &printer, Operation *, ReduceKindAttr kind) {
  printer << stringifyReduceKind(kind.getValue());
}

#include "tandem/Dialect/Fusion/IR/FusionInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/Fusion/IR/FusionOps.cpp.inc"

void FusionDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/Fusion/IR/FusionOps.cpp.inc"
      >();
}
