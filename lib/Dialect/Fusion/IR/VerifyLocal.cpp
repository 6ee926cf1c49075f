//===- VerifyLocal.cpp - the placement constraints of ops that run locally -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AxesInferenceDetail.h"
#include "DimAxesSyntax.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

bool fusion::isTransparent(Operation *op) {
  auto undecided = [](Type type) { return isa<RankedTensorType>(type) && !getAxes(type); };
  if (llvm::all_of(op->getOperandTypes(), undecided) &&
      llvm::all_of(op->getResultTypes(), undecided))
    return true;
  return !llvm::any_of(op->getOperandTypes(), undecided) &&
         !llvm::any_of(op->getResultTypes(), undecided) && succeeded(verifyLocal(op, nullptr));
}

LogicalResult fusion::verifyFits(func::FuncOp function) {
  auto verify = [](Value value) {
    AxesAttr axes = getAxes(value);
    return !axes || succeeded(axes.verifyFits(cast<RankedTensorType>(value.getType()).getShape(),
                                              [&] { return emitError(value.getLoc()); }));
  };
  if (function.isExternal())
    return success();
  return success(llvm::all_of(function.getArguments(), verify) &&
                 !function
                      .walk([&](Operation *op) {
                        return llvm::all_of(op->getResults(), verify) ? WalkResult::advance()
                                                                      : WalkResult::interrupt();
                      })
                      .wasInterrupted());
}

/// Whether a constant equals the combination of copies of itself: 0 for a sum, anything for a
/// maximum, and empty constants.
static bool isItsOwnTerm(Operation *constant, ReduceKind kind) {
  DenseElementsAttr elements;
  return kind != ReduceKind::Sum || matchPattern(constant, m_AnyZeroFloat()) ||
         matchPattern(constant, m_Zero()) ||
         (matchPattern(constant, m_Constant(&elements)) && elements.empty());
}

static AxisSet getSingleDeviceAxes(MeshAttr mesh) {
  AxisSet axes;
  for (const MeshAxis &axis : mesh.getAxes())
    if (axis.size == 1)
      axes.insert(axis.name);
  return axes;
}

bool fusion::isOneRange(AxesAttr axes) {
  return llvm::all_of(axes.getPlacement().getDims(), [&](DimAxesAttr dim) {
    MeshAttr mesh = axes.getMesh();
    DimAxesAttr known =
        resolveSymbolicDigits(dropDevices(dim, mesh, getSingleDeviceAxes(mesh)), mesh);
    return llvm::none_of(known.getDigits(), [](const Digit &digit) {
      return digit.isSerial() && !digit.isSymbolic();
    });
  });
}

namespace {
/// What an op that computes locally requires of the axes of its operands and results.
class LocalVerifier {
public:
  LocalVerifier(Operation *op, const AxesRule &rule, function_ref<InFlightDiagnostic()> emitError)
      : op(op), rule(rule), emitError(emitError), factors(rule.factors.size()),
        slices(rule.factors.size()) {}

  LogicalResult verify();

private:
  LogicalResult fail(const Twine &reason) const {
    if (emitError)
      emitError() << reason;
    return failure();
  }
  LogicalResult verifyOneMesh() const;
  /// Each dimension is split as that of its factor elsewhere, and not over devices if it is needed
  /// whole.
  LogicalResult verifyFactors(AxesAttr axes, ArrayRef<int64_t> dims, const Twine &what);
  LogicalResult verifyResult(unsigned i, AxesAttr axes);
  LogicalResult verifySlices(unsigned i, AxesAttr axes);
  LogicalResult verifyPartial(unsigned i, AxesAttr axes) const;

  Operation *op;
  const AxesRule &rule;
  function_ref<InFlightDiagnostic()> emitError;
  SmallVector<AxesAttr> operandAxes;
  SmallVector<DimAxesAttr> factors; ///< placement, from the first operand or result that has it
  SmallVector<DimAxesAttr> slices;  ///< digits in results: loops slice all results alike
};
} // namespace

LogicalResult LocalVerifier::verify() {
  auto axesOf = [](TypeRange types) {
    return llvm::map_to_vector(types, [](Type type) { return getAxes(type); });
  };
  operandAxes = axesOf(op->getOperandTypes());
  if (failed(verifyOneMesh()))
    return failure();
  std::string lost;
  SmallVector<AxesAttr> operandPieces = splitOperandAxes(rule, operandAxes, &lost);
  SmallVector<AxesAttr> resultPieces = splitResultAxes(rule, axesOf(op->getResultTypes()), &lost);
  if (!lost.empty())
    return fail(lost);
  for (auto [i, axes] : llvm::enumerate(operandPieces))
    if (axes && failed(verifyFactors(axes, rule.operands[i], "operand " + Twine(i))))
      return failure();
  for (auto [i, axes] : llvm::enumerate(resultPieces))
    if (axes && failed(verifyResult(i, axes)))
      return failure();
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    if (AxesAttr axes = getAxes(type); axes && failed(verifyPartial(i, axes)))
      return failure();
  return success();
}

LogicalResult LocalVerifier::verifyOneMesh() const {
  MeshAttr mesh;
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    AxesAttr axes = getAxes(type);
    if (!axes)
      continue;
    if (mesh && axes.getMesh() != mesh)
      return fail("expected operands and results on one mesh, found \"" +
                  mesh.getName().getValue() + "\" and \"" + axes.getMesh().getName().getValue() +
                  "\"");
    mesh = axes.getMesh();
  }
  return success();
}

LogicalResult LocalVerifier::verifyFactors(AxesAttr axes, ArrayRef<int64_t> dims,
                                           const Twine &what) {
  for (auto [dim, factor] : llvm::enumerate(dims)) {
    if (factor == AxesRule::kNone)
      continue;
    DimAxesAttr digits = getDimPlacement(axes.getDims()[dim]);
    // The axis of a single device between two pieces of a dimension belongs to either.
    if (rule.regroups())
      digits = dropDevices(digits, axes.getMesh(), getSingleDeviceAxes(axes.getMesh()));
    if (isOnOneDevice(rule.factors[factor]) && digits.hasDevice())
      return fail("expected no device digit in dimension " + Twine(dim) + " of " + what +
                  ", which is needed whole, found " + formatDimAxes(digits));
    if (!factors[factor])
      factors[factor] = digits;
    else if (factors[factor] != digits)
      return fail("expected dimension " + Twine(dim) + " of " + what + " to be split as " +
                  formatDimAxes(factors[factor]) + ", found " + formatDimAxes(digits));
  }
  return success();
}

LogicalResult LocalVerifier::verifyResult(unsigned i, AxesAttr axes) {
  if (failed(verifyFactors(axes, rule.results[i], "result " + Twine(i))))
    return failure();
  if (rule.isOrdered && axes.hasStream())
    return fail("expected no stream digits in result " + Twine(i) +
                ", whose kernel writes memory of its own, found " + formatAxes(axes));
  if (rule.isOrdered && !isOneRange(axes))
    return fail("expected one range of indices on a device in each dimension of result " +
                Twine(i) + ", whose kernel writes memory of its own, found " + formatAxes(axes));
  return verifySlices(i, axes);
}

LogicalResult LocalVerifier::verifySlices(unsigned i, AxesAttr axes) {
  for (auto [dim, factor] : llvm::enumerate(rule.results[i])) {
    DimAxesAttr digits = axes.getDims()[dim];
    // Ops that do more than one call may be cut open by their lowering.
    if (rule.callsOnce && factor != AxesRule::kNone && digits.hasStream() &&
        rule.factors[factor] == FactorKind::Whole)
      return fail("expected no stream digit in dimension " + Twine(dim) + " of result " + Twine(i) +
                  ", which one call computes, found " + formatDimAxes(digits));
    if (factor == AxesRule::kNone || op->getNumResults() == 1)
      continue;
    if (!slices[factor])
      slices[factor] = digits;
    else if (slices[factor] != digits)
      return fail("expected dimension " + Twine(dim) + " of result " + Twine(i) +
                  " to be sliced as " + formatDimAxes(slices[factor]) + ", found " +
                  formatDimAxes(digits));
  }
  return success();
}

LogicalResult LocalVerifier::verifyPartial(unsigned i, AxesAttr axes) const {
  auto firstPartial = [&] { return axes.getPartial().front().getValue(); };
  if (op->getNumOperands() == 0) {
    if (axes.isPartial() && !isItsOwnTerm(op, axes.getPartialKind()))
      return fail("expected a constant that is not partial, found it partial over \"" +
                  firstPartial() + "\"");
    return success();
  }
  if (rule.addedOnce && axes.isPartial())
    return fail("expected no bias with a result that is partial over \"" + firstPartial() +
                "\": each partial sum would include it");
  std::optional<AxesConflict> conflict;
  AxesAttr inferred = inferResultAxes(op, i, operandAxes, conflict);
  if (conflict)
    return fail(conflict->reason);
  // Dimensions have been compared; new ones may have any digits.
  if (inferred && !samePartial(inferred, axes))
    return fail("expected result " + Twine(i) + " with axes " + formatAxes(inferred) + ", found " +
                formatAxes(axes));
  return success();
}

LogicalResult fusion::verifyLocal(Operation *op, function_ref<InFlightDiagnostic()> emitError) {
  if (std::optional<AxesRule> rule = getAxesRule(op))
    return LocalVerifier(op, *rule, emitError).verify();
  if (emitError)
    emitError() << "expected an operation that computes locally, found '"
                << op->getName().getStringRef() << "'";
  return failure();
}
