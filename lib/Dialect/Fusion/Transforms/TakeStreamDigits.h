//===- TakeStreamDigits.h - a value is computed in the loop of its consumer -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_TAKESTREAMDIGITS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_TAKESTREAMDIGITS_H

#include "mlir/IR/Operation.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// Lets each of `values` be computed in the loop of the one op that is computed from it: it takes
/// the stream digits of that op's result where a dimension is placed alike. All are decided; they
/// stand in program order.
void takeStreamDigits(ArrayRef<Value> values);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_TAKESTREAMDIGITS_H
