//===- GatherLoop.cpp - loops that compute on gathered slices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GatherLoop.h"

#include "../../OpLowering.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

/// Whether `op`, which accumulates over an owner's slices, rounds on the way to a result of which
/// the owners hold copies: each begins with its own slice, so their copies would differ.
static bool wouldDiffer(Operation *op, unsigned operand, const fusion::SliceReshard &plan) {
  if (!findCopiedSum(op, plan.axes))
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
  return factor != fusion::AxesRule::kNone && fusion::isCombined(rule.factors[factor]);
}

/// Whether a slice of one side lies together in its buffer.
static bool isDense(const fusion::SliceReshard &plan, bool ofSource) {
  bool sawKept = false;
  for (const CommonDigit &digit : plan.digits) {
    const SideDigit &side = ofSource ? digit.source : digit.target;
    if (side.size == 1 || side.isDevice())
      continue;
    // What is handed out in parts is cut too.
    bool isCut = digit.target.isStream() || (ofSource && digit.target.isDevice());
    if (sawKept && isCut)
      return false;
    sawKept |= !isCut || digit.target.chunk != 0;
  }
  return true;
}

/// Whether `op` must not read a local slice where it lies: the slice has other strides there than a
/// received one.
static bool mightDiffer(Operation *op, const fusion::SliceReshard &plan) {
  return findCopiedSum(op, plan.axes) && !(isDense(plan, true) && isDense(plan, false));
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
      return "reduces what its loop computes in slices of one owner each: the operand has stream "
             "digits where the result has the device's, and the result has none; found " +
             axes;
    if (!to.hasStream())
      return "gathers into slices: stream digits in place of the device's; found " + axes;
    return "gathers slices of one owner each, along one mesh axis or neighbours in one dimension; "
           "found " +
           axes;
  }
  return "gathers slices that have the same owners, found others";
}

GatherLoop::GatherLoop(const StreamLoop &loop, fusion::SliceReshard slicePlan)
    : loop(loop), plan(std::move(slicePlan)),
      digits(loop, plan.ownerDigit, plan.groupSize(), plan.ownerOuter, plan.ownerInner),
      gathers(loop.reshards()), consumers(ArrayRef(loop.ops).drop_front(gathers.size())) {
  for (fusion::ReshardOp gather : gathers) {
    isPersonalized |= getCommonOwner(gather)->isPersonalized;
    for (Operation *user : gather->getUsers())
      if (!llvm::is_contained(consumers, user))
        kept.insert(gather);
      else if (!mayReadOwn(user))
        copied.insert(gather);
  }
}

bool GatherLoop::mayReadOwn(Operation *reader) const {
  const OpLowering *lowering = getLowering(reader);
  return llvm::is_contained(consumers, reader) && lowering && lowering->readsPlaces() &&
         llvm::none_of(gathers, [&](fusion::ReshardOp gather) {
           return llvm::is_contained(reader->getOperands(), gather.getResult()) &&
                  mightDiffer(reader, *getCommonOwner(gather));
         });
}

Explained<GatherLoop> GatherLoop::match(const StreamLoop &loop) {
  auto explain = [&](StringRef expected) {
    StringRef name = loop.schedule ? loop.schedule.getName() : "";
    return loop.explain() << "schedule " << name << ' ' << expected;
  };
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  if (reshards.empty())
    return explain("gathers or reduces, found a loop without a reshard");
  FailureOr<fusion::SliceReshard> plan = getCommonOwner(reshards);
  if (failed(plan))
    return explain(explainNoOwner(reshards));
  if (!llvm::equal(reshards, ArrayRef(loop.ops).take_front(reshards.size())) ||
      llvm::any_of(reshards, [&](fusion::ReshardOp reshard) {
        return loop.contains(reshard.getInput().getDefiningOp());
      }))
    return explain("gathers what is there before its loop, found what the loop itself computes");
  for (auto [op, sliced] : loop.accumulators)
    if (wouldDiffer(op, sliced, *plan))
      return explain(
          "begins with the own slices, each device with others, but here slices are added up "
          "to a result of which devices hold copies: these would differ in rounding; pipeline "
          "has one order");
  return GatherLoop(loop, std::move(*plan));
}

Obstacle GatherLoop::verifyForwarded() const {
  if (!isPersonalized)
    return std::nullopt;
  return loop.explain()
         << "schedule " << loop.schedule.getName()
         << " forwards slices, found an all-to-all, in which each device gets another part of "
            "a slice; exchange and push take it";
}

bool GatherLoop::computesOwnAtOnce() const {
  return digits.numSlices() > 1 && digits.outer == 1 && digits.inner == 1 &&
         loop.digitMaps.empty() && loop.raggedDigits.empty() && loop.accumulators.empty() &&
         llvm::none_of(consumers, [&](Operation *op) { return findCopiedSum(op, plan.axes); });
}

Location GatherLoop::getLoc() const { return loop.ops.front()->getLoc(); }

SmallVector<Value> GatherLoop::allocReceived(ProgramBuilder &program) const {
  SmallVector<Value> received;
  for (fusion::ReshardOp reshard : gathers) {
    RankedTensorType type = reshard.getType();
    received.push_back(
        program.allocSymmetric(getLoc(), *fusion::getLocalShape(type), type.getElementType()));
    if (!program.getBuffer(reshard.getResult()))
      program.setBuffer(reshard.getResult(), received.back());
  }
  return received;
}

LogicalResult GatherLoop::copyReceived(LoopEmitter &body, ArrayRef<Value> received,
                                       const SliceIndex &slice, Value stream, Value copies) const {
  OpBuilder &builder = body.getBuilder();
  bool isForked = false;
  for (auto [op, arrived] : llvm::zip_equal(gathers, received)) {
    fusion::ReshardOp reshard = op;
    Value gathered = body.program.getBuffer(reshard.getResult());
    if (gathered == arrived)
      continue;
    Explained<ReshardPlan> plan = planReshardFor(reshard, slice, Value(), builder);
    if (failed(plan))
      return plan.report();
    bool elsewhere = readsElsewhere(reshard, copies);
    if (elsewhere)
      body.readFrom(reshard.getResult(), {arrived, plan->target});
    if (elsewhere && !std::exchange(isForked, true))
      hostir::SyncOp::create(builder, getLoc(), copies, stream);
    Value source = makeView(builder, getLoc(), arrived, plan->target, true);
    Value target = makeView(builder, getLoc(), gathered, plan->target, true);
    hostir::CopyOp::create(builder, getLoc(), source, target, elsewhere ? copies : stream);
  }
  return success();
}

/// Copies the part of a slice that is its owner's.
static LogicalResult copySlice(fusion::ReshardOp gather, LoopEmitter &body, Value owner,
                               const SliceIndex &slice, Value stream) {
  OpBuilder &builder = body.getBuilder();
  Explained<ReshardPlan> plan = planReshardFor(gather, slice, owner, builder);
  if (failed(plan))
    return plan.report();
  Location loc = gather.getLoc();
  Value from = body.program.getBuffer(gather.getInput()),
        to = body.program.getBuffer(gather.getResult());
  Value source = makeView(builder, loc, from, plan->source, true);
  Value target = makeView(builder, loc, to, plan->target, true);
  hostir::CopyOp::create(builder, loc, source, target, stream);
  return success();
}

LogicalResult GatherLoop::copyOwn(LoopEmitter &body, Value me, const SliceIndex &slice,
                                  Value stream) const {
  return failure(llvm::any_of(gathers, [&](fusion::ReshardOp gather) {
    return failed(copySlice(gather, body, me, slice, stream));
  }));
}

LogicalResult GatherLoop::emitOwn(LoopEmitter &body, Value me, const SliceIndex &slice,
                                  Value stream, Value copies) const {
  bool isStreamUsed = false;
  for (fusion::ReshardOp gather : gathers) {
    bool elsewhere = readsElsewhere(gather, copies);
    isStreamUsed |= !elsewhere;
    if ((!elsewhere || kept.contains(gather)) &&
        failed(copySlice(gather, body, me, slice, elsewhere ? copies : stream)))
      return failure();
    if (!elsewhere)
      continue;
    Explained<ReshardPlan> plan = planReshardFor(gather, slice, me, body.getBuilder());
    if (failed(plan))
      return plan.report();
    body.readFrom(gather.getResult(), {body.program.getBuffer(gather.getInput()), plan->source});
  }
  LogicalResult done = body.emitSlices(consumers, slice, stream, isStreamUsed);
  body.clearPlaces();
  return done;
}

LogicalResult GatherLoop::computeOwn(LoopEmitter &body, Value me, StreamFn getStream,
                                     Value copies) const {
  Location loc = getLoc();
  if (computesOwnAtOnce()) {
    SliceIndex whole = digits.getWhole(body.getBuilder(), loc, me, /*isFirst=*/true);
    Value stream = getStream ? getStream(body.program.getIndex(0)) : body.program.getMainStream();
    return emitOwn(body, me, whole, stream, copies);
  }
  return digits.forEachSlice(body, loc, me, /*isFirst=*/true, {}, getStream,
                             [&](Value, const SliceIndex &slice, Value stream) {
                               return emitOwn(body, me, slice, stream, copies);
                             });
}

LogicalResult GatherLoop::computeFrom(LoopEmitter &body, Value owner, StreamFn getStream,
                                      TransferFn arrive, SliceNumbers numbers) const {
  return digits.forEachSlice(
      body, getLoc(), owner, /*isFirst=*/false, numbers, getStream,
      [&](Value number, const SliceIndex &slice, Value stream) -> LogicalResult {
        if (failed(arrive(number, slice, stream)))
          return failure();
        LogicalResult done = body.emitSlices(consumers, slice, stream, /*isStreamUsed=*/true);
        body.clearPlaces();
        return done;
      });
}
