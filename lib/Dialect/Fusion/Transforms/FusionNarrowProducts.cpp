//===- FusionNarrowProducts.cpp - products of the type they are rounded to -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONNARROWPRODUCTS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static bool isOfEightBits(Value value) {
  return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() == 8;
}

/// Whether a value is only scaled, by rows, columns or as a whole, and clamped before it is rounded
/// to bf16 or 8 bits. Not to f16: bf16 has fewer digits, and unscaled sums may be too large for
/// f16. Not with a bias, which may cancel what is left: matmuls add none in f32.
static bool isRounded(Value value) {
  auto isRepeated = [](Value operand) {
    Operation *op = operand.getDefiningOp();
    return isa_and_nonnull<BroadcastOp, arith::ConstantOp>(op);
  };
  while (value.hasOneUse()) {
    OpOperand &use = *value.use_begin();
    Operation *user = use.getOwner();
    if (auto truncated = dyn_cast<arith::TruncFOp>(user))
      return isOfEightBits(truncated) || getElementTypeOrSelf(truncated.getType()).isBF16();
    if (!isa<arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp>(user) ||
        !isRepeated(user->getOperand(1 - use.getOperandNumber())))
      return false;
    value = user->getResult(0);
  }
  return false;
}

namespace {
struct FusionNarrowProducts : public fusion::impl::FusionNarrowProductsBase<FusionNarrowProducts> {
  using FusionNarrowProductsBase::FusionNarrowProductsBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    // The reference, and programs whose results must not depend on the device, keep what they say.
    if (func->hasAttr(kReferenceOfAttrName) || isDeterministic(func))
      return;
    PassLog logger("fusion-narrow-products", log);
    unsigned narrowed = 0;
    func.walk([&](Operation *op) {
      if (!isa<MatmulOp, GroupedMatmulOp>(op))
        return;
      Value product = op->getResult(0);
      auto wide = cast<RankedTensorType>(product.getType());
      auto matmul = dyn_cast<MatmulOp>(op);
      if (!wide.getElementType().isF32() || (matmul && matmul.getBias()) ||
          !isOfEightBits(op->getOperand(0)) || !isOfEightBits(op->getOperand(1)) ||
          !isRounded(product))
        return;
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(op);
      product.setType(wide.clone(builder.getBF16Type()));
      auto extended = arith::ExtFOp::create(builder, op->getLoc(), wide, product);
      product.replaceAllUsesExcept(extended, extended);
      ++narrowed;
    });
    numNarrowed += narrowed;
    logger.summary(func.getLoc(), {{"products", narrowed}});
  }
};
} // namespace
