//===- StreamGroups.cpp - which ops run in one stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamGroups.h"

#include "GroupOrder.h"
#include "ReshardPlan.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

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

DigitMap StreamGroup::getDigitMap(Operation *producer) const {
  auto found = digitMaps.find(producer);
  return found == digitMaps.end() ? getIdentity(streamSizes) : found->second;
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
  std::optional<DigitMap> getMapThrough(Operation *op, OpOperand &operand);
  std::optional<DigitMap> getMapInGroup(Operation *op, unsigned group);
  bool accumulates(Operation *op, unsigned operand);
  static bool scatters(Operation *op);
  void findBeforeScatter();
  bool dependsOn(Operation *op, unsigned group);
  bool canJoin(Operation *op, unsigned group, std::optional<unsigned> accumulated);
  bool canUnite(unsigned group, unsigned other);
  void unite(Operation *op);

  func::FuncOp func;
  SmallVector<StreamGroup> groups;
  DenseMap<Operation *, unsigned> groupOf;
  DenseMap<Operation *, unsigned> number; // position in the block
  DenseSet<Operation *> beforeScatter;
};

} // namespace

/// The stream digits of `op`'s result as those of the loop that makes `operand`, if an iteration of
/// it makes all that the op reads for its slices.
std::optional<DigitMap> Grouper::getMapThrough(Operation *op, OpOperand &operand) {
  Operation *producer = operand.get().getDefiningOp();
  std::optional<DigitMap> match = matchSlices(op, operand);
  if (!match)
    return std::nullopt;
  DigitMap ofProducer = groups[groupOf.lookup(producer)].getDigitMap(producer), map;
  for (ArrayRef<DigitPart> parts : *match) {
    SmallVector<DigitPart> &mine = map.emplace_back();
    for (const DigitPart &part : parts) {
      if (part.digit < 0) {
        mine.push_back(part);
        continue;
      }
      ArrayRef<DigitPart> whole = ofProducer[part.digit];
      int64_t size = 1;
      for (const DigitPart &one : whole)
        size *= one.size;
      if (part.size == size)
        mine.append(whole.begin(), whole.end());
      else if (whole.size() == 1 && whole.front().digit >= 0)
        mine.push_back({whole.front().digit, part.size, part.inner * whole.front().inner});
      else
        return std::nullopt;
    }
  }
  return map;
}

/// The same through the first operand that `group` makes, if it makes one.
std::optional<DigitMap> Grouper::getMapInGroup(Operation *op, unsigned group) {
  for (OpOperand &operand : op->getOpOperands())
    if (Operation *producer = operand.get().getDefiningOp();
        producer && groupOf.lookup_or(producer, kNoGroup) == group)
      return getMapThrough(op, operand);
  return std::nullopt;
}

/// Whether each digit is made of whole digits of a loop over `sizes`.
static bool isOfWholeDigits(const DigitMap &map, ArrayRef<int64_t> sizes) {
  return llvm::all_of(map, [&](ArrayRef<DigitPart> parts) {
    return llvm::all_of(parts, [&](const DigitPart &part) {
      return part.digit >= 0 && part.size == sizes[part.digit];
    });
  });
}

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
  // Which slice is the first is known of whole digits.
  Operation *sliced = op->getOperand(operand).getDefiningOp();
  unsigned group = groupOf.lookup(sliced);
  DigitMap map = groups[group].getDigitMap(sliced);
  if (!isOfWholeDigits(map, groups[group].streamSizes))
    return false;
  // Whatever else the loop has made must lie in the same slices.
  for (OpOperand &other : op->getOpOperands()) {
    Operation *producer = other.get().getDefiningOp();
    if (producer && groupOf.lookup_or(producer, kNoGroup) == group &&
        (groups[group].getDigitMap(producer) != map ||
         getPlaces(cast<RankedTensorType>(other.get().getType()),
                   rule.operands[other.getOperandNumber()]) != places))
      return false;
  }
  llvm::erase_if(places, isReduction);
  return places == getPlaces(cast<RankedTensorType>(op->getResult(0).getType()), rule.results[0]);
}

/// Whether `op` is asked to hand its operand's slices to their owners, one after another.
bool Grouper::scatters(Operation *op) {
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  if (!reshard || !reshard.getSchedule())
    return false;
  fusion::ScheduleKind kind = reshard.getSchedule()->getKind();
  return (kind == fusion::ScheduleKind::Push || kind == fusion::ScheduleKind::Exchange) &&
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
  std::optional<DigitMap> map;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    Operation *producer = operand.get().getDefiningOp();
    if (!producer)
      return true;
    if (groupOf.lookup_or(producer, kNoGroup) != group)
      return !dependsOn(producer, group);
    if (groups[group].accumulators.contains(producer))
      return false;
    if (accumulated)
      return !isa<fusion::ReshardOp>(op) || !groups[group].digitMaps.contains(producer);
    std::optional<DigitMap> mine = getMapThrough(op, operand);
    if (!mine || (map && *map != *mine))
      return false;
    map = std::move(mine);
    return true;
  });
}

/// Whether one loop can keep the schedules of all reshards: the fallback, of which nobody has said
/// a word; or exchanges alike of slices that the same devices own.
static bool canShareLoop(ArrayRef<fusion::ReshardOp> reshards) {
  auto isFallback = [](fusion::ReshardOp reshard) {
    fusion::ScheduleAttr schedule = reshard.getScheduleAttr();
    return !schedule ||
           (reshard.getChosen() && schedule.getKind() == fusion::ScheduleKind::Pipeline);
  };
  if (llvm::all_of(reshards, isFallback))
    return true;
  fusion::ReshardOp first = reshards.front();
  fusion::ScheduleAttr schedule = first.getScheduleAttr();
  return schedule && schedule.getKind() == fusion::ScheduleKind::Exchange &&
         llvm::all_of(reshards,
                      [&](fusion::ReshardOp reshard) {
                        return reshard.getScheduleAttr() == schedule &&
                               reshard.getChosen() == first.getChosen();
                      }) &&
         succeeded(getCommonOwner(reshards));
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
    if (!canShareLoop(reshards))
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
        groups[group].accumulators.contains(producer) ||
        groups[group].digitMaps.contains(producer) || !slicesAgree(op, operand))
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
    to.digitMaps.insert(from.digitMaps.begin(), from.digitMaps.end());
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
    if (!sizes.empty() && getMapThrough(op, operand) && canJoin(op, group, std::nullopt))
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
  else if (std::optional<DigitMap> map = getMapInGroup(op, group);
           map && *map != getIdentity(groups[group].streamSizes))
    groups[group].digitMaps[op] = std::move(*map);
  groups[group].ops.push_back(op);
  groupOf[op] = group;
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
  for (StreamGroup &group : groups)
    if (failed(chooseSchedule(group)))
      return failure();
  return sortGroups(func, std::move(groups));
}

FailureOr<SmallVector<StreamGroup>> tandem::getStreamGroups(func::FuncOp func) {
  return Grouper(func).run();
}
