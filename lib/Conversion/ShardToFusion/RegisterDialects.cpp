//===- RegisterDialects.cpp - dialects of partitioned functions -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "tandem/Conversion/ShardToFusion/Passes.h"

void tandem::registerShardDialects(DialectRegistry &registry) {
  registry.insert<mlir::shard::ShardDialect, mlir::linalg::LinalgDialect,
                  mlir::affine::AffineDialect>();
  // Of modules with a grid alone, not as a dialect that the pass depends on: to load it, and what
  // it loads, is a part of a small program's compile time.
  registry.addExtension(+[](mlir::MLIRContext *context, mlir::shard::ShardDialect *) {
    context->loadDialect<mlir::tensor::TensorDialect>();
  });
}
