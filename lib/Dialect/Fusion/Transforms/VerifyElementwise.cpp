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
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::RemFOp,
             arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, arith::CmpFOp, arith::ExtFOp, arith::SIToFPOp, arith::UIToFPOp,
             math::AbsFOp, math::CeilOp, math::CosOp, math::ErfOp, math::ErfcOp, math::ExpOp,
             math::Exp2Op, math::ExpM1Op, math::FloorOp, math::FmaOp, math::LogOp, math::Log1pOp,
             math::Log2Op, math::Log10Op, math::PowFOp, math::RoundOp, math::RoundEvenOp,
             math::RsqrtOp, math::SinOp, math::SqrtOp, math::TanhOp, math::TruncOp>(op);
}

static constexpr StringLiteral kFloatOps =
    "addf, subf, mulf, divf, remf, negf, maximumf, minimumf, maxnumf, minnumf, cmpf, select, extf, "
    "truncf to nearest even, sitofp, uitofp, bitcast of as many bits (32 or 64), and of math absf, "
    "ceil, cos, erf, erfc, exp, exp2, expm1, floor, fma, log, log1p, log2, log10, powf, round, "
    "roundeven, rsqrt, sin, sqrt, tanh, trunc";

/// On integers.
static bool computesIntegers(Operation *op) {
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp, arith::RemSIOp,
          arith::MaxSIOp, arith::MinSIOp, arith::ShLIOp, arith::ShRSIOp, arith::FPToSIOp,
          math::AbsIOp>(op))
    return !isTruth(op->getResult(0).getType());
  return isa<arith::CmpIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::ExtSIOp,
             arith::ExtUIOp, arith::TruncIOp>(op);
}

static constexpr StringLiteral kIntegerOps =
    "addi, subi, muli, divsi, remsi, maxsi, minsi, shli, shrsi and math.absi (not of i1), cmpi, "
    "andi, ori, xori, select, extsi, extui, trunci, fptosi, bitcast of as many bits (32 or 64)";

/// Between numbers whose registers have the bits of memory.
static bool isBitcast(Operation *op) {
  auto cast = dyn_cast<arith::BitcastOp>(op);
  return cast && (elementOf(cast.getIn().getType()) == elementOf(cast.getType()) ||
                  elementOf(cast.getType()).getIntOrFloatBitWidth() >= 32);
}

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
  if (computesFloats(op) || computesIntegers(op) || isa<arith::SelectOp>(op) || isBitcast(op) ||
      (truncate && roundsToNearest(truncate)))
    return success();
  bool onFloats = isa<FloatType>(elementOf(op->getResult(0).getType()));
  return op->emitOpError()
         << "expected an elementwise operation that kernels compute, for elements "
            "of "
         << elementOf(op->getResult(0).getType()) << " one of "
         << (onFloats ? kFloatOps : kIntegerOps);
}
