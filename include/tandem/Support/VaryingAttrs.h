//===- VaryingAttrs.h - attributes of extents that vary from run to run ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_VARYINGATTRS_H
#define TANDEM_SUPPORT_VARYINGATTRS_H

#include "llvm/ADT/StringRef.h"

namespace tandem::fusion {

/// `fusion.varying` on an argument or result: the dimensions whose extent is known only when the
/// program runs, and is at most the type's (fusion-bound-extents).
inline constexpr llvm::StringLiteral kVaryingAttrName = "fusion.varying";
/// `fusion.mask` on an argument of one varying dimension: the runtime binds it, to true up to the
/// run's extent and false behind it.
inline constexpr llvm::StringLiteral kMaskAttrName = "fusion.mask";

} // namespace tandem::fusion

namespace tandem::hostir {

/// The same on arguments of `hostir.program`.
inline constexpr llvm::StringLiteral kVaryingAttrName = "hostir.varying";
inline constexpr llvm::StringLiteral kMaskAttrName = "hostir.mask";

} // namespace tandem::hostir

#endif // TANDEM_SUPPORT_VARYINGATTRS_H
