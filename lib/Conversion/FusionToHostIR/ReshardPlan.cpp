//===- ReshardPlan.cpp - what one slice of a reshard is -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReshardPlan.h"

#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include <optional>
#include <tuple>

using namespace mlir;
using namespace tandem;
using fusion::ReshardKind;

namespace {

class Planner {
public:
  Planner(fusion::ReshardOp op, const SliceIndex &index, Value receiver, OpBuilder &builder)
      : op(op), receiver(receiver), math(builder, op.getLoc()), rest(index.digits) {}

  ReshardPlan plan(fusion::SliceReshard slice);

private:
  void setValue(SideDigit &side);
  Value getOwner();
  Value getReceiver(StringAttr axis);
  void fillDims();

  fusion::ReshardOp op;
  Value receiver;
  hostir::IndexBuilder math;
  SmallVector<SmallVector<IndexPart>> rest; ///< the index, without the digits that have values
  ReshardPlan result;
};

} // namespace

/// Gives a stream digit its value. Pieces of one digit come outermost first.
void Planner::setValue(SideDigit &side) {
  if (!side.isStream())
    return;
  IndexPart &part = rest[side.stream][side.part];
  side.value = part.value;
  if (side.chunk || side.size == part.size)
    return;
  part.size /= side.size;
  side.value = math.div(part.value, part.size);
  part.value = math.mod(part.value, part.size);
}

/// The number of a slice's owner in the group, of the parts of its stream digit that count the
/// devices of one axis each.
Value Planner::getOwner() {
  Value owner;
  for (const CommonDigit &digit : result.digits)
    if (digit.source.isDevice() && digit.target.isStream())
      owner = math.linear(owner, digit.target.size, digit.target.value);
  return owner;
}

/// The receiver's coordinate on an axis of the group.
Value Planner::getReceiver(StringAttr axis) {
  if (!receiver)
    return {};
  int64_t inner = 1;
  for (StringAttr other :
       llvm::drop_begin(result.axes, llvm::find(result.axes, axis) - result.axes.begin() + 1))
    inner *= result.mesh.axisSize(other);
  Value coordinate = math.div(receiver, inner);
  return axis == result.axes.front() ? coordinate
                                     : math.mod(coordinate, result.mesh.axisSize(axis));
}

/// Each side's local digits. Labels number the common digits, so that both sides cut into the same
/// pieces.
void Planner::fillDims() {
  if (result.kind == ReshardKind::Transfer)
    return;
  result.source.resize(op.getType().getRank());
  result.target.resize(op.getType().getRank());
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

ReshardPlan Planner::plan(fusion::SliceReshard slice) {
  static_cast<fusion::SliceReshard &>(result) = std::move(slice);
  for (CommonDigit &digit : result.digits) {
    llvm::for_each(digit.targetParts, [&](SideDigit &part) { setValue(part); });
    setValue(digit.target);
  }
  if (result.kind == ReshardKind::OwnerMoves)
    result.owner = getOwner();
  fillDims();
  return std::move(result);
}

static Explained<ReshardPlan> planSlice(fusion::ReshardOp op, const SliceIndex &index,
                                        Value receiver, OpBuilder &builder, bool forReceiver) {
  SmallVector<SmallVector<fusion::StreamPart>> streams;
  for (ArrayRef<IndexPart> parts : index.digits)
    streams.push_back(llvm::map_to_vector(parts, [](const IndexPart &part) {
      return fusion::StreamPart{part.size, part.isWhole(), part.isShort};
    }));
  Explained<fusion::SliceReshard> slice = fusion::classifySlices(op, streams, forReceiver);
  if (failed(slice))
    return slice.explanation();
  return Planner(op, index, receiver, builder).plan(std::move(*slice));
}

Explained<ReshardPlan> tandem::planReshard(fusion::ReshardOp op, const SliceIndex &index,
                                           OpBuilder &builder) {
  return planSlice(op, index, Value(), builder, /*forReceiver=*/false);
}

Explained<ReshardPlan> tandem::planReshardFor(fusion::ReshardOp op, const SliceIndex &index,
                                              Value receiver, OpBuilder &builder) {
  return planSlice(op, index, receiver, builder, /*forReceiver=*/true);
}

FailureOr<fusion::SliceReshard> tandem::getCommonOwner(ArrayRef<fusion::ReshardOp> reshards) {
  FailureOr<fusion::SliceReshard> common = failure();
  for (fusion::ReshardOp reshard : reshards) {
    FailureOr<fusion::SliceReshard> slice = classifySlices(reshard, /*forReceiver=*/true);
    if (failed(slice) || slice->kind != ReshardKind::OwnerMoves)
      return failure();
    auto owner = [](const fusion::SliceReshard &slice) {
      return std::tuple(slice.mesh, ArrayRef(slice.axes), slice.ownerDigit, slice.ownerOuter,
                        slice.ownerInner);
    };
    if (succeeded(common) && owner(*common) != owner(*slice))
      return failure();
    common = std::move(slice);
  }
  return common;
}

bool tandem::movesNothing(ArrayRef<fusion::ReshardOp> reshards) {
  return llvm::all_of(reshards, [](fusion::ReshardOp reshard) {
    FailureOr<fusion::SliceReshard> slice = classifySlices(reshard);
    return succeeded(slice) && slice->movesNothing();
  });
}
