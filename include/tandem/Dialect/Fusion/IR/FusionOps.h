//===- FusionOps.h - fusion operations -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONOPS_H
#define TANDEM_DIALECT_FUSION_IR_FUSIONOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Fusion/IR/AxesRule.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Support/LLVM.h"

#include "tandem/Dialect/Fusion/IR/FusionInterfaces.h.inc"

namespace tandem::fusion {

/// Success if every discardable attribute has a dialect prefix, as `fusion.schedule` has. Other
/// names are typing errors: the diagnostic suggests the closest attribute that the op accepts.
LogicalResult verifyAttributeNames(Operation *op);

/// Adds `verifyAttributeNames` to the op's verifier. (The derived class is MLIR's Op<OpT, ...>, so
/// OpT cannot be a friend.)
template <typename OpT>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
struct KnownAttributes : public mlir::OpTrait::TraitBase<OpT, KnownAttributes> {
  static LogicalResult verifyTrait(Operation *op) { return verifyAttributeNames(op); }
};

/// Every element of the one result is an element of the one operand (permute, slice, ...): of a
/// constant with one value, it is that value.
template <typename OpT>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
struct SelectsElements : public mlir::OpTrait::TraitBase<OpT, SelectsElements> {};

} // namespace tandem::fusion

#define GET_OP_CLASSES
#include "tandem/Dialect/Fusion/IR/FusionOps.h.inc"

namespace tandem::fusion {

/// Attributes of functions and arguments.
/// `fusion.shape` on an argument: an array of integers and mesh axis names (for axis sizes), one
/// per dimension. The extents that `fusion-specialize` uses for `?` if no shape is given.
inline constexpr llvm::StringLiteral kShapeAttrName = "fusion.shape";
/// `fusion.name` on an argument or result: its name in tools; default arg0, ... and res0, ...
inline constexpr llvm::StringLiteral kNameAttrName = "fusion.name";
/// `fusion.extents` on an argument or result: the extents of the embedder's tensor, if the type's
/// are padded (fusion-pad-extents).
inline constexpr llvm::StringLiteral kExtentsAttrName = "fusion.extents";
/// `fusion.reference_of` on a function: it is the unsharded reference of that function.
inline constexpr llvm::StringLiteral kReferenceOfAttrName = "fusion.reference_of";
/// `fusion.deterministic` on a function: what the last bits of its results may not depend on.
/// "bitwise": timing, schedule, slices and machine file; "batch": also the number of rows; "tp":
/// also the number of devices (docs/semantics.md).
inline constexpr llvm::StringLiteral kDeterministicAttrName = "fusion.deterministic";
inline constexpr llvm::StringLiteral kSameOnAllMeshes = "tp";
inline bool isDeterminism(StringRef level) {
  return level == "bitwise" || level == "batch" || level == kSameOnAllMeshes;
}
inline bool isDeterministic(Operation *func) { return func->hasAttr(kDeterministicAttrName); }

inline bool isSameOnAllMeshes(Operation *func) {
  auto level = func->getAttrOfType<StringAttr>(kDeterministicAttrName);
  return level && level == kSameOnAllMeshes;
}

/// Hints on an op for `fusion-insert-reshards`, which erases them. `fusion.schedule`: the schedule
/// (a ScheduleAttr) of the reshards inserted for the op. `fusion.gather`: their side, "before" or
/// "after".
inline constexpr llvm::StringLiteral kScheduleAttrName = "fusion.schedule";
inline constexpr llvm::StringLiteral kGatherAttrName = "fusion.gather";

/// The axes of a ranked tensor type; null if undecided.
AxesAttr getAxes(Type type);
inline AxesAttr getAxes(Value value) { return getAxes(value.getType()); }
/// `type` with other axes (null: undecided).
RankedTensorType withAxes(RankedTensorType type, AxesAttr axes);
/// The result of an empty reduction of elements of `type`: 0, or the least or greatest number of
/// the type. Example: false for the maximum of i1.
TypedAttr getIdentity(ReduceKind kind, Type type);
/// For diagnostics: `[didx("x"), -], partial = ["y"] on #tp`.
std::string formatAxes(AxesAttr axes);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONOPS_H
