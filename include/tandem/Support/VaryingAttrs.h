//===- VaryingAttrs.h - attributes of extents that vary from run to run ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_VARYINGATTRS_H
#define TANDEM_SUPPORT_VARYINGATTRS_H

#include "mlir/IR/BuiltinAttributes.h"

namespace tandem {

/// Whether these are dimensions (array<i64>) in ascending order, below `count`.
inline bool areDims(mlir::Attribute attr, int64_t count) {
  auto dims = llvm::dyn_cast<mlir::DenseI64ArrayAttr>(attr);
  if (!dims)
    return false;
  int64_t least = 0;
  for (int64_t dim : dims.asArrayRef()) {
    if (dim < least || dim >= count)
      return false;
    least = dim + 1;
  }
  return true;
}

} // namespace tandem

namespace tandem::fusion {

/// `fusion.varying` on an argument or result: the dimensions whose extent is known only when the
/// program runs, and is at most the type's (fusion-bound-extents). On `fusion.call`: those of its
/// parallel dimensions, by number: 0 is the first letter of a result. On `fusion.reshape`, from
/// fusion-specialize to fusion-bound-extents: those of the operand and of the result, two lists.
inline constexpr llvm::StringLiteral kVaryingAttrName = "fusion.varying";
/// `fusion.mask` on an argument of one varying dimension: the runtime binds it, to true up to the
/// run's extent and false after it.
inline constexpr llvm::StringLiteral kMaskAttrName = "fusion.mask";

} // namespace tandem::fusion

namespace tandem::hostir {

/// The same on arguments of `hostir.program`, and on `hostir.call`.
inline constexpr llvm::StringLiteral kVaryingAttrName = "hostir.varying";
inline constexpr llvm::StringLiteral kMaskAttrName = "hostir.mask";

} // namespace tandem::hostir

#endif // TANDEM_SUPPORT_VARYINGATTRS_H
