//===- Retype.cpp - changing the types of values in place -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Retype.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;

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
