//===- Mesh.h - device meshes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_MESH_IR_MESH_H
#define TANDEM_DIALECT_MESH_IR_MESH_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/Hashing.h"

namespace tandem {

/// One axis of a mesh. `size` is ShapedType::kDynamic for `?`.
struct MeshAxis {
  StringAttr name;
  int64_t size;
  bool operator==(const MeshAxis &o) const { return name == o.name && size == o.size; }
};
inline llvm::hash_code hash_value(const MeshAxis &a) {
  return llvm::hash_combine(a.name.getAsOpaquePointer(), a.size);
}

} // namespace tandem

#include "tandem/Dialect/Mesh/IR/MeshDialect.h.inc"
#include "tandem/Dialect/Mesh/IR/MeshEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Mesh/IR/MeshAttrs.h.inc"

#include "tandem/Dialect/Mesh/IR/MeshInterfaces.h.inc"

#endif // TANDEM_DIALECT_MESH_IR_MESH_H
