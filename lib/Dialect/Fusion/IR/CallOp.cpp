//===- CallOp.cpp - fusion.call -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem::fusion;

/// Extent of elementwise dimension `dim`: the first known one of operands, then results; else
/// kDynamic.
static int64_t elementwiseExtent(CallOp op, int64_t dim) {
  int64_t extent = ShapedType::kDynamic;
  for (Type type : llvm::concat<const Type>(op.getInputs().getTypes(), op.getResultTypes()))
    extent = knownExtent(extent, cast<RankedTensorType>(type).getDimSize(dim));
  return extent;
}

LogicalResult CallOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  for (Type type : getResultTypes()) {
    SmallVector<int64_t> &shape = shapes.emplace_back(cast<RankedTensorType>(type).getShape());
    for (int64_t dim : getElementwise())
      shape[dim] = knownExtent(shape[dim], elementwiseExtent(*this, dim));
  }
  return success();
}

LogicalResult CallOp::verify() {
  for (Type type : llvm::concat<const Type>(getInputs().getTypes(), getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    if (failed(verifyAscendingDims(*this, "elementwise", getElementwise(), tensor.getRank())))
      return failure();
    for (int64_t dim : getElementwise())
      if (!compatibleExtents(tensor.getDimSize(dim), elementwiseExtent(*this, dim)))
        return emitOpError() << "expected equal extents in elementwise dimension " << dim
                             << ", found " << elementwiseExtent(*this, dim) << " and "
                             << tensor.getDimSize(dim);
  }
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "expected a function declared as @" << getCallee() << ", found none";
  if (!callee.isExternal())
    return (emitOpError() << "expected a declaration of @" << getCallee()
                          << ", found a function with a body")
               .attachNote(callee.getLoc())
           << "defined here";
  auto check = [&](StringRef what, TypeRange types, TypeRange declared) -> LogicalResult {
    if (types.size() != declared.size())
      return emitOpError() << "expected " << declared.size() << ' ' << what << "s as @"
                           << getCallee() << " has, found " << types.size();
    for (auto [i, type, other] : llvm::enumerate(types, declared)) {
      auto tensor = cast<RankedTensorType>(type);
      auto expected = dyn_cast<RankedTensorType>(other);
      if (!expected || tensor.getElementType() != expected.getElementType() ||
          failed(verifyCompatibleShape(tensor.getShape(), expected.getShape())))
        return emitOpError() << "expected " << what << ' ' << i << " of type " << other << " as @"
                             << getCallee() << " has, found " << withAxes(tensor, {});
    }
    return success();
  };
  if (failed(check("operand", getInputs().getTypes(), callee.getArgumentTypes())) ||
      failed(check("result", getResultTypes(), callee.getResultTypes())))
    return failure();
  return success();
}

AxesRule CallOp::getAxesRule() {
  AxesRule rule;
  rule.partial = PartialKind::Never;
  rule.callsOnce = true;
  rule.factors.assign(getElementwise().size(), FactorKind::Parallel);
  auto add = [&](TypeRange types, SmallVectorImpl<SmallVector<int64_t>> &list) {
    for (Type type : types) {
      SmallVector<int64_t> &dims = list.emplace_back();
      for (int64_t dim = 0; dim < cast<RankedTensorType>(type).getRank(); ++dim) {
        const int64_t *it = llvm::find(getElementwise(), dim);
        if (it != getElementwise().end()) {
          dims.push_back(it - getElementwise().begin());
        } else {
          dims.push_back(rule.factors.size());
          rule.factors.push_back(FactorKind::Whole);
        }
      }
    }
  };
  add(getInputs().getTypes(), rule.operands);
  add(getResultTypes(), rule.results);
  return rule;
}
