//===- ReshardPlan.cpp - what one slice of a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

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
  void dropSingleDevices();
  LogicalResult classify();
  bool areOneFactor(ArrayRef<const CommonDigit *> digits, bool ofSource);
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
  for (const fusion::ResolvedDigit &digit : *source)
    from.push_back({digit.size,
                    digit.kind == DigitKind::Device ? DigitKind::Device : DigitKind::Serial,
                    digit.axis});
  for (const fusion::ResolvedDigit &digit : *target) {
    if (digit.kind != DigitKind::Stream) {
      to.push_back({digit.size, digit.kind, digit.axis});
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

  size_t i = 0, j = 0;
  while (true) {
    while (i < from.size() && from[i].size == 1 && from[i].kind == DigitKind::Serial)
      ++i;
    while (j < to.size() && to[j].size == 1 && to[j].kind == DigitKind::Serial)
      ++j;
    // A mesh axis of size 1 moves nothing, but it is accounted for like any other, and so is a loop
    // of one iteration.
    if (i < from.size() && from[i].size == 1) {
      SideDigit gone = from[i++];
      bool meets = j < to.size() && to[j].size == 1 &&
                   (to[j].kind == DigitKind::Stream || to[j].axis == gone.axis);
      result.digits.push_back({dim, gone, meets ? to[j++] : SideDigit()});
      continue;
    }
    if (j < to.size() && to[j].size == 1) {
      result.digits.push_back({dim, SideDigit(), to[j++]});
      continue;
    }
    if (i == from.size() || j == to.size())
      break;
    int64_t size = std::min(from[i].size, to[j].size);
    if (from[i].size % size || to[j].size % size)
      return emitError() << "dimension " << dim << ": digits of " << from[i].size << " and "
                         << to[j].size << " do not divide each other";
    result.digits.push_back({dim, cut(from[i], size), cut(to[j], size)});
    // What is used up must not be taken for a digit of size 1.
    if (from[i].size == 1)
      ++i;
    if (to[j].size == 1)
      ++j;
  }
  return success();
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
  if (reduces || llvm::any_of(result.digits, [&](const CommonDigit &digit) {
        return changes(digit) && !isSingle(digit.source) && !isSingle(digit.target);
      }))
    llvm::erase_if(result.digits, [&](const CommonDigit &digit) {
      return isSingle(digit.source) || isSingle(digit.target);
    });
}

/// Whether device digits of one side are neighbours in one dimension, in the order of the mesh's
/// axes: then they count the ranks of one group.
bool Planner::areOneFactor(ArrayRef<const CommonDigit *> digits, bool ofSource) {
  fusion::MeshAttr mesh = ofSource ? result.sourceMesh : result.mesh;
  for (size_t i = 1; i < digits.size(); ++i) {
    const SideDigit &last = ofSource ? digits[i - 1]->source : digits[i - 1]->target;
    const SideDigit &next = ofSource ? digits[i]->source : digits[i]->target;
    if (digits[i] != digits[i - 1] + 1 || digits[i]->dim != digits[i - 1]->dim ||
        mesh.axisIndex(next.axis) <= mesh.axisIndex(last.axis))
      return false;
  }
  return true;
}

/// What is done along which mesh axes.
LogicalResult Planner::classify() {
  SmallVector<StringAttr> reduced;
  for (StringAttr axis : sourceAxes.getPartial())
    if (!llvm::is_contained(targetAxes.getPartial(), axis) &&
        (result.sourceMesh.axisSize(axis) > 1 || sourceAxes.getPartial().size() == 1))
      reduced.push_back(axis);
  if (result.sourceMesh != result.mesh) {
    if (sourceAxes.isPartial())
      return emitError() << "a partial value does not move from mesh @"
                         << result.sourceMesh.getName().getValue() << " to mesh @"
                         << result.mesh.getName().getValue() << "; reduce it on its own mesh first";
    result.kind = ReshardKind::Transfer;
    return success();
  }

  SmallVector<const CommonDigit *> gathered, scattered, owned;
  // From one mesh axis to another, or only a part of an axis.
  bool moves = false;
  llvm::SmallDenseSet<StringAttr> used(reduced.begin(), reduced.end());
  for (const CommonDigit &digit : result.digits) {
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
        areOneFactor(scattered, false)) {
      result.kind = ReshardKind::ReduceScatter;
      return success();
    }
    InFlightDiagnostic diag = emitError();
    diag << "a reduction that moves data along other mesh axes too is not one step, found ";
    llvm::interleaveComma(result.axes, diag,
                          [&](StringAttr a) { diag << '"' << a.getValue() << '"'; });
    return diag << "; write the reduction as a reshard of its own";
  }

  auto onOneAxis = [&](size_t count) { return result.axes.size() == count && !moves; };
  if (onOneAxis(gathered.size()) && scattered.empty() && owned.empty() &&
      areOneFactor(gathered, true)) {
    result.kind = ReshardKind::AllGather;
  } else if (onOneAxis(1) && gathered.empty() && owned.empty()) {
    result.kind = ReshardKind::LocalSlice;
  } else if (onOneAxis(gathered.size()) && gathered.size() == scattered.size() && owned.empty() &&
             areOneFactor(gathered, true) && areOneFactor(scattered, false)) {
    result.kind = ReshardKind::AllToAll;
  } else if (onOneAxis(1) && owned.size() == 1 && gathered.empty() && scattered.empty()) {
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
        sourceLabel = result.kind == ReshardKind::LocalSlice ? kDeviceLabel : sourceFront++;
      result.source[digit.dim].push_back({source.size, target.value, sourceLabel});
    }
    if (!target.isDevice())
      result.target[digit.dim].push_back(
          {target.size, target.value,
           source.isDevice() && !target.isStream() ? targetFront++ : label});
  }
}

FailureOr<ReshardPlan> Planner::plan() {
  result.sourceMesh = sourceAxes.getMesh();
  result.mesh = targetAxes.getMesh();
  for (int64_t dim = 0; dim < targetType.getRank(); ++dim)
    if (failed(align(dim)))
      return failure();
  dropSingleDevices();
  if (failed(classify()))
    return failure();
  fillDims();
  return result;
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
