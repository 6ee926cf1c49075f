//===- PermuteOp.cpp - fusion.permute -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/PatternMatch.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

LogicalResult PermuteOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  return appendShape(*this, shapes::permute(shapeOf(getInput()), getPermutation().vec()), shapes);
}

LogicalResult PermuteOp::verify() {
  return failure(failed(verifyInferred(*this)) ||
                 failed(verifyElementType(*this, "the result", getType(),
                                          getInput().getType().getElementType())));
}

OpFoldResult PermuteOp::fold(FoldAdaptor) {
  bool identity = llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getPermutation().size()));
  if (identity && getInput().getType() == getType())
    return getInput();
  return {};
}

namespace {
/// Merges two permutes if the value between them has no placement of its own.
struct MergePermutes : public OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PermuteOp op, PatternRewriter &rewriter) const override {
    auto first = op.getInput().getDefiningOp<PermuteOp>();
    if (!first || !isTransparent(first) ||
        !fusion::getAxes(first.getInput()) != !fusion::getAxes(op.getType()))
      return failure();
    SmallVector<int64_t> permutation = llvm::map_to_vector(
        op.getPermutation(), [&](int64_t dim) { return first.getPermutation()[dim]; });
    rewriter.modifyOpInPlace(op, [&] {
      op.getInputMutable().assign(first.getInput());
      op.setPermutation(permutation);
    });
    return success();
  }
};
} // namespace

void PermuteOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergePermutes>(context);
}

AxesRule PermuteOp::getAxesRule() {
  AxesRule rule;
  rule.factors.assign(getPermutation().size(), FactorKind::Parallel);
  rule.operands.emplace_back(llvm::to_vector(llvm::seq<int64_t>(0, getPermutation().size())));
  rule.results.emplace_back(getPermutation());
  return rule;
}
