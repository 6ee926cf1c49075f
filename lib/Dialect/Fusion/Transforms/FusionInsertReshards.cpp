//===- FusionInsertReshards.cpp - fusion-insert-reshards -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseFactors.h"
#include "LocalPlan.h"
#include "PassLog.h"
#include "PlanPrices.h"
#include "Retype.h"
#include "RewriteReshards.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONINSERTRESHARDS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Whether a reshard of an operand or result satisfies `holds`.
static bool hasReshard(Operation *op, llvm::function_ref<bool(ReshardOp)> holds) {
  auto isOne = [&](Operation *other) {
    auto reshard = dyn_cast_if_present<ReshardOp>(other);
    return reshard && holds(reshard);
  };
  return llvm::any_of(op->getOperands(), [&](Value v) { return isOne(v.getDefiningOp()); }) ||
         llvm::any_of(op->getUsers(), isOne);
}

/// An op's schedule also applies to the reductions of its partial results, which other ops or the
/// text may have requested.
static void scheduleReductions(Operation *op, ScheduleAttr schedule) {
  for (Operation *user : op->getUsers()) {
    auto reshard = dyn_cast<ReshardOp>(user);
    if (!reshard || reshard.getScheduleAttr() || !getAxes(reshard.getInput()).isPartial() ||
        classifyReshard(reshard).isLocal())
      continue;
    reshard.setScheduleAttr(schedule);
  }
}

/// Erases the hints `fusion.schedule` and `fusion.gather` of an op after its reshards were
/// inserted. Warns about a hint without effect, unless the mesh is one device. `hasReshardAfter`: a
/// reshard was inserted that could be on the op's other side.
static void eraseHints(Operation *op, bool hasReshardAfter) {
  AxesAttr axes = op->getNumResults() ? getAxes(op->getResult(0)) : AxesAttr();
  bool isAlone = axes && axes.getMesh().numDevices() == 1;
  auto schedule = dyn_cast_if_present<ScheduleAttr>(op->removeDiscardableAttr(kScheduleAttrName));
  if (schedule && !isElementwise(op))
    scheduleReductions(op, schedule);
  if (schedule && !isAlone &&
      !hasReshard(op, [&](ReshardOp reshard) { return reshard.getScheduleAttr() == schedule; }))
    op->emitWarning() << "'" << kScheduleAttrName
                      << "' has no effect: no reshard of this op communicates";
  auto gather = dyn_cast_if_present<StringAttr>(op->removeDiscardableAttr(kGatherAttrName));
  if (!gather || isAlone)
    return;
  // Elementwise ops have reshards only before them.
  bool isHeard = isElementwise(op)
                     ? gather == "before" && hasReshard(op, [](ReshardOp) { return true; })
                     : hasReshardAfter;
  if (!isHeard)
    op->emitWarning() << "'" << kGatherAttrName
                      << "' has no effect: this op has no reshard on that side";
}

namespace {
struct FusionInsertReshardsPass
    : public fusion::impl::FusionInsertReshardsBase<FusionInsertReshardsPass> {
  using FusionInsertReshardsBase::FusionInsertReshardsBase;

  void runOnOperation() override {
    PassLog logger("fusion-insert-reshards", log);
    made.clear();
    reshardedAfter.clear();
    before = after = writtenOut = 0;
    pricer.reset(); // that of the function before
    if (failed(verifyFits(getOperation())))
      return signalPassFailure();
    // The unsharded reference has no reshards; report a bad machine only once.
    bool ordered = isDeterministic(getOperation());
    if (gather == GatherMode::Cost && !getOperation()->hasAttr(kReferenceOfAttrName) && !ordered &&
        failed(loadPricer()))
      return signalPassFailure();
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isLocalComputation(op) && involvesAxes(op))
        ops.push_back(op);
    });
    for (Operation *op : ops)
      if (failed(makeLocal(op, logger)))
        return signalPassFailure();
    for (Operation *op : ops)
      eraseHints(op, reshardedAfter.contains(op));
    made.clear();
    reshardedAfter.clear();
    shareReshards(getOperation(), [&](ReshardOp stays, Location gone) {
      logger(gone, [&](raw_ostream &os) {
        os << "shares the reshard to " << formatAxes(getAxes(stays.getResult()));
      });
    });
    SmallVector<ReshardOp> reshards;
    getOperation().walk([&](ReshardOp op) { reshards.push_back(op); });
    for (ReshardOp op : reshards) {
      Explained<int64_t> rows = writeOutReshard(op);
      if (failed(rows)) {
        (void)rows.report();
        return signalPassFailure();
      }
      if (*rows == 1)
        continue;
      ++writtenOut;
      logger(op.getLoc(), [&](raw_ostream &os) { os << "wrote out a reshard as " << *rows; });
    }
    if (pricer || ordered)
      splitAllReduces(logger);
    logger.summary(getOperation().getLoc(),
                   {{"before", before}, {"after", after}, {"written out", writtenOut}});
    numBefore += before;
    numAfter += after;
    numWrittenOut += writtenOut;
  }

private:
  unsigned before = 0, after = 0, writtenOut = 0;
  std::shared_ptr<Pricer> pricer; ///< for GatherMode::Cost

  static bool involvesAxes(Operation *op) {
    auto decided = [](Type type) { return getAxes(type) != nullptr; };
    return llvm::any_of(op->getOperandTypes(), decided) ||
           llvm::any_of(op->getResultTypes(), decided);
  }

  /// The op's hint, else the option. But a value that shrinks on its way to another mesh is reduced
  /// before, if possible.
  GatherMode gatherOf(Operation *op) {
    if (auto hint = op->getAttrOfType<StringAttr>(kGatherAttrName))
      return hint == "after" ? GatherMode::After : GatherMode::Before;
    AxesAttr axes = getAxes(op->getOperand(0));
    std::optional<AxesConflict> conflict;
    if (op->getNumOperands() == 1 &&
        sizeOf(op->getResult(0).getType()) < sizeOf(op->getOperand(0).getType()) &&
        axes.getMesh() != getAxes(op->getResult(0)).getMesh() &&
        inferResultAxes(op, 0, axes, conflict))
      return GatherMode::After;
    return gather;
  }

  LogicalResult loadPricer() {
    Pricer::Options options;
    options.machine = machine;
    options.workers = workers;
    options.collectives = collectives;
    options.oneSided = oneSided;
    options.ranks = getWorldSize(getOperation());
    std::string error;
    pricer = createPricer(&getContext(), options, error);
    return pricer ? success() : getOperation().emitError() << error;
  }

  void splitAllReduces(const PassLog &logger) {
    SmallVector<ReshardOp> reshards;
    getOperation().walk([&](ReshardOp op) { reshards.push_back(op); });
    for (ReshardOp op : reshards) {
      Location loc = op.getLoc();
      if (!splitAllReduce(op, pricer.get()))
        continue;
      ++numSplit;
      logger(loc, [&](raw_ostream &os) {
        os << "split the all-reduce into a reduce-scatter and an all-gather";
        if (pricer)
          os << ", which are faster on " << pricer->getMachineName();
      });
    }
  }

  /// Plans the op on the side of its hint or the option, or on the cheaper side.
  FailureOr<LocalPlan> planFor(Operation *op, std::string &reason, const PassLog &logger) {
    GatherMode mode = gatherOf(op);
    if (mode == GatherMode::Cost && !pricer)
      mode = GatherMode::Before;
    if (mode != GatherMode::Cost)
      return planLocal(op, mode, reason);
    FailureOr<LocalPlan> before = planLocal(op, GatherMode::Before, reason);
    std::string other;
    FailureOr<LocalPlan> after = planLocal(op, GatherMode::After, other);
    if (failed(before) || failed(after) ||
        (before->operands == after->operands && before->results == after->results))
      return before;
    double secondsBefore = priceLocalPlan(op, *before, *pricer),
           secondsAfter = priceLocalPlan(op, *after, *pricer);
    bool isAfter = secondsAfter < (1 - pricer->getMargins().gain) * secondsBefore;
    logger(op->getLoc(), [&](raw_ostream &os) {
      os << "reshards stand " << (isAfter ? "behind" : "before") << " the op: "
         << llvm::formatv("{0:F1} us before, {1:F1} us after on {2}", secondsBefore * 1e6,
                          secondsAfter * 1e6, pricer->getMachineName());
    });
    return isAfter ? after : before;
  }

  LogicalResult makeLocal(Operation *op, const PassLog &logger) {
    auto undecided = [](Type type) { return isa<RankedTensorType>(type) && !getAxes(type); };
    if (llvm::any_of(op->getOperandTypes(), undecided) ||
        llvm::any_of(op->getResultTypes(), undecided))
      return op->emitOpError() << "expected decided operands and results (run "
                                  "fusion-propagate-axes first), found an undecided one";
    if (succeeded(verifyLocal(op, nullptr)))
      return success();
    // All types of an elementwise op are equal; its reshards are inserted elsewhere.
    if (isElementwise(op))
      return verifyLocal(op, [op] { return op->emitOpError(); });
    std::string reason;
    FailureOr<LocalPlan> plan = planFor(op, reason, logger);
    if (failed(plan))
      return op->emitOpError() << reason;
    // A bias is added once, so not to each partial sum.
    if (getAxesRule(op)->addedOnce && plan->results.front().isPartial() &&
        !getAxes(op->getResult(0)).isPartial()) {
      moveBiasAfter(op, logger);
      return makeLocal(op, logger);
    }
    return apply(op, *plan, logger);
  }

  /// Adds the op's bias to its reduced result instead.
  void moveBiasAfter(Operation *op, const PassLog &logger) {
    AxesRule rule = *getAxesRule(op);
    Value result = op->getResult(0), bias = op->getOperand(*rule.addedOnce);
    auto type = cast<RankedTensorType>(result.getType());
    AxesAttr axes = getAxes(type);
    auto dims = llvm::map_to_vector(rule.operands[*rule.addedOnce], [&](int64_t factor) -> int64_t {
      return llvm::find(rule.results[0], factor) - rule.results[0].begin();
    });
    auto digits = llvm::map_to_vector(dims, [&](int64_t dim) { return axes.getDims()[dim]; });
    OpBuilder builder(op);
    auto biasAxes = AxesAttr::get(op->getContext(), axes.getMesh(), digits, {}, ReduceKind::Sum);
    if (!samePlacement(biasAxes, getAxes(bias)))
      bias = reshardTo(builder, op, bias, biasAxes);
    builder.setInsertionPointAfter(op);
    auto wide = BroadcastOp::create(builder, op->getLoc(), type, bias, dims);
    auto sum = arith::AddFOp::create(builder, op->getLoc(), result, wide);
    result.replaceAllUsesExcept(sum.getResult(), sum);
    op->eraseOperand(*rule.addedOnce);
    logger(op->getLoc(), [](raw_ostream &os) { os << "the bias is added after the reduction"; });
  }

  /// `value` with other axes for `op`: an existing reshard or a new one.
  Value reshardTo(OpBuilder &builder, Operation *op, Value value, AxesAttr axes) {
    RankedTensorType type = withAxes(cast<RankedTensorType>(value.getType()), axes);
    auto schedule = op->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    SmallVector<ReshardOp, 1> &known = made[{value, axes.getPlacement()}];
    if (ReshardOp reshard = findReshard(known, type, schedule, builder.getInsertionBlock())) {
      if (schedule && !classifyReshard(reshard.getInput().getType(), type).isLocal())
        reshard.setScheduleAttr(schedule);
      return reshard;
    }
    known.push_back(createReshard(builder, op, type, value));
    ++before;
    return known.back();
  }

  /// A reshard of the value to the same placement that also fits `type`. Users that need no slices
  /// accept any; a reshard without slices takes those of its first sliced user.
  static ReshardOp findReshard(ArrayRef<ReshardOp> known, RankedTensorType type,
                               ScheduleAttr schedule, Block *block) {
    ReshardOp whole;
    // Ops are visited in order, so an earlier reshard in the same block dominates.
    for (ReshardOp reshard : known) {
      if (reshard->getBlock() != block ||
          (schedule && reshard.getScheduleAttr() && schedule != reshard.getScheduleAttr()))
        continue;
      if (reshard.getType() == type || !getAxes(type).hasStream())
        return reshard;
      if (!getAxes(reshard.getType()).hasStream())
        whole = reshard;
    }
    if (whole)
      retype(whole.getResult(), type);
    return whole;
  }

  /// By value and placement.
  llvm::DenseMap<std::pair<Value, Attribute>, SmallVector<ReshardOp, 1>> made;
  /// Ops next to which a reshard was inserted.
  llvm::SmallPtrSet<Operation *, 8> reshardedAfter;

  LogicalResult apply(Operation *op, const LocalPlan &plan, const PassLog &logger) {
    auto fits = [&](RankedTensorType type, AxesAttr axes) {
      return axes.verifyFits(type.getShape(), [op] { return op->emitOpError(); });
    };
    OpBuilder builder(op);
    reshardedAfter.insert(op);
    for (OpOperand &operand : op->getOpOperands()) {
      AxesAttr axes = plan.operands[operand.getOperandNumber()];
      if (!axes || samePlacement(axes, getAxes(operand.get())))
        continue;
      auto type = cast<RankedTensorType>(operand.get().getType());
      if (failed(fits(type, axes)))
        return failure();
      operand.set(reshardTo(builder, op, operand.get(), axes));
      logger(op->getLoc(), [&](raw_ostream &os) {
        os << "operand " << operand.getOperandNumber() << " is resharded to " << formatAxes(axes);
      });
    }
    builder.setInsertionPointAfter(op);
    for (OpResult result : op->getResults()) {
      AxesAttr axes = plan.results[result.getResultNumber()];
      AxesAttr wanted = getAxes(result);
      if (samePlacement(axes, wanted))
        continue;
      for (StringAttr axis : wanted.getPartial())
        if (!llvm::is_contained(axes.getPartial(), axis))
          return op->emitOpError() << "expected a result that is not partial over " << axis
                                   << ", since no operand is, found " << formatAxes(wanted);
      auto type = cast<RankedTensorType>(result.getType());
      if (failed(fits(type, axes)))
        return failure();
      retype(result, withAxes(type, axes));
      ReshardOp reshard = createReshard(builder, op, type, result);
      result.replaceAllUsesExcept(reshard.getResult(), reshard);
      ++after;
      logger(op->getLoc(), [&](raw_ostream &os) {
        os << "the result is " << formatAxes(axes) << ", and is resharded to "
           << formatAxes(wanted);
      });
    }
    // Verify the plan.
    return verifyLocal(op, [op] { return op->emitOpError(); });
  }
};
} // namespace
