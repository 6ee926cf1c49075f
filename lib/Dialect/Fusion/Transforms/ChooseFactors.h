//===- ChooseFactors.h - axes for an op whose operands do not fit each other -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_CHOOSEFACTORS_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_CHOOSEFACTORS_H

#include "mlir/IR/Operation.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Support/LLVM.h"

namespace tandem::fusion {

/// `dim` as a placement: without stream digits.
DimAxesAttr placementOf(DimAxesAttr dim, MeshAttr mesh);

/// Every device digit of `b` is one of `a`, in the same place: what `a` leaves to a device is a
/// part of what `b` does.
bool refines(DimAxesAttr a, DimAxesAttr b, int64_t extent, MeshAttr mesh);

/// Elements of a tensor, as far as they are known.
int64_t sizeOf(Type type);

/// A mesh, and digits for each factor of an op's rule.
struct FactorChoice {
  MeshAttr mesh;
  SmallVector<DimAxesAttr> factors;
};

/// The digits with which `op` runs on operands with `operands` (null: no tensor), with as few of
/// them resharded as can be. They need not fit each other; then one gives way:
/// - The mesh is that of the largest operand.
/// - A mesh axis that stands on several factors stays on the one where `wanted`, the axes of the
///   results (null: undecided), have it; else on a contraction in which all operands have it; else
///   on a dimension of the result, first of a matmul's rhs (the weight of a layer stays, its input
///   is gathered), last of a bias; else on a contraction that one operand has alone.
/// - Of two operands that are split differently along a factor the one that is split finer wins,
///   else the larger one, else the first.
/// - A dimension that is needed whole has no device digit.
FactorChoice chooseFactors(Operation *op, const AxesRule &rule, ArrayRef<AxesAttr> operands,
                           ArrayRef<AxesAttr> wanted);

/// That choice first, then those that leave one mesh axis on another of the factors that it splits:
/// x[M, didx K] w[K, didx N] may run with K or with N split.
SmallVector<FactorChoice> listFactorChoices(Operation *op, const AxesRule &rule,
                                            ArrayRef<AxesAttr> operands, ArrayRef<AxesAttr> wanted);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_CHOOSEFACTORS_H
