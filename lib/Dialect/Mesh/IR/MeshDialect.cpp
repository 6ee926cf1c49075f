//===- MeshDialect.cpp - the dialect of meshes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

#include "tandem/Dialect/Mesh/IR/MeshDialect.cpp.inc"
#include "tandem/Dialect/Mesh/IR/MeshEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Mesh/IR/MeshAttrs.cpp.inc"

#include "tandem/Dialect/Mesh/IR/MeshInterfaces.cpp.inc"

namespace {
/// Prints each mesh once, as the alias `#<its name>`.
struct MeshAsmInterface : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    auto mesh = dyn_cast<MeshAttr>(attr);
    if (!mesh || mesh.getName().empty())
      return AliasResult::NoAlias;
    os << mesh.getName().getValue();
    return AliasResult::FinalAlias;
  }
};
} // namespace

void MeshDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/Mesh/IR/MeshAttrs.cpp.inc"
      >();
  addInterfaces<MeshAsmInterface>();
}
