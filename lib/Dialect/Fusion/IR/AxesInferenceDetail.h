//===- AxesInferenceDetail.h - pieces of the inference of axes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_IR_AXESINFERENCEDETAIL_H
#define TANDEM_LIB_DIALECT_FUSION_IR_AXESINFERENCEDETAIL_H

#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// The digits of one dimension without stream digits, which become serial; adjacent serial digits
/// are merged, trailing ones dropped. Example: `stream(2) * didx("x") * stream(3)` is `serial(2) *
/// didx("x")`.
DimAxesAttr getDimPlacement(DimAxesAttr dim);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_AXESINFERENCEDETAIL_H
