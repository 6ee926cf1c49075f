//===- Retype.cpp - changing the types of values in place -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Retype.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

void fusion::retype(Value value, RankedTensorType type) {
  value.setType(type);
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  if (!constant)
    return;
  if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      elements && elements.getType() != type)
    constant.setValueAttr(elements.isSplat()
                              ? DenseElementsAttr::get(type, elements.getSplatValue<Attribute>())
                              : elements.reshape(type));
}

fusion::ReshardOp fusion::createReshard(OpBuilder &builder, Operation *op, RankedTensorType type,
                                        Value value) {
  auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
  if (schedule && classifyReshard(cast<RankedTensorType>(value.getType()), type).isLocal())
    schedule = {};
  return ReshardOp::create(builder, op->getLoc(), type, value, schedule);
}

void fusion::updateSignature(func::FuncOp function) {
  if (function.isExternal())
    return;
  SmallVector<Type> results(function.getResultTypes());
  for (Block &block : function.getBody())
    if (auto ret = dyn_cast<func::ReturnOp>(block.getTerminator())) {
      results = llvm::to_vector(ret.getOperandTypes());
      break;
    }
  function.setFunctionType(FunctionType::get(
      function.getContext(), function.getBody().front().getArgumentTypes(), results));
}
