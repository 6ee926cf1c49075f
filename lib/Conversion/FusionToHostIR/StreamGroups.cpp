//===- StreamGroups.cpp - which ops run in one stream loop -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamGroups.h"

#include "GroupOrder.h"
#include "OpLowering.h"
#include "ReshardPlan.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"

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
  /// `isLoop`: the block is the body of a loop op.
  Grouper(Block &block, bool isLoop) : block(block), isLoop(isLoop) {}
  FailureOr<std::vector<StreamGroup>> run();

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
  void merge(unsigned into, unsigned from);

  // Ops without stream digits.
  void findProducersOfReductions();
  bool isOpen(fusion::ReshardOp op, bool reduces) const;
  void uniteGathers(Operation *op);
  unsigned findWholeGroup(Operation *op);
  bool canJoinWhole(Operation *op, unsigned group);

  Block &block;
  bool isLoop;
  std::vector<StreamGroup> groups;
  DenseMap<Operation *, unsigned> groupOf;
  DenseMap<Operation *, unsigned> number; // position in the block
  DenseSet<Operation *> beforeScatter;
  /// The reduction whose operand an op makes, of ops without stream digits.
  DenseMap<Operation *, Operation *> reductionOf;
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
  const OpLowering *lowering = getLowering(op);
  if (!fusion::isLocalComputation(op) || !lowering || !lowering->accumulates())
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

/// Whether the operand of `op` is sliced by the device that gets each slice.
bool Grouper::scatters(Operation *op) {
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  return reshard && getScatteredDigit(reshard);
}

/// Collects the ops that make the partial sums of annotated scatters. A loop that receives slices
/// begins with the own ones, one that hands them out ends with those: they are two, and an
/// annotation says which of them the compute between belongs to. Without one, it is the gather's.
void Grouper::findBeforeScatter() {
  SmallVector<Operation *> worklist;
  for (auto reshard : block.getOps<fusion::ReshardOp>())
    if (reshard.getScheduleAttr() && scatters(reshard))
      worklist.push_back(reshard);
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
static bool agreesWithAnnotations(Operation *op, const StreamGroup &group) {
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  if (!reshard || !reshard.getScheduleAttr())
    return true;
  return llvm::all_of(group.reshards(), [&](fusion::ReshardOp other) {
    return !other.getScheduleAttr() || other.getScheduleAttr() == reshard.getScheduleAttr();
  });
}

/// Whether two loops may be one: they run over slices alike, neither needs what the other makes,
/// and their reshards can share a loop.
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
    merge(into, group);
  }
}

void Grouper::merge(unsigned into, unsigned group) {
  StreamGroup &to = groups[into], &from = groups[group];
  for (Operation *member : from.ops)
    groupOf[member] = into;
  to.ops.append(from.ops);
  llvm::sort(to.ops, [&](Operation *a, Operation *b) { return number[a] < number[b]; });
  to.accumulators.insert(from.accumulators.begin(), from.accumulators.end());
  to.digitMaps.insert(from.digitMaps.begin(), from.digitMaps.end());
  from = StreamGroup();
}

/// The group that `op` joins, and the operand that it accumulates over if it does.
std::pair<unsigned, std::optional<unsigned>> Grouper::findGroup(Operation *op,
                                                                ArrayRef<int64_t> sizes) {
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *producer = operand.get().getDefiningOp();
    unsigned group = producer ? groupOf.lookup_or(producer, kNoGroup) : kNoGroup;
    if (group == kNoGroup || groups[group].streamSizes.empty() ||
        groups[group].accumulators.contains(producer) ||
        (beforeScatter.contains(op) && !groups[group].reshards().empty()) ||
        !agreesWithAnnotations(op, groups[group]))
      continue;
    if (!sizes.empty() && getMapThrough(op, operand) && canJoin(op, group, std::nullopt))
      return {group, std::nullopt};
    unsigned number = operand.getOperandNumber();
    bool handsOut = groups[group].reshards().empty() && scatters(op);
    if ((accumulates(op, number) || handsOut) && canJoin(op, group, number))
      return {group, number};
  }
  return {kNoGroup, std::nullopt};
}

//===----------------------------------------------------------------------===//
// Ops without stream digits
//===----------------------------------------------------------------------===//

/// Whether slices can be chosen for a reshard: a gather, or a reduction if `reduces`, without
/// stream digits and without an annotation.
bool Grouper::isOpen(fusion::ReshardOp op, bool reduces) const {
  RankedTensorType from = op.getInput().getType(), to = op.getResult().getType();
  fusion::AxesAttr fromAxes = fusion::getAxes(from), toAxes = fusion::getAxes(to);
  if (isLoop || op.getScheduleAttr() || !fromAxes || !toAxes || fromAxes.hasStream() ||
      toAxes.hasStream())
    return false;
  fusion::ReshardKind kind = fusion::classifyReshard(from, to).kind;
  return reduces
             ? kind == fusion::ReshardKind::AllReduce || kind == fusion::ReshardKind::ReduceScatter
             : kind == fusion::ReshardKind::AllGather;
}

static bool isElementwiseComputation(Operation *op) {
  return fusion::isLocalComputation(op) && op->hasTrait<OpTrait::Elementwise>();
}

/// The ops that make the operand of a reduction, back to the next ones that are not elementwise:
/// they are sliced with it.
void Grouper::findProducersOfReductions() {
  for (auto reshard : block.getOps<fusion::ReshardOp>()) {
    if (!isOpen(reshard, /*reduces=*/true))
      continue;
    SmallVector<Value> worklist{reshard.getInput()};
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      Operation *producer = value.getDefiningOp();
      if (!producer || !value.hasOneUse() || !fusion::isLocalComputation(producer) ||
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
  if (!rule || rule->regroups() || op->getNumResults() != 1)
    return false;
  return llvm::any_of(rule->operands[operand.getOperandNumber()], [&](int64_t factor) {
    return factor != fusion::AxesRule::kNone &&
           rule->factors[factor] == fusion::FactorKind::Parallel &&
           llvm::is_contained(rule->results[0], factor);
  });
}

/// Makes one group of gathers that meet at `op`, its operands, before any op reads them.
void Grouper::uniteGathers(Operation *op) {
  unsigned into = kNoGroup;
  for (Value operand : op->getOperands()) {
    auto reshard = operand.getDefiningOp<fusion::ReshardOp>();
    unsigned group = reshard ? groupOf.lookup_or(reshard, kNoGroup) : kNoGroup;
    if (group == kNoGroup || group == into || !isOpen(reshard, /*reduces=*/false) ||
        groups[group].reshards().size() != groups[group].ops.size())
      continue;
    if (into == kNoGroup)
      into = group;
    else if (canUnite(into, group))
      merge(into, group);
  }
}

/// Whether `op`, which computes, can be in a loop with the group, which has no stream digits.
bool Grouper::canJoinWhole(Operation *op, unsigned group) {
  const StreamGroup &candidate = groups[group];
  if (candidate.ops.empty() || !candidate.streamSizes.empty())
    return false;
  auto isOpenGather = [&](fusion::ReshardOp reshard) { return isOpen(reshard, false); };
  bool gathers = llvm::any_of(candidate.reshards(), isOpenGather);
  Operation *reduction = reductionOf.lookup(op);
  bool makesOperand = reduction && llvm::any_of(candidate.ops, [&](Operation *member) {
                        return reductionOf.lookup(member) == reduction;
                      });
  // A gather that has a matmul to overlap leaves the reduction its own.
  auto isMatmul = [](Operation *member) { return isa<fusion::MatmulOp>(member); };
  if (!makesOperand && (!gathers || (reduction && llvm::any_of(candidate.ops, isMatmul))))
    return false;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    Operation *producer = operand.get().getDefiningOp();
    if (!producer)
      return true;
    if (groupOf.lookup_or(producer, kNoGroup) != group)
      return !dependsOn(producer, group);
    auto reshard = dyn_cast<fusion::ReshardOp>(producer);
    return (!reshard || isOpenGather(reshard)) && passesSlices(op, operand);
  });
}

/// The group that an op without stream digits joins.
unsigned Grouper::findWholeGroup(Operation *op) {
  if (auto reshard = dyn_cast<fusion::ReshardOp>(op)) {
    Operation *producer = reshard.getInput().getDefiningOp();
    if (!producer || reductionOf.lookup(producer) != op)
      return kNoGroup;
    unsigned group = groupOf.lookup(producer);
    return groups[group].streamSizes.empty() ? group : kNoGroup;
  }
  if (isLoop || !fusion::isLocalComputation(op))
    return kNoGroup;
  uniteGathers(op);
  // A gather that the op reads before what other gathers lead to.
  for (bool direct : {true, false})
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      unsigned group = producer ? groupOf.lookup_or(producer, kNoGroup) : kNoGroup;
      if (group != kNoGroup && (isa<fusion::ReshardOp>(producer) || !direct) &&
          canJoinWhole(op, group))
        return group;
    }
  return kNoGroup;
}

//===----------------------------------------------------------------------===//
// All ops
//===----------------------------------------------------------------------===//

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
  // A loop that is formed is a group of its own, whatever the digits of its results.
  if (isa<fusion::StreamLoopOp>(op))
    sizes->clear();
  if (!sizes->empty())
    unite(op);
  auto [group, accumulated] = findGroup(op, *sizes);
  if (group == kNoGroup && sizes->empty())
    group = findWholeGroup(op);
  if (group == kNoGroup) {
    group = groups.size();
    groups.emplace_back().streamSizes = *sizes;
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    if (!sizes->empty())
      for (auto [i, place] : llvm::enumerate(getPlaces(type, dims)))
        if (std::get<3>(place))
          groups[group].raggedDigits.push_back(i);
  }
  if (accumulated)
    groups[group].accumulators[op] = *accumulated;
  else if (std::optional<DigitMap> map = getMapInGroup(op, group);
           !sizes->empty() && map && *map != getIdentity(groups[group].streamSizes))
    groups[group].digitMaps[op] = std::move(*map);
  groups[group].ops.push_back(op);
  groupOf[op] = group;
  return success();
}

/// The schedule that the group's reshards are annotated with, and where.
static void findAnnotation(StreamGroup &group) {
  group.place = group.ops.front();
  SmallVector<fusion::ReshardOp> reshards = group.reshards(); // llvm::reverse keeps a reference
  for (fusion::ReshardOp reshard : llvm::reverse(reshards)) {
    if (!group.schedule)
      group.place = reshard;
    if (fusion::ScheduleAttr named = reshard.getScheduleAttr()) {
      group.place = reshard;
      group.schedule = named;
      group.scheduleIsNamed = true;
    }
  }
}

FailureOr<std::vector<StreamGroup>> Grouper::run() {
  for (auto [i, op] : llvm::enumerate(block))
    number[&op] = i;
  findBeforeScatter();
  findProducersOfReductions();
  for (Operation &op : block.without_terminator()) {
    if (op.hasTrait<OpTrait::ConstantLike>())
      continue;
    if (failed(add(&op)))
      return failure();
  }
  // Those that were united with others are empty.
  llvm::erase_if(groups, [](const StreamGroup &group) { return group.ops.empty(); });
  for (StreamGroup &group : groups)
    findAnnotation(group);
  return sortGroups(block, std::move(groups));
}

FailureOr<std::vector<StreamGroup>> tandem::getStreamGroups(Block &block) {
  return Grouper(block, /*isLoop=*/false).run();
}

FailureOr<StreamGroup> tandem::getStreamGroup(fusion::StreamLoopOp loop,
                                              function_ref<InFlightDiagnostic()> why) {
  FailureOr<std::vector<StreamGroup>> groups = Grouper(loop.getBody().front(), true).run();
  if (failed(groups))
    return failure();
  StreamGroup all, *sliced = nullptr;
  for (StreamGroup &group : *groups) {
    if (group.streamSizes.empty())
      continue;
    if (sliced)
      return why() << "expected the ops of a stream loop to be sliced alike, found '"
                   << sliced->ops.front()->getName() << "' and '" << group.ops.front()->getName()
                   << "' that are not";
    sliced = &group;
  }
  llvm::SmallDenseSet<Operation *> later;
  if (sliced) {
    all = *sliced;
    later.insert(all.ops.begin(), all.ops.end());
  }
  for (const StreamGroup &group : *groups) {
    if (&group == sliced)
      continue;
    for (Operation *op : group.ops) {
      bool isBehind = llvm::any_of(op->getOperands(), [&](Value operand) {
        return later.contains(operand.getDefiningOp());
      });
      if (isBehind)
        later.insert(op);
      if (!sliced)
        all.ops.push_back(op);
      else
        (isBehind ? all.after : all.before).push_back(op);
    }
  }
  all.place = loop;
  all.schedule = loop.getScheduleAttr();
  all.scheduleIsNamed = loop.getSource() == fusion::ScheduleSource::Annotation;
  return all;
}
