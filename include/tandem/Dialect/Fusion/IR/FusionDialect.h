//===- FusionDialect.h - fusion dialect -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONDIALECT_H
#define TANDEM_DIALECT_FUSION_IR_FUSIONDIALECT_H

#include "mlir/IR/Dialect.h"

#include "tandem/Dialect/Fusion/IR/FusionDialect.h.inc"

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONDIALECT_H
