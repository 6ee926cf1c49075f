//===- FindLoops.cpp - which ops of a block run in one stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindLoops.h"

#include "LoopGroups.h"
#include "ReshardPlan.h"
#include "Schedule.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

namespace {

class LoopFinder {
public:
  explicit LoopFinder(Block &block) : block(block), groups(block) {}
  FailureOr<std::vector<StreamLoop>> run();

private:
  static constexpr unsigned kNone = LoopGroups::kNone;

  LogicalResult add(Operation *op);
  std::pair<unsigned, LoopMember> findGroup(Operation *op, bool isStreamed);
  unsigned findSiblings(Operation *op, ArrayRef<int64_t> sizes);
  void findBeforeScatter();
  bool canUnite(unsigned group, unsigned other);
  void uniteOperands(Operation *op, function_ref<bool(OpOperand &, unsigned)> fits,
                     function_ref<bool(OpOperand &, OpOperand &)> agree = nullptr);
  void unite(Operation *op, bool isStreamed);
  bool canCombine(unsigned group, unsigned other, OpOperand &combined);

  // Ops without stream digits.
  void findProducersOfReductions();
  bool isOpen(fusion::ReshardOp op, bool reduces) const;
  void uniteGathers(Operation *op);
  void uniteProducts(Operation *op);
  /// Where a value was gathered: the dimension that the gather made whole, as one of the value.
  struct Gathered {
    fusion::ReshardOp gather; ///< null: nowhere
    int64_t dim = 0;
  };
  Gathered findGather(Value value);
  bool isElementwiseOnly(unsigned group) const;
  void uniteElementwise(Operation *op);
  unsigned findWholeGroup(Operation *op);
  bool canJoinWhole(Operation *op, unsigned group);

  Block &block;
  LoopGroups groups;
  DenseMap<Value, unsigned> gatherOf; // a group that gathers slices of the value
  DenseSet<Operation *> beforeScatter;
  DenseMap<Value, Gathered> gatheredAt;
  /// The reduction whose operand an op makes, of ops without stream digits.
  DenseMap<Operation *, Operation *> reductionOf;
};

} // namespace

/// Collects the ops that make what annotated scatters hand out: the partial sums, or for an
/// all-to-all the last op that is not elementwise. A gather loop computes the local slice first; a
/// reduce-scatter or all-to-all loop computes it last. So compute between two collectives can be
/// in a loop with only one of them. An annotation of the scatter claims it; by default it is in the
/// loop of the gather.
void LoopFinder::findBeforeScatter() {
  SmallVector<std::pair<Operation *, bool>> worklist; // whether it makes partial sums
  for (auto reshard : block.getOps<fusion::ReshardOp>())
    if (reshard.getScheduleAttr() && isScatter(reshard))
      worklist.push_back({reshard, fusion::getAxes(reshard.getInput()).isPartial()});
  while (!worklist.empty()) {
    auto [op, isPartial] = worklist.pop_back_val();
    if (!beforeScatter.insert(op).second)
      continue;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      fusion::AxesAttr axes = fusion::getAxes(operand);
      if (producer && axes &&
          (isPartial ? axes.isPartial() : isa<fusion::ReshardOp>(op) || fusion::isElementwise(op)))
        worklist.push_back({producer, isPartial});
    }
  }
}

/// Whether reshards can run in one loop: they are annotated alike, and the same devices own their
/// slices, or no slice of any has an owner.
static bool canShareLoop(ArrayRef<fusion::ReshardOp> reshards) {
  fusion::ReshardOp first = reshards.front();
  if (llvm::any_of(reshards, [&](fusion::ReshardOp reshard) {
        return reshard.getScheduleAttr() != first.getScheduleAttr();
      }))
    return false;
  return succeeded(getCommonOwner(reshards)) ||
         llvm::none_of(reshards, [](fusion::ReshardOp reshard) {
           return succeeded(getCommonOwner(reshard));
         });
}

/// Whether `op` is no reshard, or one that may be in a loop with those of the group: no two
/// different annotations.
static bool agreesWithAnnotations(Operation *op, const StreamLoop &group) {
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  if (!reshard || !reshard.getScheduleAttr())
    return true;
  return llvm::all_of(group.reshards(), [&](fusion::ReshardOp other) {
    return !other.getScheduleAttr() || other.getScheduleAttr() == reshard.getScheduleAttr();
  });
}

/// The schedule that the group's reshards are annotated with, and where.
static void findAnnotation(StreamLoop &group) {
  group.op = group.ops.front();
  SmallVector<fusion::ReshardOp> reshards = group.reshards(); // llvm::reverse keeps a reference
  for (fusion::ReshardOp reshard : llvm::reverse(reshards)) {
    if (!group.schedule)
      group.op = reshard;
    if (fusion::ScheduleAttr named = reshard.getScheduleAttr()) {
      group.op = reshard;
      group.schedule = named;
    }
  }
}

/// Whether the schedule that the group's reshards are annotated with, if any, can run it.
static bool canRunAsAnnotated(StreamLoop group) {
  group.moveReshardsFirst(); // as run() does in the end
  findAnnotation(group);
  const Schedule *schedule = group.schedule ? getSchedule(group.schedule) : nullptr;
  return !schedule || (!verifyRules(group) && succeeded(schedule->match(group)));
}

/// Whether a reshard, as a further one of the group's, would keep an annotated schedule from
/// running the loop: then they are two loops. Example: a gather annotated with a schedule that only
/// gathers, and an all-reduce of each slice of what is computed.
static bool wouldHinderAnnotation(Operation *op, const LoopMember &member,
                                  const StreamLoop &group) {
  if (!isa<fusion::ReshardOp>(op) || group.reshards().empty())
    return false;
  StreamLoop both = group;
  both.add(op, member);
  return !canRunAsAnnotated(std::move(both)) && canRunAsAnnotated(group);
}

/// Whether two loops may be one: they run over slices alike, neither needs what the other makes,
/// and their reshards can share a loop.
bool LoopFinder::canUnite(unsigned group, unsigned other) {
  const StreamLoop &a = groups[group], &b = groups[other];
  if (a.streamSizes != b.streamSizes || a.raggedDigits != b.raggedDigits)
    return false;
  SmallVector<fusion::ReshardOp> reshards = a.reshards();
  if (SmallVector<fusion::ReshardOp> more = b.reshards(); !reshards.empty() && !more.empty()) {
    reshards.append(more);
    if (!canShareLoop(reshards))
      return false;
    StreamLoop both = a;
    groups.append(both, b);
    if (canRunAsAnnotated(a) && canRunAsAnnotated(b) && !canRunAsAnnotated(std::move(both)))
      return false;
  }
  return !groups.dependsOn(a.ops.back(), other) && !groups.dependsOn(b.ops.back(), group);
}

/// Makes one group of those that make operands of `op` which `fits` takes with their group, as far
/// as they can be one. `agree`: whether another such operand's group may join the first one's.
void LoopFinder::uniteOperands(Operation *op, function_ref<bool(OpOperand &, unsigned)> fits,
                               function_ref<bool(OpOperand &, OpOperand &)> agree) {
  OpOperand *first = nullptr;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned group = groups.getGroup(operand.get());
    unsigned into = first ? groups.getGroup(first->get()) : kNone;
    if (group == kNone || group == into || !fits(operand, group))
      continue;
    if (!first)
      first = &operand;
    else if (canUnite(into, group) && (!agree || agree(*first, operand)))
      groups.merge(into, group);
  }
}

/// Makes one loop of those that `op` reads the same slices of, as far as they may be one: slices
/// that its result has too, or that it combines.
void LoopFinder::unite(Operation *op, bool isStreamed) {
  uniteOperands(
      op,
      [&](OpOperand &operand, unsigned number) {
        const StreamLoop &group = groups[number];
        Operation *producer = operand.get().getDefiningOp();
        return !group.streamSizes.empty() && !group.accumulators.contains(producer) &&
               !group.digitMaps.contains(producer) &&
               (isStreamed ? slicesAgree(op, operand)
                           : group.isAccumulated(op, operand.getOperandNumber()));
      },
      [&](OpOperand &first, OpOperand &operand) {
        return isStreamed ||
               canCombine(groups.getGroup(first.get()), groups.getGroup(operand.get()), operand);
      });
}

/// Whether the annotated schedules of two loops can run them as one, with the op that combines
/// their slices.
bool LoopFinder::canCombine(unsigned group, unsigned other, OpOperand &combined) {
  StreamLoop both = groups[group];
  for (Operation *op : groups[other].ops) {
    if (!agreesWithAnnotations(op, groups[group]))
      return false;
    both.ops.push_back(op);
  }
  both.add(combined.getOwner(), {combined.getOperandNumber(), {}});
  return canRunAsAnnotated(std::move(both));
}

/// The streamed group that `op` joins, and how.
std::pair<unsigned, LoopMember> LoopFinder::findGroup(Operation *op, bool isStreamed) {
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *producer = operand.get().getDefiningOp();
    unsigned group = groups.getGroup(producer);
    if (group == kNone || groups[group].streamSizes.empty() ||
        (beforeScatter.contains(op) && !groups[group].reshards().empty()) ||
        !agreesWithAnnotations(op, groups[group]) || groups.mustFollow(op, group))
      continue;
    auto isLater = [&](Operation *other) { return groups.dependsOn(other, group); };
    auto member = groups[group].getMember(op, operand, isStreamed, isLater);
    if (member && !wouldHinderAnnotation(op, *member, groups[group]))
      return {group, std::move(*member)};
  }
  return {kNone, {}};
}

/// The value of which a gather's operand is a slice, by way of views; null if it is none.
static Value getSliced(fusion::ReshardOp gather) {
  Value value = gather.getInput();
  bool isSlice = false;
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<fusion::SliceOp, fusion::ReshapeOp, fusion::PermuteOp>(op))
      break;
    isSlice |= isa<fusion::SliceOp>(op);
    value = op->getOperand(0);
  }
  return isSlice ? value : Value();
}

/// The loop of the other gathers of one value's slices (the parameters in a shard of them all), if
/// they are annotated alike: their messages then travel in common groups.
unsigned LoopFinder::findSiblings(Operation *op, ArrayRef<int64_t> sizes) {
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  Value sliced = reshard && reshard.getScheduleAttr() ? getSliced(reshard) : Value();
  if (!sliced || sizes.empty() || failed(getCommonOwner(reshard)))
    return kNone;
  unsigned group = gatherOf.lookup_or(sliced, kNone);
  StreamLoop alone;
  alone.begin(op, sizes);
  if (group == kNone || groups[group].streamSizes != alone.streamSizes ||
      groups[group].raggedDigits != alone.raggedDigits || groups.dependsOn(op, group))
    return kNone;
  SmallVector<fusion::ReshardOp> reshards = groups[group].reshards();
  reshards.push_back(reshard);
  StreamLoop both = groups[group];
  both.ops.push_back(op);
  return canShareLoop(reshards) && canRunAsAnnotated(std::move(both)) ? group : kNone;
}

//===----------------------------------------------------------------------===//
// Ops without stream digits
//===----------------------------------------------------------------------===//

static bool isElementwiseComputation(Operation *op) {
  return fusion::isLocalComputation(op) && op->hasTrait<OpTrait::Elementwise>();
}

/// Whether more than elementwise ops make a value, for one use.
static bool isComputedByMore(Value value) {
  Operation *producer = value.getDefiningOp();
  if (!producer || !value.hasOneUse() || !fusion::isLocalComputation(producer))
    return false;
  return !isElementwiseComputation(producer) ||
         llvm::any_of(producer->getOperands(), isComputedByMore);
}

/// Whether slices can be chosen for a reshard: a gather, or a reduction if `reduces`, without
/// stream digits and without an annotation. An all-to-all counts as a reduction if there is
/// something to compute before it, else as a gather.
bool LoopFinder::isOpen(fusion::ReshardOp op, bool reduces) const {
  RankedTensorType from = op.getInput().getType(), to = op.getResult().getType();
  fusion::AxesAttr fromAxes = fusion::getAxes(from), toAxes = fusion::getAxes(to);
  if (op.getScheduleAttr() || !fromAxes || !toAxes || fromAxes.hasStream() || toAxes.hasStream())
    return false;
  fusion::ReshardKind kind = fusion::classifyReshard(from, to).kind;
  if (kind == fusion::ReshardKind::AllToAll)
    return reduces == isComputedByMore(op.getInput());
  return kind != fusion::ReshardKind::Reduce &&
         (reduces ? isReduction(kind) : kind == fusion::ReshardKind::AllGather);
}

/// The ops that make the operand of a reduction, back to the next ones that are not elementwise:
/// they are sliced with it.
void LoopFinder::findProducersOfReductions() {
  for (auto reshard : block.getOps<fusion::ReshardOp>()) {
    if (!isOpen(reshard, /*reduces=*/true))
      continue;
    SmallVector<Value> worklist{reshard.getInput()};
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      Operation *producer = value.getDefiningOp();
      if (!producer || !value.hasOneUse() || !fusion::isLocalComputation(producer) ||
          fusion::getAxesRule(producer)->isOrdered || producer->getNumResults() != 1 ||
          !reductionOf.try_emplace(producer, reshard).second)
        continue;
      if (isElementwiseComputation(producer))
        llvm::append_range(worklist, producer->getOperands());
    }
  }
}

/// Whether slices of `operand` give slices of the result of `op`.
static bool passesSlices(Operation *op, OpOperand &operand) {
  if (isElementwiseComputation(op))
    return true;
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  if (!rule || rule->regroups() || rule->isOrdered)
    return false;
  return llvm::any_of(rule->operands[operand.getOperandNumber()], [&](int64_t factor) {
    return factor != fusion::AxesRule::kNone &&
           rule->factors[factor] == fusion::FactorKind::Parallel &&
           llvm::all_of(rule->results, [&](ArrayRef<int64_t> result) {
             return llvm::is_contained(result, factor);
           });
  });
}

/// Makes one group of gathers that feed `op`, before any op reads them.
void LoopFinder::uniteGathers(Operation *op) {
  uniteOperands(op, [&](OpOperand &operand, unsigned group) {
    auto reshard = operand.get().getDefiningOp<fusion::ReshardOp>();
    return reshard && isOpen(reshard, /*reduces=*/false) &&
           groups[group].reshards().size() == groups[group].ops.size();
  });
}

/// Makes one group of the matmuls that `op` adds up for a reduction: their slices are computed into
/// the same memory.
void LoopFinder::uniteProducts(Operation *op) {
  Operation *reduction = reductionOf.lookup(op);
  if (!reduction || getSummedProducts(op->getResult(0)).size() < 2)
    return;
  uniteOperands(op, [&](OpOperand &, unsigned group) {
    return groups[group].streamSizes.empty() &&
           llvm::all_of(groups[group].ops,
                        [&](Operation *member) { return reductionOf.lookup(member) == reduction; });
  });
}

LoopFinder::Gathered LoopFinder::findGather(Value value) {
  auto [known, added] = gatheredAt.try_emplace(value);
  Operation *op = value.getDefiningOp();
  if (!added || !op)
    return known->second;
  Gathered found;
  if (auto reshard = dyn_cast<fusion::ReshardOp>(op)) {
    fusion::Reshard kind = fusion::classifyReshard(reshard);
    if (isOpen(reshard, /*reduces=*/false) && kind.kind == fusion::ReshardKind::AllGather)
      found = {reshard, kind.fromDim};
  } else if (std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
             rule && fusion::isLocalComputation(op) && !rule->regroups()) {
    for (OpOperand &operand : op->getOpOperands()) {
      Gathered before = findGather(operand.get());
      if (!before.gather || found.gather || !passesSlices(op, operand))
        continue;
      int64_t factor = rule->operands[operand.getOperandNumber()][before.dim];
      if (const auto *dim = llvm::find(rule->results[0], factor);
          factor != fusion::AxesRule::kNone && dim != rule->results[0].end())
        found = {before.gather, dim - rule->results[0].begin()};
    }
  }
  gatheredAt[value] = found;
  return found;
}

/// Whether a group has only reshards, broadcasts and elementwise ops.
bool LoopFinder::isElementwiseOnly(unsigned group) const {
  return llvm::all_of(groups[group].ops, [](Operation *op) {
    return isa<fusion::ReshardOp, fusion::BroadcastOp>(op) || isElementwiseComputation(op);
  });
}

/// Makes one group of two whose gathers lead to the same dimension of an elementwise op, if one of
/// them is of such ops only. Example: the rows of a matmul and their scales, which are gathered
/// alike.
void LoopFinder::uniteElementwise(Operation *op) {
  if (!isElementwiseComputation(op))
    return;
  auto getAxesOf = [](fusion::ReshardOp gather) { return fusion::classifyReshard(gather).axes; };
  uniteOperands(
      op,
      [&](OpOperand &operand, unsigned group) {
        Gathered found = findGather(operand.get());
        return found.gather && groups.getGroup(found.gather.getOperation()) == group;
      },
      [&](OpOperand &firstOperand, OpOperand &operand) {
        unsigned into = groups.getGroup(firstOperand.get()), group = groups.getGroup(operand.get());
        Gathered first = findGather(firstOperand.get()), found = findGather(operand.get());
        size_t gathers = groups[into].reshards().size() + groups[group].reshards().size();
        return gathers <= getMostGathers(op->getContext()) && found.dim == first.dim &&
               getAxesOf(found.gather) == getAxesOf(first.gather) &&
               (isElementwiseOnly(into) || isElementwiseOnly(group));
      });
}

/// Whether `op`, which computes, can be in a loop with the group, which has no stream digits.
bool LoopFinder::canJoinWhole(Operation *op, unsigned group) {
  const StreamLoop &candidate = groups[group];
  if (candidate.ops.empty() || !candidate.streamSizes.empty() || groups.mustFollow(op, group))
    return false;
  auto isOpenGather = [&](fusion::ReshardOp reshard) { return isOpen(reshard, false); };
  bool gathers = llvm::any_of(candidate.reshards(), isOpenGather);
  Operation *reduction = reductionOf.lookup(op);
  bool makesOperand = reduction && llvm::any_of(candidate.ops, [&](Operation *member) {
                        return reductionOf.lookup(member) == reduction;
                      });
  // A gather that has a matmul to overlap leaves the reduction its own.
  auto isMatmul = [](Operation *member) {
    return isa<fusion::MatmulOp, fusion::GroupedMatmulOp>(member);
  };
  if (!makesOperand && (!gathers || (reduction && llvm::any_of(candidate.ops, isMatmul))))
    return false;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    Operation *producer = operand.get().getDefiningOp();
    if (!producer)
      return true;
    if (groups.getGroup(producer) != group)
      return !groups.dependsOn(producer, group);
    auto reshard = dyn_cast<fusion::ReshardOp>(producer);
    return (!reshard || isOpenGather(reshard)) && passesSlices(op, operand);
  });
}

/// The group that an op without stream digits joins.
unsigned LoopFinder::findWholeGroup(Operation *op) {
  if (auto reshard = dyn_cast<fusion::ReshardOp>(op)) {
    Operation *producer = reshard.getInput().getDefiningOp();
    if (!producer || reductionOf.lookup(producer) != op)
      return kNone;
    // A constant is in no group.
    unsigned group = groups.getGroup(producer);
    return group != kNone && groups[group].streamSizes.empty() ? group : kNone;
  }
  if (!fusion::isLocalComputation(op))
    return kNone;
  uniteGathers(op);
  uniteProducts(op);
  uniteElementwise(op);
  // A gather that the op reads before what other gathers lead to.
  for (bool direct : {true, false})
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      unsigned group = groups.getGroup(producer);
      if (group != kNone && (isa<fusion::ReshardOp>(producer) || !direct) &&
          canJoinWhole(op, group))
        return group;
    }
  return kNone;
}

//===----------------------------------------------------------------------===//
// All ops
//===----------------------------------------------------------------------===//

LogicalResult LoopFinder::add(Operation *op) {
  auto sizes = getStreamDigits(op);
  if (failed(sizes))
    return sizes.report();
  // A loop that is formed is a group of its own, whatever the digits of its results.
  if (isa<fusion::StreamLoopOp>(op))
    sizes->clear();
  if (!sizes->empty() || fusion::isLocalComputation(op))
    unite(op, !sizes->empty());
  auto [group, member] = findGroup(op, !sizes->empty());
  if (group == kNone && sizes->empty())
    group = findWholeGroup(op);
  if (unsigned siblings = group == kNone ? findSiblings(op, *sizes) : kNone; siblings != kNone) {
    group = siblings;
    groups[group].ops.push_back(op);
  } else if (group == kNone) {
    group = groups.create();
    groups[group].begin(op, *sizes);
  } else {
    groups[group].add(op, member);
  }
  groups.setGroup(op, group);
  if (auto reshard = dyn_cast<fusion::ReshardOp>(op))
    if (Value sliced = getSliced(reshard))
      gatherOf[sliced] = group;
  return success();
}

FailureOr<std::vector<StreamLoop>> LoopFinder::run() {
  findBeforeScatter();
  findProducersOfReductions();
  for (Operation &op : block.without_terminator())
    if (!op.hasTrait<OpTrait::ConstantLike>() && failed(add(&op)))
      return failure();
  FailureOr<std::vector<StreamLoop>> loops = groups.sort();
  if (failed(loops))
    return failure();
  for (StreamLoop &loop : *loops) {
    findAnnotation(loop);
    loop.moveReshardsFirst();
  }
  return loops;
}

FailureOr<std::vector<StreamLoop>> tandem::findStreamLoops(Block &block) {
  return LoopFinder(block).run();
}
