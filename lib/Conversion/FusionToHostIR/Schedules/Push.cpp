//===- Push.cpp - one-sided puts by copy engines, compute on what has arrived -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/Combine.h"
#include "Support/EpiloguePush.h"
#include "Support/GatherLoop.h"
#include "Support/OneSided.h"
#include "Support/Peers.h"
#include "Support/PushAllReduce.h"
#include "Support/ScatterLoop.h"
#include "Support/SliceFactors.h"

#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Puts and signals
//===----------------------------------------------------------------------===//

namespace {

/// Distances [first, first + count) that are computed at once.
struct Batch {
  int64_t first, count;
};

/// What gathers and reductions are made of: streams that copy and never wait for a peer, one or
/// more that compute, a channel, and a signal slot for each source.
class PushLoop {
public:
  /// `blocks`: of the kernel that pushes; none: copy engines do.
  /// `epilogue`: the kernel that computes the slices does. `keeps`: what arrives is also copied.
  PushLoop(const StreamLoop &loop, const ReshardPlan &plan, const OwnerDigits &digits, Location loc,
           ProgramBuilder &program, std::optional<int64_t> blocks = std::nullopt,
           bool epilogue = false, bool keeps = false);

  /// Work begins after what the main stream has done, and the main stream goes on after it.
  void fork() const { program.fork(loc, numForked()); }
  void join() const { program.join(loc, numForked()); }
  /// That copies to the peer at a distance (1 or more).
  Value getCopyStream(Value distance) const;
  /// Whether peers are pushed to at once: then a slice goes to all of them before the next one.
  bool pushesAtOnce() const { return copyStreams > 1; }
  /// For copies that nothing in the loop reads: a stream of its own, or one that has put before.
  Value getKeepStream() const;
  /// Of a piece of work by its number.
  Value getComputeStream(Value number) const;

  /// What is copied, and this rank's name for its place at the peer.
  struct Piece {
    Value source, target;
  };
  /// Copies all pieces of a slice of this device to a peer.
  void put(ArrayRef<Piece> pieces, Value peer, Value stream) const;
  /// Tells the peer that slice `number` has arrived.
  void signal(Value peer, Value number, Value stream) const { puts.signal(peer, number, stream); }
  void push(ArrayRef<Piece> pieces, Value peer, Value number, Value stream) const {
    put(pieces, peer, stream);
    signal(peer, number, stream);
  }
  /// Holds `stream` until slice `number` of device `from` has come.
  void waitFor(Value from, Value number, Value stream) const { puts.waitFor(from, number, stream); }

  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  int64_t devices;
  Value me;
  Peers peers;
  std::optional<int64_t> blocks;
  OneSided puts;

private:
  int64_t numBusy() const { return copyStreams + (computeStreams == 1 ? 0 : computeStreams); }
  int64_t numForked() const { return numBusy() + keeps; }

  int64_t copyStreams, computeStreams;
  bool keeps; ///< the last stream keeps
};

} // namespace

static PeerOrder getOrder(fusion::ScheduleAttr schedule) {
  return schedule.getWord("order") == "xor" ? PeerOrder::Xor : PeerOrder::Rotated;
}

PushLoop::PushLoop(const StreamLoop &stream, const ReshardPlan &plan, const OwnerDigits &digits,
                   Location loc, ProgramBuilder &program, std::optional<int64_t> blocks,
                   bool epilogue, bool keeps)
    : program(program), builder(program.getBuilder()), loc(loc), devices(digits.devices),
      me(program.getGroupPosition(loc, plan.mesh, plan.axes)),
      peers(program, loc, me, devices, getOrder(stream.schedule)), blocks(blocks),
      puts(program, loc, plan.mesh, plan.axes, me, devices) {
  // The first workers copy. One compute stream is the main stream, which spares both ends an event.
  int64_t copies = std::min(stream.schedule.getInteger("copies"), devices - 1);
  copyStreams = epilogue ? 0 : std::max<int64_t>(std::min(copies, program.getWorkers()), 1);
  computeStreams =
      std::min(stream.schedule.getInteger("streams"), program.getWorkers() - copyStreams);
  computeStreams = std::max<int64_t>(computeStreams, 1);
  this->keeps = keeps && numBusy() < program.getWorkers();
}

Value PushLoop::getKeepStream() const {
  return hostir::WorkerStreamOp::create(builder, loc, program.getIndex(keeps ? numBusy() : 0));
}

Value PushLoop::getCopyStream(Value distance) const {
  Value worker = program.getIndex(0);
  if (copyStreams > 1)
    worker = program.math(loc).mod(distance, copyStreams);
  return hostir::WorkerStreamOp::create(builder, loc, worker);
}

Value PushLoop::getComputeStream(Value number) const {
  if (computeStreams == 1)
    return program.getMainStream();
  hostir::IndexBuilder math = program.math(loc);
  Value worker = math.add(math.mod(number, computeStreams), copyStreams);
  return hostir::WorkerStreamOp::create(builder, loc, worker);
}

void PushLoop::put(ArrayRef<Piece> pieces, Value peer, Value stream) const {
  for (const Piece &piece : pieces)
    puts.put(piece.source, piece.target, peer, stream);
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

namespace {

/// Own slices go to the peers' receive memory while they are computed on; then what has arrived is.
class PushGather {
public:
  PushGather(const GatherLoop &gather, ProgramBuilder &program, std::optional<int64_t> blocks)
      : gather(gather),
        loop(gather.loop, gather.plan, gather.digits, gather.getLoc(), program, blocks,
             /*epilogue=*/false, gather.isKept()),
        body(gather.loop, program), program(program), builder(program.getBuilder()),
        loc(gather.getLoc()) {}

  /// `batches`: none if the slices of each device are computed alone.
  LogicalResult emit(ArrayRef<Batch> batches);

private:
  /// All slices of the devices at once, or first one of each device, then the next.
  LogicalResult forEachTurn(function_ref<LogicalResult(SliceNumbers)> body);
  /// Gives the gathered values receive memory, and the results of the loop theirs.
  LogicalResult prepare();
  LogicalResult pushOwn();
  /// Own slices, to one peer after the other, on its copy stream.
  LogicalResult pushOwn(SliceNumbers numbers);
  FailureOr<SmallVector<PushLoop::Piece>> getPieces(const SliceIndex &slice, Value peer);
  LogicalResult compute(ArrayRef<Batch> batches);
  LogicalResult computeFrom(Value distance, SliceNumbers numbers = {});
  LogicalResult computeBatch(Batch batch, Value number);
  /// Waits for slice `number` of a device, which then is in the gathered values. `copies`: as of
  /// `GatherLoop::copyReceived`.
  LogicalResult receive(Value from, Value number, const SliceIndex &slice, Value stream,
                        Value copies = {});

  const GatherLoop &gather;
  PushLoop loop;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  SmallVector<Value> received; ///< peers write here; one for each gather
};

} // namespace

LogicalResult PushGather::forEachTurn(function_ref<LogicalResult(SliceNumbers)> body) {
  if (!loop.pushesAtOnce())
    return body({});
  for (int64_t number = 0, end = gather.digits.numSlices(); number < end; ++number)
    if (failed(body({number, number + 1})))
      return failure();
  return success();
}

LogicalResult PushGather::prepare() {
  received = gather.allocReceived(program);
  return body.prepare();
}

FailureOr<SmallVector<PushLoop::Piece>> PushGather::getPieces(const SliceIndex &slice, Value peer) {
  SmallVector<PushLoop::Piece> pieces;
  for (auto [gathered, to] : llvm::zip_equal(gather.gathers, received)) {
    fusion::ReshardOp reshard = gathered;
    FailureOr<ReshardPlan> plan = GatherLoop::getSlice(reshard, slice, peer, builder);
    if (failed(plan))
      return failure();
    Value source = program.getBuffer(reshard.getInput());
    pieces.push_back({makeView(builder, loc, source, plan->source, true),
                      makeView(builder, loc, to, plan->target, true)});
  }
  return pieces;
}

LogicalResult PushGather::pushOwn(SliceNumbers numbers) {
  auto [first, end] = numbers.of(gather.digits);
  return program.loop(loc, 1, loop.devices, [&, first = first, end = end](Value distance) {
    Value peer = loop.peers.getTarget(distance), copies = loop.getCopyStream(distance);
    return program.loop(loc, first, end, [&](Value number) {
      SliceIndex index = gather.digits.getIndex(builder, loc, loop.me, number, /*isFirst=*/true);
      return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
        auto pieces = getPieces(slice, peer);
        if (succeeded(pieces))
          loop.push(*pieces, peer, number, copies);
        return LogicalResult(pieces);
      });
    });
  });
}

LogicalResult PushGather::pushOwn() {
  if (!loop.blocks)
    return forEachTurn([&](SliceNumbers numbers) { return pushOwn(numbers); });
  if (loop.devices == 1)
    return success();
  Value stream = loop.getCopyStream(program.getIndex(0));
  return loop.puts.pushSlices(body, gather, received.front(), *loop.blocks, stream);
}

LogicalResult PushGather::receive(Value from, Value number, const SliceIndex &slice, Value stream,
                                  Value copies) {
  loop.waitFor(from, number, stream);
  return gather.copyReceived(body, received, slice, stream, copies);
}

LogicalResult PushGather::computeFrom(Value distance, SliceNumbers numbers) {
  Value from = loop.peers.getSource(distance);
  return gather.computeFrom(
      body, from,
      [&](Value number) {
        return loop.getComputeStream(gather.digits.getIteration(program, loc, distance, number));
      },
      [&](Value number, const SliceIndex &slice, Value stream) {
        return receive(from, number, slice, stream, loop.getKeepStream());
      },
      numbers);
}

LogicalResult PushGather::computeBatch(Batch batch, Value number) {
  Value stream = loop.getComputeStream(number), zero = program.getIndex(0);
  for (int64_t distance = batch.first; distance < batch.first + batch.count; ++distance) {
    Value from = distance == 0 ? loop.me : loop.peers.getSource(program.getIndex(distance));
    SliceIndex slice = gather.digits.getIndex(builder, loc, from, zero, distance == 0);
    if (failed(distance == 0 ? gather.copyOwn(body, loop.me, slice, stream)
                             : receive(from, zero, slice, stream)))
      return failure();
  }
  Value first = loop.peers.getFirstSource(batch.first, batch.count);
  return loop.peers.forEachPiece(
      first, batch.count, [&](Value piece, int64_t count, bool isFirstPiece) {
        SliceIndex slice = gather.digits.getIndex(builder, loc, piece, zero,
                                                  batch.first == 0 && isFirstPiece, count);
        return body.emitSlices(gather.consumers, slice, stream, /*isStreamUsed=*/true);
      });
}

LogicalResult PushGather::compute(ArrayRef<Batch> batches) {
  auto computeOwn = [&] {
    return gather.computeOwn(
        body, loop.me,
        [&](Value number) {
          Value zero = program.getIndex(0);
          return loop.getComputeStream(gather.digits.getIteration(program, loc, zero, number));
        },
        loop.getKeepStream());
  };
  if (batches.empty()) {
    if (failed(computeOwn()))
      return failure();
    return forEachTurn([&](SliceNumbers numbers) {
      return program.loop(loc, 1, loop.devices,
                          [&](Value distance) { return computeFrom(distance, numbers); });
    });
  }
  for (auto [number, batch] : llvm::enumerate(batches)) {
    LogicalResult done = batch.count > 1    ? computeBatch(batch, program.getIndex(number))
                         : batch.first == 0 ? computeOwn()
                                            : computeFrom(program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

LogicalResult PushGather::emit(ArrayRef<Batch> batches) {
  if (failed(prepare()))
    return failure();
  loop.fork();
  LogicalResult done = success();
  // All puts are issued before the first wait: where streams share a queue, no put is queued behind
  // a wait.
  program.onMesh(loc, gather.plan.mesh, [&] {
    done = pushOwn();
    if (succeeded(done))
      done = compute(batches);
  });
  loop.join();
  return succeeded(done) ? body.finish() : done;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {

/// Slices are computed in the order of the devices that get them, the own ones last. Each goes to
/// its owner's receive memory; the owner then reduces what has arrived. Or, of two devices, the
/// matmuls of the own slices add what has arrived.
class PushReduce {
public:
  PushReduce(const ScatterLoop &scatter, ProgramBuilder &program, bool epilogue, bool sums)
      : scatter(scatter), loc(scatter.getLoc()), epilogue(epilogue), sums(sums),
        loop(scatter.loop, scatter.scattered.plan, scatter.digits, loc, program, std::nullopt,
             epilogue),
        body(scatter.loop, program), program(program), builder(program.getBuilder()),
        place(Value()) {}

  /// `batches`: none if the slices for each device are computed alone.
  LogicalResult emit(ArrayRef<Batch> batches);

private:
  /// Computes all slices and pushes those of others.
  LogicalResult compute(ArrayRef<Batch> batches);
  /// The same by one matmul that stores the slices of others to them.
  LogicalResult computeAndStore();
  LogicalResult computeFor(Value step, Value distance, SliceNumbers numbers = {});
  LogicalResult computeBatch(Batch batch, Value step);
  LogicalResult computeOwn(Value step);
  void pushTo(Value peer, Value number, const SliceIndex &slice, Value stream);
  /// Holds `stream` until slice `number` of all others has come.
  void waitForAll(Value number, Value stream);
  void reduce();

  const ScatterLoop &scatter;
  Location loc;
  const bool epilogue; ///< the kernel that computes the slices stores them to their owners
  const bool sums;     ///< the matmuls of the own slices add what has arrived
  PushLoop loop;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Value received;     ///< peers write here
  ScatterPlace place; ///< where this device's slices come to, at any peer
};

} // namespace

void PushReduce::pushTo(Value peer, Value number, const SliceIndex &slice, Value stream) {
  Value from = scatter.getComputed(program, slice);
  loop.push(PushLoop::Piece{from, scatter.getTarget(program, place, slice)}, peer, number, stream);
}

LogicalResult PushReduce::computeFor(Value step, Value distance, SliceNumbers numbers) {
  Value compute = loop.getComputeStream(step), peer = loop.peers.getTarget(distance),
        copies = epilogue ? compute : loop.getCopyStream(distance);
  return scatter.computeFor(
      body, peer, [&](Value) { return compute; },
      [&](Value number, const SliceIndex &slice, Value stream) {
        if (!epilogue)
          hostir::SyncOp::create(builder, loc, copies, stream);
        pushTo(peer, number, slice, copies);
        return success();
      },
      numbers);
}

LogicalResult PushReduce::computeBatch(Batch batch, Value step) {
  Value stream = loop.getComputeStream(step), zero = program.getIndex(0);
  Value first = loop.peers.getFirstTarget(batch.first, batch.count);
  auto computePiece = [&](Value piece, int64_t count, bool) {
    SliceIndex slice = scatter.digits.getIndex(builder, loc, piece, zero, /*isFirst=*/false, count);
    return scatter.emitProducers(body, slice, stream);
  };
  if (failed(loop.peers.forEachPiece(first, batch.count, computePiece)))
    return failure();
  Value copies = loop.getCopyStream(zero);
  hostir::SyncOp::create(builder, loc, copies, stream);
  for (int64_t distance = batch.first + batch.count; distance-- > batch.first;) {
    Value to = distance == 0 ? loop.me : loop.peers.getTarget(program.getIndex(distance));
    SliceIndex slice = scatter.digits.getIndex(builder, loc, to, zero, /*isFirst=*/false);
    if (distance == 0)
      hostir::CopyOp::create(builder, loc, scatter.getComputed(program, slice),
                             scatter.getTarget(program, place, slice), stream);
    else
      pushTo(to, zero, slice, copies);
  }
  return success();
}

void PushReduce::waitForAll(Value number, Value stream) {
  (void)program.loop(loc, 1, loop.devices, [&](Value distance) {
    loop.waitFor(loop.peers.getSource(distance), number, stream);
    return success();
  });
}

LogicalResult PushReduce::computeOwn(Value step) {
  Value stream = loop.getComputeStream(step);
  if (!sums)
    return scatter.computeOwn(body, loop.me, place, [&](Value) { return stream; });
  fusion::ReshardOp reshard = scatter.scatter;
  ScatterPlace result(program.getBuffer(reshard.getResult()));
  result.term =
      scatter.getPlace(program, received, loop.peers.getSource(program.getIndex(1))).buffer;
  return scatter.computeOwn(body, loop.me, result, [&](Value number) {
    waitForAll(number, stream);
    return stream;
  });
}

LogicalResult PushReduce::compute(ArrayRef<Batch> batches) {
  place = scatter.getPlace(program, received, loop.me);
  if (batches.empty()) {
    auto computeOthers = [&](SliceNumbers numbers) {
      return program.loop(loc, 1, loop.devices, [&](Value step) {
        Value distance = program.math(loc).sub(program.getIndex(loop.devices), step);
        return computeFor(step, distance, numbers);
      });
    };
    if (!loop.pushesAtOnce()) {
      if (failed(computeOthers({})))
        return failure();
    } else {
      for (int64_t number = 0, end = scatter.digits.numSlices(); number < end; ++number)
        if (failed(computeOthers({number, number + 1})))
          return failure();
    }
    return epilogue && sums ? success() : computeOwn(program.getIndex(loop.devices));
  }
  for (auto [number, batch] : llvm::enumerate(batches)) {
    Value step = program.getIndex(number);
    LogicalResult done = batch.count > 1    ? computeBatch(batch, step)
                         : batch.first == 0 ? computeOwn(step)
                                            : computeFor(step, program.getIndex(batch.first));
    if (failed(done))
      return failure();
  }
  return success();
}

LogicalResult PushReduce::computeAndStore() {
  if (failed(emitEpiloguePush(program, loc, [&] { return compute({}); })))
    return failure();
  // A matmul that waits comes behind the kernel.
  return sums ? computeOwn(program.getIndex(loop.devices)) : success();
}

void PushReduce::reduce() {
  Value main = program.getMainStream();
  waitForAll(program.getIndex(scatter.digits.numSlices() - 1), main);
  scatter.finish(program, received);
}

LogicalResult PushReduce::emit(ArrayRef<Batch> batches) {
  received = scatter.allocReceived(program, /*symmetric=*/true);
  if (failed(scatter.prepare(body)))
    return failure();
  loop.fork();
  LogicalResult done = success();
  MeshAttr mesh = scatter.scattered.plan.mesh;
  program.onMesh(loc, mesh, [&] { done = epilogue ? computeAndStore() : compute(batches); });
  loop.join();
  // Waiting begins when all is on its way.
  program.onMesh(loc, mesh, [&] {
    if (!sums)
      reduce();
  });
  return done;
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

/// Streams that copy at once, of candidates: the default size of the pool of the compiler.
static constexpr int64_t kCopies = 4;

namespace {

/// For gathers and reductions whose slices have one owner each, and all-reduces slice by slice:
/// one-sided copies by one stream, a signal after each, and no barrier (docs/schedules.md).
class Push : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    using fusion::LoopKind;
    fusion::ScheduleChoice copies{"copies", "", 1}, streams{"streams", "", 1}, merge{"merge"};
    SmallVector<LoopKind, 4> sliced{LoopKind::Gather, LoopKind::AllToAll, LoopKind::Reduction},
        summed{LoopKind::Reduction, LoopKind::AllReduce};
    fusion::ScheduleInfo info{"push",
                              {{"streams", Option::Kind::Integer},
                               {"copies", Option::Kind::Integer},
                               {"order", Option::Kind::Word, 0, {"rotated", "xor"}},
                               {"sum", Option::Kind::Word, 0, {"reduce", "matmul"}},
                               getCombineOption(),
                               {"merge", Option::Kind::Integers, 1}}};
    info.rules = {{merge, sliced, {copies}},
                  {streams, sliced},
                  {copies, sliced, {{"by", "sms"}}},
                  {{"by", "epilogue"}, summed, {merge, streams, copies}},
                  {{"sum", "matmul"}, summed, {merge}}};
    return withPushOptions(std::move(info), /*reduces=*/true);
  }
  Explained<SchedulePlan> match(const StreamLoop &loop) const override;
  bool combinesWhole(fusion::ScheduleAttr schedule) const override {
    return isCombinedWhole(schedule);
  }
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;
};

} // namespace

/// Whether the option `sum` asks for matmuls that add what has arrived. `plan`: of the reduction,
/// if it does.
static Explained<bool> isSumByMatmul(const StreamLoop &loop, const ReshardPlan &plan) {
  fusion::ScheduleAttr schedule = loop.schedule;
  if (schedule.getWord("sum") != "matmul")
    return false;
  auto expect = [&](const Twine &what) {
    return loop.explain() << "schedule push, sum = matmul: expected " << what;
  };
  if (plan.groupSize() != 2)
    return expect("2 devices, found " + Twine(plan.groupSize()));
  fusion::ReshardOp reshard = loop.reshards().front();
  if (plan.reduction != ReduceKind::Sum || loop.getProducts(reshard.getInput()).empty())
    return expect("a sum of products without bias");
  return true;
}

/// All distances 0 ... devices - 1 as `merge` cuts them: nearest first, or farthest first for a
/// reduction. Example: merge = [1, 1, 2] of 4 devices gives 0, 1, 2-3, or 3, 2, 0-1. None without
/// `merge`.
static SmallVector<Batch> cutBatches(ArrayRef<int64_t> merge, int64_t devices, bool reduces) {
  SmallVector<Batch> batches;
  int64_t done = 0;
  for (int64_t count : merge) {
    batches.push_back({reduces ? devices - done - count : done, count});
    done += count;
  }
  return batches;
}

/// Whether each of the devices has a peer in each step of the order.
static Obstacle verifyOrder(const StreamLoop &loop, int64_t devices) {
  if (getOrder(loop.schedule) != PeerOrder::Xor || llvm::isPowerOf2_64(devices))
    return std::nullopt;
  return loop.explain()
         << "schedule push, order xor: expected a number of devices that is a power of 2, found "
         << devices << "; order rotated takes any";
}

/// The batches that the options ask for, if these fit the plan's devices and their slices.
/// `reduces`: the loop hands slices to their owners.
static Explained<SmallVector<Batch>> getBatches(const StreamLoop &loop, const ReshardPlan &plan,
                                                const OwnerDigits &digits, bool reduces) {
  fusion::ScheduleAttr schedule = loop.schedule;
  int64_t devices = plan.groupSize();
  if (Obstacle why = verifyOrder(loop, devices))
    return why;
  ArrayRef<int64_t> merge = schedule.getIntegers("merge");
  if (merge.empty())
    return SmallVector<Batch>();
  int64_t sum = std::accumulate(merge.begin(), merge.end(), int64_t(0));
  if (sum != devices)
    return loop.explain() << "schedule push: expected 'merge' to sum to the " << devices
                          << " devices, the own one among them, found " << sum;
  if (plan.axes.size() != 1)
    return loop.explain()
           << "schedule push: 'merge' takes slices of devices along one mesh axis, found "
           << plan.axes.size();
  // All devices compute the same slices at once: each one alone, or all of them.
  bool isAlike = merge.size() == 1 || llvm::all_of(merge, [](int64_t count) { return count == 1; });
  if (Obstacle why = verifyMerge(loop, digits, isAlike ? ArrayRef<StringAttr>() : plan.axes))
    return why;
  SmallVector<Batch> batches = cutBatches(merge, devices, reduces);
  for (const Batch &batch : batches)
    if (!Peers::areNeighbours(getOrder(schedule), batch.first, batch.count))
      return loop.explain()
             << "schedule push, order xor: expected each number of 'merge' to be a power of "
                "2 that divides the number of devices "
             << (reduces ? "behind" : "before") << " it, found " << batch.count << " with "
             << batch.first;
  return batches;
}

Explained<SchedulePlan> Push::match(const StreamLoop &loop) const {
  if (std::optional<SchedulePlan> plan = planIfNothingMoves(loop))
    return *plan;
  if (Obstacle why = verifyCombine(loop))
    return why;
  bool copies = loop.schedule.getInteger("copies") > 1;
  if (isAllReduceLoop(loop)) {
    Explained<ReshardPlan> plan = planReshard(loop.reshards().front());
    if (failed(plan))
      return plan.explanation();
    if (Obstacle why = verifyOrder(loop, plan->groupSize()))
      return why;
    Explained<bool> sums = isSumByMatmul(loop, *plan);
    if (failed(sums))
      return sums.explanation();
    if (*sums && isByEpilogue(loop))
      return refuseEpilogue(loop, "no 'sum = matmul' for an all-reduce");
    return matchPushAllReduce(loop, getOrder(loop.schedule), *sums, isByEpilogue(loop));
  }
  if (ScatterLoop::isScatterLoop(loop)) {
    Explained<ScatterLoop> scatter = ScatterLoop::match(loop);
    if (failed(scatter))
      return scatter.explanation();
    Explained<bool> sums = isSumByMatmul(loop, scatter->scattered.plan);
    if (failed(sums))
      return sums.explanation();
    Explained<SmallVector<Batch>> batches =
        getBatches(loop, scatter->scattered.plan, scatter->digits, /*reduces=*/true);
    if (failed(batches))
      return batches.explanation();
    bool epilogue = isByEpilogue(loop);
    if (epilogue)
      if (Obstacle why = verifyEpiloguePush(loop, scatter->scatter, scatter->digits,
                                            scatter->producers.size()))
        return why;
    SchedulePlan plan{
        [scatter = *scatter, batches = *batches, epilogue, sums = *sums](ProgramBuilder &program) {
          return PushReduce(scatter, program, epilogue, sums).emit(batches);
        },
        {Capability::OneSided},
        /*addsInRankOrder=*/!*sums};
    plan.uses.add(Capability::EpilogueStore, epilogue).add(Capability::LinkPerPair, copies);
    return plan;
  }
  Explained<GatherLoop> gather = GatherLoop::match(loop);
  if (failed(gather))
    return gather.explanation();
  Explained<SmallVector<Batch>> batches =
      getBatches(loop, gather->plan, gather->digits, /*reduces=*/false);
  if (failed(batches))
    return batches.explanation();
  Explained<std::optional<int64_t>> blocks = getPushBlocks(loop, *gather);
  if (failed(blocks))
    return blocks.explanation();
  SchedulePlan plan{
      [gather = *gather, batches = *batches, blocks = *blocks](ProgramBuilder &program) {
        return PushGather(gather, program, blocks).emit(batches);
      },
      usesOfPush(*blocks).add(Capability::LinkPerPair, copies)};
  return plan;
}

/// Whether some op that reads a gathered value, or what elementwise ops make of it, combines over
/// dimension `dim`, and another one does not.
static bool isCombined(fusion::ReshardOp gather, int64_t dim) {
  bool combines = false, keeps = false;
  llvm::SmallSetVector<Value, 8> values;
  values.insert(gather.getResult());
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      Operation *user = use.getOwner();
      std::optional<fusion::AxesRule> rule = fusion::getAxesRule(user);
      if (fusion::isElementwise(user)) {
        values.insert(user->result_begin(), user->result_end());
      } else if (rule) {
        int64_t factor = rule->operands[use.getOperandNumber()][dim];
        bool combined =
            factor != fusion::AxesRule::kNone && fusion::isCombined(rule->factors[factor]);
        (combined ? combines : keeps) = true;
      }
    }
  return combines && keeps;
}

void Push::getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  auto getPush = [&](const Twine &options = "") {
    return getAttr(loop.place->getContext(), options);
  };
  // Few devices at first (of a reduction: at last), then as many as there have been. Example of 8:
  // 1, 1, 2, 4. Nothing for other numbers.
  auto getMerge = [](int64_t devices, bool reduces) {
    SmallVector<std::string> merge;
    if (!llvm::isPowerOf2_64(devices) || devices < 4)
      return std::string();
    merge.push_back("1");
    for (int64_t count = 1; count < devices; count *= 2)
      merge.push_back(std::to_string(count));
    if (reduces)
      std::reverse(merge.begin(), merge.end());
    return "order = xor, merge = [" + llvm::join(merge, ", ") + "]";
  };
  fusion::ScheduleAttr plain = getPush(), onTwo = getPush("streams = 2"), sms = getPush("by = sms"),
                       epilogue = getPush("by = epilogue");
  if (!loop.streamSizes.empty() && !loop.reshards().empty()) {
    std::string merge = getMerge(loop.numSlices(), ScatterLoop::isScatterLoop(loop));
    candidates.append({{plain}, {onTwo}});
    if (!merge.empty())
      candidates.append({{getPush(merge)}, {getPush(merge + ", streams = 2")}});
  }
  if (!loop.streamSizes.empty())
    candidates.append({{sms}, {epilogue}});
  auto getAllReduces = [&](fusion::ReshardOp op) {
    return getAllReduceFactors(op, loop.thresholds.row);
  };
  addSliced(loop, plain, getAllReduces, candidates);
  addSliced(loop, epilogue, getAllReduceRows, candidates);
  for (fusion::ScheduleAttr schedule : {plain, onTwo}) {
    addSliced(loop, schedule, getOwnerFactor, candidates);
    addSliced(loop, schedule, getFineOwnerFactors, candidates);
  }
  using Slices = std::pair<unsigned, fusion::StreamFactor>;
  auto forEach = [&](auto getFactors, auto visit) {
    for (auto [number, reshard] : llvm::enumerate(getNumberedReshards(loop)))
      for (const fusion::StreamFactor &factor : getFactors(reshard))
        visit(reshard, Slices(number, factor));
  };
  auto getOwnerFactors = [](fusion::ReshardOp op) {
    SmallVector<fusion::StreamFactor> factors = getOwnerFactor(op);
    llvm::append_range(factors, getFineOwnerFactors(op));
    return factors;
  };
  // Weight gradients, which add up slices of rows, as one matmul behind the loop.
  forEach(getOwnerFactors, [&](fusion::ReshardOp op, const Slices &slices) {
    if (!slices.second.toOwners && isCombined(op, slices.second.dim))
      candidates.push_back({getPush("combine = whole"), slices});
  });
  // Sums by the matmuls of two devices.
  auto getSums = [&](fusion::ReshardOp op) {
    SmallVector<fusion::StreamFactor> sums = getAllReduces(op);
    llvm::append_range(sums, getOwnerFactors(op));
    return sums;
  };
  forEach(getSums, [&](fusion::ReshardOp, const Slices &slices) {
    if (slices.second.count == 2 * slices.second.perOwner)
      candidates.push_back({getPush("sum = matmul"), slices});
  });
  fusion::ScheduleAttr copies = getPush("copies = " + Twine(kCopies));
  addSliced(loop, copies, getOwnerFactor, candidates);
  addSliced(loop, copies, getFineOwnerFactors, candidates);
  // One kernel for all slices.
  forEach(getOwnerFactors,
          [&](fusion::ReshardOp, const Slices &slices) { candidates.push_back({sms, slices}); });
  forEach(getOwnerFactor, [&](fusion::ReshardOp, const Slices &slices) {
    const fusion::StreamFactor &factor = slices.second;
    std::string merge = getMerge(factor.count, factor.toOwners);
    if (!merge.empty())
      candidates.append({{getPush(merge), slices}, {getPush(merge + ", streams = 2"), slices}});
    candidates.push_back({epilogue, slices});
    if (factor.count == 2)
      candidates.push_back({getPush("by = epilogue, sum = matmul"), slices});
    // One kernel that pushes also pays with one matmul behind it.
    if (factor.toOwners || !llvm::isPowerOf2_64(factor.count))
      return;
    if (!merge.empty())
      candidates.push_back({getPush(merge + ", by = sms"), slices});
    candidates.push_back(
        {getPush("order = xor, by = sms, merge = [" + Twine(factor.count) + "]"), slices});
  });
}

std::unique_ptr<Schedule> tandem::createPushSchedule() { return std::make_unique<Push>(); }
