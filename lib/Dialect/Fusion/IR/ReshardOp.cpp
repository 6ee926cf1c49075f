//===- ReshardOp.cpp - fusion.reshard -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/PatternMatch.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

LogicalResult ReshardOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType())
    return emitOpError() << "expected a result of the operand's shape and element type, found "
                         << withAxes(to, {}) << " from " << withAxes(from, {});
  AxesAttr toAxes = fusion::getAxes(to), fromAxes = fusion::getAxes(from);
  if (!toAxes)
    return emitOpError() << "expected a result with axes, found " << to;
  if (!toAxes.isPartial() || !fromAxes)
    return success();
  for (StringAttr axis : toAxes.getPartial()) {
    if (fromAxes.getMesh() != toAxes.getMesh())
      return emitOpError() << "expected a result that is not partial on another mesh, found it "
                              "partial over "
                           << axis;
    if (!llvm::is_contained(fromAxes.getPartial(), axis))
      return emitOpError() << "expected a result that is partial only where the operand is, found "
                              "it partial over "
                           << axis;
  }
  if (toAxes.getPartialKind() != fromAxes.getPartialKind())
    return emitOpError() << "expected a result that is partial by '"
                         << stringifyReduceKind(fromAxes.getPartialKind())
                         << "' as the operand is, found '"
                         << stringifyReduceKind(toAxes.getPartialKind()) << "'";
  return success();
}

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

namespace {
/// Merges two reshards, unless the first one is annotated, is a part of a written-out sequence, or
/// has other uses (then the second is cheaper from the first's result).
struct MergeReshards : public OpRewritePattern<ReshardOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshardOp op, PatternRewriter &rewriter) const override {
    auto first = op.getInput().getDefiningOp<ReshardOp>();
    if (!first || first.getScheduleAttr() || first.getPart() || op.getPart() || !first->hasOneUse())
      return failure();
    // The first result's partial sums must be partial sums of the merged reshard too.
    AxesAttr from = fusion::getAxes(first.getInput()), to = fusion::getAxes(op.getType());
    if (!from || (to.isPartial() && from.getMesh() != to.getMesh()))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(first.getInput()); });
    return success();
  }
};
} // namespace

void ReshardOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeReshards>(context);
}
