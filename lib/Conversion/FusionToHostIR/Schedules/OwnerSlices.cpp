//===- OwnerSlices.cpp - loops over slices that one device each owns -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnerSlices.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace mlir::tandem;

/// Whether `op`, which accumulates over an owner's slices, rounds on the way to a result of which
/// the owners hold copies: each begins with its own slice, so their copies would differ.
static bool wouldDiffer(Operation *op, unsigned operand, const ReshardPlan &plan) {
  auto reduce = dyn_cast<fusion::ReduceOp>(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if ((reduce && reduce.getKind() != fusion::ReduceKind::Sum) || type.getElementType().isInteger())
    return false;
  // The dimension on which the owners' digit stands.
  fusion::AxesAttr sliced = fusion::getAxes(op->getOperand(operand));
  int64_t dim = 0;
  size_t stream = 0;
  for (auto [i, digits] : llvm::enumerate(sliced.getDims()))
    for (const fusion::Digit &digit : digits.getDigits())
      if (digit.isStream() && stream++ == plan.ownerDigit)
        dim = static_cast<int64_t>(i);
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  int64_t factor = rule.operands[operand][dim];
  if (factor == fusion::AxesRule::kNone || rule.factors[factor] != fusion::FactorKind::Reduction)
    return false;
  fusion::AxesAttr axes = fusion::getAxes(type);
  return llvm::any_of(plan.axes, [&](StringAttr axis) {
    return axes.getMesh().axisSize(axis) > 1 && axes.dimOfDeviceAxis(axis) < 0 &&
           !llvm::is_contained(axes.getPartial(), axis);
  });
}

FailureOr<ReshardPlan> tandem::getOwnerPlan(const StreamGroup &group) {
  SmallVector<fusion::ReshardOp> reshards = group.reshards();
  if (reshards.size() != 1 || group.ops.front() != reshards.front().getOperation())
    return failure();
  ScopedDiagnosticHandler quiet(group.ops.front()->getContext(),
                                [](Diagnostic &) { return success(); });
  FailureOr<ReshardPlan> plan = planReshard(reshards.front(), getSymbolicIndex(group.streamSizes),
                                            nullptr, [&] { return reshards.front().emitError(); });
  if (failed(plan) || plan->kind != ReshardKind::OwnerMoves)
    return failure();
  for (auto [op, sliced] : group.accumulators)
    if (wouldDiffer(op, sliced, *plan))
      return failure();
  return plan;
}

static OwnerDigits makeOwnerDigits(const StreamGroup &group, size_t digit, int64_t devices,
                                   int64_t outer, int64_t inner) {
  OwnerDigits digits{{}, group.streamSizes, digit, devices, outer, inner};
  for (auto [i, size] : llvm::enumerate(group.streamSizes)) {
    if (i != digit) {
      digits.otherSizes.push_back(size);
      continue;
    }
    if (outer > 1)
      digits.otherSizes.push_back(outer);
    if (inner > 1)
      digits.otherSizes.push_back(inner);
  }
  return digits;
}

OwnerDigits tandem::getOwnerDigits(const StreamGroup &group, const ReshardPlan &plan) {
  return makeOwnerDigits(group, plan.ownerDigit, plan.groupSize(), plan.ownerOuter,
                         plan.ownerInner);
}

OwnerDigits tandem::getOwnerDigits(const StreamGroup &group, size_t digit, int64_t devices) {
  return makeOwnerDigits(group, digit, devices, 1, 1);
}

int64_t OwnerDigits::numSlices() const {
  int64_t slices = 1;
  for (int64_t size : otherSizes)
    slices *= size;
  return slices;
}

SliceIndex OwnerDigits::getIndex(OpBuilder &builder, Location loc, Value owner, Value number,
                                 bool isFirst, int64_t count) const {
  SliceIndex others = tandem::getSliceIndex(builder, loc, otherSizes, number);
  SliceIndex index;
  size_t next = 0;
  for (size_t i = 0; i < streamSizes.size(); ++i) {
    SmallVector<IndexPart> &parts = index.digits.emplace_back();
    if (i != digit) {
      parts = others.digits[next++];
      continue;
    }
    if (outer > 1)
      parts.append(others.digits[next++]);
    parts.push_back({devices, owner, isFirst});
    parts.back().count = count;
    if (inner > 1)
      parts.append(others.digits[next++]);
  }
  return index;
}

GatherLoop::GatherLoop(const StreamGroup &group)
    : group(group), reshard(group.reshards().front()), consumers(ArrayRef(group.ops).drop_front()) {
  gatheredIsRead = llvm::any_of(reshard->getUsers(), [&](Operation *user) {
    return !llvm::is_contained(consumers, user) || Emitter::isView(user) ||
           isa<fusion::ConcatOp>(user);
  });
}

FailureOr<ReshardPlan> GatherLoop::getPlan(const SliceIndex &slice, OpBuilder &builder) const {
  fusion::ReshardOp op = reshard;
  return planReshard(op, slice, &builder, [&] { return op.emitError(); });
}

LogicalResult GatherLoop::copyOwn(Emitter &emitter, const SliceIndex &slice, Value stream) const {
  OpBuilder &builder = emitter.getBuilder();
  FailureOr<ReshardPlan> plan = getPlan(slice, builder);
  if (failed(plan))
    return failure();
  fusion::ReshardOp op = reshard;
  Location loc = op.getLoc();
  Value from = makeView(builder, loc, emitter.getBuffer(op.getInput()), plan->source, true);
  Value to = makeView(builder, loc, emitter.getBuffer(op.getResult()), plan->target, true);
  hostir::CopyOp::create(builder, loc, from, to, stream);
  return success();
}

LogicalResult GatherLoop::emitOwn(Emitter &emitter, const SliceIndex &slice, Value stream) const {
  fusion::ReshardOp op = reshard;
  if (gatheredIsRead) {
    if (failed(copyOwn(emitter, slice, stream)))
      return failure();
  } else {
    FailureOr<ReshardPlan> plan = getPlan(slice, emitter.getBuilder());
    if (failed(plan))
      return failure();
    emitter.setOwnSlice(op.getResult(), {emitter.getBuffer(op.getInput()), plan->source});
  }
  LogicalResult done = emitter.emitSlices(group, consumers, slice, stream, gatheredIsRead);
  emitter.clearOwnSlices();
  return done;
}
