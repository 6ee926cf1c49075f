//===- ReshardPlan.cpp - what one slice of a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "CommonDigits.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include <optional>
#include <tuple>

using namespace mlir;
using namespace tandem;
using fusion::ReshardKind;

namespace {

class Planner {
public:
  /// `receiver`: of slices that are handed out in parts; none: these are no OwnerMoves.
  Planner(fusion::ReshardOp op, const SliceIndex &index, std::optional<Value> receiver,
          OpBuilder *builder)
      : op(op), index(index), receiver(receiver), builder(builder),
        sourceType(op.getInput().getType()), targetType(op.getResult().getType()),
        sourceAxes(fusion::getAxes(sourceType)), targetAxes(fusion::getAxes(targetType)) {}

  Explained<ReshardPlan> plan();

private:
  /// What the common digits move: between devices, and from or to local digits.
  struct Moves {
    SmallVector<const CommonDigit *> gathered, scattered, owned;
    bool toOthers = false; ///< from one mesh axis to another, or only a part of an axis
    /// Whether nothing but a collective's own digits moves.
    bool areAlone() const { return !toOthers && owned.empty(); }
  };

  void dropSingleDevices();
  Moves findMoves();
  Obstacle classify(const fusion::Reshard &whole);
  Obstacle classifyReduction(const Moves &moves);
  void classifyMovement(const Moves &moves);
  /// Whether these digits are one factor of a dimension and all axes that communicate.
  bool isWhole(ArrayRef<const CommonDigit *> digits) const;
  Obstacle classifyAcross(const fusion::Reshard &whole);
  void nameAxes(ArrayRef<const CommonDigit *> digits, bool ofSource);
  Value getOwner(ArrayRef<const CommonDigit *> digits);
  Value getReceiver(StringAttr axis);
  void fillDims();

  fusion::ReshardOp op;
  const SliceIndex &index;
  std::optional<Value> receiver;
  OpBuilder *builder;
  RankedTensorType sourceType, targetType;
  fusion::AxesAttr sourceAxes, targetAxes;
  ReshardPlan result;
};

} // namespace

/// Mesh axes of one device move nothing: their digits are taken out.
void Planner::dropSingleDevices() {
  auto isSingle = [](const SideDigit &side) { return side.isDevice() && side.size == 1; };
  llvm::erase_if(result.digits, [&](const CommonDigit &digit) {
    return isSingle(digit.source) || isSingle(digit.target);
  });
}

/// Whether device digits are neighbours in one dimension: then they count the ranks of one group.
static bool areOneFactor(ArrayRef<const CommonDigit *> digits) {
  for (size_t i = 1; i < digits.size(); ++i)
    if (digits[i] != digits[i - 1] + 1 || digits[i]->dim != digits[i - 1]->dim)
      return false;
  return true;
}

/// Names the axes of these digits, in their order: the group is numbered as the digits are.
void Planner::nameAxes(ArrayRef<const CommonDigit *> digits, bool ofSource) {
  result.axes.clear();
  for (const CommonDigit *digit : digits)
    result.axes.push_back((ofSource ? digit->source : digit->target).axis);
}

/// The number of a slice's owner in the group, of the parts of its stream digit that count the
/// devices of one axis each.
Value Planner::getOwner(ArrayRef<const CommonDigit *> digits) {
  Value owner;
  for (const CommonDigit *digit : digits) {
    Value index = digit->target.value;
    owner =
        owner && index
            ? hostir::IndexBuilder(*builder, op.getLoc()).linear(owner, digit->target.size, index)
            : index;
  }
  return owner;
}

/// The receiver's coordinate on an axis of the group.
Value Planner::getReceiver(StringAttr axis) {
  if (!receiver || !*receiver)
    return {};
  hostir::IndexBuilder math(*builder, op.getLoc());
  int64_t inner = 1;
  for (StringAttr other :
       llvm::drop_begin(result.axes, llvm::find(result.axes, axis) - result.axes.begin() + 1))
    inner *= result.mesh.axisSize(other);
  Value coordinate = math.div(*receiver, inner);
  return axis == result.axes.front() ? coordinate
                                     : math.mod(coordinate, result.mesh.axisSize(axis));
}

/// From one mesh to another: one device on one side may do a collective with the mesh that it
/// belongs to.
Obstacle Planner::classifyAcross(const fusion::Reshard &whole) {
  MeshAttr from = result.sourceMesh, to = result.mesh;
  if (whole.reduces() && whole.kind != ReshardKind::Reduce)
    return explain(op) << "a partial value does not move from mesh @" << from.getName().getValue()
                       << " to mesh @" << to.getName().getValue()
                       << ", but from all devices of its mesh to one device; reduce it on its "
                          "own mesh first";
  auto count = [&](MeshAttr mesh) {
    return llvm::count_if(mesh.getAxes(), [](const auto &axis) { return axis.size > 1; });
  };
  SmallVector<const CommonDigit *> split;
  bool crosses = false, isScatter = whole.kind == ReshardKind::Scatter;
  for (const CommonDigit &digit : result.digits) {
    crosses |= digit.crosses() || (digit.source.isDevice() && digit.target.isStream());
    if ((isScatter ? digit.target : digit.source).isDevice())
      split.push_back(&digit);
  }
  result.kind = whole.kind;
  result.groupMesh = isScatter || whole.kind == ReshardKind::Broadcast ? to : from;
  bool isOneStep = false;
  if (whole.kind == ReshardKind::Reduce || whole.kind == ReshardKind::Broadcast) {
    isOneStep = whole.kind == ReshardKind::Reduce || !crosses;
    for (const MeshAxis &axis : result.groupMesh.getAxes())
      result.axes.push_back(axis.name);
  } else if (isScatter || whole.kind == ReshardKind::Gather) {
    isOneStep = !crosses && result.groupMesh.position(whole.root) != -1 &&
                static_cast<int64_t>(split.size()) == count(result.groupMesh) &&
                areOneFactor(split);
    nameAxes(split, !isScatter);
  }
  result.root = whole.root;
  if (isOneStep)
    return std::nullopt;
  result.kind = ReshardKind::Transfer;
  result.staysLocal = whole.kind == ReshardKind::Nothing;
  result.groupMesh = to;
  result.axes.clear();
  result.root = -1;
  return std::nullopt;
}

/// Also names the axes that communicate, in the mesh's order.
Planner::Moves Planner::findMoves() {
  Moves moves;
  llvm::SmallDenseSet<StringAttr> used;
  for (StringAttr axis : sourceAxes.getPartial()) // one device has nothing to reduce
    if (!llvm::is_contained(targetAxes.getPartial(), axis) && result.mesh.axisSize(axis) > 1)
      used.insert(axis);
  for (const CommonDigit &digit : result.digits) {
    for (ArrayRef<SideDigit> parts : {ArrayRef(digit.sourceParts), ArrayRef(digit.targetParts)})
      for (const SideDigit &part : parts)
        if (part.isDevice()) {
          used.insert(part.axis);
          moves.toOthers = true;
        }
    bool fromDevice = digit.source.isDevice(), toDevice = digit.target.isDevice();
    if (fromDevice && toDevice && digit.source.axis == digit.target.axis &&
        digit.source.inner == digit.target.inner)
      continue;
    moves.toOthers |=
        (fromDevice && (toDevice || digit.source.isPart())) || (toDevice && digit.target.isPart());
    if (fromDevice)
      used.insert(digit.source.axis);
    if (toDevice)
      used.insert(digit.target.axis);
    if (fromDevice)
      (digit.target.isStream() ? moves.owned : moves.gathered).push_back(&digit);
    else if (toDevice)
      moves.scattered.push_back(&digit);
  }
  for (const MeshAxis &axis : result.mesh.getAxes())
    if (used.contains(axis.name))
      result.axes.push_back(axis.name);
  return moves;
}

bool Planner::isWhole(ArrayRef<const CommonDigit *> digits) const {
  return digits.size() == result.axes.size() && areOneFactor(digits);
}

/// What is done along which mesh axes.
Obstacle Planner::classify(const fusion::Reshard &whole) {
  result.reduction = sourceAxes.getPartialKind();
  if (result.sourceMesh != result.mesh)
    return classifyAcross(whole);
  Moves moves = findMoves();
  if (result.axes.empty())
    return std::nullopt;
  if (whole.reduces()) {
    result.kind = whole.kind;
    return classifyReduction(moves);
  }
  classifyMovement(moves);
  return std::nullopt;
}

Obstacle Planner::classifyReduction(const Moves &moves) {
  if (moves.areAlone() && result.kind == ReshardKind::AllReduce)
    return std::nullopt;
  if (moves.areAlone() && result.kind == ReshardKind::ReduceScatter && isWhole(moves.scattered)) {
    nameAxes(moves.scattered, false);
    return std::nullopt;
  }
  Explanation diag = explain(op);
  diag << "a reduction that moves data along other mesh axes too is not one step, found ";
  llvm::interleaveComma(result.axes, diag,
                        [&](StringAttr a) { diag << '"' << a.getValue() << '"'; });
  return std::move(diag) << "; write the reduction as a reshard of its own";
}

void Planner::classifyMovement(const Moves &moves) {
  const auto &[gathered, scattered, owned, toOthers] = moves;
  auto areAlike = [](const CommonDigit *a, const CommonDigit *b) {
    return a->source.axis == b->target.axis;
  };
  if (moves.areAlone() && scattered.empty() && isWhole(gathered)) {
    result.kind = ReshardKind::AllGather;
    nameAxes(gathered, true);
  } else if (moves.areAlone() && gathered.empty()) {
    result.kind = ReshardKind::Slice;
  } else if (moves.areAlone() && isWhole(gathered) && isWhole(scattered) &&
             llvm::equal(gathered, scattered, areAlike)) {
    result.kind = ReshardKind::AllToAll;
    nameAxes(gathered, true);
  } else if (!toOthers && gathered.empty() && isWhole(owned) &&
             (scattered.empty() ||
              (receiver && isWhole(scattered) && llvm::equal(owned, scattered, areAlike))) &&
             llvm::all_of(owned, [&](const CommonDigit *digit) {
               return digit->target.stream == moves.owned.front()->target.stream;
             })) {
    result.kind = ReshardKind::OwnerMoves;
    result.isPersonalized = !scattered.empty();
    nameAxes(owned, true);
    result.owner = getOwner(owned);
    result.ownerDigit = owned.front()->target.stream;
    result.ownerOuter = owned.front()->target.outer;
    result.ownerInner = owned.back()->target.inner;
  } else {
    result.kind = ReshardKind::Transfer;
    result.axes.clear();
  }
}

/// Each side's local digits. Labels number the common digits, so that both sides cut into the same
/// pieces.
void Planner::fillDims() {
  if (result.kind == ReshardKind::Transfer)
    return;
  result.source.resize(sourceType.getRank());
  result.target.resize(targetType.getRank());
  int64_t sourceRanks = 0, targetRanks = 0, number = 0;
  for (const CommonDigit &digit : result.digits) {
    const SideDigit &source = digit.source, &target = digit.target;
    // What neither side has in memory is not between its neighbours.
    if (source.isDevice() && target.isDevice())
      continue;
    DigitLabel label(number++);
    if (!source.isDevice()) {
      DigitLabel sourceLabel = label;
      Value sourceIndex = target.value;
      if (target.isDevice() && result.isPersonalized)
        sourceIndex = getReceiver(target.axis);
      else if (target.isDevice())
        sourceLabel =
            result.kind == ReshardKind::Slice
                ? DigitLabel::coordinate(llvm::find(result.axes, target.axis) - result.axes.begin())
                : DigitLabel::rank(sourceRanks++);
      result.source[digit.dim].push_back(
          {source.size, sourceIndex, sourceLabel, target.chunk, target.length});
    }
    if (!target.isDevice())
      result.target[digit.dim].push_back(
          {target.size, target.value,
           source.isDevice() && !target.isStream() ? DigitLabel::rank(targetRanks++) : label,
           target.chunk, target.length});
  }
}

Explained<ReshardPlan> Planner::plan() {
  fusion::Reshard whole = fusion::classifyReshard(sourceType, targetType);
  if (!whole.isSupported())
    return explain(op) << whole.reason;
  result.sourceMesh = sourceAxes.getMesh();
  result.mesh = result.groupMesh = targetAxes.getMesh();
  CommonDigits sides(op, index, builder);
  for (int64_t dim = 0; dim < targetType.getRank(); ++dim)
    if (Obstacle why = sides.read(dim, result.digits))
      return why;
  dropSingleDevices();
  if (Obstacle why = classify(whole))
    return why;
  fillDims();
  return result;
}

int64_t ReshardPlan::groupPosition(int64_t worldRank) const {
  SmallVector<int64_t> coordinates = groupMesh.coordinates(groupMesh.position(worldRank));
  int64_t position = 0;
  for (StringAttr axis : axes)
    position = position * groupMesh.axisSize(axis) + coordinates[groupMesh.axisIndex(axis)];
  return position;
}

Explained<ReshardPlan> tandem::planReshard(fusion::ReshardOp op, const SliceIndex &index,
                                           OpBuilder *builder) {
  return Planner(op, index, std::nullopt, builder).plan();
}

Explained<ReshardPlan> tandem::planReshardFor(fusion::ReshardOp op, const SliceIndex &index,
                                              Value receiver, OpBuilder *builder) {
  return Planner(op, index, receiver, builder).plan();
}

/// The index of any slice of a result.
static SliceIndex getAnySlice(fusion::ReshardOp op) {
  SliceIndex index;
  if (auto sizes = fusion::getStreamSizes(op.getResult().getType()); succeeded(sizes))
    for (int64_t size : *sizes)
      index.digits.push_back({{size, {}}});
  return index;
}

Explained<ReshardPlan> tandem::planReshard(fusion::ReshardOp op) {
  return planReshard(op, getAnySlice(op), nullptr);
}

FailureOr<ReshardPlan> tandem::getCommonOwner(ArrayRef<fusion::ReshardOp> reshards) {
  FailureOr<ReshardPlan> common = failure();
  for (fusion::ReshardOp reshard : reshards) {
    FailureOr<ReshardPlan> plan = planReshardFor(reshard, getAnySlice(reshard), Value(), nullptr);
    if (failed(plan) || plan->kind != ReshardKind::OwnerMoves)
      return failure();
    auto owner = [](const ReshardPlan &plan) {
      return std::tuple(plan.mesh, ArrayRef(plan.axes), plan.ownerDigit, plan.ownerOuter,
                        plan.ownerInner);
    };
    if (succeeded(common) && owner(*common) != owner(*plan))
      return failure();
    common = std::move(plan);
  }
  return common;
}

bool tandem::movesNothing(ArrayRef<fusion::ReshardOp> reshards) {
  return llvm::all_of(reshards, [](fusion::ReshardOp reshard) {
    FailureOr<ReshardPlan> plan = planReshard(reshard);
    return succeeded(plan) && plan->movesNothing();
  });
}
