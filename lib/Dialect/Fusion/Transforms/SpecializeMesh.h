//===- SpecializeMesh.h - mesh sizes become numbers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEMESH_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEMESH_H

#include "PassLog.h"
#include "mlir/IR/BuiltinOps.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Puts the sizes of `options` (`axis=size` or `mesh.axis=size`) into every mesh of the module. An
/// option that fits no mesh, is no size, or contradicts a size that is known is an error at the
/// module.
LogicalResult specializeMeshes(ModuleOp module, ArrayRef<std::string> options, const PassLog &say);

/// Size of the mesh axis called `name` in any mesh of the module; nothing if no mesh has it or
/// meshes disagree.
std::optional<int64_t> findAxisSize(ModuleOp module, StringRef name);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEMESH_H
