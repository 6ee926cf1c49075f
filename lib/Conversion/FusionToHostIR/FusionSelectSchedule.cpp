//===- FusionSelectSchedule.cpp - fusion-select-schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FusionToHostIR/Passes.h"

#include "LoopPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Threading.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "tandem/Dialect/Fusion/Transforms/StreamReshard.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/xxhash.h"
#include <atomic>
#include <cmath>
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

static std::string describe(StreamLoopOp loop) {
  std::string text = describeReshards(loop);
  return text.empty() ? "a loop without reshards" : text;
}

namespace {
class FunctionSelection;

struct FusionSelectSchedulePass
    : public tandem::impl::FusionSelectScheduleBase<FusionSelectSchedulePass> {
  using FusionSelectScheduleBase::FusionSelectScheduleBase;
  friend class FunctionSelection;

  void runOnOperation() override;
};

/// The loops of one function.
class FunctionSelection {
public:
  FunctionSelection(FusionSelectSchedulePass &pass, LoopPlans &plans, func::FuncOp func)
      : pass(pass), plans(plans), func(func),
        deterministic(func->getAttrOfType<StringAttr>(kDeterministicAttrName)) {}

  LogicalResult run() {
    if (failed(verifyLists()) || failed(verifyFits(func)) || failed(select()))
      return failure();
    if (chosen.empty() && !user)
      return success();
    logRemark(func.getLoc(), [&](raw_ostream &os) {
      for (auto &[name, count] : chosen)
        os << count << ' ' << name << ", ";
      os << user << " annotated";
      if (sliced)
        os << ", " << sliced << " sliced";
    });
    pass.numUser += user;
    pass.numSliced += sliced;
    return success();
  }

private:
  FusionSelectSchedulePass &pass;
  LoopPlans &plans;
  func::FuncOp func;
  llvm::MapVector<StringRef, unsigned> chosen; ///< loops by the schedule that the pass has chosen
  unsigned user = 0, sliced = 0;
  using Slices = std::optional<std::pair<unsigned, StreamFactor>>;
  StringAttr deterministic; ///< of the function; null: sums may be added in any order

  void logRemark(Location loc, function_ref<void(raw_ostream &)> what) {
    if (!pass.log)
      return;
    std::string text;
    llvm::raw_string_ostream os(text);
    what(os);
    emitRemark(loc) << "fusion-select-schedule: " << text;
  }

  /// Without braces around it, a candidate with commas becomes several elements of a list.
  LogicalResult verifyLists() {
    auto verify = [&](ArrayRef<std::string> list, StringRef form, StringRef what) -> LogicalResult {
      for (StringRef text : list)
        if (!llvm::Regex(form).match(text))
          return func.emitError() << what << "=CANDIDATE, in braces if it has commas, found \""
                                  << text << '"';
      return success();
    };
    return failure(failed(verify(*pass.among, "^[0-9]+/[0-9]+=", "option among: expected I/N")) ||
                   failed(verify(*pass.tuned, "^[0-9a-f]+=", "option tuned: expected LOOP")));
  }

  LogicalResult select() {
    WalkResult supported = func.walk([&](ReshardOp op) -> WalkResult {
      Reshard reshard = classifyReshard(op);
      return reshard.isSupported() ? success() : LogicalResult(op.emitOpError() << reshard.reason);
    });
    if (supported.wasInterrupted())
      return failure();
    SmallVector<StreamLoopOp> loops(func.getOps<StreamLoopOp>());
    // The unsharded reference is for one rank: there is nothing to choose.
    std::unique_ptr<Pricer> pricer;
    if (!pass.machine.empty() && !loops.empty() && !func->hasAttr(kReferenceOfAttrName)) {
      std::string error;
      pricer = createPricer(func.getContext(),
                            {pass.machine, pass.workers, pass.collectives, pass.oneSided,
                             getWorldSize(func), deterministic ? deterministic.str() : ""},
                            error);
      if (!pricer)
        return func.emitError() << error;
    }
    size_t numbered =
        llvm::count_if(loops, [](StreamLoopOp loop) { return !loop.getReshards().empty(); });
    size_t number = 0;
    for (StreamLoopOp loop : loops) {
      if (pricer)
        setThresholds(loop, pricer->getMargins().thresholds);
      allowed = loop.getReshards().empty() ? SmallVector<CandidateAttr>()
                                           : getAllowed(number++, numbered);
      if (failed(select(loop, pricer.get())))
        return failure();
    }
    return success();
  }

  /// The candidates that option `among` leaves to a loop; none: all.
  SmallVector<CandidateAttr> getAllowed(size_t number, size_t numbered) {
    std::string prefix = llvm::formatv("{0}/{1}=", number, numbered);
    SmallVector<CandidateAttr> candidates;
    for (const std::string &text : pass.among)
      if (StringRef rest = text; rest.consume_front(prefix))
        candidates.push_back(CandidateAttr::fromStr(func.getContext(), rest));
    return candidates;
  }
  SmallVector<CandidateAttr> allowed; ///< of the loop at hand
  SmallVector<unsigned> returned;     ///< numbers of its results that the function returns

  static LogicalResult refuseAdder(Operation *adder) {
    return adder->emitError("expected slices in dimensions that are not added up, since sums by "
                            "slices round otherwise than whole ones and the function has '")
           << kDeterministicAttrName << "'";
  }

  LogicalResult select(StreamLoopOp op, Pricer *pricer) {
    if (op.getScheduleAttr() && !pass.baseline)
      return keep(op);
    Explained<StreamLoop> loop = getStreamLoop(op);
    if (failed(loop))
      return loop.report();
    if (Operation *adder = findAdder(*loop))
      return refuseAdder(adder);
    if (pass.baseline)
      return takeBaseline(op, std::move(*loop));
    std::string signature;
    returned = findReturned(op);
    if (pricer) {
      signature = getKey(op);
      // Equal loops may have different candidates: option `among` names loops.
      for (CandidateAttr candidate : allowed)
        signature.append(candidate ? "|" + candidate.str() : "|");
    }
    if (pricer || !pass.tuned.empty()) {
      std::string hash = getHash(op);
      op.setSignature(hash);
      if (takeTuned(op, *loop, hash, pricer))
        return success();
    }
    if (pricer && selectByCost(op, *loop, *pricer, std::move(signature)))
      return success();
    Explained<std::unique_ptr<LoopPlan>> fallback = planFallback(*loop);
    if (failed(fallback))
      return fallback.report();
    ScheduleAttr schedule = (*fallback)->loop.schedule;
    plans.set(op, std::move(*fallback));
    choose(op, schedule, ScheduleSource::Fallback);
    logRemark(op.getLoc(), [&](raw_ostream &os) {
      os << describe(op) << " goes through schedule " << schedule.str();
    });
    return success();
  }

  /// In a deterministic function, an op that adds up floats slice by slice; else null.
  Operation *findAdder(const StreamLoop &loop) const {
    if (!deterministic)
      return nullptr;
    for (Operation *op : loop.ops) {
      auto reduce = dyn_cast<ReduceOp>(op);
      if (loop.accumulators.contains(op) && !isa<ReshardOp>(op) &&
          isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())) &&
          (!reduce || reduce.getKind() == ReduceKind::Sum))
        return op;
    }
    return nullptr;
  }

  /// Whether the plan adds floats in another order than the function allows.
  bool breaksOrder(const SchedulePlan &plan, const StreamLoop &loop) const {
    if (deterministic && plan.addsBiasSeparately)
      return true;
    return deterministic && !plan.addsInRankOrder &&
           llvm::any_of(loop.reshards(), [](ReshardOp reshard) {
             return isa<FloatType>(reshard.getType().getElementType()) &&
                    getAxes(reshard.getInput()).getPartialKind() == ReduceKind::Sum;
           });
  }

  /// What a plan uses that the target's channels and the pricer's machine do not have. Without a
  /// machine, its devices have everything. Stores next to a matmul are priced anyway, for reports;
  /// they do not gain where their costs are unknown (Pricer::isWorth).
  program::CapabilitySet getMissing(const SchedulePlan &plan, const Pricer *pricer) const {
    using program::Capability;
    program::CapabilitySet all = program::CapabilitySet::all();
    program::CapabilitySet available = pricer ? pricer->getCapabilities() : all;
    available = available - program::CapabilitySet{Capability::OneSided};
    available.add(Capability::OneSided, pass.oneSided).add(Capability::StoresBesideCompute);
    return plan.uses - available;
  }

  /// What its price depends on. `byContent`: see getSignature.
  std::string getKey(StreamLoopOp op, bool byContent = false) const {
    std::string key = getSignature(op, byContent);
    for (unsigned result : returned)
      key += " " + std::to_string(result);
    return key;
  }

  /// Of the loop's key and of what the channels can do; the same in all processes.
  std::string getHash(StreamLoopOp op) const {
    std::string text = getKey(op, /*byContent=*/true);
    text += {pass.collectives ? 'c' : '-', pass.oneSided ? 'o' : '-'};
    if (deterministic)
      text += deterministic.getValue();
    return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true, /*Width=*/16);
  }

  /// Whether the loop has got the candidate that option `tuned` names. A remark if there is one
  /// that it cannot have: the compiler or the machine file has changed since.
  bool takeTuned(StreamLoopOp op, const StreamLoop &loop, StringRef hash, Pricer *pricer) {
    auto entry = llvm::find_if(pass.tuned, [&](const std::string &text) {
      return StringRef(text).split('=').first == hash;
    });
    if (entry == pass.tuned.end())
      return false;
    StringRef text = StringRef(*entry).split('=').second;
    CandidateAttr what = CandidateAttr::fromStr(op.getContext(), text);
    for (Candidate &candidate : getCandidates(loop)) {
      if (getCandidateAttr(candidate.schedule, candidate.slices) != what)
        continue;
      OwningOpRef<StreamLoopOp> copy =
          candidate.slices ? makeCut(op, *candidate.slices) : OwningOpRef<StreamLoopOp>();
      if (candidate.slices && !copy)
        break;
      Trial trial(copy ? *copy : op, returned, deterministic);
      if (!plan(trial, candidate.schedule, ScheduleSource::Tuned, nullptr) ||
          (pricer && failed(price(trial, *pricer))))
        break;
      sliced += candidate.slices.has_value();
      StreamLoopOp taken = take(op, trial);
      choose(taken, candidate.schedule, ScheduleSource::Tuned);
      taken.setCandidatesAttr(
          ArrayAttr::get(taken.getContext(),
                         PricedCandidateAttr::get(taken.getContext(), what, /*nanoseconds=*/0)));
      return true;
    }
    op.emitRemark("the measured choice \"")
        << text << "\" is no candidate of this loop any more; it is ignored";
    return false;
  }

  /// Plans a trial. Whether the loop can have the schedule; `pricer`: and its machine what it uses.
  bool plan(Trial &trial, ScheduleAttr schedule, ScheduleSource source,
            const Pricer *pricer) const {
    StreamLoopOp loop = trial.getLoop();
    loop.setScheduleAttr(schedule);
    loop.setSource(source);
    Explained<std::unique_ptr<LoopPlan>> made = LoopPlan::make(loop);
    if (failed(made) || findAdder((*made)->loop) || !getMissing((*made)->plan, pricer).empty() ||
        breaksOrder((*made)->plan, (*made)->loop))
      return false;
    trial.plan = std::move(*made);
    return true;
  }

  FailureOr<double> price(const Trial &trial, Pricer &pricer) const {
    StreamLoopOp loop = trial.getLoop();
    return pricer.price(loop, getKey(loop), [&] { return trial.lower(pass.workers); });
  }

  /// Puts the trial's loop in the place of `op`, with its plan.
  StreamLoopOp take(StreamLoopOp op, Trial &trial) {
    StreamLoopOp taken = trial.replace(op);
    plans.set(taken, std::move(trial.plan));
    return taken;
  }

  LogicalResult takeBaseline(StreamLoopOp op, StreamLoop loop) {
    ScheduleAttr plainest = getBaseline(loop);
    Explained<std::unique_ptr<LoopPlan>> plan = LoopPlan::make(std::move(loop), plainest);
    if (failed(plan))
      return plan.report();
    plans.set(op, std::move(*plan));
    choose(op, plainest, ScheduleSource::Fallback);
    return success();
  }

  /// The annotated schedule is kept, or it is an error.
  LogicalResult keep(StreamLoopOp op) {
    Explained<const LoopPlan *> known = plans.get(op);
    if (failed(known))
      return known.report();
    const auto &[loop, plan] = **known;
    if (Operation *adder = findAdder(loop))
      return refuseAdder(adder);
    if (!getMissing(plan, nullptr).empty())
      return op.emitError("schedule ")
             << loop.schedule.getName()
             << " needs one-sided messages, which the target's channels do not have; name another "
                "one";
    if (deterministic && plan.addsBiasSeparately)
      return op.emitError("schedule ")
             << loop.schedule.str()
             << ": expected matmuls without bias, which it adds to rounded products, since the "
                "function has '"
             << kDeterministicAttrName << "', found one with a bias";
    if (breaksOrder(plan, loop))
      return op.emitError("schedule ")
             << loop.schedule.str()
             << " adds partial sums in an order of its own, but the function has '"
             << kDeterministicAttrName << "'; name a schedule that adds in the order of the ranks";
    ++user;
    logRemark(op.getLoc(), [&, name = loop.schedule.getName()](raw_ostream &os) {
      os << describe(op) << " keeps schedule " << name;
    });
    return success();
  }

  void choose(StreamLoopOp op, ScheduleAttr schedule, ScheduleSource source) {
    op.setScheduleAttr(schedule);
    op.setSource(source);
    ++chosen[getSchedule(schedule)->getName()];
    ++(source == ScheduleSource::Cost    ? pass.numByCost
       : source == ScheduleSource::Tuned ? pass.numTuned
                                         : pass.numFallback);
  }

  //===--------------------------------------------------------------------===//
  // By cost
  //===--------------------------------------------------------------------===//

  struct Priced {
    ScheduleAttr schedule;
    double seconds = 0;
    std::optional<Trial> trial = std::nullopt;
    Difference difference = {}; ///< from another schedule with these slices
  };

  /// Whether slices are worth it: against the loop as it is, of `whole` seconds.
  static bool gainsSliced(const Priced &trial, double whole, const Pricer &pricer) {
    Difference difference = trial.difference;
    difference.isSliced = true;
    return pricer.isWorth(trial.seconds, whole, difference);
  }

  /// Candidates with the same slices. Once priced, those that have a price, in their order.
  struct Choice {
    Slices slices; ///< of a reshard of the loop, by its number
    SmallVector<Priced, 0> schedules;

    /// The fastest: the first, which is the plainest, unless the gain is worth it. Stores next to
    /// a matmul come last, as they must gain over the others.
    Priced &getBest(const Pricer &pricer) {
      Priced *best = schedules.begin();
      for (bool beside : {false, true}) {
        double most = best->seconds * (beside ? 1 - pricer.getMargins().gainOfStores : 1);
        for (Priced &other : schedules)
          if (other.difference.uses.has(program::Capability::StoresBesideCompute) == beside &&
              other.seconds < std::min(most, best->seconds) &&
              pricer.isWorth(other.seconds, schedules.front().seconds, other.difference))
            best = &other;
      }
      return *best;
    }
  };

  /// The candidates of all schedules by their slices; the loop as it is comes first.
  static SmallVector<Choice, 0> getChoices(const StreamLoop &loop) {
    SmallVector<Choice, 0> choices;
    for (const Candidate &candidate : getCandidates(loop)) {
      auto *known = llvm::find_if(
          choices, [&](const Choice &choice) { return choice.slices == candidate.slices; });
      if (known == choices.end()) {
        choices.push_back({candidate.slices, {}});
        known = &choices.back();
      }
      known->schedules.emplace_back().schedule = candidate.schedule;
    }
    return choices;
  }

  /// Drops candidates that option `among` does not name, but for the plainest, if it names any.
  void keepAllowed(SmallVector<Choice, 0> &choices) const {
    auto isAllowed = [&](const Choice &choice, const Priced &candidate) {
      return llvm::is_contained(allowed, getCandidateAttr(candidate.schedule, choice.slices));
    };
    if (llvm::none_of(choices, [&](const Choice &choice) {
          return llvm::any_of(choice.schedules, [&](const Priced &candidate) {
            return isAllowed(choice, candidate);
          });
        }))
      return;
    const Priced *plainest = choices.front().schedules.begin();
    for (Choice &choice : choices)
      llvm::erase_if(choice.schedules, [&](const Priced &candidate) {
        return &candidate != plainest && !isAllowed(choice, candidate);
      });
    llvm::erase_if(choices, [](const Choice &choice) { return choice.schedules.empty(); });
  }

  /// Prices schedules of a loop whose slices are cut; those that cannot run it, or have no price,
  /// are dropped.
  void price(StreamLoopOp op, SmallVectorImpl<Priced> &schedules, Pricer &pricer) const {
    bool gathers = llvm::none_of(op.getReshards(), [](ReshardOp reshard) {
      return getAxes(reshard.getInput()).isPartial();
    });
    llvm::erase_if(schedules, [&](Priced &priced) {
      Trial &trial = priced.trial.emplace(op, returned, deterministic);
      if (!plan(trial, priced.schedule, ScheduleSource::Cost, &pricer))
        return true;
      FailureOr<double> seconds = price(trial, pricer);
      if (succeeded(seconds))
        priced.seconds = *seconds;
      priced.difference = {trial.plan->plan.uses, /*isSliced=*/false, gathers};
      return failed(seconds);
    });
  }

  /// What a loop gets.
  struct Decision {
    Slices slices;
    ScheduleAttr schedule;
    ArrayAttr candidates; ///< see StreamLoopOp
  };
  /// By the loop's signature: most loops of a network are those of its first layer.
  std::unordered_map<std::string, Decision> decisions;

  void apply(StreamLoopOp op, const Decision &decision) {
    choose(op, decision.schedule, ScheduleSource::Cost);
    op.setCandidatesAttr(decision.candidates);
    sliced += decision.slices.has_value();
  }

  /// Of what has a price, for reports: the chosen candidate, the plainest, and the fastest others.
  static ArrayAttr listCandidates(ArrayRef<Choice> choices, const Choice &taken,
                                  const Priced &chosen) {
    constexpr size_t kMost = 6;
    MLIRContext *context = chosen.schedule.getContext();
    SmallVector<PricedCandidateAttr> priced, list;
    auto describeCandidate = [&](const Choice &choice, const Priced &candidate) {
      return PricedCandidateAttr::get(context, getCandidateAttr(candidate.schedule, choice.slices),
                                      std::llround(candidate.seconds * 1e9));
    };
    for (const Choice &choice : choices)
      for (const Priced &candidate : choice.schedules)
        priced.push_back(describeCandidate(choice, candidate));
    list.push_back(describeCandidate(taken, chosen));
    list.push_back(priced.front());
    auto text = [](PricedCandidateAttr candidate) {
      return cast<CandidateAttr>(candidate.getWhat()).str();
    };
    llvm::sort(priced, [&](PricedCandidateAttr a, PricedCandidateAttr b) {
      return std::pair(a.getNanoseconds(), text(a)) < std::pair(b.getNanoseconds(), text(b));
    });
    list.append(priced);
    llvm::SmallSetVector<Attribute, kMost> unique;
    for (PricedCandidateAttr candidate : list)
      if (unique.size() < kMost)
        unique.insert(candidate);
    return ArrayAttr::get(context, unique.getArrayRef());
  }

  /// Whether the loop has got its schedule, and slices if they are worth it.
  bool selectByCost(StreamLoopOp op, const StreamLoop &loop, Pricer &pricer,
                    std::string signature) {
    if (auto known = decisions.find(signature); known != decisions.end() && !pass.log) {
      const Slices &slices = known->second.slices;
      // An equal loop has been cut so.
      if (slices)
        (void)streamReshard(op.getReshards()[slices->first], slices->second);
      apply(op, known->second);
      return true;
    }
    SmallVector<Choice, 0> choices = getChoices(loop);
    keepAllowed(choices);
    Choice &whole = choices.front();
    price(op, whole.schedules, pricer);
    if (whole.schedules.empty())
      return false;
    double seconds = whole.getBest(pricer).seconds;
    // The slices that make the loop fastest, of those that gain enough if there are any.
    Choice *best = nullptr;
    bool gains = false;
    for (Choice &choice : llvm::drop_begin(choices)) {
      OwningOpRef<StreamLoopOp> copy = makeCut(op, *choice.slices);
      if (copy)
        price(*copy, choice.schedules, pricer);
      else
        choice.schedules.clear();
      if (choice.schedules.empty())
        continue;
      const Priced &trial = choice.getBest(pricer);
      bool trialGains = gainsSliced(trial, seconds, pricer);
      if (!best || std::pair(!trialGains, trial.seconds) <
                       std::pair(!gains, best->getBest(pricer).seconds)) {
        best = &choice;
        gains = trialGains;
      }
    }
    // Of those that are nearly as fast, the fewest: each slice has commands, for which the host
    // takes time, and smaller matmuls.
    if (gains) {
      double most = best->getBest(pricer).seconds * (1 + pricer.getMargins().tolerance);
      for (Choice &choice : llvm::drop_begin(choices)) {
        if (choice.schedules.empty() || choice.slices->second.count >= best->slices->second.count)
          continue;
        const Priced &trial = choice.getBest(pricer);
        if (trial.seconds <= most && gainsSliced(trial, seconds, pricer))
          best = &choice;
      }
    }
    if (best)
      logRemark(op.getLoc(), [&](raw_ostream &os) {
        os << describe(op) << (gains ? " gets " : " stays whole, not ")
           << describe(best->slices->second) << ": "
           << inMicroseconds(best->getBest(pricer).seconds) << ", "
           << inMicroseconds(whole.schedules.front().seconds) << " whole ("
           << pricer.getMachineName() << ")";
      });
    Choice &taken = gains ? *best : whole;
    Priced &chosen = taken.getBest(pricer);
    Decision decision{taken.slices, chosen.schedule, listCandidates(choices, taken, chosen)};
    op = take(op, *chosen.trial);
    apply(op, decision);
    decisions.try_emplace(std::move(signature), decision);
    logRemark(op.getLoc(), [&](raw_ostream &os) {
      os << describe(op) << " goes through schedule " << decision.schedule.str() << ": ";
      llvm::interleave(
          taken.schedules, os,
          [&](const Priced &priced) {
            os << priced.schedule.str() << " " << inMicroseconds(priced.seconds);
          },
          "; ");
      os << " (" << pricer.getMachineName() << ")";
    });
    return true;
  }
};
} // namespace

void FusionSelectSchedulePass::runOnOperation() {
  LoopPlans &plans = getAnalysis<LoopPlans>();
  SmallVector<func::FuncOp> funcs(getOperation().getOps<func::FuncOp>());
  // All functions report their errors.
  std::atomic<bool> hasFailed = false;
  parallelForEach(&getContext(), funcs, [&](func::FuncOp func) {
    if (failed(FunctionSelection(*this, plans, func).run()))
      hasFailed = true;
  });
  if (hasFailed)
    return signalPassFailure();
  markAnalysesPreserved<LoopPlans>();
}
