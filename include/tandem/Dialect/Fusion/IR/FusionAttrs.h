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

/// One digit of a dimension's index. `size` is n for stream(n) and serial(n), ShapedType::kDynamic
/// for bare `stream` (all that is left), and 0 where the mesh axis `axis` has it (`getDigitSize`):
/// didx("x"), stream("x") and serial("x"). The latter two become numbers as soon as the mesh has a
/// number, so that they are never seen behind `fusion-specialize`.
struct Digit {
  DigitKind kind;
  StringAttr axis;
  int64_t size;

  static Digit device(StringAttr axis) { return {DigitKind::Device, axis, 0}; }
  static Digit stream(int64_t n = ShapedType::kDynamic) { return {DigitKind::Stream, {}, n}; }
  static Digit serial(int64_t n) { return {DigitKind::Serial, {}, n}; }
  /// As many as the mesh axis has devices: stream("x"), serial("x").
  static Digit stream(StringAttr axis) { return {DigitKind::Stream, axis, 0}; }
  static Digit serial(StringAttr axis) { return {DigitKind::Serial, axis, 0}; }
  bool isDevice() const { return kind == DigitKind::Device; }
  bool isStream() const { return kind == DigitKind::Stream; }
  bool isSerial() const { return kind == DigitKind::Serial; }
  /// Its size is that of a mesh axis, but it is none of its digits.
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

/// Size of a digit over `mesh`: ShapedType::kDynamic for bare `stream`, and where it is that of a
/// mesh axis of unknown size.
inline int64_t getDigitSize(const Digit &digit, MeshAttr mesh) {
  return digit.axis ? mesh.axisSize(digit.axis.getValue()) : digit.size;
}

/// `dim` with a number for each stream("x") and serial("x") whose mesh axis has one.
DimAxesAttr resolveSymbolicDigits(DimAxesAttr dim, MeshAttr mesh);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_H
