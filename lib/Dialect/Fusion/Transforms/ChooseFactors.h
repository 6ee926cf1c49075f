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

/// `dim` without stream digits.
DimAxesAttr placementOf(DimAxesAttr dim, MeshAttr mesh);

/// Whether `a` has every device digit of `b` in the same place, so that a device's indices by `a`
/// are a subset of those by `b`.
bool refines(DimAxesAttr a, DimAxesAttr b, int64_t extent, MeshAttr mesh);

/// Number of elements, ignoring unknown extents.
int64_t sizeOf(Type type);

/// A mesh, and digits per factor of an op's rule.
struct FactorChoice {
  MeshAttr mesh;
  SmallVector<DimAxesAttr> factors;
};

/// Digits for running `op` on operands with axes `operands` (null: no tensor) that reshard as few
/// of them as possible. Conflicts are resolved as follows:
/// - The mesh is that of the largest operand.
/// - A mesh axis on several factors stays on the one with this axis in `wanted`, the results' axes
///   (null: undecided); else on a contraction where all operands have it; else on a dimension of
///   the result, first of a matmul's rhs (the weight stays, the input is gathered), last of a bias;
///   else on a contraction where one operand has it.
/// - Of two operands with different splits of a factor, the finer split wins, else the larger one,
///   else the first.
/// - A dimension of kind Whole has no device digit.
FactorChoice chooseFactors(Operation *op, const AxesRule &rule, ArrayRef<AxesAttr> operands,
                           ArrayRef<AxesAttr> wanted);

/// That choice first, then variants where one mesh axis stays on another of its factors. Example:
/// x[M, didx K] w[K, didx N] may run with K or N split.
SmallVector<FactorChoice> listFactorChoices(Operation *op, const AxesRule &rule,
                                            ArrayRef<AxesAttr> operands, ArrayRef<AxesAttr> wanted);

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_CHOOSEFACTORS_H
