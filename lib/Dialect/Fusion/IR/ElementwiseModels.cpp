//===- ElementwiseModels.cpp - arith and math ops in a fusion -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// External models of FusionTensorOpInterface for the ops that kernels compute: their behaviour on
// partial values, and the types and attributes that are accepted. The kernels themselves are in
// lib/Target/StreamProgram/Kernels.cpp.
//
//===----------------------------------------------------------------------===//

#include "ElementwiseModels.h"

#include "OpVerify.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static bool isTruth(Type type) { return getElementTypeOrSelf(type).isInteger(1); }

namespace {
/// An op on numbers that commutes with no reduction.
template <typename ModelT>
struct ElementwiseModel : FusionTensorOpInterface::FallbackModel<ModelT> {
  AxesRule getAxesRule(Operation *op) const { return getElementwiseRule(op); }

  LogicalResult inferResultShapes(Operation *op,
                                  SmallVectorImpl<SmallVector<int64_t>> &shapes) const {
    SmallVector<int64_t> &shape =
        shapes.emplace_back(cast<RankedTensorType>(op->getResult(0).getType()).getShape());
    for (Type type : op->getOperandTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        for (auto [mine, extent] : llvm::zip_equal(shape, tensor.getShape()))
          mine = shapes::known(mine, extent);
    return success();
  }

  LogicalResult verifySupported(Operation *op) const {
    if (isTruth(op->getResult(0).getType()))
      return op->emitOpError() << "expected numbers, found truth values (i1)";
    return success();
  }

private:
  ElementwiseModel() = default;
  friend ModelT;
};

struct NumberModel : ElementwiseModel<NumberModel> {};

/// An op on numbers that commutes with the reduction `kind`: partial operands give a partial
/// result.
template <ReduceKind kind> struct CommutingModel : ElementwiseModel<CommutingModel<kind>> {
  AxesRule getAxesRule(Operation *op) const {
    AxesRule rule = getElementwiseRule(op);
    rule.partial = PartialKind::AlikeSame;
    rule.reduceKind = kind;
    return rule;
  }
};

/// An op that also computes truth values.
struct TruthModel : ElementwiseModel<TruthModel> {
  LogicalResult verifySupported(Operation *) const { return success(); }
};

struct TruncFModel : ElementwiseModel<TruncFModel> {
  LogicalResult verifySupported(Operation *op) const {
    auto mode = cast<arith::TruncFOp>(op).getRoundingmode();
    if (mode && *mode != arith::RoundingMode::to_nearest_even)
      return op->emitOpError() << "expected to round to nearest even, found "
                               << arith::stringifyRoundingMode(*mode);
    return success();
  }
};

/// Between types of 16, 32 or 64 bits.
struct BitcastModel : ElementwiseModel<BitcastModel> {
  LogicalResult verifySupported(Operation *op) const {
    Type from = getElementTypeOrSelf(op->getOperand(0)),
         to = getElementTypeOrSelf(op->getResult(0));
    if (from != to && to.getIntOrFloatBitWidth() < 16)
      return op->emitOpError() << "expected types of 16, 32 or 64 bits, found " << from << " and "
                               << to;
    return success();
  }
};

struct ConstantModel : ElementwiseModel<ConstantModel> {
  LogicalResult verifySupported(Operation *op) const {
    auto elements = dyn_cast<DenseElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    if (elements && (elements.isSplat() || elements.empty()))
      return success();
    return op->emitOpError() << "expected a constant with one value for all elements, found "
                                "several (pass them as an argument of the function)";
  }
};
} // namespace

template <typename ModelT, typename... OpTs> static void attach(MLIRContext &context) {
  (OpTs::template attachInterface<ModelT>(context), ...);
}

void fusion::attachElementwiseModels(MLIRContext &context) {
  attach<CommutingModel<ReduceKind::Sum>, arith::AddFOp, arith::SubFOp, arith::NegFOp,
         arith::ExtFOp, arith::AddIOp, arith::SubIOp>(context);
  attach<CommutingModel<ReduceKind::Max>, arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp>(
      context);
  attach<CommutingModel<ReduceKind::Min>, arith::MinimumFOp, arith::MinNumFOp, arith::MinSIOp>(
      context);
  attach<NumberModel, arith::MulFOp, arith::DivFOp, arith::RemFOp, arith::SIToFPOp, arith::UIToFPOp,
         arith::FPToSIOp, arith::ExtSIOp, arith::ExtUIOp, arith::MulIOp, arith::DivSIOp,
         arith::RemSIOp, arith::ShLIOp, arith::ShRSIOp>(context);
  attach<NumberModel, math::AbsFOp, math::AbsIOp, math::CeilOp, math::CosOp, math::ErfOp,
         math::ErfcOp, math::ExpOp, math::Exp2Op, math::ExpM1Op, math::FloorOp, math::FmaOp,
         math::LogOp, math::Log1pOp, math::Log2Op, math::Log10Op, math::PowFOp, math::RoundOp,
         math::RoundEvenOp, math::RsqrtOp, math::SinOp, math::SqrtOp, math::TanhOp, math::TruncOp>(
      context);
  attach<TruthModel, arith::CmpFOp, arith::CmpIOp, arith::SelectOp, arith::AndIOp, arith::OrIOp,
         arith::XOrIOp, arith::TruncIOp>(context);
  attach<TruncFModel, arith::TruncFOp>(context);
  attach<BitcastModel, arith::BitcastOp>(context);
  attach<ConstantModel, arith::ConstantOp>(context);
}
