//===- DimAxesSyntax.h - the text of one dimension's digits -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_IR_DIMAXESSYNTAX_H
#define TANDEM_LIB_DIALECT_FUSION_IR_DIMAXESSYNTAX_H

#include "mlir/IR/OpImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// dim ::= `-` | digit (`*` digit)*, inside `#fusion.axes<..., [dim,*]>`.
ParseResult parseDimAxes(AsmParser &parser, DimAxesAttr &dim);
std::string formatDimAxes(DimAxesAttr dim);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_IR_DIMAXESSYNTAX_H
