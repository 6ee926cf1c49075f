//===- ChooseFactors.cpp - axes for an op whose operands do not fit each other -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseFactors.h"

#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

DimAxesAttr fusion::placementOf(DimAxesAttr dim, MeshAttr mesh) {
  return AxesAttr::get(dim.getContext(), mesh, dim, {}, ReduceKind::Sum)
      .getPlacement()
      .getDims()[0];
}

bool fusion::refines(DimAxesAttr a, DimAxesAttr b, int64_t extent, MeshAttr mesh) {
  if (!b.hasDevice())
    return true;
  FailureOr<SmallVector<ResolvedDigit>> mine = resolveDim(a, extent, mesh);
  FailureOr<SmallVector<ResolvedDigit>> other = resolveDim(b, extent, mesh);
  if (failed(mine) || failed(other))
    return false;
  return llvm::all_of(*other, [&](const ResolvedDigit &digit) {
    return digit.kind != DigitKind::Device || llvm::is_contained(*mine, digit);
  });
}

int64_t fusion::sizeOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() ? tensor.getNumElements() : 0;
}

namespace {
/// An operand's mesh axis on a factor.
struct Claim {
  int64_t factor;
  size_t operand;
};

class Chooser {
public:
  Chooser(Operation *op, const AxesRule &rule, ArrayRef<AxesAttr> operands,
          ArrayRef<AxesAttr> wanted)
      : op(op), rule(rule), operands(splitOperandAxes(rule, operands)),
        wanted(splitResultAxes(rule, wanted)) {}

  /// Rejected factors of one mesh axis.
  SmallVector<std::pair<Attribute, int64_t>> others;
  /// A mesh axis and its required factor, regardless of the rules.
  std::optional<std::pair<Attribute, int64_t>> given;

  FactorChoice choose() {
    int64_t largest = -1;
    for (auto [number, axes] : llvm::enumerate(operands))
      if (axes && sizeOf(op->getOperand(number).getType()) > largest) {
        largest = sizeOf(op->getOperand(number).getType());
        mesh = axes.getMesh();
      }
    chooseOwners();
    FactorChoice choice{mesh, {}};
    for (int64_t factor = 0; factor < static_cast<int64_t>(rule.factors.size()); ++factor)
      choice.factors.push_back(digitsOf(factor));
    return choice;
  }

private:
  bool counts(size_t operand) { return operands[operand] && operands[operand].getMesh() == mesh; }

  void chooseOwners() {
    llvm::MapVector<Attribute, SmallVector<Claim>> claims;
    for (auto [number, dims] : llvm::enumerate(rule.operands))
      for (auto [dim, factor] : llvm::enumerate(dims))
        if (counts(number) && factor != AxesRule::kNone && !isOnOneDevice(rule.factors[factor]))
          for (const Digit &digit : operands[number].getDims()[dim].getDigits())
            if (digit.isDevice())
              claims[digit.axis].push_back({factor, number});
    for (auto &[axis, list] : claims) {
      const Claim *best = nullptr;
      for (const Claim &claim : list) {
        auto weigh = [&, axis = axis, &list = list](const Claim &c) {
          return std::pair(rank(cast<StringAttr>(axis), c, list),
                           sizeOf(op->getOperand(c.operand).getType()));
        };
        if (!best || weigh(claim) > weigh(*best))
          best = &claim;
      }
      bool isGiven = given && given->first == axis;
      owners[axis] = isGiven ? given->second : best->factor;
      for (const Claim &claim : list)
        if (claim.factor != best->factor &&
            !llvm::is_contained(others, std::pair(axis, claim.factor)))
          others.push_back({axis, claim.factor});
    }
  }

  /// Preference of this factor for the axis; higher is better.
  int rank(StringAttr axis, const Claim &claim, ArrayRef<Claim> claims) {
    bool reduces = rule.factors[claim.factor] == FactorKind::Reduction;
    for (auto [axes, dims] : llvm::zip_equal(wanted, rule.results)) {
      if (!axes || axes.getMesh() != mesh)
        continue;
      if (reduces && llvm::is_contained(axes.getPartial(), axis))
        return 5;
      int64_t dim = axes.dimOfDeviceAxis(axis.getValue());
      if (!reduces && dim >= 0 && dims[dim] == claim.factor)
        return 5;
    }
    if (!reduces)
      return claim.operand == rule.addedOnce ? 1 : claim.operand == rule.stationary ? 3 : 2;
    for (auto [number, dims] : llvm::enumerate(rule.operands))
      if (llvm::is_contained(dims, claim.factor) &&
          llvm::none_of(claims, [&, number = number](const Claim &other) {
            return other.factor == claim.factor && other.operand == number;
          }))
        return 0;
    return 4;
  }

  DimAxesAttr digitsOf(int64_t factor) {
    DimAxesAttr best = DimAxesAttr::get(op->getContext(), {});
    if (isOnOneDevice(rule.factors[factor]))
      return best;
    int64_t bestSize = -1;
    for (auto [number, dims] : llvm::enumerate(rule.operands)) {
      const int64_t *it = llvm::find(dims, factor);
      if (!counts(number) || it == dims.end())
        continue;
      int64_t dim = it - dims.begin();
      DimAxesAttr digits = operands[number].getDims()[dim];
      AxisSet lost;
      for (const Digit &digit : digits.getDigits())
        if (digit.isDevice() && owners.lookup(digit.axis) != factor)
          lost.insert(digit.axis);
      digits = dropDevices(digits, mesh, lost);
      auto type = cast<RankedTensorType>(op->getOperand(number).getType());
      int64_t size = sizeOf(type), extent = rule.getExtent(type.getShape(), number, dim);
      bool wins;
      if (bestSize < 0)
        wins = true;
      else if (placementOf(digits, mesh) == placementOf(best, mesh))
        wins = !best.hasStream() && digits.hasStream();
      else if (refines(best, digits, extent, mesh))
        wins = false;
      else
        wins = refines(digits, best, extent, mesh) || size > bestSize;
      if (!wins)
        continue;
      best = digits;
      bestSize = size;
    }
    return best;
  }

  Operation *op;
  const AxesRule &rule;
  SmallVector<AxesAttr> operands, wanted; // over pieces
  MeshAttr mesh;
  /// The chosen factor of each mesh axis.
  llvm::DenseMap<Attribute, int64_t> owners;
};
} // namespace

FactorChoice fusion::chooseFactors(Operation *op, const AxesRule &rule, ArrayRef<AxesAttr> operands,
                                   ArrayRef<AxesAttr> wanted) {
  return Chooser(op, rule, operands, wanted).choose();
}

SmallVector<FactorChoice> fusion::listFactorChoices(Operation *op, const AxesRule &rule,
                                                    ArrayRef<AxesAttr> operands,
                                                    ArrayRef<AxesAttr> wanted) {
  Chooser byRule(op, rule, operands, wanted);
  SmallVector<FactorChoice> choices{byRule.choose()};
  for (std::pair<Attribute, int64_t> place : byRule.others) {
    Chooser other(op, rule, operands, wanted);
    other.given = place;
    choices.push_back(other.choose());
  }
  return choices;
}
