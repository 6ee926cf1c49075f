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

/// Sets the sizes in `options` (`axis=size` or `mesh.axis=size`) in every mesh of the module. An
/// option that is malformed, matches no mesh or contradicts a known size is an error at the module.
/// Meshes that had a `?` and have as many devices as `devices` get these.
LogicalResult specializeMeshes(ModuleOp module, ArrayRef<std::string> options,
                               ArrayRef<int64_t> devices, const PassLog &logger);

/// Size of mesh axis `name` in the module; none if no mesh has it or sizes differ.
std::optional<int64_t> findAxisSize(ModuleOp module, StringRef name);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_SPECIALIZEMESH_H
