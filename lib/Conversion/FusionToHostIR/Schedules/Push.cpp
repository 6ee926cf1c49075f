//===- Push.cpp - one-sided puts by copy engines, compute on what has arrived -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/OwnerSlices.h"
#include "Support/Peers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Support/SilenceDiagnostics.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Puts and signals
//===----------------------------------------------------------------------===//

namespace {

/// What both halves are made of: one stream that copies and never waits for a
/// peer, one or more that compute, a channel, and a signal slot for each
/// source.
class PushLoop {
public:
  PushLoop(const StreamGroup &group, const ReshardPlan &plan, OwnerDigits digits, Location loc,
           ProgramBuilder &program);

  static PeerOrder getOrder(fusion::ScheduleAttr schedule);

  /// Distances [first, first + count) that are computed at once.
  struct Batch {
    int64_t first, count;
  };
  /// All distances 0 ... devices - 1, nearest first, as `merge` cuts them.
  static SmallVector<Batch> getGatherBatches(fusion::ScheduleAttr schedule, int64_t devices);
  /// The same, farthest first.
  static SmallVector<Batch> getReduceBatches(fusion::ScheduleAttr schedule, int64_t devices);

  /// Work begins behind what the main stream has done, and the main stream goes
  /// on behind it.
  void fork() const { program.fork(loc, numForked()); }
  void join() const { program.join(loc, numForked()); }
  Value getCopyStream() const;
  /// Of a piece of work by its number.
  Value getComputeStream(Value number) const;

  /// What is copied, and this rank's name for its place at the peer.
  struct Piece {
    Value source, target;
  };
  /// Copies all pieces of slice `number` of this device to a peer, then signals their arrival.
  void push(ArrayRef<Piece> pieces, Value peer, Value number) const;
  /// Holds `stream` until slice `number` of device `from` has come.
  void waitFor(Value from, Value number, Value stream) const;

  const StreamGroup &group;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  OwnerDigits digits;
  Value me;
  Peers peers;

private:
  int64_t numForked() const { return computeStreams == 1 ? 1 : computeStreams + 1; }

  Value channel;
  int64_t firstSignal, computeStreams;
};

} // namespace

PushLoop::PushLoop(const StreamGroup &group, const ReshardPlan &plan, OwnerDigits digits,
                   Location loc, ProgramBuilder &program)
    : group(group), program(program), builder(program.getBuilder()), loc(loc), digits(digits),
      me(program.getGroupPosition(loc, plan.mesh, plan.axes)),
      peers(program, loc, me, digits.devices, getOrder(group.schedule)),
      channel(program.getChannel(plan.mesh, plan.axes, hostir::Capability::OneSided)),
      firstSignal(program.takeSignals(digits.devices)) {
  // Worker 0 copies. One compute stream is the main stream, which spares both
  // ends an event.
  computeStreams = std::min(group.schedule.getInteger("streams"), program.getWorkers() - 1);
  computeStreams = std::max<int64_t>(computeStreams, 1);
}

PeerOrder PushLoop::getOrder(fusion::ScheduleAttr schedule) {
  return schedule.getWord("order") == "xor" ? PeerOrder::Xor : PeerOrder::Rotated;
}

SmallVector<PushLoop::Batch> PushLoop::getGatherBatches(fusion::ScheduleAttr schedule,
                                                        int64_t devices) {
  SmallVector<int64_t> counts(schedule.getIntegers("merge"));
  if (counts.empty())
    counts.assign(devices, 1);
  SmallVector<Batch> batches;
  int64_t first = 0;
  for (int64_t count : counts) {
    batches.push_back({first, count});
    first += count;
  }
  return batches;
}

SmallVector<PushLoop::Batch> PushLoop::getReduceBatches(fusion::ScheduleAttr schedule,
                                                        int64_t devices) {
  SmallVector<Batch> batches = getGatherBatches(schedule, devices);
  for (Batch &batch : batches)
    batch.first = devices - batch.first - batch.count;
  return batches;
}

Value PushLoop::getCopyStream() const {
  return hostir::WorkerStreamOp::create(builder, loc, program.getIndex(0));
}

Value PushLoop::getComputeStream(Value number) const {
  if (computeStreams == 1)
    return program.getMainStream();
  Value turn =
      arith::RemUIOp::create(builder, loc, number, program.getIndex(computeStreams)).getResult();
  Value worker = arith::AddIOp::create(builder, loc, turn, program.getIndex(1));
  return hostir::WorkerStreamOp::create(builder, loc, worker);
}

static Value countFrom(OpBuilder &builder, Location loc, Value number, int64_t first) {
  Value offset = arith::ConstantIndexOp::create(builder, loc, first);
  return arith::AddIOp::create(builder, loc, number, offset);
}

void PushLoop::push(ArrayRef<Piece> pieces, Value peer, Value number) const {
  Value stream = getCopyStream();
  for (const Piece &piece : pieces)
    hostir::PutOp::create(builder, loc, piece.source, piece.target, peer, channel, stream);
  Value slot = countFrom(builder, loc, me, firstSignal);
  hostir::SignalOp::create(builder, loc, slot, countFrom(builder, loc, number, 1), peer, channel,
                           stream);
}

void PushLoop::waitFor(Value from, Value number, Value stream) const {
  Value slot = countFrom(builder, loc, from, firstSignal);
  hostir::WaitSignalOp::create(builder, loc, slot, countFrom(builder, loc, number, 1), channel,
                               stream);
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

namespace {

class PushGather {
public:
  PushGather(const StreamGroup &group, const ReshardPlan &plan, ProgramBuilder &program)
      : group(group), loc(group.reshards().front().getLoc()),
        loop(group, plan, getOwnerDigits(group, plan), loc, program), body(group, program),
        program(program), builder(program.getBuilder()), devices(loop.digits.devices),
        slices(loop.digits.numSlices()) {
    for (fusion::ReshardOp reshard : group.reshards())
      gathers.emplace_back(group, reshard);
  }

  /// Gives the gathered values receive memory, and the results of the loop theirs.
  LogicalResult prepare();
  LogicalResult pushOwn();
  LogicalResult compute();
  LogicalResult finish() { return body.finish(); }

  const StreamGroup &group;
  Location loc;
  PushLoop loop;

private:
  LogicalResult computeOwn(Value number);
  LogicalResult computeFrom(Value distance);
  LogicalResult computeBatch(PushLoop::Batch batch, Value number);
  /// Waits for slice `number` of a device, which then is in the gathered values.
  LogicalResult receive(Value from, Value number, const SliceIndex &slice, Value stream);
  Value getStream(Value step, Value number);

  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  int64_t devices, slices;
  SmallVector<GatherLoop, 1> gathers;
  SmallVector<Value> received; ///< peers write here; one for each gather
};

} // namespace

LogicalResult PushGather::prepare() {
  for (GatherLoop &gather : gathers) {
    Value gathered = gather.reshard.getResult();
    auto type = cast<RankedTensorType>(gathered.getType());
    received.push_back(
        program.allocSymmetric(loc, *fusion::getLocalShape(type), type.getElementType()));
    // A result of the program is in the embedder's memory, which peers cannot access.
    if (!program.getBuffer(gathered))
      program.setBuffer(gathered, received.back());
  }
  return body.prepare();
}

LogicalResult PushGather::pushOwn() {
  return program.loop(loc, 1, devices, [&](Value distance) {
    Value peer = loop.peers.getTarget(distance);
    return program.loop(loc, 0, slices, [&](Value number) {
      SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/true);
      return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
        SmallVector<PushLoop::Piece> pieces;
        for (auto [gather, to] : llvm::zip_equal(gathers, received)) {
          FailureOr<ReshardPlan> plan = gather.getPlan(slice, builder);
          if (failed(plan))
            return failure();
          Value source = program.getBuffer(gather.reshard.getInput());
          pieces.push_back({makeView(builder, loc, source, plan->source, true),
                            makeView(builder, loc, to, plan->target, true)});
        }
        loop.push(pieces, peer, number);
        return success();
      });
    });
  });
}

LogicalResult PushGather::compute() {
  SmallVector<PushLoop::Batch> batches = PushLoop::getGatherBatches(group.schedule, devices);
  if (group.schedule.getIntegers("merge").empty()) {
    if (failed(program.loop(loc, 0, slices, [&](Value number) { return computeOwn(number); })))
      return failure();
    return program.loop(loc, 1, devices, [&](Value distance) { return computeFrom(distance); });
  }
  for (auto [number, batch] : llvm::enumerate(batches)) {
    LogicalResult done = batch.count > 1    ? computeBatch(batch, program.getIndex(number))
                         : batch.first == 0 ? computeOwn(program.getIndex(0))
                                            : computeFrom(program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

Value PushGather::getStream(Value step, Value number) {
  if (slices > 1)
    step = arith::AddIOp::create(
        builder, loc,
        arith::MulIOp::create(builder, loc, step, program.getIndex(slices)).getResult(), number);
  return loop.getComputeStream(step);
}

LogicalResult PushGather::computeOwn(Value number) {
  Value stream = getStream(program.getIndex(0), number);
  SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/true);
  return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
    return GatherLoop::emitOwn(gathers, body, slice, stream);
  });
}

LogicalResult PushGather::receive(Value from, Value number, const SliceIndex &slice, Value stream) {
  loop.waitFor(from, number, stream);
  for (auto [gather, arrived] : llvm::zip_equal(gathers, received)) {
    Value gathered = program.getBuffer(gather.reshard.getResult());
    if (gathered == arrived)
      continue;
    FailureOr<ReshardPlan> plan = gather.getPlan(slice, builder);
    if (failed(plan))
      return failure();
    Value source = makeView(builder, loc, arrived, plan->target, true);
    Value target = makeView(builder, loc, gathered, plan->target, true);
    hostir::CopyOp::create(builder, loc, source, target, stream);
  }
  return success();
}

LogicalResult PushGather::computeFrom(Value distance) {
  Value from = loop.peers.getSource(distance);
  return program.loop(loc, 0, slices, [&](Value number) {
    Value stream = getStream(distance, number);
    SliceIndex index = loop.digits.getIndex(builder, loc, from, number, /*isFirst=*/false);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
      if (failed(receive(from, number, slice, stream)))
        return failure();
      return body.emitSlices(gathers.front().consumers, slice, stream,
                             /*isStreamUsed=*/true);
    });
  });
}

LogicalResult PushGather::computeBatch(PushLoop::Batch batch, Value number) {
  Value stream = loop.getComputeStream(number), zero = program.getIndex(0);
  for (int64_t distance = batch.first; distance < batch.first + batch.count; ++distance) {
    Value from = distance == 0 ? loop.me : loop.peers.getSource(program.getIndex(distance));
    SliceIndex slice = loop.digits.getIndex(builder, loc, from, zero, distance == 0);
    if (distance != 0) {
      if (failed(receive(from, zero, slice, stream)))
        return failure();
      continue;
    }
    for (const GatherLoop &gather : gathers)
      if (failed(gather.copyOwn(body, slice, stream)))
        return failure();
  }
  Value first = loop.peers.getFirstSource(batch.first, batch.count);
  return loop.peers.forEachPiece(
      first, batch.count, [&](Value piece, int64_t count, bool isFirstPiece) {
        SliceIndex slice = loop.digits.getIndex(builder, loc, piece, zero,
                                                batch.first == 0 && isFirstPiece, count);
        return body.emitSlices(gathers.front().consumers, slice, stream,
                               /*isStreamUsed=*/true);
      });
}

/// Gathers: own slices go to the peers' receive memory while they are computed on; then what has
/// arrived is. `plan` is that of a slice of the group's reshards, which have the same owners.
static LogicalResult emitPushGather(const StreamGroup &group, const ReshardPlan &plan,
                                    ProgramBuilder &program) {
  PushGather gather(group, plan, program);
  if (failed(gather.prepare()))
    return failure();
  gather.loop.fork();
  LogicalResult done = success();
  // All puts are issued before the first wait: where streams share a queue,
  // none stands behind it.
  program.onMesh(gather.loc, plan.mesh, [&] {
    done = gather.pushOwn();
    if (succeeded(done))
      done = gather.compute();
  });
  gather.loop.join();
  return succeeded(done) ? gather.finish() : done;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {

class PushReduce {
public:
  PushReduce(const StreamGroup &group, const ScatteredDigit &scattered, ProgramBuilder &program)
      : scatter(group, scattered), loc(scatter.scatter.getLoc()),
        loop(group, scattered.plan, scatter.digits, loc, program), body(group, program),
        program(program), builder(program.getBuilder()), devices(loop.digits.devices),
        slices(loop.digits.numSlices()) {}

  LogicalResult prepare();
  /// Computes all slices and pushes those of others.
  LogicalResult compute();
  void reduce();

private:
  LogicalResult computeFor(Value step, Value distance);
  LogicalResult computeOwn(Value step);
  LogicalResult computeBatch(PushLoop::Batch batch, Value step);
  void pushTo(Value peer, Value number, const SliceIndex &slice);

  ScatterLoop scatter;

public:
  Location loc;
  PushLoop loop;

private:
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  int64_t devices, slices;
  Value received; ///< [source, own piece...]: peers write here
  Value place;    ///< this device's part of it
};

} // namespace

LogicalResult PushReduce::prepare() {
  Type element = scatter.scatter.getResult().getType().getElementType();
  received = program.allocSymmetric(loc, scatter.getReceivedShape(), element);
  return scatter.prepare(body);
}

void PushReduce::pushTo(Value peer, Value number, const SliceIndex &slice) {
  Value from = scatter.getComputed(program, slice);
  loop.push(PushLoop::Piece{from, scatter.getTarget(program, place, slice)}, peer, number);
}

LogicalResult PushReduce::computeFor(Value step, Value distance) {
  Value stream = loop.getComputeStream(step), peer = loop.peers.getTarget(distance);
  return program.loop(loc, 0, slices, [&](Value number) {
    SliceIndex index = loop.digits.getIndex(builder, loc, peer, number, /*isFirst=*/false);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) -> LogicalResult {
      if (failed(scatter.emitProducers(body, slice, stream)))
        return failure();
      hostir::SyncOp::create(builder, loc, loop.getCopyStream(), stream);
      pushTo(peer, number, slice);
      return success();
    });
  });
}

LogicalResult PushReduce::computeOwn(Value step) {
  Value stream = loop.getComputeStream(step);
  return program.loop(loc, 0, slices, [&](Value number) {
    SliceIndex index = loop.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/false);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
      return scatter.emitOwn(body, place, slice, stream);
    });
  });
}

LogicalResult PushReduce::computeBatch(PushLoop::Batch batch, Value step) {
  Value stream = loop.getComputeStream(step), zero = program.getIndex(0);
  Value first = loop.peers.getFirstTarget(batch.first, batch.count);
  if (failed(loop.peers.forEachPiece(
          first, batch.count, [&](Value piece, int64_t count, bool) -> LogicalResult {
            return scatter.emitProducers(body,
                                         loop.digits.getIndex(builder, loc, piece, zero,
                                                              /*isFirst=*/false, count),
                                         stream);
          })))
    return failure();
  hostir::SyncOp::create(builder, loc, loop.getCopyStream(), stream);
  for (int64_t distance = batch.first + batch.count; distance-- > batch.first;) {
    Value to = distance == 0 ? loop.me : loop.peers.getTarget(program.getIndex(distance));
    SliceIndex slice = loop.digits.getIndex(builder, loc, to, zero, /*isFirst=*/false);
    if (distance == 0)
      hostir::CopyOp::create(builder, loc, scatter.getComputed(program, slice),
                             scatter.getTarget(program, place, slice), stream);
    else
      pushTo(to, zero, slice);
  }
  return success();
}

LogicalResult PushReduce::compute() {
  place = scatter.getPlace(program, received, loop.me);
  if (scatter.group.schedule.getIntegers("merge").empty()) {
    LogicalResult done = program.loop(loc, 1, devices, [&](Value step) {
      Value distance = arith::SubIOp::create(builder, loc, program.getIndex(devices), step);
      return computeFor(step, distance);
    });
    return succeeded(done) ? computeOwn(program.getIndex(devices)) : done;
  }
  for (auto [number, batch] :
       llvm::enumerate(PushLoop::getReduceBatches(scatter.group.schedule, devices))) {
    Value step = program.getIndex(number);
    LogicalResult done = batch.count > 1    ? computeBatch(batch, step)
                         : batch.first == 0 ? computeOwn(step)
                                            : computeFor(step, program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

void PushReduce::reduce() {
  Value main = program.getMainStream(), last = program.getIndex(slices - 1);
  (void)program.loop(loc, 1, devices, [&](Value distance) {
    loop.waitFor(loop.peers.getSource(distance), last, main);
    return success();
  });
  scatter.reduce(program, received);
}

/// Reduction: slices are computed in the order of those who get them, the own
/// last; each goes to its owner's receive memory, who then reduces what has
/// arrived. `scattered` is the digit of the group's scatter.
static LogicalResult emitPushReduce(const StreamGroup &group, const ScatteredDigit &scattered,
                                    ProgramBuilder &program) {
  PushReduce reduce(group, scattered, program);
  if (failed(reduce.prepare()))
    return failure();
  reduce.loop.fork();
  LogicalResult done = success();
  program.onMesh(reduce.loc, scattered.plan.mesh, [&] { done = reduce.compute(); });
  reduce.loop.join();
  // Waiting begins when all is on its way.
  program.onMesh(reduce.loc, scattered.plan.mesh, [&] { reduce.reduce(); });
  return done;
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

namespace {

/// For a gather whose slices have one owner each, and for a reduction whose
/// slices have: one-sided copies by one stream, a signal behind each, and no
/// barrier (docs/schedules.md).
class Push : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    return {"push",
            {{"streams", Option::Kind::Integer},
             {"order", Option::Kind::Word, 0, {"rotated", "xor"}},
             {"merge", Option::Kind::Integers, 1}}};
  }
  LogicalResult matches(const StreamGroup &group,
                        function_ref<InFlightDiagnostic()> why) const override;
  LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const override;
  void getCandidates(const StreamGroup &group,
                     SmallVectorImpl<fusion::ScheduleAttr> &candidates) const override;
  bool isOneSided(const StreamGroup &group) const override;
};

} // namespace

/// Whether none of the reshards moves anything.
static bool movesNothing(const StreamGroup &group) {
  return llvm::all_of(group.reshards(), [&](fusion::ReshardOp reshard) {
    SilenceDiagnostics silence(reshard.getContext());
    FailureOr<ReshardPlan> plan = planReshard(reshard, getSymbolicIndex(reshard), nullptr,
                                              [&] { return reshard.emitError(); });
    return succeeded(plan) && plan->movesNothing();
  });
}

/// Whether the schedule's options fit the plan's devices, which own `slices`
/// slices each.
static LogicalResult checkOptions(const StreamGroup &group, const ReshardPlan &plan, int64_t slices,
                                  bool reduces, function_ref<InFlightDiagnostic()> why) {
  fusion::ScheduleAttr schedule = group.schedule;
  int64_t devices = plan.groupSize();
  bool isXor = PushLoop::getOrder(schedule) == PeerOrder::Xor;
  if (isXor && !llvm::isPowerOf2_64(devices))
    return why() << "schedule push, order xor: expected a number of devices "
                    "that is a power of 2, "
                    "found "
                 << devices << "; order rotated takes any";
  ArrayRef<int64_t> merge = schedule.getIntegers("merge");
  if (merge.empty())
    return success();
  int64_t sum = std::accumulate(merge.begin(), merge.end(), int64_t(0));
  if (sum != devices)
    return why() << "schedule push: expected 'merge' to sum to the " << devices
                 << " devices, the own one among them, found " << sum;
  if (plan.axes.size() != 1)
    return why() << "schedule push: 'merge' takes slices of devices along one "
                    "mesh axis, found "
                 << plan.axes.size();
  if (slices != 1)
    return why() << "schedule push: expected one slice a device beside "
                    "'merge', found "
                 << slices;
  if (!group.digitMaps.empty())
    return why() << "schedule push: 'merge' takes slices of one stream digit, "
                    "found an op of the loop "
                    "whose result has others";
  auto batches = reduces ? PushLoop::getReduceBatches(schedule, devices)
                         : PushLoop::getGatherBatches(schedule, devices);
  for (const PushLoop::Batch &batch : batches)
    if (!Peers::areNeighbours(PushLoop::getOrder(schedule), batch.first, batch.count))
      return why() << "schedule push, order xor: expected each number of "
                      "'merge' to be a power of 2 "
                      "that divides the number of devices "
                   << (reduces ? "behind" : "before") << " it, found " << batch.count << " with "
                   << batch.first;
  if (reduces || llvm::all_of(merge, [](int64_t count) { return count == 1; }) ||
      (isXor && merge.size() == 1))
    return success();
  // Devices merge different rows, and a library may add in another order where
  // a matmul has more of them. So copies of its result would not be
  // bit-identical.
  StringAttr axis = plan.axes.front();
  for (Operation *op : group.ops) {
    if (!isa<fusion::MatmulOp>(op))
      continue;
    fusion::AxesAttr axes = fusion::getAxes(op->getResult(0).getType());
    if (axes && axes.dimOfDeviceAxis(axis) < 0 && !llvm::is_contained(axes.getPartial(), axis))
      return why() << "schedule push: 'merge' takes matmuls whose results "
                      "differ between the "
                      "devices along "
                   << axis
                   << ", found a result that is replicated there, whose copies "
                      "could differ "
                   << "in rounding";
  }
  return success();
}

LogicalResult Push::matches(const StreamGroup &group,
                            function_ref<InFlightDiagnostic()> why) const {
  if (movesNothing(group))
    return success();
  if (std::optional<ScatteredDigit> scattered = getScatter(group)) {
    if (failed(checkScatter(group, why)))
      return failure();
    int64_t devices = scattered->plan.groupSize();
    OwnerDigits digits = getOwnerDigits(group, scattered->streamDigit, devices);
    return checkOptions(group, scattered->plan, digits.numSlices(),
                        /*reduces=*/true, why);
  }
  std::string reason;
  FailureOr<ReshardPlan> plan = getOwnerPlan(group, &reason);
  if (failed(plan))
    return why() << "schedule push " << reason;
  return checkOptions(group, *plan, getOwnerDigits(group, *plan).numSlices(),
                      /*reduces=*/false, why);
}

LogicalResult Push::emit(const StreamGroup &group, ProgramBuilder &program) const {
  if (movesNothing(group))
    return emitPipeline(group, program, /*sendsMessages=*/false);
  if (std::optional<ScatteredDigit> scattered = getScatter(group))
    return emitPushReduce(group, *scattered, program);
  FailureOr<ReshardPlan> plan = getOwnerPlan(group);
  return succeeded(plan) ? emitPushGather(group, *plan, program) : failure();
}

bool Push::isOneSided(const StreamGroup &group) const { return !movesNothing(group); }

void Push::getCandidates(const StreamGroup &group,
                         SmallVectorImpl<fusion::ScheduleAttr> &candidates) const {
  if (group.streamSizes.empty() || group.reshards().empty())
    return;
  Builder builder(group.place->getContext());
  auto add = [&](int64_t streams, ArrayRef<int64_t> merge) {
    NamedAttrList options;
    if (streams)
      options.set("streams", builder.getI64IntegerAttr(streams));
    if (!merge.empty()) {
      options.set("order", builder.getStringAttr("xor"));
      options.set("merge", builder.getDenseI64ArrayAttr(merge));
    }
    candidates.push_back(getAttr(builder.getContext(), options));
  };
  add(0, {});
  add(2, {});
  // Few at first (of a reduction: at last), then as many as there have been.
  int64_t devices = group.numSlices();
  if (!llvm::isPowerOf2_64(devices) || devices < 4)
    return;
  SmallVector<int64_t> merge{1};
  for (int64_t count = 1; count < devices; count *= 2)
    merge.push_back(count);
  if (getScatter(group))
    std::reverse(merge.begin(), merge.end());
  add(0, merge);
  add(2, merge);
}

std::unique_ptr<Schedule> tandem::createPushSchedule() { return std::make_unique<Push>(); }
