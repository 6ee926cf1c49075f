//===- AxesInference.cpp - axes through an op, forward and backward -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/AxesInference.h"

#include "AxesInferenceDetail.h"
#include "DimAxesSyntax.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

AxesRule AxesRule::elementwise(unsigned numOperands, unsigned numResults, int64_t rank) {
  AxesRule rule;
  rule.factors.assign(rank, FactorKind::Parallel);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  rule.operands.assign(numOperands, dims);
  rule.results.assign(numResults, dims);
  return rule;
}

bool fusion::isLocalComputation(Operation *op) {
  return llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>) &&
         (isa<FusionTensorOpInterface>(op) ||
          (OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1));
}

bool fusion::isElementwise(Operation *op) {
  return isLocalComputation(op) &&
         (OpTrait::hasElementwiseMappableTraits(op) || op->hasTrait<OpTrait::ConstantLike>());
}

AxesRule fusion::getElementwiseRule(Operation *op) {
  auto tensor = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  int64_t rank = tensor ? tensor.getRank() : 0;
  AxesRule rule = AxesRule::elementwise(op->getNumOperands(), op->getNumResults(), rank);
  for (auto [dims, type] : llvm::zip_equal(rule.operands, op->getOperandTypes()))
    if (!isa<RankedTensorType>(type))
      dims.clear();
  rule.partial = PartialKind::Never;
  return rule;
}

std::optional<AxesRule> fusion::getAxesRule(Operation *op) {
  if (!isLocalComputation(op))
    return std::nullopt;
  auto tensorOp = dyn_cast<FusionTensorOpInterface>(op);
  return tensorOp ? tensorOp.getAxesRule() : getElementwiseRule(op);
}

bool fusion::samePartial(AxesAttr a, AxesAttr b) {
  return a.getPartial().size() == b.getPartial().size() &&
         a.getPartialKind() == b.getPartialKind() &&
         llvm::all_of(a.getPartial(),
                      [&](StringAttr axis) { return llvm::is_contained(b.getPartial(), axis); });
}

bool fusion::samePlacement(AxesAttr a, AxesAttr b) {
  return a && b && a.getMesh() == b.getMesh() &&
         a.getPlacement().getDims() == b.getPlacement().getDims() && samePartial(a, b);
}

DimAxesAttr fusion::dropDevices(DimAxesAttr dim, MeshAttr mesh, const AxisSet &axes) {
  if (llvm::none_of(dim.getDigits(), [&](const Digit &digit) {
        return digit.isDevice() && axes.contains(digit.axis);
      }))
    return dim;
  SmallVector<Digit> digits;
  for (const Digit &digit : dim.getDigits()) {
    if (!digit.isDevice() || !axes.contains(digit.axis)) {
      digits.push_back(digit);
      continue;
    }
    if (mesh.axisSize(digit.axis.getValue()) != 1)
      digits.push_back(Digit::serial(digit.axis));
  }
  while (!digits.empty() && digits.back().isSerial())
    digits.pop_back();
  return resolveSymbolicDigits(DimAxesAttr::get(dim.getContext(), digits), mesh);
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

namespace {
/// The digits of a factor, and the operand with these digits (-1: none yet).
struct FactorDigits {
  DimAxesAttr digits;
  int64_t operand = -1;
};
} // namespace

/// Mesh axes of a dimension's device digits.
static SmallVector<StringAttr> deviceAxes(DimAxesAttr dim) {
  SmallVector<StringAttr> axes;
  for (const Digit &digit : dim.getDigits())
    if (digit.isDevice())
      axes.push_back(digit.axis);
  return axes;
}

/// Collects the operands' axes per factor. A split operand wins over one that is replicated along
/// the factor (a slice makes it fit without communication). Two different splits are a conflict.
static LogicalResult collectFactors(const AxesRule &rule, ArrayRef<AxesAttr> operandAxes,
                                    SmallVectorImpl<FactorDigits> &factors,
                                    std::optional<AxesConflict> &conflict) {
  factors.assign(rule.factors.size(), {});
  for (auto [operand, axes] : llvm::enumerate(operandAxes)) {
    if (!axes)
      continue;
    for (auto [dim, factor] : llvm::enumerate(rule.operands[operand])) {
      if (factor == AxesRule::kNone)
        continue;
      DimAxesAttr digits = axes.getDims()[dim];
      FactorDigits &found = factors[factor];
      if (isOnOneDevice(rule.factors[factor]) && digits.hasDevice()) {
        conflict = {"expected no device digit in dimension " + std::to_string(dim) +
                        ", which is needed whole, found " + formatDimAxes(digits),
                    static_cast<int64_t>(operand), -1};
        return failure();
      }
      if (found.operand < 0 || (!found.digits.hasDevice() && digits.hasDevice()) ||
          (found.digits.getDigits().empty() && !digits.getDigits().empty())) {
        found = {digits, static_cast<int64_t>(operand)};
        continue;
      }
      if (!digits.hasDevice())
        continue;
      DimAxesAttr mine = getDimPlacement(axes.getDims()[dim]);
      AxesAttr other = operandAxes[found.operand];
      int64_t otherDim =
          llvm::find(rule.operands[found.operand], factor) - rule.operands[found.operand].begin();
      if (mine != getDimPlacement(other.getDims()[otherDim])) {
        conflict = {"expected operands that are split alike, found " + formatDimAxes(found.digits) +
                        " and " + formatDimAxes(digits),
                    found.operand, static_cast<int64_t>(operand)};
        return failure();
      }
      if (!found.digits.hasStream() && digits.hasStream())
        found = {digits, static_cast<int64_t>(operand)};
    }
  }
  return success();
}

/// The mesh axes over which the results are partial, in the order of the mesh.
static LogicalResult collectPartial(const AxesRule &rule, ArrayRef<AxesAttr> operandAxes,
                                    ArrayRef<FactorDigits> factors, MeshAttr mesh,
                                    SmallVectorImpl<StringAttr> &partial, ReduceKind &kind,
                                    std::optional<AxesConflict> &conflict) {
  int64_t first = -1;
  auto fail = [&](std::string reason, int64_t operand) {
    conflict = {std::move(reason), operand, first == operand ? -1 : first};
    return failure();
  };
  AxisSet found;
  kind = rule.reduceKind;
  for (auto [operand, axes] : llvm::enumerate(operandAxes)) {
    if (!axes)
      continue;
    int64_t number = operand;
    if (axes.isPartial()) {
      if (rule.partial == PartialKind::Never || operand == rule.addedOnce)
        return fail("expected an operand that is not partial, found it partial over " +
                        ("\"" + axes.getPartial().front().getValue() + "\"").str(),
                    number);
      if (rule.partial == PartialKind::Alike)
        kind = axes.getPartialKind();
      else if (axes.getPartialKind() != kind)
        return fail(("expected an operand that is partial by '" + stringifyReduceKind(kind) +
                     "', found '" + stringifyReduceKind(axes.getPartialKind()) + "'")
                        .str(),
                    number);
    }
    if (rule.partial == PartialKind::Product) {
      for (StringAttr axis : axes.getPartial())
        if (!found.insert(axis).second)
          return fail("expected at most one factor that is partial over \"" + axis.str() +
                          "\", found two",
                      number);
    } else if (first >= 0) {
      AxesAttr other = operandAxes[first];
      if (!samePartial(other, axes))
        return fail("expected operands that are partial alike, found different ones", number);
    } else {
      found.insert(axes.getPartial().begin(), axes.getPartial().end());
    }
    if (first < 0)
      first = number;
  }
  for (auto [factor, digits] : llvm::zip_equal(rule.factors, factors))
    if (factor == FactorKind::Reduction && digits.operand >= 0)
      for (StringAttr axis : deviceAxes(digits.digits))
        if (!found.insert(axis).second)
          return fail("expected mesh axis \"" + axis.str() + "\" once, found it twice",
                      digits.operand);
  // A partial sum may only be combined with operands that are replicated along its axis.
  if (rule.partial == PartialKind::Product)
    for (auto [operand, axes] : llvm::enumerate(operandAxes))
      for (auto [other, otherAxes] : llvm::enumerate(operandAxes))
        if (other != operand && axes && otherAxes)
          for (StringAttr axis : axes.getPartial())
            if (otherAxes.dimOfDeviceAxis(axis.getValue()) >= 0)
              return fail("expected an operand that is replicated over \"" + axis.str() +
                              "\" beside one that is partial over it, found it split",
                          other);
  for (const MeshAxis &axis : mesh.getAxes())
    if (found.contains(axis.name))
      partial.push_back(axis.name);
  return success();
}

/// The mesh that all decided operands have; null if none is decided.
static LogicalResult commonMesh(ArrayRef<AxesAttr> operandAxes, MeshAttr &mesh,
                                std::optional<AxesConflict> &conflict) {
  int64_t first = -1;
  for (auto [operand, axes] : llvm::enumerate(operandAxes)) {
    if (!axes)
      continue;
    if (mesh && mesh != axes.getMesh()) {
      conflict = {"expected operands on one mesh, found \"" + mesh.getName().str() + "\" and \"" +
                      axes.getMesh().getName().str() + "\"",
                  first, static_cast<int64_t>(operand)};
      return failure();
    }
    if (first < 0)
      first = operand;
    mesh = axes.getMesh();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Inference
//===----------------------------------------------------------------------===//

AxesAttr fusion::inferResultAxes(Operation *op, unsigned result, ArrayRef<AxesAttr> operandAxes,
                                 std::optional<AxesConflict> &conflict) {
  std::optional<AxesRule> rule = getAxesRule(op);
  if (!rule)
    return {};
  std::string lost;
  SmallVector<AxesAttr> split = splitOperandAxes(*rule, operandAxes, &lost);
  if (!lost.empty()) {
    conflict = {lost, 0, -1};
    return {};
  }
  operandAxes = split;
  MeshAttr mesh;
  SmallVector<FactorDigits> factors;
  SmallVector<StringAttr> partial;
  ReduceKind kind;
  if (failed(commonMesh(operandAxes, mesh, conflict)) || !mesh ||
      failed(collectFactors(*rule, operandAxes, factors, conflict)) ||
      failed(collectPartial(*rule, operandAxes, factors, mesh, partial, kind, conflict)))
    return {};
  SmallVector<DimAxesAttr> dims;
  llvm::SmallDenseMap<StringAttr, int64_t> used;
  for (StringAttr axis : partial)
    used[axis] = -1;
  for (int64_t factor : rule->results[result]) {
    const FactorDigits &found = factor == AxesRule::kNone ? FactorDigits() : factors[factor];
    // Sliced and concatenated dimensions have other extents on the other side: digits do not pass.
    bool passes = found.operand >= 0 && !isOnOneDevice(rule->factors[factor]);
    DimAxesAttr digits = passes ? found.digits : DimAxesAttr::get(op->getContext(), {});
    for (StringAttr axis : deviceAxes(digits)) {
      auto [it, isNew] = used.try_emplace(axis, found.operand);
      if (!isNew) {
        conflict = {"expected mesh axis \"" + axis.str() +
                        "\" to split one dimension of the result, found it in two",
                    found.operand, it->second};
        return {};
      }
    }
    dims.push_back(digits);
  }
  AxesAttr axes = AxesAttr::get(op->getContext(), mesh, dims, partial,
                                partial.empty() ? ReduceKind::Sum : kind);
  if (rule->isOrdered)
    return axes.getPlacement();
  if (!rule->regroups())
    return axes;
  return joinAxes(rule->resultPieces[result], axes,
                  cast<RankedTensorType>(op->getResult(result).getType()).getRank());
}

AxesAttr fusion::inferOperandAxes(Operation *op, unsigned operand, unsigned result,
                                  AxesAttr resultAxes, ArrayRef<AxesAttr> operandAxes) {
  std::optional<AxesRule> rule = getAxesRule(op);
  auto type = dyn_cast<RankedTensorType>(op->getOperand(operand).getType());
  if (!rule || !type)
    return {};
  SmallVector<AxesAttr> results(op->getNumResults());
  results[result] = resultAxes;
  resultAxes = splitResultAxes(*rule, results)[result];
  SmallVector<AxesAttr> split = splitOperandAxes(*rule, operandAxes);
  operandAxes = split;
  auto siblingDigits = [&](int64_t factor) -> DimAxesAttr {
    for (auto [axes, factors] : llvm::zip_equal(operandAxes, rule->operands)) {
      const int64_t *it = llvm::find(factors, factor);
      if (axes && axes.getMesh() == resultAxes.getMesh() && it != factors.end())
        return axes.getDims()[it - factors.begin()];
    }
    return DimAxesAttr::get(op->getContext(), {});
  };
  MLIRContext *context = op->getContext();
  ArrayRef<int64_t> factors = rule->operands[operand];
  SmallVector<DimAxesAttr> dims(factors.size(), DimAxesAttr::get(context, {}));
  auto passes = [&](int64_t factor) {
    return factor != AxesRule::kNone && !isOnOneDevice(rule->factors[factor]);
  };
  ArrayRef<int64_t> resultFactors = rule->results[result];
  AxisSet reduced;
  for (auto [dim, factor] : llvm::enumerate(factors)) {
    if (!passes(factor) || llvm::is_contained(resultFactors, factor))
      continue;
    dims[dim] = siblingDigits(factor);
    for (StringAttr axis : deviceAxes(dims[dim]))
      if (!reduced.insert(axis).second)
        return {};
  }
  // After a contraction the result is scattered along its mesh axes.
  for (auto [dim, factor] : llvm::enumerate(factors))
    if (const int64_t *it = llvm::find(resultFactors, factor);
        passes(factor) && it != resultFactors.end())
      dims[dim] = dropDevices(resultAxes.getDims()[it - resultFactors.begin()],
                              resultAxes.getMesh(), reduced);
  // The operand is partial over the result's partial axes that the reduction here does not explain.
  SmallVector<StringAttr> partial;
  for (StringAttr axis : resultAxes.getPartial())
    if (!reduced.contains(axis))
      partial.push_back(axis);
  bool reduces = llvm::is_contained(rule->factors, FactorKind::Reduction);
  if (!partial.empty() && (rule->partial == PartialKind::Never || reduces))
    return {};
  AxesAttr axes = AxesAttr::get(context, resultAxes.getMesh(), dims, partial,
                                partial.empty() ? ReduceKind::Sum : resultAxes.getPartialKind());
  if (!rule->regroups())
    return axes;
  return joinAxes(rule->operandPieces[operand], axes, type.getRank());
}
