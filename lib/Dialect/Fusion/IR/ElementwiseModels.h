//===- ElementwiseModels.h - arith and math ops in a fusion -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_IR_ELEMENTWISEMODELS_H
#define TANDEM_LIB_DIALECT_FUSION_IR_ELEMENTWISEMODELS_H

#include "mlir/IR/MLIRContext.h"

namespace tandem::fusion {

/// Gives the ops of `arith` and `math` that kernels compute their FusionTensorOpInterface. Both
/// dialects must be loaded.
void attachElementwiseModels(mlir::MLIRContext &context);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_ELEMENTWISEMODELS_H
