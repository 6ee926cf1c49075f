//===- AxesInference.h - axes through an op, forward and backward -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_AXESINFERENCE_H
#define TANDEM_DIALECT_FUSION_IR_AXESINFERENCE_H

#include "mlir/IR/Operation.h"
#include "tandem/Dialect/Fusion/IR/AxesRule.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tandem::fusion {

/// Whether an op runs on each device's piece: it has FusionTensorOpInterface, or the traits of an
/// elementwise op, and its results are ranked tensors. (`fusion-verify` rejects elementwise ops
/// without the interface, for kernels do not compute them.)
bool isLocalComputation(Operation *op);

/// Whether an op that computes locally is elementwise or a constant: its operands and results have
/// one type, but for their elements.
bool isElementwise(Operation *op);

/// The rule of an elementwise op, or constant, that commutes with no reduction.
AxesRule getElementwiseRule(Operation *op);

/// The op's rule; nothing if `isLocalComputation` is false.
std::optional<AxesRule> getAxesRule(Operation *op);

/// Where two sources of axes do not fit: what was found, and the operand (or -1: the result) that
/// it stands on.
struct AxesConflict {
  std::string reason;
  int64_t first = -1;
  int64_t second = -1;
};

/// Axes that result `result` gets if the op runs locally on operands with `operandAxes` (null:
/// undecided, says nothing). Digits of an undecided operand's own dimensions are taken as serial.
/// Null without a conflict: no operand says anything. On a conflict: null, and `conflict` says
/// which.
AxesAttr inferResultAxes(Operation *op, unsigned result, ArrayRef<AxesAttr> operandAxes,
                         std::optional<AxesConflict> &conflict);

/// Axes that operand `operand` must have for the op to run locally and give result `result` the
/// axes `resultAxes`; dimensions that the result says nothing of (a contracted one) take their
/// digits from the first of `operandAxes` that has them (null entries: undecided), and take the
/// mesh axes of these from the others. Null if there are none.
AxesAttr inferOperandAxes(Operation *op, unsigned operand, unsigned result, AxesAttr resultAxes,
                          ArrayRef<AxesAttr> operandAxes);

/// Axes of a tensor of `rank` dimensions over the pieces that an AxesRule cuts them into. Digits of
/// streams and serial ones are cut too; where a digit fits no piece all streams of its dimension
/// go, then device digits from the innermost on, until the rest fits. `lost`, if given, says which
/// digit did not fit, if a device digit went. Example: over the pieces 4 and 3 of a dimension of
/// 12, `didx("x") * stream(6)` with "x" = 2 is `didx("x") * stream(2)` and `stream(3)`.
AxesAttr splitAxes(ArrayRef<DimPiece> pieces, AxesAttr axes, std::string *lost = nullptr);
/// The inverse of splitAxes.
AxesAttr joinAxes(ArrayRef<DimPiece> pieces, AxesAttr axes, int64_t rank);
/// splitAxes of all operands or results, where the rule regroups dimensions; null entries stay.
/// Slices that do not pass whole end: all streams of the tensor go.
SmallVector<AxesAttr> splitOperandAxes(const AxesRule &rule, ArrayRef<AxesAttr> operands,
                                       std::string *lost = nullptr);
SmallVector<AxesAttr> splitResultAxes(const AxesRule &rule, ArrayRef<AxesAttr> results,
                                      std::string *lost = nullptr);

/// Success if the op runs without communication: the placement constraints of the op (`matmul_c6`,
/// `reduce_c4`, ...). All operands and results must be decided. Says why not through `emitError`,
/// if given.
LogicalResult verifyLocal(Operation *op, function_ref<InFlightDiagnostic()> emitError);

/// Names of mesh axes.
using AxisSet = llvm::SmallPtrSet<Attribute, 4>;

/// `dim` without the device digits of `axes`. Serial digits keep the places of those after them.
DimAxesAttr dropDevices(DimAxesAttr dim, MeshAttr mesh, const AxisSet &axes);

/// True if the op's result could be left out of a chain: undecided as its operands are, or decided
/// and local.
bool isTransparent(Operation *op);

/// Partial over the same mesh axes, in any order, by the same reduction.
bool samePartial(AxesAttr a, AxesAttr b);

/// Same digits but for stream ones, and partial alike: no element changes its devices.
bool samePlacement(AxesAttr a, AxesAttr b);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_AXESINFERENCE_H
