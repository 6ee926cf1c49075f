//===- ElementTypes.h - what tensors and buffers hold -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_ELEMENTTYPES_H
#define TANDEM_SUPPORT_ELEMENTTYPES_H

#include "mlir/IR/BuiltinTypes.h"

namespace tandem {

/// The element types of tensors, buffers and kernels, as in the stream program.
inline constexpr llvm::StringLiteral kElementTypes =
    "f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1";

/// Factors of a matmul whose result has a wider type; otherwise only moved and converted.
inline bool isFp8(mlir::Type type) {
  return mlir::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(type);
}

inline bool isElementType(mlir::Type type) {
  return type.isF32() || type.isF16() || type.isBF16() || type.isF64() || isFp8(type) ||
         type.isSignlessInteger(32) || type.isSignlessInteger(64) || type.isSignlessInteger(16) ||
         type.isSignlessInteger(8) || type.isSignlessInteger(1);
}

/// Whether elements can be combined by sum, max or min: i16 is for the bits of f16 and bf16, and
/// sums are not kept in 8 bits.
inline bool isReducible(mlir::Type type) { return !type.isInteger(16) && !isFp8(type); }

/// Bytes of one element in memory; an i1 takes one.
inline int64_t getElementBytes(mlir::Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

} // namespace tandem

#endif // TANDEM_SUPPORT_ELEMENTTYPES_H
