//===- Lowering.cpp - ops on shards become ops on logical tensors *- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "Constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

FailureOr<Value> Lowering::use(Operation *user, Value value) {
  if (addends.contains(value))
    return user->emitOpError() << "expected partial results with an initial value to be reduced "
                                  "by all_reduce or reduce_scatter first";
  if (auto it = values.find(value); it != values.end())
    return it->second;
  return user->emitOpError() << "reads a value that has no counterpart in a fusion";
}

Value Lowering::getConstant(Location loc, TypedAttr number, const Layout &layout) {
  RankedTensorType type = layouts.getType(layout, number.getType()),
                   scalar = RankedTensorType::get({}, number.getType());
  if (type.hasStaticShape())
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, Attribute(number)));
  return broadcast(
      loc,
      arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, Attribute(number))),
      type);
}

/// A tensor without dimensions, in all elements of `type`.
Value Lowering::broadcast(Location loc, Value tensor, RankedTensorType type) {
  return fusion::BroadcastOp::create(builder, loc, type, tensor, ArrayRef<int64_t>());
}

/// A scalar of the fusion: a constant, an argument, or computed from them. Null, with an error, if
/// it depends on the device.
Value Lowering::getNumber(Operation *user, Value scalar) {
  if (Value known = values.lookup(scalar))
    return known;
  Operation *op = scalar.getDefiningOp();
  if (auto constant = dyn_cast_if_present<arith::ConstantOp>(op))
    return values[scalar] = builder.clone(*constant)->getResult(0);
  user->emitOpError() << "expected scalars that are constants, arguments of the function, or "
                         "computed from these";
  return {};
}

/// Elementwise ops on scalars of known values stay. Others compute indices of devices: an error
/// where a tensor needs them.
void Lowering::lowerScalar(Operation *op) {
  auto isKnown = [&](Value operand) {
    return isElementType(operand.getType()) &&
           (values.contains(operand) ||
            isa_and_present<arith::ConstantOp>(operand.getDefiningOp()));
  };
  if (!isa<fusion::FusionTensorOpInterface>(op) || isa<arith::ConstantOp>(op) ||
      !isElementType(op->getResult(0).getType()) || !llvm::all_of(op->getOperands(), isKnown))
    return;
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, getNumber(op, operand));
  values[op->getResult(0)] = builder.clone(*op, mapping)->getResult(0);
}

/// A scalar in all elements of a tensor. Null, with an error, if it is none that is known.
Value Lowering::getScalar(Operation *user, Value scalar, const Layout &layout, Type element) {
  if (std::optional<Splat> splat = getSplat(scalar)) {
    if (splat->number)
      return getConstant(user->getLoc(), splat->number, layout);
    user->emitOpError() << "reads tensor.empty, which has no values; expected linalg.fill before";
    return {};
  }
  Value known = getNumber(user, scalar);
  if (!known)
    return {};
  RankedTensorType type = layouts.getType(layout, element);
  if (type.hasStaticShape())
    return tensor::SplatOp::create(builder, user->getLoc(), type, known);
  return broadcast(
      user->getLoc(),
      tensor::SplatOp::create(builder, user->getLoc(), RankedTensorType::get({}, element), known),
      type);
}

Value Lowering::permute(Location loc, Value value, Layout &layout, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, static_cast<int64_t>(permutation.size()))))
    return value;
  Layout permuted = layout;
  for (auto [to, from] : llvm::enumerate(permutation)) {
    permuted.shape[to] = layout.shape[static_cast<size_t>(from)];
    permuted.axes[to] = layout.axes[static_cast<size_t>(from)];
  }
  layout = permuted;
  return fusion::PermuteOp::create(
      builder, loc, layouts.getType(layout, getElementTypeOrSelf(value)), value, permutation);
}

LogicalResult Lowering::lowerCollective(Operation *op, const Collective &collective) {
  Value input = collective.input;
  auto addend = addends.find(input);
  RankedTensorType type = layouts.getType(op->getResult(0));
  Value source = values.lookup(input);
  // A reduction of which each device keeps a slice is one reshard.
  auto reduction = source.getDefiningOp<fusion::ReshardOp>();
  if (isa<shard::AllSliceOp>(op) && reduction && input.hasOneUse() &&
      isa<shard::AllReduceOp>(input.getDefiningOp())) {
    source = reduction.getInput();
  } else {
    reduction = nullptr;
  }
  Value result =
      fusion::ReshardOp::create(builder, op->getLoc(), type, source, fusion::ScheduleAttr(), false);
  if (reduction)
    reduction.erase();
  if (addend != addends.end()) {
    if (!layouts.get(op->getResult(0)).partial.empty() || !collective.from.isPartial())
      return failure(failed(use(op, input)));
    Value added = addend->second;
    if (added.getType() != type)
      added = fusion::ReshardOp::create(builder, op->getLoc(), type, added, fusion::ScheduleAttr(),
                                        false);
    result = isa<FloatType>(type.getElementType())
                 ? arith::AddFOp::create(builder, op->getLoc(), result, added).getResult()
                 : arith::AddIOp::create(builder, op->getLoc(), result, added).getResult();
  }
  values[op->getResult(0)] = result;
  return success();
}

/// An op whose operands and results have one placement: elementwise, or a reshape.
LogicalResult Lowering::lowerAlike(Operation *op) {
  Value result = op->getResult(0);
  RankedTensorType type = layouts.getType(result);
  if (isa<tensor::SplatOp>(op)) {
    values[result] = getScalar(op, op->getOperand(0), layouts.get(result), type.getElementType());
    return success(values[result] != nullptr);
  }
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    if (mapping.contains(operand) || !isa<RankedTensorType>(operand.getType()))
      continue; // the sizes of a reshape
    if (getSplat(operand)) {
      Value constant = getScalar(op, operand, layouts.get(result), getElementTypeOrSelf(operand));
      if (!constant)
        return failure();
      mapping.map(operand, constant);
      continue;
    }
    FailureOr<Value> logical = use(op, operand);
    if (failed(logical))
      return failure();
    mapping.map(operand, *logical);
  }
  if (isa<tensor::CastOp>(op)) {
    values[result] = mapping.lookup(op->getOperand(0));
    return success();
  }
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
    values[result] =
        fusion::ReshapeOp::create(builder, op->getLoc(), type, mapping.lookup(op->getOperand(0)));
    return success();
  }
  Operation *copy = builder.clone(*op, mapping);
  copy->getResult(0).setType(type);
  values[result] = copy->getResult(0);
  return success();
}

LogicalResult Lowering::lower(Operation *op) {
  // Splats are made where they are used; initial values of partial sums are parts of what uses
  // them.
  if (op->getNumResults() == 1 && !isa<RankedTensorType>(op->getResult(0).getType()))
    lowerScalar(op);
  if (op->getNumResults() != 1 || !layouts.has(op->getResult(0)) || getLeadInit(op))
    return success();
  if (auto structured = dyn_cast<linalg::LinalgOp>(op)) {
    FailureOr<StructuredOp> s = readStructuredOp(structured);
    return failed(s) ? failure() : lowerStructured(*s);
  }
  if (std::optional<Collective> collective = getCollective(op)) {
    // Initial values of partial sums have no counterpart of their own.
    if (!values.contains(collective->input))
      return failure(failed(use(op, collective->input)));
    return lowerCollective(op, *collective);
  }
  return lowerAlike(op);
}

Value Lowering::getReturned(Operation *op, Value value) {
  if (!isa<RankedTensorType>(value.getType()))
    return getNumber(op, value);
  if (getSplat(value))
    return getScalar(op, value, layouts.getReturned(value), getElementTypeOrSelf(value));
  FailureOr<Value> logical = use(op, value);
  return failed(logical) ? Value() : *logical;
}
