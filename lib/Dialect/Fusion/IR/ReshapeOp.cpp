//===- ReshapeOp.cpp - fusion.reshape -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "ReshapeGroups.h"
#include "mlir/IR/PatternMatch.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/ReshapeShapes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Number of elements; nothing if it is not known or does not fit.
static std::optional<int64_t> countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (ShapedType::isDynamic(extent) || llvm::MulOverflow(count, extent, count))
      return std::nullopt;
  return count;
}

FailureOr<SmallVector<int64_t>>
fusion::inferReshapedShape(ArrayRef<int64_t> from, ArrayRef<int64_t> to, std::string &reason) {
  SmallVector<int64_t> shape(to);
  FailureOr<SmallVector<ReshapeGroup>> groups = getReshapeGroups(from, to);
  if (failed(groups)) {
    reason = "expected dimensions that split and merge in groups of equal size, found [" +
             formatShape(from) + "] and [" + formatShape(to) + "]";
    return failure();
  }
  for (const ReshapeGroup &group : *groups) {
    auto groupFrom = from.slice(group.fromBegin, group.fromEnd - group.fromBegin);
    auto groupTo = MutableArrayRef(shape).slice(group.toBegin, group.toEnd - group.toBegin);
    int64_t *open = llvm::find(groupTo, ShapedType::kDynamic);
    std::optional<int64_t> count = countElements(groupFrom);
    if (open == groupTo.end() || !count || llvm::count(groupTo, ShapedType::kDynamic) != 1)
      continue;
    *open = 1;
    std::optional<int64_t> known = countElements(groupTo);
    if (!known || *known == 0 || *count % *known != 0) {
      reason = "expected " + std::to_string(*count) +
               " elements in dimensions that hold a multiple of " +
               std::to_string(known.value_or(0));
      return failure();
    }
    *open = *count / *known;
  }
  return shape;
}

LogicalResult ReshapeOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  std::string reason;
  FailureOr<SmallVector<int64_t>> shape =
      inferReshapedShape(getInput().getType().getShape(), getType().getShape(), reason);
  if (failed(shape))
    return emitOpError() << reason;
  shapes.push_back(std::move(*shape));
  return success();
}

LogicalResult ReshapeOp::verify() {
  ArrayRef<int64_t> from = getInput().getType().getShape(), to = getType().getShape();
  std::optional<int64_t> fromCount = countElements(from), toCount = countElements(to);
  if (fromCount && toCount && *fromCount != *toCount)
    return emitOpError() << "expected a result of " << *fromCount << " elements, found "
                         << *toCount;
  SmallVector<SmallVector<int64_t>> shapes;
  if (failed(inferResultShapes(shapes)))
    return failure();
  return verifyElementType(*this, "the result", getType(), getInput().getType().getElementType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType() && getType().hasStaticShape())
    return getInput();
  return {};
}

namespace {
/// A reshape of a reshape is one, where the value between says nothing of its own on placement.
struct MergeReshapes : public OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto first = op.getInput().getDefiningOp<ReshapeOp>();
    if (!first || !isTransparent(first) ||
        !fusion::getAxes(first.getInput()) != !fusion::getAxes(op.getType()) ||
        failed(getReshapeGroups(first.getInput().getType().getShape(), op.getType().getShape())))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(first.getInput()); });
    return success();
  }
};
} // namespace

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MergeReshapes>(context);
}

AxesRule ReshapeOp::getAxesRule() { return {}; }
