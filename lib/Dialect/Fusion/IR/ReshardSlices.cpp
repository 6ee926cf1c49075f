//===- ReshardSlices.cpp - classification of the slices of a reshard -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"

#include "ReshardDetail.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {

class SliceClassifier {
public:
  SliceClassifier(ReshardOp op, bool forReceiver)
      : op(op), forReceiver(forReceiver), sourceAxes(getAxes(op.getInput())),
        targetAxes(getAxes(op.getResult())) {}

  Explained<SliceReshard> classify(ArrayRef<SmallVector<StreamPart>> streams);

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
  Obstacle classifyReduction(const Moves &moves);
  void classifyMovement(const Moves &moves);
  /// Whether these digits are one factor of a dimension and all axes that communicate.
  bool isWhole(ArrayRef<const CommonDigit *> digits) const;
  Obstacle classifyAcross(const Reshard &whole);
  void nameAxes(ArrayRef<const CommonDigit *> digits, bool ofSource);

  ReshardOp op;
  bool forReceiver;
  AxesAttr sourceAxes, targetAxes;
  SliceReshard result;
};

} // namespace

/// Mesh axes of one device move nothing: their digits are taken out.
void SliceClassifier::dropSingleDevices() {
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
void SliceClassifier::nameAxes(ArrayRef<const CommonDigit *> digits, bool ofSource) {
  result.axes.clear();
  for (const CommonDigit *digit : digits)
    result.axes.push_back((ofSource ? digit->source : digit->target).axis);
}

/// From one mesh to another: one device on one side may do a collective with the mesh that it
/// belongs to.
Obstacle SliceClassifier::classifyAcross(const Reshard &whole) {
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
SliceClassifier::Moves SliceClassifier::findMoves() {
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

bool SliceClassifier::isWhole(ArrayRef<const CommonDigit *> digits) const {
  return digits.size() == result.axes.size() && areOneFactor(digits);
}

Obstacle SliceClassifier::classifyReduction(const Moves &moves) {
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

void SliceClassifier::classifyMovement(const Moves &moves) {
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
              (forReceiver && isWhole(scattered) && llvm::equal(owned, scattered, areAlike))) &&
             llvm::all_of(owned, [&](const CommonDigit *digit) {
               return digit->target.stream == moves.owned.front()->target.stream;
             })) {
    result.kind = ReshardKind::OwnerMoves;
    result.isPersonalized = !scattered.empty();
    nameAxes(owned, true);
    result.ownerDigit = owned.front()->target.stream;
    result.ownerOuter = owned.front()->target.outer;
    result.ownerInner = owned.back()->target.inner;
  } else {
    result.kind = ReshardKind::Transfer;
    result.axes.clear();
  }
}

Explained<SliceReshard> SliceClassifier::classify(ArrayRef<SmallVector<StreamPart>> streams) {
  Reshard whole = classifyReshard(op);
  if (!whole.isSupported())
    return explain(op) << whole.reason;
  result.sourceMesh = sourceAxes.getMesh();
  result.mesh = result.groupMesh = targetAxes.getMesh();
  result.reduction = sourceAxes.getPartialKind();
  Explained<SmallVector<CommonDigit>> digits = getCommonDigits(op, streams);
  if (failed(digits))
    return digits.explanation();
  result.digits = std::move(*digits);
  dropSingleDevices();
  Obstacle why;
  if (result.sourceMesh != result.mesh) {
    why = classifyAcross(whole);
  } else if (Moves moves = findMoves(); !result.axes.empty()) {
    if (whole.reduces()) {
      result.kind = whole.kind;
      why = classifyReduction(moves);
    } else {
      classifyMovement(moves);
    }
  }
  if (why)
    return why;
  return result;
}

int64_t SliceReshard::groupPosition(int64_t worldRank) const {
  SmallVector<int64_t> coordinates = groupMesh.coordinates(groupMesh.position(worldRank));
  int64_t position = 0;
  for (StringAttr axis : axes)
    position = position * groupMesh.axisSize(axis) + coordinates[groupMesh.axisIndex(axis)];
  return position;
}

Explained<SliceReshard>
fusion::classifySlices(ReshardOp op, ArrayRef<SmallVector<StreamPart>> streams, bool forReceiver) {
  return SliceClassifier(op, forReceiver).classify(streams);
}

Explained<SliceReshard> fusion::classifySlices(ReshardOp op, bool forReceiver) {
  SmallVector<SmallVector<StreamPart>> streams;
  if (FailureOr<SmallVector<int64_t>> sizes = getStreamSizes(op.getType()); succeeded(sizes))
    for (int64_t size : *sizes)
      streams.push_back({{size}});
  return classifySlices(op, streams, forReceiver);
}
