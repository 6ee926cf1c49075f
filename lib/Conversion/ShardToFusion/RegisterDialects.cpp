//===- RegisterDialects.cpp - dialects of partitioned functions -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "tandem/Conversion/ShardToFusion/Passes.h"

void tandem::registerShardDialects(DialectRegistry &registry) {
  registry.insert<mlir::shard::ShardDialect, mlir::linalg::LinalgDialect>();
}
