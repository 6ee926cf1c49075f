//===- ReduceOp.cpp - fusion.reduce -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

TypedAttr fusion::getIdentity(ReduceKind kind, Type type) {
  using arith::AtomicRMWKind;
  bool isFloat = isa<FloatType>(type), isTruth = type.isInteger(1);
  AtomicRMWKind op = isFloat ? AtomicRMWKind::addf : AtomicRMWKind::addi;
  if (kind == ReduceKind::Max)
    op = isFloat ? AtomicRMWKind::maximumf : isTruth ? AtomicRMWKind::maxu : AtomicRMWKind::maxs;
  else if (kind == ReduceKind::Min)
    op = isFloat ? AtomicRMWKind::minimumf : isTruth ? AtomicRMWKind::minu : AtomicRMWKind::mins;
  OpBuilder builder(type.getContext());
  return arith::getIdentityValueAttr(op, type, builder, builder.getUnknownLoc());
}

LogicalResult ReduceOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  return appendShape(*this, shapes::reduce(shapeOf(getInput()), getDims().vec(), getKeepDims()),
                     shapes);
}

LogicalResult ReduceOp::verify() {
  RankedTensorType input = getInput().getType();
  if (failed(verifyInferred(*this)))
    return failure();
  if (input.getElementType().isInteger(1) && getKind() == ReduceKind::Sum)
    return emitOpError() << "expected max (or) or min (and) of i1, found sum";
  if (!isReducible(input.getElementType()))
    return emitOpError() << "expected elements that can be reduced, found "
                         << input.getElementType()
                         << (isFp8(input.getElementType())
                                 ? "; extend them to f32 first"
                                 : ", which holds the bits of f16 or bf16");
  return verifyElementType(*this, "the result", getType(), input.getElementType());
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  if (getDims().empty() && getInput().getType() == getType())
    return getInput();
  return {};
}

AxesRule ReduceOp::getAxesRule() {
  AxesRule rule;
  SmallVector<int64_t> &operand = rule.operands.emplace_back();
  SmallVector<int64_t> &result = rule.results.emplace_back();
  for (int64_t dim = 0; dim < getInput().getType().getRank(); ++dim) {
    bool reduced = llvm::is_contained(getDims(), dim);
    rule.factors.push_back(reduced ? FactorKind::Reduction : FactorKind::Parallel);
    operand.push_back(dim);
    if (!reduced || getKeepDims())
      result.push_back(reduced ? AxesRule::kNone : dim);
  }
  rule.reduceKind = getKind();
  rule.partial = PartialKind::AlikeSame;
  return rule;
}
