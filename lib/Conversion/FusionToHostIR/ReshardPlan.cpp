//===- ReshardPlan.cpp - what one slice of a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include <numeric>

using namespace mlir;
using namespace mlir::tandem;
using fusion::DigitKind;

namespace {

class Planner {
public:
  Planner(fusion::ReshardOp op, const SliceIndex &index, OpBuilder *builder,
          function_ref<InFlightDiagnostic()> emitError)
      : op(op), index(index), builder(builder), emitError(emitError),
        sourceType(op.getInput().getType()), targetType(op.getResult().getType()),
        sourceAxes(fusion::getAxes(sourceType)), targetAxes(fusion::getAxes(targetType)) {}

  FailureOr<ReshardPlan> plan();

private:
  LogicalResult align(int64_t dim);
  SideDigit cut(SideDigit &side, int64_t size);
  CommonDigit cross(int64_t dim, MutableArrayRef<SideDigit> &from, MutableArrayRef<SideDigit> &to);
  void dropSingleDevices();
  LogicalResult classify();
  LogicalResult classifyAcross();
  void nameAxes(ArrayRef<const CommonDigit *> digits, bool ofSource);
  void fillDims();

  fusion::ReshardOp op;
  const SliceIndex &index;
  OpBuilder *builder;
  function_ref<InFlightDiagnostic()> emitError;
  RankedTensorType sourceType, targetType;
  fusion::AxesAttr sourceAxes, targetAxes;
  size_t nextStream = 0;
  ReshardPlan result;
};

} // namespace

/// Cuts the outermost `size` indices off `side`: returns them, leaves the rest.
SideDigit Planner::cut(SideDigit &side, int64_t size) {
  SideDigit outer = side;
  outer.size = size;
  if (side.size == size) {
    side.size = 1;
    return outer;
  }
  int64_t inner = side.size / size;
  outer.inner *= inner;
  side.outer *= size;
  side.size = inner;
  if (side.value) {
    Value divisor = arith::ConstantIndexOp::create(*builder, op.getLoc(), inner);
    outer.value = arith::DivUIOp::create(*builder, op.getLoc(), outer.value, divisor);
    side.value = arith::RemUIOp::create(*builder, op.getLoc(), side.value, divisor);
  }
  return outer;
}

/// Takes digits off both sides until as many indices are gone from either, where neither's first
/// digit divides the other's. Ends at the last digits at the latest.
CommonDigit Planner::cross(int64_t dim, MutableArrayRef<SideDigit> &from,
                           MutableArrayRef<SideDigit> &to) {
  CommonDigit digit{dim, {}, {}};
  int64_t taken = 1, takenOther = 1;
  auto take = [&](MutableArrayRef<SideDigit> &side, SmallVectorImpl<SideDigit> &parts,
                  int64_t &mine, int64_t other) {
    // No more of the digit than it takes to meet, if a part of it will do.
    int64_t size = std::gcd(other / std::gcd(mine, other), side.front().size);
    if (size == 1)
      size = side.front().size;
    parts.push_back(cut(side.front(), size));
    mine *= size;
    if (side.front().size == 1)
      side = side.drop_front();
  };
  do {
    if (taken <= takenOther)
      take(from, digit.sourceParts, taken, takenOther);
    else
      take(to, digit.targetParts, takenOther, taken);
  } while (taken != takenOther);
  digit.source.size = digit.target.size = taken;
  return digit;
}

/// Cuts both sides of one dimension into digits of common sizes, outermost first.
LogicalResult Planner::align(int64_t dim) {
  auto source = fusion::resolveDim(sourceAxes.getDims()[dim], sourceType.getDimSize(dim),
                                   sourceAxes.getMesh());
  auto target = fusion::resolveDim(targetAxes.getDims()[dim], targetType.getDimSize(dim),
                                   targetAxes.getMesh());
  if (failed(source) || failed(target))
    return emitError() << "dimension " << dim << ": extents must be known here; run "
                       << "fusion-specialize first";

  // Stream digits of the source say how it was made, not where it is.
  SmallVector<SideDigit> from, to;
  auto push = [](SmallVector<SideDigit> &side, DigitKind kind, const fusion::ResolvedDigit &digit) {
    if (kind == DigitKind::Serial && !side.empty() && side.back().kind == DigitKind::Serial)
      side.back().size *= digit.span();
    else
      side.push_back({digit.span(), kind, kind == DigitKind::Device ? digit.axis : StringAttr()});
  };
  for (const fusion::ResolvedDigit &digit : *source)
    push(from, digit.kind == DigitKind::Device ? DigitKind::Device : DigitKind::Serial, digit);
  for (const fusion::ResolvedDigit &digit : *target) {
    if (digit.kind != DigitKind::Stream) {
      push(to, digit.kind, digit);
      continue;
    }
    if (digit.ragged) {
      const IndexPart &part = index.digits[nextStream].front();
      LocalDigit slice = getRaggedDigit(digit, part.value, part.isShort, 0);
      to.push_back({digit.ragged, DigitKind::Stream, {}, nextStream++, part.value});
      to.back().chunk = digit.weight;
      to.back().length = slice.length;
      continue;
    }
    int64_t outer = 1;
    for (const IndexPart &part : index.digits[nextStream]) {
      int64_t inner = digit.size / outer / part.size;
      to.push_back({part.size, DigitKind::Stream, {}, nextStream, part.value, outer, inner});
      outer *= part.size;
    }
    ++nextStream;
  }

  int64_t shared = 0; // by slices that are not all alike
  for (const SideDigit &digit : to)
    shared = digit.chunk ? digit.size : shared;
  MutableArrayRef<SideDigit> left(from), right(to);
  auto dropEmpty = [](MutableArrayRef<SideDigit> &side) {
    while (!side.empty() && side.front().size == 1 && side.front().kind == DigitKind::Serial)
      side = side.drop_front();
  };
  while (true) {
    dropEmpty(left);
    dropEmpty(right);
    // A mesh axis of size 1 moves nothing, but it is accounted for like any other, and so is a loop
    // of one iteration.
    bool rightIsOne = !right.empty() && right.front().size == 1;
    if (!left.empty() && left.front().size == 1) {
      SideDigit gone = left.consume_front(), meets;
      if (rightIsOne && (right.front().isStream() || right.front().axis == gone.axis))
        meets = right.consume_front();
      result.digits.push_back({dim, gone, meets});
      continue;
    }
    if (rightIsOne) {
      result.digits.push_back({dim, SideDigit(), right.consume_front()});
      continue;
    }
    if (left.empty() || right.empty())
      return success();
    // An extent of 0 has an innermost digit of 0, which takes any cut.
    int64_t a = left.front().size, b = right.front().size;
    int64_t size = a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
    // Slices that are not alike are cut out of one digit.
    auto isRagged = [](const SideDigit &digit) { return digit.chunk != 0; };
    bool crosses = size != 0 && (a % size || b % size);
    bool fits = !isRagged(right.front()) || (!left.front().isDevice() && a % b == 0);
    if (fits && crosses) {
      result.digits.push_back(cross(dim, left, right));
      fits = llvm::none_of(result.digits.back().targetParts, isRagged);
    }
    if (!fits)
      return emitError() << "dimension " << dim << ": slices that are not all alike do not line up "
                         << "with the operand's device digits; expected the " << shared
                         << " indices that they share to be one run of them on each device";
    if (crosses)
      continue;
    result.digits.push_back({dim, cut(left.front(), size), cut(right.front(), size)});
    // What is used up must not be taken for a digit of size 1.
    if (left.front().size == 1)
      left = left.drop_front();
    if (right.front().size == 1)
      right = right.drop_front();
  }
}

/// Mesh axes of one device move nothing: where others do, their digits are taken out.
void Planner::dropSingleDevices() {
  auto isSingle = [](const SideDigit &side) { return side.isDevice() && side.size == 1; };
  auto changes = [&](const CommonDigit &digit) {
    return (digit.source.isDevice() || digit.target.isDevice()) &&
           digit.source.axis != digit.target.axis;
  };
  bool reduces = llvm::any_of(sourceAxes.getPartial(), [&](StringAttr axis) {
    return result.sourceMesh.axisSize(axis) > 1 &&
           !llvm::is_contained(targetAxes.getPartial(), axis);
  });
  if (reduces || result.sourceMesh != result.mesh ||
      llvm::any_of(result.digits, [&](const CommonDigit &digit) {
        return changes(digit) && !isSingle(digit.source) && !isSingle(digit.target);
      }))
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

/// From one mesh to another: one device on one side may do a collective with the mesh that it
/// belongs to.
LogicalResult Planner::classifyAcross() {
  fusion::MeshAttr from = result.sourceMesh, to = result.mesh;
  bool fromOne = from.numDevices() == 1, toOne = to.numDevices() == 1;
  auto countAxes = [](fusion::MeshAttr mesh) {
    return llvm::count_if(mesh.getAxes(), [](const auto &axis) { return axis.size > 1; });
  };
  auto allAxes = [](fusion::MeshAttr mesh) {
    return llvm::map_to_vector(mesh.getAxes(), [](const auto &axis) { return axis.name; });
  };
  SmallVector<const CommonDigit *> gathered, scattered;
  bool simple = true;
  for (const CommonDigit &digit : result.digits) {
    bool fromDevice = digit.source.isDevice() && digit.source.size > 1;
    bool toDevice = digit.target.isDevice() && digit.target.size > 1;
    simple &= !digit.crosses() && (!fromDevice || !digit.target.isStream());
    if (fromDevice)
      gathered.push_back(&digit);
    if (toDevice)
      scattered.push_back(&digit);
  }

  int64_t reduced = llvm::count_if(sourceAxes.getPartial(),
                                   [&](StringAttr axis) { return from.axisSize(axis) > 1; });
  if (reduced > 0) {
    if (!toOne || reduced != countAxes(from))
      return emitError() << "a partial value does not move from mesh @" << from.getName().getValue()
                         << " to mesh @" << to.getName().getValue()
                         << ", but from all devices of its mesh to one device; reduce it on its "
                            "own mesh first";
    result.kind = ReshardKind::Reduce;
    result.reduction = sourceAxes.getPartialKind();
    result.groupMesh = from;
    result.root = to.worldRank(0);
    result.axes = allAxes(from);
    return success();
  }
  result.kind = ReshardKind::Transfer;
  result.staysLocal =
      fusion::classifyReshard(sourceType, targetType).kind == fusion::ReshardKind::Nothing;
  if (result.staysLocal)
    return success();
  if (fromOne && !toOne && simple && scattered.empty()) {
    result.kind = ReshardKind::Broadcast;
    result.root = from.worldRank(0);
    result.axes = allAxes(to);
  } else if (fromOne && !toOne && simple && to.position(from.worldRank(0)) != -1 &&
             static_cast<int64_t>(scattered.size()) == countAxes(to) && areOneFactor(scattered)) {
    result.kind = ReshardKind::Scatter;
    result.root = from.worldRank(0);
    nameAxes(scattered, false);
  } else if (!fromOne && toOne && simple && from.position(to.worldRank(0)) != -1 &&
             static_cast<int64_t>(gathered.size()) == countAxes(from) && areOneFactor(gathered)) {
    result.kind = ReshardKind::Gather;
    result.groupMesh = from;
    result.root = to.worldRank(0);
    nameAxes(gathered, true);
  }
  return success();
}

/// What is done along which mesh axes.
LogicalResult Planner::classify() {
  // A reduction along an axis of one device is none, unless it is all that there is to do.
  bool changes = llvm::any_of(result.digits, [](const CommonDigit &digit) {
    return digit.crosses() ||
           (std::max(digit.source.size, digit.target.size) > 1 &&
            (digit.source.isDevice() || digit.target.isDevice()) &&
            (digit.source.axis != digit.target.axis || digit.source.inner != digit.target.inner));
  });
  SmallVector<StringAttr> reduced;
  for (StringAttr axis : sourceAxes.getPartial())
    if (!llvm::is_contained(targetAxes.getPartial(), axis) &&
        (result.sourceMesh.axisSize(axis) > 1 || (!changes && sourceAxes.getPartial().size() == 1)))
      reduced.push_back(axis);
  if (result.sourceMesh != result.mesh)
    return classifyAcross();

  SmallVector<const CommonDigit *> gathered, scattered, owned;
  // From one mesh axis to another, or only a part of an axis.
  bool moves = false;
  llvm::SmallDenseSet<StringAttr> used(reduced.begin(), reduced.end());
  auto useParts = [&](ArrayRef<SideDigit> parts) {
    for (const SideDigit &part : parts)
      if (part.isDevice()) {
        used.insert(part.axis);
        moves = true;
      }
  };
  for (const CommonDigit &digit : result.digits) {
    useParts(digit.sourceParts);
    useParts(digit.targetParts);
    bool fromDevice = digit.source.isDevice(), toDevice = digit.target.isDevice();
    if (fromDevice && toDevice && digit.source.axis == digit.target.axis &&
        digit.source.inner == digit.target.inner)
      continue;
    moves |=
        (fromDevice && (toDevice || digit.source.isPart())) || (toDevice && digit.target.isPart());
    if (fromDevice)
      used.insert(digit.source.axis);
    if (toDevice)
      used.insert(digit.target.axis);
    if (fromDevice && digit.target.isStream())
      owned.push_back(&digit);
    else if (fromDevice)
      gathered.push_back(&digit);
    if (toDevice && !fromDevice)
      scattered.push_back(&digit);
  }
  for (const fusion::MeshAxis &axis : result.mesh.getAxes())
    if (used.contains(axis.name))
      result.axes.push_back(axis.name);
  if (result.axes.empty())
    return success();
  result.reduction = sourceAxes.getPartialKind();

  if (!reduced.empty()) {
    bool simple = !moves && gathered.empty() && owned.empty();
    if (simple && scattered.empty()) {
      result.kind = ReshardKind::AllReduce;
      return success();
    }
    if (simple && scattered.size() == reduced.size() && used.size() == reduced.size() &&
        areOneFactor(scattered)) {
      result.kind = ReshardKind::ReduceScatter;
      nameAxes(scattered, false);
      return success();
    }
    // Axes of one device alone: nothing is reduced, and nothing moves.
    if (llvm::all_of(reduced,
                     [&](StringAttr axis) { return result.sourceMesh.axisSize(axis) == 1; })) {
      llvm::erase_if(result.digits, [](const CommonDigit &digit) {
        return digit.source.size == 1 && (digit.source.isDevice() || digit.target.isDevice());
      });
      result.axes.clear();
      return success();
    }
    InFlightDiagnostic diag = emitError();
    diag << "a reduction that moves data along other mesh axes too is not one step, found ";
    llvm::interleaveComma(result.axes, diag,
                          [&](StringAttr a) { diag << '"' << a.getValue() << '"'; });
    return diag << "; write the reduction as a reshard of its own";
  }

  bool alone = !moves && owned.empty();
  auto isWhole = [&](ArrayRef<const CommonDigit *> digits) {
    return digits.size() == result.axes.size() && areOneFactor(digits);
  };
  auto areAlike = [](const CommonDigit *a, const CommonDigit *b) {
    return a->source.axis == b->target.axis;
  };
  if (alone && scattered.empty() && isWhole(gathered)) {
    result.kind = ReshardKind::AllGather;
    nameAxes(gathered, true);
  } else if (alone && gathered.empty()) {
    result.kind = ReshardKind::LocalSlice;
  } else if (alone && isWhole(gathered) && isWhole(scattered) &&
             llvm::equal(gathered, scattered, areAlike)) {
    result.kind = ReshardKind::AllToAll;
    nameAxes(gathered, true);
  } else if (!moves && result.axes.size() == 1 && owned.size() == 1 && gathered.empty() &&
             scattered.empty()) {
    result.kind = ReshardKind::OwnerMoves;
    const SideDigit &stream = owned.front()->target;
    result.owner = stream.value;
    result.ownerDigit = stream.stream;
    result.ownerOuter = stream.outer;
    result.ownerInner = stream.inner;
  } else {
    result.kind = ReshardKind::Transfer;
    result.axes.clear();
  }
  return success();
}

/// Each side's local digits. Labels number the common digits, so that both sides cut into the same
/// pieces.
void Planner::fillDims() {
  if (result.kind == ReshardKind::Transfer)
    return;
  result.source.resize(sourceType.getRank());
  result.target.resize(targetType.getRank());
  int64_t sourceFront = kFrontLabel, targetFront = kFrontLabel;
  for (auto [number, digit] : llvm::enumerate(result.digits)) {
    int64_t label = static_cast<int64_t>(number);
    const SideDigit &source = digit.source, &target = digit.target;
    if (!source.isDevice()) {
      int64_t sourceLabel = label;
      if (target.isDevice())
        sourceLabel =
            result.kind == ReshardKind::LocalSlice
                ? kDeviceLabel - (llvm::find(result.axes, target.axis) - result.axes.begin())
                : sourceFront++;
      result.source[digit.dim].push_back(
          {source.size, target.value, sourceLabel, target.chunk, target.length});
    }
    if (!target.isDevice())
      result.target[digit.dim].push_back(
          {target.size, target.value,
           source.isDevice() && !target.isStream() ? targetFront++ : label, target.chunk,
           target.length});
  }
}

FailureOr<ReshardPlan> Planner::plan() {
  result.sourceMesh = sourceAxes.getMesh();
  result.mesh = result.groupMesh = targetAxes.getMesh();
  for (int64_t dim = 0; dim < targetType.getRank(); ++dim)
    if (failed(align(dim)))
      return failure();
  dropSingleDevices();
  if (failed(classify()))
    return failure();
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

FailureOr<ReshardPlan> tandem::planReshard(fusion::ReshardOp op, const SliceIndex &index,
                                           OpBuilder *builder,
                                           function_ref<InFlightDiagnostic()> emitError) {
  return Planner(op, index, builder, emitError).plan();
}

SliceIndex tandem::getSymbolicIndex(ArrayRef<int64_t> sizes) {
  SliceIndex index;
  for (int64_t size : sizes)
    index.digits.push_back({{size, {}}});
  return index;
}
