//===- FusionEraseDeadOps.cpp - fusion-erase-dead-ops -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONERASEDEADOPS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
struct FusionEraseDeadOpsPass
    : public fusion::impl::FusionEraseDeadOpsBase<FusionEraseDeadOpsPass> {
  using FusionEraseDeadOpsBase::FusionEraseDeadOpsBase;

  void runOnOperation() override {
    PassLog logger("fusion-erase-dead-ops", log);
    unsigned erased = 0;
    for (Block &block : getOperation().getBody())
      // In reverse order, so users are visited first.
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
        if (!isOpTriviallyDead(&op))
          continue;
        logger(op.getLoc(), [&](raw_ostream &os) {
          os << "'" << op.getName() << "' is erased: no result depends on it";
        });
        op.erase();
        ++erased;
      }
    logger.summary(getOperation().getLoc(), {{"erased", erased}});
    numErased += erased;
    if (!erased)
      markAllAnalysesPreserved();
  }
};
} // namespace
