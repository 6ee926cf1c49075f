//===- FusionAttrs.h - fusion attributes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_H
#define TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TensorEncoding.h"
#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/Hashing.h"

namespace tandem::fusion {

enum class DigitKind { Device, Stream, Serial };

/// One digit: a factor of a split dimension. `size` is n for stream(n) and serial(n),
/// ShapedType::kDynamic for bare `stream` (the rest of the extent), and 0 if the size is that of
/// mesh axis `axis`: didx("x"), stream("x") and serial("x"). `fusion-specialize` turns the latter
/// two into numbers. Example: 8 rows as `didx("x") * stream(2)` with "x" = 4: row 2 has the digits
/// 1 and 0.
struct Digit {
  DigitKind kind;
  StringAttr axis;
  int64_t size;

  static Digit device(StringAttr axis) { return {DigitKind::Device, axis, 0}; }
  static Digit stream(int64_t n = ShapedType::kDynamic) { return {DigitKind::Stream, {}, n}; }
  static Digit serial(int64_t n) { return {DigitKind::Serial, {}, n}; }
  /// The size of a mesh axis: stream("x"), serial("x").
  static Digit stream(StringAttr axis) { return {DigitKind::Stream, axis, 0}; }
  static Digit serial(StringAttr axis) { return {DigitKind::Serial, axis, 0}; }
  bool isDevice() const { return kind == DigitKind::Device; }
  bool isStream() const { return kind == DigitKind::Stream; }
  bool isSerial() const { return kind == DigitKind::Serial; }
  /// Has the size of a mesh axis without splitting over its devices.
  bool isSymbolic() const { return axis && !isDevice(); }
  /// Bare `stream`.
  bool isRest() const { return isStream() && ShapedType::isDynamic(size); }
  bool operator==(const Digit &o) const {
    return kind == o.kind && axis == o.axis && size == o.size;
  }
};
inline llvm::hash_code hash_value(const Digit &d) {
  return llvm::hash_combine(static_cast<int>(d.kind), d.axis.getAsOpaquePointer(), d.size);
}

} // namespace tandem::fusion

#include "tandem/Dialect/Fusion/IR/FusionEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h.inc"

namespace tandem::fusion {

/// A digit's size on `mesh`. ShapedType::kDynamic for bare `stream` and mesh axes of unknown size.
/// Example: 4 for didx("x") with "x" = 4.
inline int64_t getDigitSize(const Digit &digit, MeshAttr mesh) {
  return digit.axis ? mesh.axisSize(digit.axis.getValue()) : digit.size;
}

/// `dim` with numbers for stream("x") and serial("x") if the mesh knows x. Example: stream("x")
/// with "x" = 4 is stream(4).
DimAxesAttr resolveSymbolicDigits(DimAxesAttr dim, MeshAttr mesh);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_H
