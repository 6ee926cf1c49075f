//===- Passes.h - from upstream's shard dialect to fusion -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_SHARDTOFUSION_PASSES_H
#define TANDEM_CONVERSION_SHARDTOFUSION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

#define GEN_PASS_DECL
#include "tandem/Conversion/ShardToFusion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tandem/Conversion/ShardToFusion/Passes.h.inc"

/// Registers the upstream dialects of partitioned functions besides those of fusions: `shard`,
/// `linalg`.
void registerShardDialects(DialectRegistry &registry);

} // namespace tandem

#endif // TANDEM_CONVERSION_SHARDTOFUSION_PASSES_H
