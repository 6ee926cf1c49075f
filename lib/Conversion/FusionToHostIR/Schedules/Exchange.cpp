//===- Exchange.cpp - own slice first, then one peer after another -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

/// The stream digits with the owner's coordinate as a part of its own: outer, owner, inner.
struct OwnerDigits {
  SmallVector<int64_t> otherSizes; // all parts but the owner's, in order
  ReshardPlan plan;
  ArrayRef<int64_t> streamSizes;

  /// The index of slice `number` (0 ... number of slices of one owner) of `owner`.
  /// `isOwn`: the owner is this device, with whose slices the loop begins.
  SliceIndex getIndex(OpBuilder &builder, Location loc, Value owner, Value number,
                      bool isOwn) const;
};

/// For a gather whose slices have one owner each. Own slices first, without communication; then at
/// distance d = 1 ... P-1 this device sends its own slices to (me - d) and receives those of (me +
/// d), and computes on them.
///
/// Slices of several owners, and those that add up to copies of one result, where a user has named
/// it: slice by slice in order, each in messages from its owners to those who get it, without a
/// collective.
class Exchange : public Schedule {
  fusion::ScheduleKind getKind() const override { return fusion::ScheduleKind::Exchange; }
  LogicalResult matches(const StreamGroup &group,
                        function_ref<InFlightDiagnostic()> why) const override;
  LogicalResult emit(const StreamGroup &group, Emitter &emitter) const override;
  ScheduleCost cost(const StreamGroup &group) const override;
};

} // namespace

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

/// The plan of a slice of the group's one reshard if it has one owner, who may begin with it, else
/// failure.
static FailureOr<ReshardPlan> getOwnerPlan(const StreamGroup &group) {
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

static OwnerDigits getOwnerDigits(const StreamGroup &group, ReshardPlan plan) {
  OwnerDigits digits;
  for (auto [i, size] : llvm::enumerate(group.streamSizes)) {
    if (i != plan.ownerDigit) {
      digits.otherSizes.push_back(size);
      continue;
    }
    if (plan.ownerOuter > 1)
      digits.otherSizes.push_back(plan.ownerOuter);
    if (plan.ownerInner > 1)
      digits.otherSizes.push_back(plan.ownerInner);
  }
  digits.streamSizes = group.streamSizes;
  digits.plan = std::move(plan);
  return digits;
}

SliceIndex OwnerDigits::getIndex(OpBuilder &builder, Location loc, Value owner, Value number,
                                 bool isOwn) const {
  SliceIndex others = tandem::getSliceIndex(builder, loc, otherSizes, number);
  SliceIndex index;
  size_t next = 0;
  for (size_t i = 0; i < streamSizes.size(); ++i) {
    SmallVector<IndexPart> &parts = index.digits.emplace_back();
    if (i != plan.ownerDigit) {
      parts = others.digits[next++];
      continue;
    }
    if (plan.ownerOuter > 1)
      parts.append(others.digits[next++]);
    parts.push_back({plan.groupSize(), owner, isOwn});
    if (plan.ownerInner > 1)
      parts.append(others.digits[next++]);
  }
  return index;
}

LogicalResult Exchange::matches(const StreamGroup &group,
                                function_ref<InFlightDiagnostic()> why) const {
  for (fusion::ReshardOp reshard : group.reshards()) {
    FailureOr<ReshardPlan> plan =
        planReshard(reshard, getSymbolicIndex(group.streamSizes), nullptr, why);
    if (failed(plan))
      return failure();
    if (plan->reduces())
      return why() << "schedule exchange only moves data, found a reduction; pipeline reduces";
  }
  // Nobody has asked for it: then a collective is as good.
  if (!group.scheduleIsNamed && failed(getOwnerPlan(group)))
    return why() << "schedule exchange needs a loop of one gather whose slices have one owner each";
  return success();
}

LogicalResult Exchange::emit(const StreamGroup &group, Emitter &emitter) const {
  FailureOr<ReshardPlan> symbolic = getOwnerPlan(group);
  if (failed(symbolic))
    return getPipelineSchedule().emit(group, emitter);
  OpBuilder &builder = emitter.getBuilder();
  fusion::ReshardOp reshard = group.reshards().front();
  Location loc = reshard.getLoc();
  OwnerDigits digits = getOwnerDigits(group, std::move(*symbolic));
  int64_t devices = digits.plan.groupSize();
  int64_t slices = 1; // of one owner
  for (int64_t size : digits.otherSizes)
    slices *= size;

  ArrayRef<Operation *> consumers = ArrayRef(group.ops).drop_front();
  // Only if somebody else reads the gathered value, or looks at it as a whole, does the own part
  // have to be in it.
  bool gatheredIsRead = llvm::any_of(reshard->getUsers(), [&](Operation *user) {
    return !llvm::is_contained(consumers, user) || Emitter::isView(user) ||
           isa<fusion::ConcatOp>(user);
  });
  Value source = emitter.getBuffer(reshard.getInput());
  if (failed(emitter.prepare(group)))
    return failure();
  Value gathered = emitter.getBuffer(reshard.getResult());
  Value me = emitter.getDeviceIndex(digits.plan.mesh, digits.plan.axes.front());

  auto getPlan = [&](const SliceIndex &index) {
    return planReshard(reshard, index, &builder, [&] { return reshard.emitError(); });
  };

  int64_t streams = emitter.getNumStreams(group.schedule, devices * slices);
  Value channel;
  if (devices > 1)
    channel = emitter.getChannel(digits.plan.mesh, digits.plan.axes, hostir::Capability::TwoSided);

  // Own slices: nothing to wait for.
  auto own = [&](Value number) -> LogicalResult {
    Value stream = emitter.getStream(loc, number, streams);
    SliceIndex index = digits.getIndex(builder, loc, me, number, /*isOwn=*/true);
    return emitter.forEachShape(loc, group, index, [&](const SliceIndex &slice) -> LogicalResult {
      FailureOr<ReshardPlan> plan = getPlan(slice);
      if (failed(plan))
        return failure();
      if (gatheredIsRead) {
        Value from = makeView(builder, loc, source, plan->source, true);
        Value to = makeView(builder, loc, gathered, plan->target, true);
        hostir::CopyOp::create(builder, loc, from, to, stream);
      } else {
        emitter.setOwnSlice(reshard.getResult(), {source, plan->source});
      }
      LogicalResult done = emitter.emitSlices(group, consumers, slice, stream, gatheredIsRead);
      emitter.clearOwnSlices();
      return done;
    });
  };
  auto remote = [&](Value distance) -> LogicalResult {
    Value count = emitter.getIndex(devices);
    Value from = arith::RemUIOp::create(
        builder, loc, arith::AddIOp::create(builder, loc, me, distance).getResult(), count);
    Value behind = arith::SubIOp::create(builder, loc, count, distance);
    Value to = arith::RemUIOp::create(
        builder, loc, arith::AddIOp::create(builder, loc, me, behind).getResult(), count);
    auto exchange = [&](const SliceIndex &slice, const SliceIndex &mine,
                        Value stream) -> LogicalResult {
      FailureOr<ReshardPlan> given = getPlan(mine), taken = getPlan(slice);
      if (failed(given) || failed(taken))
        return failure();
      Value out = makeView(builder, loc, source, given->source, true);
      Value in = makeView(builder, loc, gathered, taken->target, true);
      auto together = hostir::GroupOp::create(builder, loc, channel, stream);
      {
        OpBuilder::InsertionGuard guard(builder);
        builder.createBlock(&together.getBody());
        hostir::RecvOp::create(builder, loc, in, from);
        hostir::SendOp::create(builder, loc, out, to);
      }
      return emitter.emitSlices(group, consumers, slice, stream, /*isStreamUsed=*/true);
    };
    auto body = [&](Value number) -> LogicalResult {
      SliceIndex mine = digits.getIndex(builder, loc, me, number, /*isOwn=*/true);
      SliceIndex theirs = digits.getIndex(builder, loc, from, number, /*isOwn=*/false);
      Value iteration = distance;
      if (slices > 1)
        iteration = arith::AddIOp::create(
            builder, loc,
            arith::MulIOp::create(builder, loc, distance, emitter.getIndex(slices)).getResult(),
            number);
      Value stream = emitter.getStream(loc, iteration, streams);
      return emitter.forEachShape(loc, group, theirs, [&](const SliceIndex &slice) {
        // Slices of one number are of one shape, whoever owns them.
        for (unsigned digit : group.raggedDigits)
          mine.digits[digit].front().isShort = slice.digits[digit].front().isShort;
        return exchange(slice, mine, stream);
      });
    };
    return emitter.loop(loc, 0, slices, body);
  };

  LogicalResult done = success();
  emitter.fork(loc, streams);
  emitter.onMesh(loc, digits.plan.mesh, [&] {
    done = emitter.loop(loc, 0, slices, own);
    if (succeeded(done))
      done = emitter.loop(loc, 1, devices, remote);
  });
  emitter.join(loc, streams);
  return succeeded(done) ? emitter.finish(group) : done;
}

ScheduleCost Exchange::cost(const StreamGroup &group) const {
  FailureOr<ReshardPlan> plan = getOwnerPlan(group);
  if (failed(plan))
    return getPipelineSchedule().cost(group);
  ScheduleCost cost;
  fusion::ReshardOp reshard = group.reshards().front();
  int64_t devices = plan->groupSize(), slices = group.numSlices();
  auto shard = fusion::getLocalShape(reshard.getInput().getType());
  int64_t bytes = (reshard.getResult().getType().getElementTypeBitWidth() + 7) / 8;
  for (int64_t extent : *shard)
    bytes *= extent;
  cost.steps = slices - slices / devices;
  cost.bytesSent = bytes * (devices - 1);
  cost.computeOps = slices * static_cast<int64_t>(group.ops.size() - 1);
  // The first arrivals hide behind the own slice.
  cost.exposedSteps = group.ops.size() > 1 ? 0 : cost.steps;
  return cost;
}

const Schedule &tandem::getExchangeSchedule() {
  static const Exchange schedule;
  return schedule;
}
