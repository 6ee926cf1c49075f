//===- FusionAttrsGenerated.cpp - generated code of the attributes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

#include "tandem/Dialect/Fusion/IR/FusionEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Fusion/IR/FusionAttrs.cpp.inc"

// Defined here because it needs the storage classes.
void FusionDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/Fusion/IR/FusionAttrs.cpp.inc"
      >();
}

Attribute FusionDialect::parseAttribute(DialectAsmParser &parser, Type type) const {
  SMLoc loc = parser.getCurrentLocation();
  StringRef mnemonic;
  Attribute attr;
  if (generatedAttributeParser(parser, &mnemonic, type, attr).has_value())
    return attr;
  if (mnemonic == MeshAttr::getMnemonic())
    return MeshAttr::parse(parser, type);
  if (mnemonic == ReduceKindAttr::getMnemonic())
    return ReduceKindAttr::parse(parser, type);
  parser.emitError(loc) << "unknown attribute `" << mnemonic << "` in dialect `" << getNamespace()
                        << "`";
  return {};
}

void FusionDialect::printAttribute(Attribute attr, DialectAsmPrinter &printer) const {
  LogicalResult printed = generatedAttributePrinter(attr, printer);
  assert(succeeded(printed) && "attribute of another dialect");
  (void)printed;
}
