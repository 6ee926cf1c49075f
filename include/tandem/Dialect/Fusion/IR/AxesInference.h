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

/// Whether an op runs on each device's shard: it has FusionTensorOpInterface, or the traits of an
/// elementwise op, and its results are ranked tensors. (`fusion-verify` rejects elementwise ops
/// without the interface: kernels do not support them.)
bool isLocalComputation(Operation *op);

/// Whether an op that computes locally is elementwise or a constant: its operands and results have
/// one type except for the elements.
bool isElementwise(Operation *op);

/// The rule of an elementwise op or constant that commutes with no reduction.
AxesRule getElementwiseRule(Operation *op);

/// The op's rule; none if `isLocalComputation` is false.
std::optional<AxesRule> getAxesRule(Operation *op);

/// Two operands whose axes do not fit: the reason, and their numbers (-1: the result).
struct AxesConflict {
  std::string reason;
  int64_t first = -1;
  int64_t second = -1;
};

/// The axes of result `result` if the op runs locally on operands with `operandAxes` (null:
/// undecided). Dimensions only of undecided operands are taken as serial. Null with `conflict`
/// unset: all operands are undecided. Null with `conflict` set: two operands disagree. Example:
/// matmul of `[didx("x"), -]` and undecided gives `[didx("x"), -]`.
AxesAttr inferResultAxes(Operation *op, unsigned result, ArrayRef<AxesAttr> operandAxes,
                         std::optional<AxesConflict> &conflict);

/// The axes that operand `operand` needs so that the op runs locally and result `result` has the
/// axes `resultAxes`. Contracted dimensions take their digits from the first of `operandAxes`
/// (null: undecided) that has the dimension; the other dimensions lose these digits' mesh axes.
/// Null if there are none. Example: for a permute by [1, 0] and the result `[-, didx("x")]`, the
/// operand is
/// `[didx("x"), -]`.
AxesAttr inferOperandAxes(Operation *op, unsigned operand, unsigned result, AxesAttr resultAxes,
                          ArrayRef<AxesAttr> operandAxes);

/// The axes of a tensor whose dimensions are cut into `pieces`, one dimension per piece. Stream and
/// serial digits are cut too. If a digit fits no piece, all streams of its dimension are dropped,
/// then device digits from the innermost on, until the rest fits. `lost`, if given, gets the reason
/// if a device digit was dropped. Example: for the pieces 4 and 3 of a dimension of 12, `didx("x")
/// * stream(6)` with "x" = 2 becomes `didx("x") * stream(2)` and `stream(3)`.
AxesAttr splitAxes(ArrayRef<DimPiece> pieces, AxesAttr axes, std::string *lost = nullptr);
/// The inverse of splitAxes. Example: `didx("x") * stream(2)` and `stream(3)` for the pieces 4 and
/// 3 become `didx("x") * stream(2) * stream(3)`.
AxesAttr joinAxes(ArrayRef<DimPiece> pieces, AxesAttr axes, int64_t rank);
/// splitAxes of all operands or results if the rule regroups dimensions; null entries stay null. If
/// a stream digit is lost, all streams of its tensor are dropped. Example: for `reshape 8x6 ->
/// 2x24`, the operand `[stream(2), -]` becomes `[stream(2), -, -]` over the pieces 2, 4 and 6.
SmallVector<AxesAttr> splitOperandAxes(const AxesRule &rule, ArrayRef<AxesAttr> operands,
                                       std::string *lost = nullptr);
SmallVector<AxesAttr> splitResultAxes(const AxesRule &rule, ArrayRef<AxesAttr> results,
                                      std::string *lost = nullptr);

/// Success if the op runs without communication, by its placement constraints (`matmul_c6`,
/// `reduce_c4`, ...). All operands and results must be decided. Reports the reason through
/// `emitError`, if given.
LogicalResult verifyLocal(Operation *op, function_ref<InFlightDiagnostic()> emitError);

/// Success if the digits of all values fit their extents (AxesAttr::verifyFits), so that the
/// functions of Placement.h know them; an error at a value otherwise.
LogicalResult verifyFits(func::FuncOp function);

/// Names of mesh axes.
using AxisSet = llvm::SmallPtrSet<Attribute, 4>;

/// `dim` without the device digits of `axes`; a serial digit replaces each before other digits.
/// Example: `didx("x") * stream(2)` without "x" = 4 is `serial(4) * stream(2)`.
DimAxesAttr dropDevices(DimAxesAttr dim, MeshAttr mesh, const AxisSet &axes);

/// Whether the indices of a device are one range in each dimension: none is split into digits that
/// are kept outside of a device digit.
bool isOneRange(AxesAttr axes);

/// True if the op may be skipped in a chain: all operands and results are undecided, or it is
/// decided and local.
bool isTransparent(Operation *op);

/// Partial over the same mesh axes, in any order, with the same reduction. Example: `partial =
/// ["x", "y"]` and `partial = ["y", "x"]` are the same; `partial = max ["x"]` and `partial = ["x"]`
/// differ.
bool samePartial(AxesAttr a, AxesAttr b);

/// Equal placement, and partial alike: no element changes devices. Example: `[didx("x") *
/// stream(2)]` and `[didx("x")]`.
bool samePlacement(AxesAttr a, AxesAttr b);

} // namespace tandem::fusion

#endif // TANDEM_DIALECT_FUSION_IR_AXESINFERENCE_H
