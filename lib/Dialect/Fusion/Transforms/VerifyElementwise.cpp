//===- VerifyElementwise.cpp - which elementwise ops kernels compute -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VerifyElementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tandem;

/// Element type of a tensor, or the type of a scalar.
static Type elementOf(Type type) { return getElementTypeOrSelf(type); }

static bool isTruth(Type type) { return elementOf(type).isInteger(1); }

/// On floating point numbers of any type.
static bool computesFloats(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::NegFOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp,
             arith::CmpFOp, arith::ExtFOp, math::AbsFOp, math::CeilOp, math::CosOp, math::ErfOp,
             math::ExpOp, math::Exp2Op, math::FloorOp, math::FmaOp, math::LogOp, math::Log2Op,
             math::Log10Op, math::PowFOp, math::RsqrtOp, math::SinOp, math::SqrtOp, math::TanhOp>(
      op);
}

static constexpr StringLiteral kFloatOps =
    "addf, subf, mulf, divf, negf, maximumf, minimumf, maxnumf, minnumf, cmpf, select, extf, "
    "truncf to nearest even, sitofp of i32 or i1, uitofp of i1, and of math absf, ceil, cos, erf, "
    "exp, exp2, floor, fma, log, log2, log10, powf, rsqrt, sin, sqrt, tanh";

/// On i32 or truth values, or between them and floating point numbers.
static bool computesIntegers(Operation *op) {
  Type operand = op->getNumOperands() ? op->getOperand(0).getType() : Type();
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::MaxSIOp, arith::MinSIOp,
          arith::ShLIOp, arith::ShRSIOp, arith::CmpIOp>(op))
    return !isTruth(operand);
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::UIToFPOp>(op))
    return isTruth(operand);
  return isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::FPToSIOp, arith::SIToFPOp>(op);
}

static constexpr StringLiteral kIntegerOps =
    "addi, subi, muli, maxsi, minsi, shli, shrsi and cmpi of i32, andi, ori, xori, select, extsi "
    "and extui of i1, fptosi";

static bool roundsToNearest(arith::TruncFOp op) {
  return op.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) ==
         arith::RoundingMode::to_nearest_even;
}

LogicalResult fusion::verifyElementwise(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (elements && (elements.isSplat() || elements.empty()))
      return success();
    return op->emitOpError()
           << "expected a constant with one value for all elements, found several "
              "(pass them as an argument of the function)";
  }
  // Where all depends on one truth value, the program does.
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
    if (!isa<RankedTensorType>(type))
      return op->emitOpError() << "expected a tensor in operand " << i << ", found " << type;
  auto truncate = dyn_cast<arith::TruncFOp>(op);
  if (computesFloats(op) || computesIntegers(op) || isa<arith::SelectOp>(op) ||
      (truncate && roundsToNearest(truncate)))
    return success();
  bool onFloats = isa<FloatType>(elementOf(op->getResult(0).getType()));
  return op->emitOpError()
         << "expected an elementwise operation that kernels compute, for elements "
            "of "
         << elementOf(op->getResult(0).getType()) << " one of "
         << (onFloats ? kFloatOps : kIntegerOps);
}
