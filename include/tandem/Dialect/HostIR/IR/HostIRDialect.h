//===- HostIRDialect.h - hostir dialect -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_IR_HOSTIRDIALECT_H
#define TANDEM_DIALECT_HOSTIR_IR_HOSTIRDIALECT_H

#include "mlir/IR/Dialect.h"

#include "tandem/Dialect/HostIR/IR/HostIRDialect.h.inc"

#endif // TANDEM_DIALECT_HOSTIR_IR_HOSTIRDIALECT_H
