//===- StreamGroups.cpp - which ops run in one stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamGroups.h"

#include "ReshardPlan.h"
#include "SlicePlaces.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

#include <queue>

using namespace mlir;
using namespace mlir::tandem;

SmallVector<fusion::ReshardOp> StreamGroup::reshards() const {
  SmallVector<fusion::ReshardOp> found;
  for (Operation *op : ops)
    if (auto reshard = dyn_cast<fusion::ReshardOp>(op))
      found.push_back(reshard);
  return found;
}

int64_t StreamGroup::numSlices() const {
  int64_t n = 1;
  for (int64_t size : streamSizes)
    n *= size;
  return n;
}

namespace {

class Grouper {
public:
  explicit Grouper(func::FuncOp func) : func(func) {}
  FailureOr<SmallVector<StreamGroup>> run();

private:
  static constexpr unsigned kNoGroup = ~0u;

  LogicalResult add(Operation *op);
  std::pair<unsigned, std::optional<unsigned>> findGroup(Operation *op, ArrayRef<int64_t> sizes);
  bool accumulates(Operation *op, unsigned operand);
  static bool scatters(Operation *op);
  void findBeforeScatter();
  bool dependsOn(Operation *op, unsigned group);
  bool canJoin(Operation *op, unsigned group, std::optional<unsigned> accumulated);
  bool canUnite(unsigned group, unsigned other);
  void unite(Operation *op);
  LogicalResult chooseSchedule(StreamGroup &group);
  FailureOr<SmallVector<StreamGroup>> sort();

  func::FuncOp func;
  SmallVector<StreamGroup> groups;
  DenseMap<Operation *, unsigned> groupOf;
  DenseMap<Operation *, unsigned> number; // position in the block
  DenseSet<Operation *> beforeScatter;
};

} // namespace

/// Whether `op` can be run slice by slice of `operand`, whose stream digits stand on dimensions
/// that the op combines over, and else on those of the result's stream digits.
bool Grouper::accumulates(Operation *op, unsigned operand) {
  if (!isa<fusion::MatmulOp, fusion::ReduceOp>(op))
    return false;
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  auto isReduction = [&](const Place &place) {
    return std::get<0>(place) != fusion::AxesRule::kNone &&
           rule.factors[std::get<0>(place)] == fusion::FactorKind::Reduction;
  };
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  SmallVector<Place> places = getPlaces(type, rule.operands[operand]);
  if (llvm::none_of(places, isReduction))
    return false;
  // Whatever else the loop has made must lie in the same slices.
  unsigned group = groupOf.lookup(op->getOperand(operand).getDefiningOp());
  for (OpOperand &other : op->getOpOperands()) {
    Operation *producer = other.get().getDefiningOp();
    if (producer && groupOf.lookup_or(producer, kNoGroup) == group &&
        getPlaces(cast<RankedTensorType>(other.get().getType()),
                  rule.operands[other.getOperandNumber()]) != places)
      return false;
  }
  llvm::erase_if(places, isReduction);
  return places == getPlaces(cast<RankedTensorType>(op->getResult(0).getType()), rule.results[0]);
}

/// Whether `op` is asked to hand its operand's slices to their owners, one after another.
bool Grouper::scatters(Operation *op) {
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  return reshard && reshard.getSchedule() &&
         reshard.getSchedule()->getKind() == fusion::ScheduleKind::Push &&
         getScatteredDigit(reshard);
}

/// Collects what makes the terms of values that are scattered. A loop that receives slices begins
/// with the own ones, one that hands them out ends with those: they are two.
void Grouper::findBeforeScatter() {
  SmallVector<Operation *> worklist;
  for (Operation &op : func.getBody().front())
    if (scatters(&op))
      worklist.push_back(&op);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (!beforeScatter.insert(op).second)
      continue;
    for (Value operand : op->getOperands()) {
      fusion::AxesAttr axes = fusion::getAxes(operand);
      if (operand.getDefiningOp() && axes && axes.isPartial())
        worklist.push_back(operand.getDefiningOp());
    }
  }
}

/// Whether `op` needs, through ops outside of it, what `group` makes.
bool Grouper::dependsOn(Operation *op, unsigned group) {
  unsigned first = number[groups[group].ops.front()];
  SmallVector<Operation *> worklist{op};
  SmallPtrSet<Operation *, 16> seen;
  llvm::SmallDenseSet<unsigned> seenGroups;
  while (!worklist.empty()) {
    Operation *current = worklist.pop_back_val();
    // An op of another group runs when all of that group runs.
    unsigned other = groupOf.lookup_or(current, kNoGroup);
    Operation *last = other == kNoGroup ? current : groups[other].ops.back();
    if (number[last] < first || !seen.insert(current).second)
      continue;
    if (other == group)
      return true;
    if (other != kNoGroup && !seenGroups.insert(other).second)
      continue;
    ArrayRef<Operation *> together =
        other == kNoGroup ? ArrayRef(current) : ArrayRef(groups[other].ops);
    for (Operation *member : together)
      for (Value operand : member->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          worklist.push_back(producer);
  }
  return false;
}

/// Whether `op` may run in the loop of `group`: of what the group makes it reads the slice of its
/// own iteration (of the loop's slices, if it accumulates over those of an operand), and all its
/// other operands can be there before the loop starts.
bool Grouper::canJoin(Operation *op, unsigned group, std::optional<unsigned> accumulated) {
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    Operation *producer = operand.get().getDefiningOp();
    if (!producer)
      return true;
    if (groupOf.lookup_or(producer, kNoGroup) == group)
      return !groups[group].accumulators.contains(producer) &&
             (accumulated || slicesAgree(op, operand));
    return !dependsOn(producer, group);
  });
}

/// Whether two loops may be one: they run over slices alike, neither needs what the other makes,
/// and one loop can keep the schedules of both.
bool Grouper::canUnite(unsigned group, unsigned other) {
  const StreamGroup &a = groups[group], &b = groups[other];
  if (a.streamSizes != b.streamSizes || a.raggedDigits != b.raggedDigits)
    return false;
  SmallVector<fusion::ReshardOp> reshards = a.reshards();
  if (SmallVector<fusion::ReshardOp> more = b.reshards(); !reshards.empty() && !more.empty()) {
    reshards.append(more);
    if (llvm::any_of(reshards, [](fusion::ReshardOp reshard) {
          fusion::ScheduleAttr schedule = reshard.getScheduleAttr();
          return schedule &&
                 (!reshard.getChosen() || schedule.getKind() != fusion::ScheduleKind::Pipeline);
        }))
      return false;
  }
  return !dependsOn(a.ops.back(), other) && !dependsOn(b.ops.back(), group);
}

/// Makes one loop of those that `op` reads the same slices of, as far as they may be one.
void Grouper::unite(Operation *op) {
  unsigned into = kNoGroup;
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *producer = operand.get().getDefiningOp();
    unsigned group = producer ? groupOf.lookup_or(producer, kNoGroup) : kNoGroup;
    if (group == kNoGroup || group == into || groups[group].streamSizes.empty() ||
        groups[group].accumulators.contains(producer) || !slicesAgree(op, operand))
      continue;
    if (into == kNoGroup) {
      into = group;
      continue;
    }
    if (!canUnite(into, group))
      continue;
    StreamGroup &to = groups[into], &from = groups[group];
    for (Operation *member : from.ops)
      groupOf[member] = into;
    to.ops.append(from.ops);
    llvm::sort(to.ops, [&](Operation *a, Operation *b) { return number[a] < number[b]; });
    to.accumulators.insert(from.accumulators.begin(), from.accumulators.end());
    from = StreamGroup();
  }
}

/// The group that `op` joins, and the operand that it accumulates over if it does.
std::pair<unsigned, std::optional<unsigned>> Grouper::findGroup(Operation *op,
                                                                ArrayRef<int64_t> sizes) {
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *producer = operand.get().getDefiningOp();
    unsigned group = producer ? groupOf.lookup_or(producer, kNoGroup) : kNoGroup;
    if (group == kNoGroup || groups[group].streamSizes.empty() ||
        groups[group].accumulators.contains(producer) ||
        (beforeScatter.contains(op) && !groups[group].reshards().empty()))
      continue;
    if (!sizes.empty() && slicesAgree(op, operand) && canJoin(op, group, std::nullopt))
      return {group, std::nullopt};
    unsigned number = operand.getOperandNumber();
    if ((accumulates(op, number) || scatters(op)) && canJoin(op, group, number))
      return {group, number};
  }
  return {kNoGroup, std::nullopt};
}

LogicalResult Grouper::add(Operation *op) {
  if (op->getNumResults() == 0)
    return op->emitError("expected an op with results");
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !fusion::getAxes(type))
    return op->emitError("expected results with axes, found ")
           << op->getResult(0).getType() << "; run fusion-propagate-axes";
  auto sizes = fusion::getStreamSizes(type);
  if (failed(sizes))
    return op->emitError("expected known extents and mesh sizes, found ")
           << type << "; run fusion-specialize";
  if (!sizes->empty())
    unite(op);
  auto [group, accumulated] = findGroup(op, *sizes);
  if (group == kNoGroup) {
    group = groups.size();
    groups.emplace_back().streamSizes = *sizes;
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    for (auto [i, place] : llvm::enumerate(getPlaces(type, dims)))
      if (std::get<3>(place))
        groups[group].raggedDigits.push_back(i);
  }
  if (accumulated)
    groups[group].accumulators[op] = *accumulated;
  groups[group].ops.push_back(op);
  groupOf[op] = group;
  return success();
}

LogicalResult Grouper::chooseSchedule(StreamGroup &group) {
  fusion::ReshardOp source;
  for (fusion::ReshardOp reshard : group.reshards()) {
    fusion::ScheduleAttr named = reshard.getScheduleAttr();
    if (!named)
      continue;
    bool isNamed = !reshard.getChosen();
    // Two that can't both be had: the user's word goes before a choice, and what is not the
    // fallback before it.
    bool isBetter = !group.schedule ||
                    std::pair(isNamed, named.getKind() != fusion::ScheduleKind::Pipeline) >
                        std::pair(group.scheduleIsNamed,
                                  group.schedule.getKind() != fusion::ScheduleKind::Pipeline);
    if (isBetter) {
      group.schedule = named;
      group.scheduleIsNamed = isNamed;
      source = reshard;
    } else if (isNamed && named.getKind() != fusion::ScheduleKind::Pipeline &&
               named != group.schedule) {
      InFlightDiagnostic diag = reshard.emitError("schedule ")
                                << named << " stands in one stream loop with " << group.schedule;
      diag.attachNote(source.getLoc()) << "the other schedule";
      return diag;
    }
  }
  if (!group.schedule)
    group.schedule = fusion::ScheduleAttr::get(func.getContext(), fusion::ScheduleKind::Pipeline);
  return success();
}

FailureOr<SmallVector<StreamGroup>> Grouper::run() {
  for (auto [i, op] : llvm::enumerate(func.getBody().front()))
    number[&op] = i;
  findBeforeScatter();
  for (Operation &op : func.getBody().front().without_terminator())
    if (!op.hasTrait<OpTrait::ConstantLike>() && failed(add(&op)))
      return failure();
  // Those that were united with others are empty.
  llvm::erase_if(groups, [](const StreamGroup &group) { return group.ops.empty(); });
  for (auto [i, group] : llvm::enumerate(groups)) {
    for (Operation *op : group.ops)
      groupOf[op] = i;
    if (failed(chooseSchedule(group)))
      return failure();
  }
  return sort();
}

/// Orders the groups by their dependences; among those that are free, by their first op.
FailureOr<SmallVector<StreamGroup>> Grouper::sort() {
  SmallVector<SmallVector<unsigned>> users(groups.size());
  SmallVector<unsigned> missing(groups.size(), 0);
  for (auto [i, group] : llvm::enumerate(groups)) {
    llvm::SmallSetVector<unsigned, 4> producers;
    for (Operation *op : group.ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (auto found = groupOf.find(producer); found != groupOf.end() && found->second != i)
            producers.insert(found->second);
    for (unsigned producer : producers)
      users[producer].push_back(i);
    missing[i] = producers.size();
  }

  auto later = [&](unsigned a, unsigned b) {
    return number[groups[a].ops.front()] > number[groups[b].ops.front()];
  };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(later);
  for (unsigned i = 0; i < groups.size(); ++i)
    if (missing[i] == 0)
      ready.push(i);
  SmallVector<StreamGroup> sorted;
  while (!ready.empty()) {
    unsigned i = ready.top();
    ready.pop();
    for (unsigned user : users[i])
      if (--missing[user] == 0)
        ready.push(user);
    sorted.push_back(std::move(groups[i]));
    // What is communicated for others goes first, whatever stood before it in the text.
    auto isFree = [&](Operation *op) {
      return isa<fusion::ReshardOp>(op) && llvm::none_of(op->getOperands(), [&](Value operand) {
               Operation *producer = operand.getDefiningOp();
               return producer && groupOf.lookup_or(producer, kNoGroup) == i;
             });
    };
    llvm::sort(sorted.back().ops, [&](Operation *a, Operation *b) {
      return std::pair(!isFree(a), number[a]) < std::pair(!isFree(b), number[b]);
    });
  }
  if (sorted.size() != groups.size())
    return func.emitError("stream loops depend on each other in a circle");
  return sorted;
}

FailureOr<SmallVector<StreamGroup>> tandem::getStreamGroups(func::FuncOp func) {
  return Grouper(func).run();
}
