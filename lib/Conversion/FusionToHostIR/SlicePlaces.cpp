//===- SlicePlaces.cpp - slices common to two values ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlicePlaces.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

static SmallVector<int64_t> firstNumbers(int64_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(0, count));
}

SmallVector<StreamAxis> tandem::getStreamAxes(RankedTensorType type, ArrayRef<int64_t> along) {
  SmallVector<StreamAxis> found;
  fusion::AxesAttr axes = fusion::getAxes(type);
  for (auto [i, dim] : llvm::enumerate(axes.getDims())) {
    auto digits = fusion::resolveDim(dim, type.getDimSize(i), axes.getMesh());
    if (failed(digits))
      continue;
    for (const fusion::ResolvedDigit &digit : *digits)
      if (digit.kind == fusion::DigitKind::Stream)
        found.push_back({along[i], digit.stride, digit.size, digit.ragged});
  }
  return found;
}

/// The same as digits of the row-major index of all elements, which a reshape preserves.
static SmallVector<StreamAxis> getLinearAxes(RankedTensorType type) {
  SmallVector<StreamAxis> found = getStreamAxes(type, firstNumbers(type.getRank()));
  for (StreamAxis &axis : found) {
    int64_t inner = 1;
    for (int64_t extent : type.getShape().drop_front(axis.dim + 1))
      inner *= extent;
    axis.stride *= inner;
    axis.ragged *= inner;
    axis.dim = 0;
  }
  return found;
}

/// The shift from result to operand indices, for ops that slice or concatenate; none if they differ
/// by more than a shift.
static std::optional<int64_t> getShift(Operation *op, OpOperand &operand, int64_t dim) {
  if (auto slice = dyn_cast<fusion::SliceOp>(op)) {
    if (slice.getSteps()[dim] != 1)
      return std::nullopt;
    return slice.getOffsets()[dim];
  }
  auto concat = dyn_cast<fusion::ConcatOp>(op);
  int64_t shift = 0;
  if (concat && static_cast<int64_t>(concat.getDim()) == dim)
    for (Value before : concat.getInputs().take_front(operand.getOperandNumber()))
      shift -= cast<RankedTensorType>(before.getType()).getDimSize(dim);
  return shift;
}

/// The result dimension of each operand dimension, or -1; none if unknown.
static std::optional<SmallVector<int64_t>> getAlong(Operation *op, OpOperand &operand) {
  int64_t rank = cast<RankedTensorType>(operand.get().getType()).getRank();
  if (isa<fusion::ReshardOp>(op))
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  if (!rule || rule->regroups())
    return std::nullopt;
  SmallVector<int64_t> along(rank, -1);
  for (auto [i, factor] : llvm::enumerate(rule->operands[operand.getOperandNumber()]))
    if (factor != fusion::AxesRule::kNone)
      along[i] = llvm::find(rule->results[0], factor) - rule->results[0].begin();
  return along;
}

DigitMap tandem::getIdentity(ArrayRef<int64_t> sizes) {
  DigitMap map;
  for (auto [i, size] : llvm::enumerate(sizes))
    map.push_back({{static_cast<int64_t>(i), size, 1}});
  return map;
}

/// Matches digits of one row-major index: the result's as parts of the operand's.
static std::optional<DigitMap> matchLinear(ArrayRef<StreamAxis> from, ArrayRef<StreamAxis> to) {
  DigitMap map;
  size_t next = 0;
  int64_t taken = 1; // of the operand's digit, outside the rest
  for (const StreamAxis &axis : to) {
    SmallVector<DigitPart> &parts = map.emplace_back();
    if (next < from.size() && taken == 1 && from[next] == axis) {
      parts.push_back({static_cast<int64_t>(next++), axis.size, 1});
      continue;
    }
    for (int64_t left = axis.size; left > 1;) {
      if (next == from.size() || axis.ragged || from[next].ragged)
        return std::nullopt;
      int64_t whole = from[next].size, mine = whole / taken;
      int64_t step = std::min(left, mine);
      // The rests of both must have one stride, and one must divide the other.
      if (from[next].stride * mine != axis.stride * left || left % step || mine % step)
        return std::nullopt;
      parts.push_back({static_cast<int64_t>(next), step, mine / step});
      left /= step;
      taken *= step;
      if (taken == whole) {
        ++next;
        taken = 1;
      }
    }
  }
  if (next != from.size())
    return std::nullopt;
  return map;
}

std::optional<DigitMap> tandem::matchSlices(Operation *op, OpOperand &operand) {
  auto operandType = cast<RankedTensorType>(operand.get().getType());
  auto resultType = cast<RankedTensorType>(op->getResult(0).getType());
  if (std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op); rule && rule->regroups())
    return matchLinear(getLinearAxes(operandType), getLinearAxes(resultType));
  std::optional<SmallVector<int64_t>> along = getAlong(op, operand);
  if (!along)
    return std::nullopt;
  // Stream digits must be equal in corresponding dimensions. A reshard may change the
  // device digits around them; comparing sizes before and after ensures that slices have the same
  // elements.
  SmallVector<StreamAxis> axes = getStreamAxes(operandType, *along);
  DigitMap map;
  size_t next = 0;
  for (const StreamAxis &axis : getStreamAxes(resultType, firstNumbers(resultType.getRank()))) {
    if (next < axes.size() && axes[next] == axis) {
      map.push_back({{static_cast<int64_t>(next++), axis.size, 1}});
      continue;
    }
    // Unequal slices are handled where the loop begins.
    if (isa<fusion::ReshardOp>(op) || axis.ragged || llvm::is_contained(*along, axis.dim))
      return std::nullopt;
    map.push_back({{-1, axis.size, 1}});
  }
  // Indices shifted by whole periods of the digit (0: a dimension without indices).
  bool isShifted = llvm::any_of(axes, [&](const StreamAxis &axis) {
    std::optional<int64_t> shift = getShift(op, operand, axis.dim);
    int64_t round = axis.stride * axis.size;
    return !shift || (round != 0 && *shift % round != 0);
  });
  if (next != axes.size() || isShifted)
    return std::nullopt;
  return map;
}

bool tandem::slicesAgree(Operation *op, OpOperand &operand) {
  std::optional<DigitMap> map = matchSlices(op, operand);
  if (!map)
    return false;
  SmallVector<int64_t> sizes;
  for (const auto &parts : *map)
    sizes.push_back(parts.empty() ? 1 : parts.front().size);
  return *map == getIdentity(sizes);
}
