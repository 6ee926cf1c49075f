//===- ConvertShardToFusion.cpp - upstream's partitioned functions *- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"
#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Conversion/ShardToFusion/Passes.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTSHARDTOFUSION
#include "tandem/Conversion/ShardToFusion/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

/// The grid that a function is partitioned over: that of its ops, else the module's only one. Null,
/// with an error, if there is none.
static shard::GridOp findGrid(func::FuncOp function, ArrayRef<shard::GridOp> grids) {
  shard::GridOp found;
  function.walk([&](Operation *op) {
    auto name = op->getAttrOfType<FlatSymbolRefAttr>("grid");
    const auto *it = llvm::find_if(
        grids, [&](shard::GridOp grid) { return name && grid.getSymNameAttr() == name.getAttr(); });
    if (it == grids.end())
      return WalkResult::advance();
    found = *it;
    return WalkResult::interrupt();
  });
  if (!found && grids.size() == 1)
    found = grids[0];
  if (!found)
    function.emitOpError() << "expected an op that names one of the module's grids";
  return found;
}

/// Gives axes of unknown size those of option 'mesh': `axis0=8`, or `tp.axis0=8` for grid @tp.
static LogicalResult specialize(shard::GridOp grid, ArrayRef<std::string> options) {
  SmallVector<int64_t> shape(grid.getShape());
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (!ShapedType::isDynamic(size))
      continue;
    std::string axis = ("axis" + Twine(i)).str();
    for (StringRef text : options) {
      auto [name, number] = text.split('=');
      int64_t given;
      bool isOfGrid = name.consume_front(grid.getSymName()) && name.consume_front(".");
      if (!isOfGrid)
        name = text.split('=').first;
      if (name == axis && !number.getAsInteger(10, given) && given > 0)
        size = given;
    }
    if (ShapedType::isDynamic(size))
      return grid.emitOpError() << "expected a known size of axis " << i
                                << ", found '?' (name it with option 'mesh': " << axis << "=4)";
  }
  grid.setShape(shape);
  return success();
}

/// Whether the function is a fusion already: a tensor of its signature has axes.
static bool isFusion(func::FuncOp function) {
  auto hasAxes = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getEncoding();
  };
  return llvm::any_of(function.getArgumentTypes(), hasAxes) ||
         llvm::any_of(function.getResultTypes(), hasAxes);
}

/// A fusion is left as it is. With ops of the grid or on shards it would be neither.
static LogicalResult verifyFusion(func::FuncOp function) {
  WalkResult found = function.walk<WalkOrder::PreOrder>([](Operation *op) -> WalkResult {
    if (!isa_and_present<shard::ShardDialect, linalg::LinalgDialect>(op->getDialect()))
      return WalkResult::advance();
    return op->emitOpError() << "expected a function whose arguments and results have no axes, "
                                "found some that have";
  });
  return failure(found.wasInterrupted());
}

static LogicalResult convert(func::FuncOp function, shard::GridOp grid) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError() << "expected one block, found "
                                  << function.getBody().getBlocks().size();
  Layouts layouts(function, grid);
  if (failed(layouts.infer()))
    return failure();

  OpBuilder builder(function);
  auto fusion = func::FuncOp::create(builder, function.getLoc(), function.getSymName(),
                                     function.getFunctionType());
  fusion->setAttrs(function->getAttrDictionary());
  Block *body = builder.createBlock(&fusion.getBody());
  Lowering lowering(builder, layouts);
  for (BlockArgument argument : function.getArguments()) {
    Type type = argument.getType();
    if (isa<RankedTensorType>(type))
      type = layouts.getType(argument);
    lowering.map(argument, body->addArgument(type, argument.getLoc()));
  }
  SmallVector<Value> results;
  for (Operation &op : function.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op.getOperands()) {
        results.push_back(lowering.getReturned(&op, operand));
        if (!results.back())
          return failure();
      }
      func::ReturnOp::create(builder, op.getLoc(), results);
    } else if (failed(lowering.lower(&op))) {
      return failure();
    }
  }
  fusion.setFunctionType(builder.getFunctionType(body->getArgumentTypes(), TypeRange(results)));
  for (unsigned i = 0; i < fusion.getNumArguments(); ++i)
    fusion.removeArgAttr(i, kSplitAxesAttrName);
  for (unsigned i = 0; i < fusion.getNumResults(); ++i)
    fusion.removeResultAttr(i, StringAttr::get(fusion.getContext(), kSplitAxesAttrName));
  function.erase();
  return success();
}

namespace {
struct ConvertShardToFusionPass
    : public tandem::impl::ConvertShardToFusionBase<ConvertShardToFusionPass> {
  using ConvertShardToFusionBase::ConvertShardToFusionBase;

  void runOnOperation() override {
    SmallVector<shard::GridOp> grids(getOperation().getOps<shard::GridOp>());
    if (grids.empty())
      return;
    for (shard::GridOp grid : grids)
      if (failed(specialize(grid, mesh)) || !shardfusion::getMesh(grid))
        return signalPassFailure();
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (function.isExternal())
        continue;
      if (isFusion(function)) {
        if (failed(verifyFusion(function)))
          return signalPassFailure();
        continue;
      }
      shard::GridOp grid = findGrid(function, grids);
      if (!grid || failed(convert(function, grid)))
        return signalPassFailure();
      ++numFunctions;
    }
    for (shard::GridOp grid : grids)
      grid.erase();
  }
};
} // namespace
