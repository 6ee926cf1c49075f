//===- Push.cpp - one-sided puts by copy engines, compute on what has arrived -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/Combine.h"
#include "Support/EpiloguePush.h"
#include "Support/PushAllReduce.h"
#include "Support/PushLoop.h"
#include "Support/SliceFactors.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem;

/// Streams that copy at once, of candidates: the default size of the pool of the compiler.
static constexpr int64_t kCopies = 4;

namespace {

/// For gathers and reductions whose slices have one owner each, and all-reduces slice by slice:
/// one-sided copies by one stream, a signal after each, and no barrier (docs/schedules.md).
class Push : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    using fusion::LoopKind;
    fusion::ScheduleChoice copies{"copies", "", 1}, streams{"streams", "", 1}, merge{"merge"};
    SmallVector<LoopKind, 4> sliced{LoopKind::Gather, LoopKind::AllToAll, LoopKind::Reduction},
        summed{LoopKind::Reduction, LoopKind::AllReduce};
    fusion::ScheduleInfo info{"push",
                              {{"streams", Option::Kind::Integer},
                               {"copies", Option::Kind::Integer},
                               getCombineOption(),
                               {"merge", Option::Kind::Integers, 1}}};
    info.rules = {{merge, sliced, {copies}},
                  {streams, sliced},
                  {copies, sliced, {{"by", "sms"}}},
                  {{"by", "epilogue"}, summed, {merge, streams, copies}},
                  {{"sum", "matmul"}, summed, {merge}}};
    return withPushOptions(std::move(info));
  }
  Explained<SchedulePlan> match(const StreamLoop &loop) const override;
  bool combinesWhole(fusion::ScheduleAttr schedule) const override {
    return isCombinedWhole(schedule);
  }
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;

private:
  void addCopied(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const;
  void addMerged(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const;
};

} // namespace

/// Whether the option `sum` asks for matmuls that add what has arrived. `plan`: of the reduction,
/// if it does.
static Explained<bool> isSumByMatmul(const StreamLoop &loop, const fusion::SliceReshard &plan) {
  fusion::ScheduleAttr schedule = loop.schedule;
  if (schedule.getWord("sum") != "matmul")
    return false;
  auto expect = [&](const Twine &what) {
    return loop.explain() << "schedule push, sum = matmul: expected " << what;
  };
  if (plan.groupSize() != 2)
    return expect("2 devices, found " + Twine(plan.groupSize()));
  fusion::ReshardOp reshard = loop.reshards().front();
  if (plan.reduction != ReduceKind::Sum || loop.getProducts(reshard.getInput()).empty())
    return expect("a sum of products without bias");
  return true;
}

/// All distances 0 ... devices - 1 as `merge` cuts them: nearest first, or farthest first for a
/// reduction. Example: merge = [1, 1, 2] of 4 devices gives 0, 1, 2-3, or 3, 2, 0-1. None without
/// `merge`.
static SmallVector<Batch> cutBatches(ArrayRef<int64_t> merge, int64_t devices, bool reduces) {
  SmallVector<Batch> batches;
  int64_t done = 0;
  for (int64_t count : merge) {
    batches.push_back({reduces ? devices - done - count : done, count});
    done += count;
  }
  return batches;
}

/// Whether each of the devices has a peer in each step of the order.
static Obstacle verifyOrder(const StreamLoop &loop, int64_t devices) {
  if (getPeerOrder(loop.schedule) != PeerOrder::Xor || llvm::isPowerOf2_64(devices))
    return std::nullopt;
  return loop.explain()
         << "schedule push, order xor: expected a number of devices that is a power of 2, found "
         << devices << "; order rotated takes any";
}

/// The batches that the options ask for, if these fit the plan's devices and their slices.
/// `reduces`: the loop hands slices to their owners.
static Explained<SmallVector<Batch>> getBatches(const StreamLoop &loop,
                                                const fusion::SliceReshard &plan,
                                                const OwnerDigits &digits, bool reduces) {
  fusion::ScheduleAttr schedule = loop.schedule;
  int64_t devices = plan.groupSize();
  if (Obstacle why = verifyOrder(loop, devices))
    return why;
  ArrayRef<int64_t> merge = schedule.getIntegers("merge");
  if (merge.empty())
    return SmallVector<Batch>();
  int64_t sum = std::accumulate(merge.begin(), merge.end(), int64_t(0));
  if (sum != devices)
    return loop.explain() << "schedule push: expected 'merge' to sum to the " << devices
                          << " devices, the own one among them, found " << sum;
  if (plan.axes.size() != 1)
    return loop.explain()
           << "schedule push: 'merge' takes slices of devices along one mesh axis, found "
           << plan.axes.size();
  // All devices compute the same slices at once: each one alone, or all of them.
  bool isAlike = merge.size() == 1 || llvm::all_of(merge, [](int64_t count) { return count == 1; });
  if (Obstacle why = verifyMerge(loop, digits, isAlike ? ArrayRef<StringAttr>() : plan.axes))
    return why;
  SmallVector<Batch> batches = cutBatches(merge, devices, reduces);
  for (const Batch &batch : batches)
    if (!Peers::areNeighbours(getPeerOrder(schedule), batch.first, batch.count))
      return loop.explain()
             << "schedule push, order xor: expected each number of 'merge' to be a power of "
                "2 that divides the number of devices "
             << (reduces ? "behind" : "before") << " it, found " << batch.count << " with "
             << batch.first;
  return batches;
}

Explained<SchedulePlan> Push::match(const StreamLoop &loop) const {
  if (std::optional<SchedulePlan> plan = planIfNothingMoves(loop))
    return *plan;
  if (Obstacle why = verifyCombine(loop))
    return why;
  bool copies = loop.schedule.getInteger("copies") > 1;
  if (isAllReduceLoop(loop)) {
    Explained<fusion::SliceReshard> plan = classifySlices(loop.reshards().front());
    if (failed(plan))
      return plan.explanation();
    if (Obstacle why = verifyOrder(loop, plan->groupSize()))
      return why;
    Explained<bool> sums = isSumByMatmul(loop, *plan);
    if (failed(sums))
      return sums.explanation();
    if (*sums && isByEpilogue(loop))
      return refuseEpilogue(loop, "no 'sum = matmul' for an all-reduce");
    return matchPushAllReduce(loop, getPeerOrder(loop.schedule), *sums, isByEpilogue(loop));
  }
  if (ScatterLoop::isScatterLoop(loop)) {
    Explained<ScatterLoop> scatter = ScatterLoop::match(loop);
    if (failed(scatter))
      return scatter.explanation();
    Explained<bool> sums = isSumByMatmul(loop, scatter->scattered.plan);
    if (failed(sums))
      return sums.explanation();
    Explained<SmallVector<Batch>> batches =
        getBatches(loop, scatter->scattered.plan, scatter->digits, /*reduces=*/true);
    if (failed(batches))
      return batches.explanation();
    PushedSums how{isByEpilogue(loop), *sums};
    if (how.epilogue)
      if (Obstacle why = verifyEpiloguePush(loop, scatter->scatter, scatter->digits,
                                            scatter->producers.size()))
        return why;
    SchedulePlan plan{[scatter = *scatter, batches = *batches, how](ProgramBuilder &program) {
                        return emitPushScatter(scatter, program, batches, how);
                      },
                      {Capability::OneSided},
                      /*addsInRankOrder=*/!how.byMatmul};
    plan.uses.add(Capability::EpilogueStore, how.epilogue).add(Capability::LinkPerPair, copies);
    return plan;
  }
  Explained<GatherLoop> gather = GatherLoop::match(loop);
  if (failed(gather))
    return gather.explanation();
  Explained<SmallVector<Batch>> batches =
      getBatches(loop, gather->plan, gather->digits, /*reduces=*/false);
  if (failed(batches))
    return batches.explanation();
  Explained<std::optional<int64_t>> blocks = getPushBlocks(loop, *gather);
  if (failed(blocks))
    return blocks.explanation();
  SchedulePlan plan{
      [gather = *gather, batches = *batches, blocks = *blocks](ProgramBuilder &program) {
        return emitPushGather(gather, program, batches, blocks);
      },
      usesOfPush(*blocks).add(Capability::LinkPerPair, copies)};
  return plan;
}

/// Whether some op that reads a gathered value, or what elementwise ops make of it, combines over
/// dimension `dim`, and another one does not.
static bool isCombined(fusion::ReshardOp gather, int64_t dim) {
  bool combines = false, keeps = false;
  llvm::SmallSetVector<Value, 8> values;
  values.insert(gather.getResult());
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      Operation *user = use.getOwner();
      std::optional<fusion::AxesRule> rule = fusion::getAxesRule(user);
      if (fusion::isElementwise(user)) {
        values.insert(user->result_begin(), user->result_end());
      } else if (rule) {
        int64_t factor = rule->operands[use.getOperandNumber()][dim];
        bool combined =
            factor != fusion::AxesRule::kNone && fusion::isCombined(rule->factors[factor]);
        (combined ? combines : keeps) = true;
      }
    }
  return combines && keeps;
}

/// Few devices at first (of a reduction: at last), then as many as there have been. Example of 8:
/// 1, 1, 2, 4. Nothing for other numbers.
static std::string getMerge(int64_t devices, bool reduces) {
  SmallVector<std::string> merge;
  if (!llvm::isPowerOf2_64(devices) || devices < 4)
    return "";
  merge.push_back("1");
  for (int64_t count = 1; count < devices; count *= 2)
    merge.push_back(std::to_string(count));
  if (reduces)
    std::reverse(merge.begin(), merge.end());
  return "order = xor, merge = [" + llvm::join(merge, ", ") + "]";
}

using Factors = SmallVector<fusion::StreamFactor>;

static Factors getAllOwnerFactors(fusion::ReshardOp op) {
  Factors factors = getOwnerFactor(op);
  llvm::append_range(factors, getFineOwnerFactors(op));
  return factors;
}

/// Slices of rows that weight gradients add up.
static Factors getCombinedFactors(fusion::ReshardOp op) {
  Factors factors = getAllOwnerFactors(op);
  llvm::erase_if(factors, [&](const fusion::StreamFactor &factor) {
    return factor.toOwners || !isCombined(op, factor.dim);
  });
  return factors;
}

/// Of a loop without slices: slices that copy engines push.
void Push::addCopied(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  auto add = [&](const Twine &options, function_ref<Factors(fusion::ReshardOp)> getFactors) {
    addSliced(loop, getAttr(loop.op->getContext(), options), getFactors, candidates);
  };
  auto getAllReduces = [&](fusion::ReshardOp op) {
    return getAllReduceFactors(op, loop.thresholds.row);
  };
  auto getSums = [&](fusion::ReshardOp op) {
    Factors sums = getAllReduces(op);
    llvm::append_range(sums, getAllOwnerFactors(op));
    llvm::erase_if(sums, [](const fusion::StreamFactor &factor) {
      return factor.count != 2 * factor.perOwner;
    });
    return sums;
  };
  add("", getAllReduces);
  add("by = epilogue", getAllReduceRows);
  for (StringRef options : {"", "streams = 2"}) {
    add(options, getOwnerFactor);
    add(options, getFineOwnerFactors);
  }
  add("combine = whole", getCombinedFactors);
  add("sum = matmul", getSums);
  add("copies = " + Twine(kCopies), getOwnerFactor);
  add("copies = " + Twine(kCopies), getFineOwnerFactors);
  add("by = sms", getAllOwnerFactors);
}

/// One slice for each device: slices of several devices that one kernel computes, or that it stores
/// to them.
void Push::addMerged(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  for (auto [number, reshard] : llvm::enumerate(getNumberedReshards(loop)))
    for (const fusion::StreamFactor &factor : getOwnerFactor(reshard)) {
      auto add = [&, number = number](const Twine &options) {
        candidates.push_back({getAttr(loop.op->getContext(), options),
                              std::pair(static_cast<unsigned>(number), factor)});
      };
      std::string merge = getMerge(factor.count, factor.toOwners);
      if (!merge.empty()) {
        add(merge);
        add(merge + ", streams = 2");
      }
      add("by = epilogue");
      if (factor.count == 2)
        add("by = epilogue, sum = matmul");
      // One kernel that pushes also pays with one matmul after it.
      if (factor.toOwners || !llvm::isPowerOf2_64(factor.count))
        continue;
      if (!merge.empty())
        add(merge + ", by = sms");
      add("order = xor, by = sms, merge = [" + Twine(factor.count) + "]");
    }
}

void Push::getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  if (loop.streamSizes.empty()) {
    addCopied(loop, candidates);
    return addMerged(loop, candidates);
  }
  auto add = [&](const Twine &options) {
    candidates.push_back({getAttr(loop.op->getContext(), options)});
  };
  if (!loop.reshards().empty()) {
    std::string merge = getMerge(loop.numSlices(), ScatterLoop::isScatterLoop(loop));
    add("");
    add("streams = 2");
    if (!merge.empty()) {
      add(merge);
      add(merge + ", streams = 2");
    }
  }
  add("by = sms");
  add("by = epilogue");
}

std::unique_ptr<Schedule> tandem::createPushSchedule() { return std::make_unique<Push>(); }
