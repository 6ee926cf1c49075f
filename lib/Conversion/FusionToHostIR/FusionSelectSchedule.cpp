//===- FusionSelectSchedule.cpp - fusion-select-schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FusionToHostIR/Passes.h"

#include "Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Dialect/Fusion/Transforms/StreamReshard.h"
#include "tandem/Support/SilenceDiagnostics.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <unordered_map>

namespace tandem {
#define GEN_PASS_DEF_FUSIONSELECTSCHEDULE
#include "tandem/Conversion/FusionToHostIR/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

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
  llvm::raw_string_ostream(text) << schedule;
  StringRef inner = text;
  (void)inner.consume_front("#fusion.schedule<");
  (void)inner.consume_back(">");
  return inner.str();
}

static std::string describe(StreamLoopOp loop) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      loop.getReshards(), os,
      [&](ReshardOp op) {
        os << stringifyReshardKind(
            classifyReshard(op.getInput().getType(), op.getResult().getType()).kind);
      },
      " and ");
  return text.empty() ? "a loop without reshards" : text;
}

namespace {
struct FusionSelectSchedulePass
    : public tandem::impl::FusionSelectScheduleBase<FusionSelectSchedulePass> {
  using FusionSelectScheduleBase::FusionSelectScheduleBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    chosen.clear();
    decisions.clear();
    user = sliced = 0;
    if (failed(select(func)))
      return signalPassFailure();
    if (chosen.empty() && !user)
      return;
    say(func.getLoc(), [&](raw_ostream &os) {
      for (auto &[name, count] : chosen)
        os << count << ' ' << name << ", ";
      os << user << " annotated";
      if (sliced)
        os << ", " << sliced << " sliced";
    });
    numUser += user;
    numSliced += sliced;
  }

private:
  llvm::MapVector<StringRef, unsigned> chosen; ///< loops by the schedule that the pass has chosen
  unsigned user = 0, sliced = 0;

  void say(Location loc, function_ref<void(raw_ostream &)> what) {
    if (!log)
      return;
    std::string text;
    llvm::raw_string_ostream os(text);
    what(os);
    emitRemark(loc) << "fusion-select-schedule: " << text;
  }

  LogicalResult select(func::FuncOp func) {
    WalkResult supported = func.walk([&](ReshardOp op) -> WalkResult {
      Reshard reshard = classifyReshard(op.getInput().getType(), op.getType());
      if (!reshard.isSupported())
        return op.emitOpError() << reshard.reason;
      return WalkResult::advance();
    });
    if (supported.wasInterrupted())
      return failure();
    SmallVector<StreamLoopOp> loops(func.getOps<StreamLoopOp>());
    // The unsharded reference is for one rank: there is nothing to choose.
    std::unique_ptr<Pricer> pricer;
    if (!machine.empty() && !loops.empty() && !func->hasAttr(kOracleOfAttrName)) {
      std::string error;
      pricer = createPricer(&getContext(),
                            {machine, workers, collectives, oneSided, getWorldSize(func)}, error);
      if (!pricer)
        return func.emitError() << error;
    }
    for (StreamLoopOp loop : loops)
      if (failed(select(loop, pricer.get())))
        return failure();
    return success();
  }

  LogicalResult select(StreamLoopOp loop, Pricer *pricer) {
    FailureOr<StreamGroup> group = getStreamGroup(loop, [&] { return loop.emitError(); });
    if (failed(group))
      return failure();
    if (loop.getScheduleAttr())
      return keep(loop, *group);
    if (pricer && selectByCost(loop, *group, *pricer))
      return success();
    return selectFallback(loop, *group);
  }

  /// The annotated schedule is kept, or it is an error.
  LogicalResult keep(StreamLoopOp loop, const StreamGroup &group) {
    auto emitError = [&] { return loop.emitError(); };
    const Schedule *schedule = getSchedule(group.schedule);
    if (!schedule)
      return loop.emitError("expected a registered schedule, found ") << group.schedule;
    if (schedule->isOneSided(group) && !oneSided)
      return loop.emitError("schedule ")
             << schedule->getName()
             << " needs one-sided messages, which the target's channels do not have; name another "
                "one";
    if (failed(schedule->matches(group, emitError)))
      return failure();
    ++user;
    say(loop.getLoc(), [&](raw_ostream &os) {
      os << describe(loop) << " keeps schedule " << schedule->getName();
    });
    return success();
  }

  void choose(StreamLoopOp loop, ScheduleAttr schedule, ScheduleSource source) {
    loop.setScheduleAttr(schedule);
    loop.setSource(source);
    ++chosen[getSchedule(schedule)->getName()];
    ++(source == ScheduleSource::Cost ? numByCost : numFallback);
  }

  /// Of the schedules that can run the loop, the one that ranks highest without a cost model.
  LogicalResult selectFallback(StreamLoopOp loop, const StreamGroup &group) {
    ScheduleAttr fallback = getFallbackSchedule(group);
    choose(loop, fallback, ScheduleSource::Fallback);
    say(loop.getLoc(), [&](raw_ostream &os) {
      os << describe(loop) << " goes through schedule " << describe(fallback);
    });
    // The reason why even that one does not match is the error.
    FailureOr<StreamGroup> now = getStreamGroup(loop, [&] { return loop.emitError(); });
    return success(succeeded(now) && succeeded(getSchedule(fallback)->matches(
                                         *now, [&] { return loop.emitError(); })));
  }

  //===--------------------------------------------------------------------===//
  // By cost
  //===--------------------------------------------------------------------===//

  struct Priced {
    ScheduleAttr schedule;
    double seconds = 0;
    bool isOneSided = false;
  };

  /// The schedules that can run the loop with its present digits and have a price; the baseline
  /// first. The loop's own schedule is changed.
  SmallVector<Priced> price(StreamLoopOp loop, StreamGroup group, Pricer &pricer) const {
    SmallVector<Priced> priced;
    SilenceDiagnostics silence(loop.getContext());
    for (ScheduleAttr candidate : getCandidates(group)) {
      const Schedule *schedule = getSchedule(candidate);
      group.schedule = candidate;
      bool isOneSided = schedule->isOneSided(group);
      if ((isOneSided && !oneSided) ||
          failed(schedule->matches(group, [&] { return loop.emitError(); })))
        continue;
      loop.setScheduleAttr(candidate);
      loop.setSource(ScheduleSource::Cost);
      if (FailureOr<double> seconds = pricer.price(loop); succeeded(seconds))
        priced.push_back({candidate, *seconds, isOneSided});
    }
    loop.removeScheduleAttr();
    loop.removeSourceAttr();
    return priced;
  }

  /// The quickest: the baseline, unless the gain is worth it.
  static Priced getBest(ArrayRef<Priced> priced) {
    Priced best = priced.front();
    for (const Priced &other : priced)
      if (other.seconds < best.seconds &&
          other.seconds < (1 - Pricer::kLeastGain) * priced.front().seconds)
        best = other;
    return best;
  }

  struct Sliced {
    unsigned reshard = 0; ///< its number in the loop
    StreamFactor factor;
    Priced best;
    bool gains = false;
  };

  /// What a loop gets.
  struct Decision {
    std::optional<std::pair<unsigned, StreamFactor>> slices; ///< of a reshard, by its number
    ScheduleAttr schedule;
  };
  /// By the loop's signature: most loops of a network are those of its first layer.
  std::unordered_map<std::string, Decision> decisions;

  void slice(StreamLoopOp loop, const Decision &decision) {
    if (!decision.slices)
      return;
    ++sliced;
    (void)streamReshard(loop.getReshards()[decision.slices->first], decision.slices->second);
  }

  /// Whether the loop has got its schedule, and slices if they are worth it.
  bool selectByCost(StreamLoopOp loop, const StreamGroup &group, Pricer &pricer) {
    std::string signature = getSignature(loop);
    if (auto known = decisions.find(signature); known != decisions.end() && !log) {
      slice(loop, known->second);
      choose(loop, known->second.schedule, ScheduleSource::Cost);
      return true;
    }
    SmallVector<Priced> whole = price(loop, group, pricer);
    if (whole.empty())
      return false;
    Decision decision{std::nullopt, getBest(whole).schedule};
    if (std::optional<Sliced> slices = selectSlices(loop, getBest(whole).seconds, pricer)) {
      if (slices->gains)
        decision = {std::pair(slices->reshard, slices->factor), slices->best.schedule};
      say(loop.getLoc(), [&](raw_ostream &os) {
        os << describe(loop) << (slices->gains ? " gets " : " stays whole, not ")
           << describe(slices->factor) << ": " << inMicroseconds(slices->best.seconds) << ", "
           << inMicroseconds(whole.front().seconds) << " whole (" << pricer.getMachineName() << ")";
      });
    }
    decisions.try_emplace(std::move(signature), decision);
    slice(loop, decision);
    if (log)
      if (FailureOr<StreamGroup> now = getStreamGroup(loop, [&] { return loop.emitError(); });
          succeeded(now))
        whole = price(loop, *now, pricer);
    choose(loop, decision.schedule, ScheduleSource::Cost);
    say(loop.getLoc(), [&](raw_ostream &os) {
      os << describe(loop) << " goes through schedule " << describe(decision.schedule) << ": ";
      llvm::interleave(
          whole, os,
          [&](const Priced &priced) {
            os << describe(priced.schedule) << " " << inMicroseconds(priced.seconds);
          },
          "; ");
      os << " (" << pricer.getMachineName() << ")";
    });
    return true;
  }

  /// The slices that make the loop quickest, of those that gain enough if there are any. None if no
  /// reshard of the loop can have slices.
  std::optional<Sliced> selectSlices(StreamLoopOp loop, double seconds, Pricer &pricer) const {
    std::optional<Sliced> best;
    for (auto [number, reshard] : llvm::enumerate(loop.getReshards()))
      for (const StreamFactor &factor : getStreamFactors(reshard, oneSided)) {
        std::optional<Sliced> trial = trySlices(loop, number, factor, pricer);
        if (!trial)
          continue;
        trial->gains =
            seconds - trial->best.seconds >= pricer.getLeastGain(trial->best.isOneSided) * seconds;
        if (!best || std::pair(!trial->gains, trial->best.seconds) <
                         std::pair(!best->gains, best->best.seconds))
          best = trial;
      }
    return best;
  }

  /// None if the loop cannot have these slices.
  std::optional<Sliced> trySlices(StreamLoopOp loop, unsigned number, const StreamFactor &factor,
                                  Pricer &pricer) const {
    OwningOpRef<StreamLoopOp> copy(loop.clone());
    SilenceDiagnostics silence(loop.getContext());
    if (failed(streamReshard(copy->getReshards()[number], factor)))
      return std::nullopt;
    for (Operation &op : copy->getBody().front().without_terminator())
      if (isLocalComputation(&op) && failed(verifyLocal(&op, nullptr)))
        return std::nullopt;
    FailureOr<StreamGroup> group = getStreamGroup(*copy, [&] { return loop.emitError(); });
    if (failed(group))
      return std::nullopt;
    SmallVector<Priced> priced = price(*copy, *group, pricer);
    if (priced.empty())
      return std::nullopt;
    return Sliced{number, factor, getBest(priced), false};
  }
};
} // namespace
