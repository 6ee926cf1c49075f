//===- FusionSelectSchedule.cpp - fusion-select-schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FusionToHostIR/Passes.h"

#include "LoopCosts.h"
#include "Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Dialect/Fusion/Transforms/StreamReshard.h"

#include "llvm/Support/FormatVariadic.h"
#include <limits>

namespace tandem {
#define GEN_PASS_DEF_FUSIONSELECTSCHEDULE
#include "tandem/Conversion/FusionToHostIR/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Mesh axes that split another dimension afterwards, or none. Those of one device move nothing,
/// but `exchange` is for one axis and no other.
static int64_t countMoved(RankedTensorType from, RankedTensorType to) {
  return llvm::count_if(getAxes(from).getMesh().getAxes(), [&](const MeshAxis &axis) {
    return getAxes(from).dimOfDeviceAxis(axis.name) != getAxes(to).dimOfDeviceAxis(axis.name);
  });
}

static std::string inMicroseconds(double seconds) {
  return llvm::formatv("{0:F1} us", seconds * 1e6).str();
}

static std::string describe(const StreamFactor &factor) {
  return llvm::formatv("{0} slices of dimension {1}{2}", factor.count, factor.dim,
                       factor.toOwners     ? " for one device each"
                       : factor.pieces > 1 ? " of every device"
                                           : "")
      .str();
}

static std::string describe(ScheduleAttr schedule) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << stringifyScheduleKind(schedule.getKind());
  if (schedule.getStreams())
    os << " on " << schedule.getStreams() << " streams";
  if (!schedule.getMerge().empty()) {
    os << " merging ";
    llvm::interleave(schedule.getMerge(), os, "+");
  }
  return text;
}

namespace {
struct FusionSelectSchedulePass
    : public tandem::impl::FusionSelectScheduleBase<FusionSelectSchedulePass> {
  using FusionSelectScheduleBase::FusionSelectScheduleBase;

  void runOnOperation() override {
    counts = {};
    func::FuncOp func = getOperation();
    WalkResult result = func.walk([&](ReshardOp op) {
      return succeeded(check(op)) ? WalkResult::advance() : WalkResult::interrupt();
    });
    // An oracle is for one rank: there is nothing to choose.
    bool byCost = !machine.empty() && !func->hasAttr(kOracleOfAttrName);
    if (result.wasInterrupted() || (byCost && failed(selectByCost(func))))
      return signalPassFailure();
    // What the model says nothing of.
    func.walk([&](ReshardOp op) {
      if (!op.getScheduleAttr())
        selectByRule(op);
    });
    if (!counts.isZero())
      say(func.getLoc(), [&](raw_ostream &os) {
        os << counts.exchange << " exchange, " << counts.pipeline << " pipeline, " << counts.user
           << " named by the user";
        if (counts.other)
          os << ", " << counts.other << " others";
        if (counts.sliced)
          os << ", " << counts.sliced << " sliced";
      });
    numExchange += counts.exchange;
    numPipeline += counts.pipeline;
    numUser += counts.user;
    numSliced += counts.sliced;
  }

private:
  struct Counts {
    unsigned exchange = 0, pipeline = 0, other = 0, user = 0, sliced = 0;
    bool isZero() const { return !exchange && !pipeline && !other && !user && !sliced; }
  } counts;

  void say(Location loc, function_ref<void(raw_ostream &)> what) {
    if (!log)
      return;
    std::string text;
    llvm::raw_string_ostream os(text);
    what(os);
    emitRemark(loc) << "fusion-select-schedule: " << text;
  }

  static Reshard classify(ReshardOp op) {
    return classifyReshard(op.getInput().getType(), op.getType());
  }

  LogicalResult check(ReshardOp op) {
    Reshard reshard = classify(op);
    if (!reshard.isSupported())
      return op.emitOpError() << reshard.reason;
    ScheduleAttr schedule = op.getScheduleAttr();
    if (!schedule)
      return success();
    if (failed(checkSchedule(schedule, [&] { return op.emitError(); })))
      return failure();
    if (schedule.getKind() == ScheduleKind::Push && !oneSided && !reshard.isLocal())
      return op.emitError("schedule push needs one-sided messages, which the target's channels do "
                          "not have; expected pipeline or exchange");
    ++counts.user;
    say(op.getLoc(), [&](raw_ostream &os) {
      os << stringifyReshardKind(reshard.kind) << " keeps schedule "
         << stringifyScheduleKind(schedule.getKind());
    });
    return success();
  }

  void choose(ReshardOp op, ScheduleAttr schedule) {
    ++(schedule.getKind() == ScheduleKind::Exchange   ? counts.exchange
       : schedule.getKind() == ScheduleKind::Pipeline ? counts.pipeline
                                                      : counts.other);
    op.setScheduleAttr(schedule);
    op.setChosen(true);
  }

  void selectByRule(ReshardOp op) {
    RankedTensorType from = op.getInput().getType(), to = op.getType();
    Reshard reshard = classifyReshard(from, to);
    bool oneOwner = reshard.kind == fusion::ReshardKind::AllGather && reshard.axes.size() == 1 &&
                    slicesHaveOneOwner(from, to) && countMoved(from, to) == 1;
    ScheduleKind kind = oneOwner ? ScheduleKind::Exchange : ScheduleKind::Pipeline;
    choose(op, ScheduleAttr::get(op.getContext(), kind));
    say(op.getLoc(), [&](raw_ostream &os) {
      os << stringifyReshardKind(reshard.kind) << " goes through schedule "
         << stringifyScheduleKind(kind) << (oneOwner ? ": every stream slice has one owner" : "");
    });
  }

  //===--------------------------------------------------------------------===//
  // By cost
  //===--------------------------------------------------------------------===//

  LogicalResult selectByCost(func::FuncOp func) {
    if (!func.getBody().hasOneBlock())
      return success();
    CostModel::Options options;
    options.workers = workers;
    options.collectives = collectives;
    options.oneSided = oneSided;
    options.ranks = getWorldSize(func);
    std::string error;
    std::shared_ptr<const CostModel> model = CostModel::load(machine, options, error);
    if (!model)
      return func.emitError() << error;
    LoopCosts costs(*model);
    SmallVector<ReshardOp> reshards(func.getOps<ReshardOp>());
    for (size_t i = 0; i < reshards.size(); ++i)
      if (!reshards[i].getScheduleAttr() &&
          failed(selectSlices(func, i, reshards[i], costs, model->getName())))
        return failure();
    FailureOr<SmallVector<StreamGroup>> groups = getStreamGroups(func);
    if (failed(groups))
      return failure();
    for (const StreamGroup &group : *groups)
      if (!group.reshards().empty() && !group.scheduleIsNamed)
        selectSchedule(group, costs, model->getName());
    if (FailureOr<double> seconds = costs.getSeconds(func); log && succeeded(seconds))
      say(func.getLoc(), [&](raw_ostream &os) {
        os << "predicted " << inMicroseconds(*seconds) << " (" << model->getName() << ")";
      });
    return success();
  }

  /// Writes the slices into the types that make the function quickest, if it is worth it.
  LogicalResult selectSlices(func::FuncOp func, size_t number, ReshardOp op, const LoopCosts &costs,
                             StringRef name) {
    SmallVector<StreamFactor> factors = getStreamFactors(op, oneSided);
    if (factors.empty())
      return success();
    FailureOr<double> whole = costs.getSeconds(func), beside = getSecondsBeside(func, op, costs);
    if (failed(whole) || failed(beside))
      return success();
    // The quickest of those that are worth it, if there is one.
    std::optional<StreamFactor> best;
    double least = std::numeric_limits<double>::infinity();
    bool worthIt = false;
    for (const StreamFactor &factor : factors) {
      FailureOr<Trial> trial = trySlices(func, number, factor, costs);
      if (failed(trial))
        continue;
      bool gains = *whole - trial->seconds >= trial->leastGain * *beside;
      if (gains < worthIt || (gains == worthIt && trial->seconds >= least))
        continue;
      worthIt = gains;
      least = trial->seconds;
      best = factor;
    }
    say(op.getLoc(), [&](raw_ostream &os) {
      os << stringifyReshardKind(classify(op).kind);
      if (best)
        os << (worthIt ? " gets " : " stays whole, not ") << describe(*best) << ": "
           << inMicroseconds(least) << ", " << inMicroseconds(*whole) << " whole";
      else
        os << " stays whole: nothing beside it can be sliced";
      os << " (" << name << ")";
    });
    if (!worthIt)
      return success();
    ++counts.sliced;
    return streamReshard(func, op, *best);
  }

  /// Of the reshard's loop and of what it feeds and is fed by: what slices can change.
  static FailureOr<double> getSecondsBeside(func::FuncOp func, ReshardOp op,
                                            const LoopCosts &costs) {
    FailureOr<SmallVector<StreamGroup>> groups = getStreamGroups(func);
    if (failed(groups))
      return failure();
    double seconds = 0;
    for (const StreamGroup &group : *groups) {
      bool beside = llvm::any_of(group.ops, [&](Operation *other) {
        return other == op || other == op.getInput().getDefiningOp() ||
               llvm::is_contained(op->getUsers(), other);
      });
      SmallVector<PricedSchedule> schedules = costs.getSchedules(group);
      if (beside && !schedules.empty())
        seconds += LoopCosts::choose(schedules).seconds;
    }
    return seconds;
  }

  /// The function with slices: its time, and the part of what is beside them that they must gain.
  struct Trial {
    double seconds = 0, leastGain = 0;
  };

  /// Failure, silently, if it cannot have these slices.
  static FailureOr<Trial> trySlices(func::FuncOp func, size_t number, const StreamFactor &factor,
                                    const LoopCosts &costs) {
    ScopedDiagnosticHandler quiet(func.getContext(), [](Diagnostic &) { return success(); });
    OwningOpRef<func::FuncOp> copy(func.clone());
    SmallVector<ReshardOp> reshards(copy->getOps<ReshardOp>());
    if (failed(streamReshard(*copy, reshards[number], factor)))
      return failure();
    for (Operation &op : copy->getBody().front().without_terminator())
      if (isLocalComputation(&op) && failed(verifyLocal(&op, nullptr)))
        return failure();
    FailureOr<double> seconds = costs.getSeconds(*copy);
    FailureOr<SmallVector<StreamGroup>> groups = getStreamGroups(*copy);
    if (failed(seconds) || failed(groups))
      return failure();
    bool oneSided = llvm::any_of(*groups, [&](const StreamGroup &group) {
      return llvm::is_contained(group.reshards(), reshards[number]) &&
             LoopCosts::choose(costs.getSchedules(group)).schedule.getKind() == ScheduleKind::Push;
    });
    return Trial{*seconds, costs.getModel().getLeastGain(oneSided)};
  }

  void selectSchedule(const StreamGroup &group, const LoopCosts &costs, StringRef name) {
    SmallVector<PricedSchedule> schedules = costs.getSchedules(group);
    if (schedules.empty())
      return;
    PricedSchedule chosen = LoopCosts::choose(schedules);
    for (ReshardOp op : group.reshards()) {
      if (op.getScheduleAttr() && !op.getChosen())
        continue;
      choose(op, chosen.schedule);
      say(op.getLoc(), [&](raw_ostream &os) {
        os << stringifyReshardKind(classify(op).kind) << " goes through schedule "
           << describe(chosen.schedule) << ": ";
        llvm::interleaveComma(schedules, os, [&](const PricedSchedule &priced) {
          os << describe(priced.schedule) << " " << inMicroseconds(priced.seconds);
        });
        os << " (" << name << ")";
      });
    }
  }
};
} // namespace
