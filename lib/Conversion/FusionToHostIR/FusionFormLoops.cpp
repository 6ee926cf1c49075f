//===- FusionFormLoops.cpp - fusion-form-loops -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FusionToHostIR/Passes.h"

#include "FindLoops.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "llvm/ADT/SetVector.h"

namespace tandem {
#define GEN_PASS_DEF_FUSIONFORMLOOPS
#include "tandem/Conversion/FusionToHostIR/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FusionFormLoopsPass : public tandem::impl::FusionFormLoopsBase<FusionFormLoopsPass> {
  using FusionFormLoopsBase::FusionFormLoopsBase;
  void runOnOperation() override;

private:
  void form(const StreamLoop &group, Block &block);
};
} // namespace

/// A group of ops that is no loop: nothing is sliced and nothing communicated.
static bool isPlain(const StreamLoop &group) {
  return group.streamSizes.empty() && llvm::none_of(group.ops, [](Operation *op) {
           auto reshard = dyn_cast<fusion::ReshardOp>(op);
           return reshard && !fusion::classifyReshard(reshard).isLocal();
         });
}

/// Makes the group a loop op at the end of the block.
void FusionFormLoopsPass::form(const StreamLoop &group, Block &block) {
  OpBuilder builder(block.getTerminator());
  llvm::SmallDenseSet<Operation *> inside(group.ops.begin(), group.ops.end());
  auto isInside = [&](OpOperand &use) { return inside.contains(use.getOwner()); };
  llvm::SmallSetVector<Value, 8> inputs, constants;
  SmallVector<Value> yielded;
  for (Operation *op : group.ops) {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && inside.contains(producer))
        continue;
      // Kernels hold their constants; others read them from a buffer.
      bool isOfKernel = producer && producer->hasTrait<OpTrait::ConstantLike>() &&
                        op->hasTrait<OpTrait::Elementwise>();
      (isOfKernel ? constants : inputs).insert(operand);
    }
    for (Value result : op->getResults())
      if (result.use_empty() || !llvm::all_of(result.getUses(), isInside))
        yielded.push_back(result);
  }

  fusion::ScheduleSourceAttr source;
  if (group.schedule)
    source = fusion::ScheduleSourceAttr::get(&getContext(), fusion::ScheduleSource::Annotation);
  auto loop = fusion::StreamLoopOp::create(
      builder, group.op->getLoc(), ValueRange(yielded).getTypes(), inputs.getArrayRef(),
      group.schedule, source, ArrayAttr(), StringAttr(), DictionaryAttr());
  Block *body = builder.createBlock(&loop.getBody());
  IRMapping local;
  for (Value input : inputs)
    local.map(input, body->addArgument(input.getType(), input.getLoc()));
  IRMapping ofKernels = local;
  for (Value constant : constants)
    ofKernels.map(constant, builder.clone(*constant.getDefiningOp())->getResult(0));
  for (Operation *op : group.ops) {
    op->moveBefore(body, body->end());
    if (auto reshard = dyn_cast<fusion::ReshardOp>(op))
      reshard.removeScheduleAttr();
    // Operand by operand: to search the uses of a value that all loops read would be quadratic.
    const IRMapping &map = op->hasTrait<OpTrait::Elementwise>() ? ofKernels : local;
    for (OpOperand &operand : op->getOpOperands())
      operand.set(map.lookupOrDefault(operand.get()));
  }
  for (auto [value, result] : llvm::zip_equal(yielded, loop.getResults()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) { return !isInside(use); });
  builder.setInsertionPointToEnd(body);
  fusion::YieldOp::create(builder, loop.getLoc(), yielded);
  ++numLoops;
  if (log) {
    InFlightDiagnostic remark = loop.emitRemark("fusion-form-loops: ");
    llvm::interleave(
        group.ops, remark, [&](Operation *op) { remark << op->getName().getStringRef(); }, " + ");
  }
}

void FusionFormLoopsPass::runOnOperation() {
  func::FuncOp func = getOperation();
  // An unsharded reference is for one rank: nothing overlaps.
  if (func.isExternal() || !func.getBody().hasOneBlock())
    return;
  if (failed(fusion::verifyFits(func)))
    return signalPassFailure();
  Block &block = func.getBody().front();
  FailureOr<std::vector<StreamLoop>> groups = findStreamLoops(block);
  if (failed(groups))
    return signalPassFailure();
  for (const StreamLoop &group : *groups) {
    if (isPlain(group))
      for (Operation *op : group.ops)
        op->moveBefore(block.getTerminator());
    else
      form(group, block);
  }
}
