//===- OwnerSlices.cpp - loops over slices that one device each owns -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnerSlices.h"

#include "../../OpLowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

/// Whether the owners each hold a copy of a value of this type.
static bool isCopiedAlong(RankedTensorType type, const ReshardPlan &plan) {
  fusion::AxesAttr axes = fusion::getAxes(type);
  return llvm::any_of(plan.axes, [&](StringAttr axis) {
    return axes.getMesh().axisSize(axis) > 1 && axes.dimOfDeviceAxis(axis) < 0 &&
           !llvm::is_contained(axes.getPartial(), axis);
  });
}

/// Whether `op`, which accumulates over an owner's slices, rounds on the way to
/// a result of which the owners hold copies: each begins with its own slice, so
/// their copies would differ.
static bool wouldDiffer(Operation *op, unsigned operand, const ReshardPlan &plan) {
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!rule || !rule->addsUp() || type.getElementType().isInteger())
    return false;
  // The dimension on which the owners' digit stands.
  fusion::AxesAttr sliced = fusion::getAxes(op->getOperand(operand));
  int64_t dim = 0;
  size_t stream = 0;
  for (auto [i, digits] : llvm::enumerate(sliced.getDims()))
    for (const fusion::Digit &digit : digits.getDigits())
      if (digit.isStream() && stream++ == plan.ownerDigit)
        dim = static_cast<int64_t>(i);
  int64_t factor = rule->operands[operand][dim];
  if (factor == fusion::AxesRule::kNone || rule->factors[factor] != fusion::FactorKind::Reduction)
    return false;
  return isCopiedAlong(type, plan);
}

/// Whether a slice of one side lies together in its buffer.
static bool isDense(const ReshardPlan &plan, bool ofSource) {
  bool sawKept = false;
  for (const CommonDigit &digit : plan.digits) {
    const SideDigit &side = ofSource ? digit.source : digit.target;
    if (side.size == 1 || side.isDevice())
      continue;
    if (sawKept && digit.target.isStream())
      return false;
    sawKept |= !digit.target.isStream() || digit.target.chunk != 0;
  }
  return true;
}

/// Whether `op` rounds on the way to a result of which the owners hold copies,
/// and might do so otherwise if it reads an own slice where it lies: with other
/// strides than a received one, a library may add up in another order.
static bool mightDiffer(Operation *op, const ReshardPlan &plan) {
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  return rule && rule->addsUp() && !type.getElementType().isInteger() &&
         isCopiedAlong(type, plan) && !(isDense(plan, true) && isDense(plan, false));
}

/// Why slices of these reshards have no owners, or not the same ones.
static std::string explainNoOwner(ArrayRef<fusion::ReshardOp> reshards) {
  for (fusion::ReshardOp reshard : reshards) {
    if (succeeded(getCommonOwner(reshard)))
      continue;
    fusion::AxesAttr from = fusion::getAxes(reshard.getInput()),
                     to = fusion::getAxes(reshard.getResult());
    std::string axes = fusion::formatAxes(from) + " to " + fusion::formatAxes(to);
    if (from.getPartial() != to.getPartial())
      return "reduces what its loop computes in slices of one owner each: the "
             "operand has stream "
             "digits where the result has the device's, and the result has "
             "none; found " +
             axes;
    if (!to.hasStream())
      return "gathers into slices: stream digits in place of the device's; "
             "found " +
             axes;
    return "gathers slices of one owner each, along one mesh axis or "
           "neighbours in one dimension; "
           "found " +
           axes;
  }
  return "gathers slices that have the same owners, found others";
}

FailureOr<ReshardPlan> tandem::getOwnerPlan(const StreamGroup &group, std::string *reason) {
  auto fail = [&](const Twine &why) -> FailureOr<ReshardPlan> {
    if (reason)
      *reason = why.str();
    return failure();
  };
  SmallVector<fusion::ReshardOp> reshards = group.reshards();
  if (reshards.empty())
    return fail("gathers or reduces, found a loop without a reshard");
  FailureOr<ReshardPlan> plan = getCommonOwner(reshards);
  if (failed(plan) && reason)
    *reason = explainNoOwner(reshards);
  if (failed(plan))
    return failure();
  if (!llvm::equal(reshards, ArrayRef(group.ops).take_front(reshards.size())) ||
      llvm::any_of(reshards, [&](fusion::ReshardOp reshard) {
        return llvm::is_contained(group.ops, reshard.getInput().getDefiningOp());
      }))
    return fail("gathers what is there before its loop, found what the loop "
                "itself computes");
  for (auto [op, sliced] : group.accumulators)
    if (wouldDiffer(op, sliced, *plan))
      return fail("begins with the own slices, each device with others, but "
                  "here slices are added "
                  "up to a result of which devices hold copies: these would "
                  "differ in rounding; "
                  "pipeline has one order");
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

GatherLoop::GatherLoop(const StreamGroup &group, fusion::ReshardOp reshard)
    : group(group), reshard(reshard),
      consumers(ArrayRef(group.ops).drop_front(group.reshards().size())) {
  FailureOr<ReshardPlan> plan = getCommonOwner(reshard);
  gatheredIsRead = llvm::any_of(reshard->getUsers(), [&](Operation *user) {
    const OpLowering *lowering = getLowering(user);
    return !llvm::is_contained(consumers, user) || !lowering || !lowering->readsPlaces() ||
           (succeeded(plan) && mightDiffer(user, *plan));
  });
}

FailureOr<ReshardPlan> GatherLoop::getPlan(const SliceIndex &slice, OpBuilder &builder) const {
  fusion::ReshardOp op = reshard;
  return planReshard(op, slice, &builder, [&] { return op.emitError(); });
}

LogicalResult GatherLoop::copyOwn(LoopEmitter &loop, const SliceIndex &slice, Value stream) const {
  OpBuilder &builder = loop.getBuilder();
  FailureOr<ReshardPlan> plan = getPlan(slice, builder);
  if (failed(plan))
    return failure();
  fusion::ReshardOp op = reshard;
  Location loc = op.getLoc();
  Value from = makeView(builder, loc, loop.program.getBuffer(op.getInput()), plan->source, true);
  Value to = makeView(builder, loc, loop.program.getBuffer(op.getResult()), plan->target, true);
  hostir::CopyOp::create(builder, loc, from, to, stream);
  return success();
}

LogicalResult GatherLoop::placeOwn(LoopEmitter &loop, const SliceIndex &slice, Value stream) const {
  if (gatheredIsRead)
    return copyOwn(loop, slice, stream);
  FailureOr<ReshardPlan> plan = getPlan(slice, loop.getBuilder());
  if (failed(plan))
    return failure();
  fusion::ReshardOp op = reshard;
  loop.readFrom(op.getResult(), {loop.program.getBuffer(op.getInput()), plan->source});
  return success();
}

LogicalResult GatherLoop::emitOwn(LoopEmitter &loop, const SliceIndex &slice, Value stream) const {
  return emitOwn(ArrayRef(*this), loop, slice, stream);
}

LogicalResult GatherLoop::emitOwn(ArrayRef<GatherLoop> gathers, LoopEmitter &loop,
                                  const SliceIndex &slice, Value stream) {
  bool isStreamUsed = false;
  LogicalResult done = success();
  for (const GatherLoop &gather : gathers) {
    isStreamUsed |= gather.gatheredIsRead;
    if (succeeded(done))
      done = gather.placeOwn(loop, slice, stream);
  }
  const GatherLoop &any = gathers.front();
  if (succeeded(done))
    done = loop.emitSlices(any.consumers, slice, stream, isStreamUsed);
  loop.clearPlaces();
  return done;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

ScatterLoop::ScatterLoop(const StreamGroup &group, const ScatteredDigit &scattered)
    : group(group), scatter(group.reshards().front()), scattered(scattered),
      digits(getOwnerDigits(group, scattered.streamDigit, scattered.plan.groupSize())) {
  llvm::copy_if(group.ops, std::back_inserter(producers),
                [&](Operation *op) { return op != scatter; });
}

SmallVector<int64_t> ScatterLoop::getReceivedShape() const {
  fusion::ReshardOp op = scatter;
  SmallVector<int64_t> shape{digits.devices};
  shape.append(*fusion::getLocalShape(op.getResult().getType()));
  return shape;
}

Value ScatterLoop::getPlace(ProgramBuilder &program, Value received, Value device) const {
  OpBuilder &builder = program.getBuilder();
  auto type = cast<MemRefType>(received.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)), sizes,
      steps(type.getRank(), builder.getIndexAttr(1));
  offsets[0] = device;
  for (int64_t extent : type.getShape())
    sizes.push_back(builder.getIndexAttr(extent));
  sizes[0] = builder.getIndexAttr(1);
  auto placeType = memref::SubViewOp::inferRankReducedResultType(type.getShape().drop_front(), type,
                                                                 offsets, sizes, steps);
  fusion::ReshardOp op = scatter;
  return memref::SubViewOp::create(builder, op.getLoc(), cast<MemRefType>(placeType), received,
                                   offsets, sizes, steps);
}

LogicalResult ScatterLoop::prepare(LoopEmitter &loop) const {
  fusion::ReshardOp op = scatter;
  (void)loop.program.getOrAllocBuffer(op.getResult());
  for (Operation *producer : producers)
    if (failed(loop.prepare(producer)))
      return failure();
  return success();
}

LogicalResult ScatterLoop::emitProducers(LoopEmitter &loop, const SliceIndex &slice,
                                         Value stream) const {
  return loop.emitSlices(producers, slice, stream, /*isStreamUsed=*/true);
}

Value ScatterLoop::getComputed(ProgramBuilder &program, const SliceIndex &slice) const {
  fusion::ReshardOp op = scatter;
  return makeView(program.getBuilder(), op.getLoc(), program.getBuffer(op.getInput()),
                  getLocalDims(op.getInput().getType(), &slice), true);
}

LocalDims ScatterLoop::getTargetDims(ProgramBuilder &program, const SliceIndex &slice) const {
  fusion::ReshardOp op = scatter;
  LocalDims dims = getLocalDims(op.getInput().getType(), &slice);
  // The owner has one index of the owners' digit.
  dims[scattered.dim][scattered.localDigit] = {1, program.getIndex(0), 0};
  return dims;
}

Value ScatterLoop::getTarget(ProgramBuilder &program, Value place, const SliceIndex &slice) const {
  fusion::ReshardOp op = scatter;
  return makeView(program.getBuilder(), op.getLoc(), place, getTargetDims(program, slice), true);
}

LogicalResult ScatterLoop::emitOwn(LoopEmitter &loop, Value place, const SliceIndex &slice,
                                   Value stream) const {
  fusion::ReshardOp op = scatter;
  ProgramBuilder &program = loop.program;
  // A matmul writes straight into the receive memory.
  const OpLowering *producer = getLowering(op.getInput().getDefiningOp());
  bool inPlace = producer && producer->writesPlaces();
  if (inPlace)
    loop.writeTo(op.getInput(), {place, getTargetDims(program, slice)});
  LogicalResult done = emitProducers(loop, slice, stream);
  loop.clearPlaces();
  if (!inPlace) {
    Value from = getComputed(program, slice), to = getTarget(program, place, slice);
    hostir::CopyOp::create(program.getBuilder(), op.getLoc(), from, to, stream);
  }
  return done;
}

void ScatterLoop::reduce(ProgramBuilder &program, Value received) const {
  OpBuilder &builder = program.getBuilder();
  fusion::ReshardOp op = scatter;
  auto kind = ReduceKindAttr::get(builder.getContext(), scattered.plan.reduction);
  hostir::ReduceOp::create(builder, op.getLoc(), kind, received, program.getBuffer(op.getResult()),
                           builder.getDenseI64ArrayAttr({0}), program.getMainStream());
}

std::optional<ScatteredDigit> tandem::getScatter(const StreamGroup &group) {
  SmallVector<fusion::ReshardOp> reshards = group.reshards();
  if (reshards.size() != 1 || !group.accumulators.contains(reshards.front()))
    return std::nullopt;
  return getScatteredDigit(reshards.front());
}

LogicalResult tandem::checkScatter(const StreamGroup &group,
                                   function_ref<InFlightDiagnostic()> why) {
  StringRef name = group.schedule.getName();
  if (!group.reshards().front().getInput().hasOneUse())
    return why() << "schedule " << name << ": expected what is reduced to have no other users";
  if (group.accumulators.size() != 1)
    return why() << "schedule " << name
                 << ": expected no other op to combine slices in a loop whose "
                    "slices go to their "
                    "owners";
  return success();
}
