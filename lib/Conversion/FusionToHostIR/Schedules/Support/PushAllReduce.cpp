//===- PushAllReduce.cpp - all-reduces by puts, slice by slice --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PushAllReduce.h"

#include "../../OpLowering.h"
#include "EpiloguePush.h"
#include "OneSided.h"
#include "OwnerSlices.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

namespace {

/// A loop that computes partial sums, all-reduces them slice by slice, and may go on with the sums.
struct AllReduceLoop {
  const StreamLoop &loop;
  mutable fusion::ReshardOp reshard; ///< mutable, as accessors of ops are not const
  fusion::SliceReshard plan;         ///< of any slice, without indices
  OwnerDigits digits;
  SmallVector<Operation *> producers, consumers;
  PeerOrder order;
  bool sums;     ///< the matmul of a device's own slice adds what has arrived; of two devices
  bool epilogue; ///< the matmul that computes the slices stores them to the devices
};

/// In round k each device computes slice k of every other device and puts it there, then its own,
/// which it reduces when all partial sums have come, and puts to all others. Round k is reduced and
/// handed out while round k + 1 is computed. If the matmul of the local slice adds, it comes one
/// round later. By the epilogue there is one round, all of it on the main stream.
///
/// All devices put in the same order, from one stream: a partial sum of round k + 1 to a peer, a
/// sum of round k to the one before it, and so on. With one round each receives from one device at
/// a time. With more, more than two devices get out of step: two send to one device, and another
/// link is idle. With two streams they did so more often (4 H200: up to 1.45 times as long).
class Emission {
public:
  Emission(const AllReduceLoop &all, ProgramBuilder &program);
  LogicalResult emit();

private:
  enum : int64_t { kPartialSums, kSums }; ///< the sets of signals
  Value getWorker(int64_t number) const {
    if (all.epilogue)
      return program.getMainStream();
    return program.getWorker(loc, number);
  }
  Value getCopyStream() const { return getWorker(0); }
  Value getFinishStream() const { return getWorker(1); }
  /// Of two workers not the one that copies: a put would stand after a wait.
  Value getReduceStream() const { return getWorker(program.getWorkers() > 2 ? 2 : 1); }
  void sync(Value stream, Value after) const {
    if (!all.epilogue)
      hostir::SyncOp::create(builder, loc, stream, after);
  }

  LogicalResult prepare();
  LogicalResult emitRounds();
  /// Computes the slices of others and puts them there. `before`: the round whose sums are
  /// exchanged meanwhile; null: none.
  LogicalResult computeOthers(Value round, Value before = {});
  /// The partial sums of all slices, where their matmul stores them.
  LogicalResult computeAndStore(Value round);
  /// Adds up the local slice of a round.
  LogicalResult sum(Value round);
  /// Puts the sum of a round to a peer.
  void deliver(Value round, Value distance);
  /// Waits for the sum of a round from a peer; then what follows, on it.
  LogicalResult receive(Value round, Value distance);
  LogicalResult deliverAndReceive(Value round, Value distance) {
    deliver(round, distance);
    return receive(round, distance);
  }
  /// The same with all peers; also what follows, on the local slice.
  LogicalResult deliverToAll(Value round);
  /// Computes the local slice of a round, plus what the other device has computed of it.
  LogicalResult sumByMatmul(Value round, const SliceIndex &slice);
  LogicalResult computeOwn(Value round, const SliceIndex &slice);
  /// What follows the all-reduce, on a slice that has arrived, or is the device's own.
  LogicalResult finish(const SliceIndex &slice, bool isOwn);
  LogicalResult finishOwn(Value round) { return finish(getSlice(peers.me, round), /*isOwn=*/true); }
  SliceIndex getSlice(Value owner, Value round) const {
    return all.digits.getIndex(builder, loc, owner, round, /*isFirst=*/false);
  }
  /// A slice in a buffer of the shape of the value.
  Value getView(Value buffer, const SliceIndex &slice) const;
  /// Where this device adds up its own slice.
  Value getSum(const SliceIndex &own) const {
    return getView(program.getBuffer(all.reshard.getResult()), own);
  }
  /// The partial sums of a round, or that of one device.
  Value getPlaces(Value round) const {
    return hostir::buildElementView(builder, loc, received, OpFoldResult(round));
  }
  Value getPlace(Value round, Value device) const {
    return hostir::buildElementView(builder, loc, received, {round, device});
  }

  const AllReduceLoop &all;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  LoopEmitter body;
  Peers peers;
  OneSided channel;
  LocalDims sliceDims; ///< of a buffer that holds one slice
  Value received;      ///< symmetric: [round, source, slice...]
  Value sums;          ///< symmetric, of the shape of the value: the sums of other devices
};

} // namespace

Emission::Emission(const AllReduceLoop &all, ProgramBuilder &program)
    : all(all), program(program), builder(program.getBuilder()), loc(all.reshard.getLoc()),
      body(all.loop, program), peers(program, loc, all.plan.mesh, all.plan.axes, all.order),
      channel(peers, all.plan.mesh, all.plan.axes, /*sets=*/2) {}

Value Emission::getView(Value buffer, const SliceIndex &slice) const {
  return makeView(builder, loc, buffer, getLocalDims(all.reshard.getType(), &slice), true);
}

LogicalResult Emission::prepare() {
  RankedTensorType type = all.reshard.getType();
  SliceIndex any = getSlice(program.getIndex(0), program.getIndex(0));
  SmallVector<int64_t> shape{all.digits.numSlices(), all.digits.devices};
  for (const SmallVector<LocalDigit> &digits : getLocalDims(type, &any)) {
    SmallVector<LocalDigit> &kept = sliceDims.emplace_back();
    int64_t extent = 1;
    for (const LocalDigit &digit : digits)
      if (digit.isKept()) {
        kept.push_back(digit);
        extent *= digit.size;
      }
    shape.push_back(extent);
  }
  received = program.allocSymmetric(loc, shape, type.getElementType());
  sums = program.allocSymmetric(loc, *fusion::getLocalShape(type), type.getElementType());
  // A result of the program is in the embedder's memory, which peers cannot access.
  if (!program.getBuffer(all.reshard.getResult()))
    program.setBuffer(all.reshard.getResult(), sums);
  return body.prepare();
}

LogicalResult Emission::computeOwn(Value round, const SliceIndex &slice) {
  Value place = getPlace(round, peers.me), stream = program.getMainStream();
  // A matmul writes straight into the receive memory.
  bool inPlace = body.writesPlace(all.reshard.getInput());
  if (inPlace)
    body.writeTo(all.reshard.getInput(), {place, sliceDims});
  LogicalResult done = body.emitSlices(all.producers, slice, stream, /*isStreamUsed=*/true);
  body.clearPlaces();
  if (!inPlace)
    hostir::CopyOp::create(builder, loc, getView(program.getBuffer(all.reshard.getInput()), slice),
                           makeView(builder, loc, place, sliceDims, true), stream);
  return done;
}

LogicalResult Emission::finish(const SliceIndex &slice, bool isOwn) {
  Value stream = getFinishStream(), result = program.getBuffer(all.reshard.getResult());
  if (!isOwn && result != sums)
    hostir::CopyOp::create(builder, loc, getView(sums, slice), getView(result, slice), stream);
  if (all.consumers.empty())
    return success();
  return body.emitSlices(all.consumers, slice, stream, /*isStreamUsed=*/true);
}

LogicalResult Emission::computeOthers(Value round, Value before) {
  Value main = program.getMainStream();
  auto compute = [&](Value distance) {
    Value peer = peers.getTarget(distance);
    SliceIndex slice = getSlice(peer, round);
    if (failed(body.emitSlices(all.producers, slice, main, /*isStreamUsed=*/true)))
      return failure();
    sync(getCopyStream(), main);
    channel.put(getView(program.getBuffer(all.reshard.getInput()), slice),
                makeView(builder, loc, getPlace(round, peers.me), sliceDims, true), peer,
                getCopyStream());
    channel.signal(peer, round, getCopyStream(), kPartialSums);
    return success();
  };
  int64_t devices = all.digits.devices;
  if (!before)
    return program.loop(loc, 1, devices, compute);
  // With more than one peer the sums come one put later: the round before is reduced meanwhile.
  int64_t late = devices > 2;
  auto exchange = [&](Value distance) { return deliverAndReceive(before, distance); };
  if (failed(program.loop(loc, 1, 1 + late, compute)))
    return failure();
  LogicalResult done = program.loop(loc, 1 + late, devices, [&](Value distance) {
    if (failed(compute(distance)))
      return failure();
    return exchange(program.math(loc).sub(distance, late));
  });
  return failed(done) ? failure() : program.loop(loc, devices - late, devices, exchange);
}

LogicalResult Emission::sumByMatmul(Value round, const SliceIndex &slice) {
  Value main = program.getMainStream();
  channel.waitForAll(round, main, kPartialSums);
  Value other = getPlace(round, peers.getSource(program.getIndex(1)));
  body.writeSumTo(
      all.reshard.getInput(),
      {program.getBuffer(all.reshard.getResult()), getLocalDims(all.reshard.getType(), &slice)},
      {other, sliceDims});
  LogicalResult done = body.emitSlices(all.producers, slice, main, /*isStreamUsed=*/true);
  body.clearPlaces();
  return done;
}

LogicalResult Emission::sum(Value round) {
  SliceIndex own = getSlice(peers.me, round);
  Value after = program.getMainStream();
  if (all.sums) {
    if (failed(sumByMatmul(round, own)))
      return failure();
  } else {
    if (!all.epilogue && failed(computeOwn(round, own)))
      return failure();
    sync(getReduceStream(), after);
    after = getReduceStream();
    channel.waitForAll(round, after, kPartialSums);
    auto kind = ReduceKindAttr::get(builder.getContext(), all.plan.reduction);
    hostir::ReduceOp::create(builder, loc, kind, getPlaces(round), getSum(own),
                             builder.getDenseI64ArrayAttr({0}), after);
  }
  if (!all.consumers.empty())
    sync(getFinishStream(), after);
  return success();
}

void Emission::deliver(Value round, Value distance) {
  SliceIndex own = getSlice(peers.me, round);
  Value peer = peers.getTarget(distance), stream = getCopyStream();
  sync(stream, all.sums ? program.getMainStream() : getReduceStream());
  channel.put(getSum(own), getView(sums, own), peer, stream);
  channel.signal(peer, round, stream, kSums);
}

LogicalResult Emission::receive(Value round, Value distance) {
  // On GPUs a wait is a kernel. Next to it, a matmul whose blocks need a whole SM each lacks one,
  // and takes up to twice as long. So the wait for the n-th sum begins when the n-th copy of the
  // own one has been sent: it comes at about that time, as all devices send in this order.
  sync(getFinishStream(), getCopyStream());
  Value from = peers.getSource(distance);
  channel.waitFor(from, round, getFinishStream(), kSums);
  return finish(getSlice(from, round), /*isOwn=*/false);
}

LogicalResult Emission::deliverToAll(Value round) {
  auto forEach = [&](function_ref<LogicalResult(Value)> body) {
    return program.loop(loc, 1, all.digits.devices, body);
  };
  auto put = [&](Value distance) {
    deliver(round, distance);
    return success();
  };
  // In one stream a put must not stand after a wait, nor after what follows.
  if (all.epilogue || program.getWorkers() == 1) {
    if (failed(forEach(put)) || failed(finishOwn(round)))
      return failure();
    return forEach([&](Value distance) { return receive(round, distance); });
  }
  if (failed(finishOwn(round)))
    return failure();
  return forEach([&](Value distance) { return deliverAndReceive(round, distance); });
}

LogicalResult Emission::computeAndStore(Value round) {
  return emitEpiloguePush(program, loc, [&] {
    return failed(computeOthers(round)) ? failure() : computeOwn(round, getSlice(peers.me, round));
  });
}

LogicalResult Emission::emitRounds() {
  int64_t rounds = all.digits.numSlices();
  Value first = program.getIndex(0), last = program.getIndex(rounds - 1);
  if (failed(all.epilogue ? computeAndStore(first) : computeOthers(first)))
    return failure();
  LogicalResult done = program.loop(loc, 1, rounds, [&](Value round) {
    Value before = program.math(loc).sub(round, 1);
    // The matmul that adds has this round's time to wait for its partial sums. In one stream no put
    // of this round stands after a wait of the one before.
    if (all.sums || program.getWorkers() == 1) {
      if (failed(computeOthers(round)) || failed(sum(before)))
        return failure();
      return deliverToAll(before);
    }
    if (failed(sum(before)) || failed(finishOwn(before)))
      return failure();
    return computeOthers(round, before);
  });
  if (failed(done) || failed(sum(last)))
    return failure();
  return deliverToAll(last);
}

LogicalResult Emission::emit() {
  if (failed(prepare()))
    return failure();
  int64_t streams = all.epilogue ? 0 : all.sums ? 2 : 3;
  LogicalResult done = program.overlap(loc, streams, all.plan.mesh, [&] { return emitRounds(); });
  return succeeded(done) ? body.finish() : done;
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

bool tandem::isAllReduceLoop(const StreamLoop &loop) {
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  if (reshards.size() != 1 || loop.streamSizes.empty() || loop.accumulators.contains(reshards[0]))
    return false;
  FailureOr<fusion::SliceReshard> plan = classifySlices(reshards[0]);
  return succeeded(plan) && plan->kind == fusion::ReshardKind::AllReduce;
}

Explained<SchedulePlan> tandem::matchPushAllReduce(const StreamLoop &loop, PeerOrder order,
                                                   bool sums, bool epilogue) {
  StringRef name = loop.schedule.getName();
  fusion::ReshardOp reshard = loop.reshards().front();
  Explained<fusion::SliceReshard> plan = classifySlices(reshard);
  if (failed(plan))
    return plan.explanation();
  Operation *producer = reshard.getInput().getDefiningOp();
  if (!loop.contains(producer) || !reshard.getInput().hasOneUse())
    return loop.explain() << "schedule " << name
                          << ": expected an all-reduce of what its loop computes for it alone";
  if (!loop.accumulators.empty() || !loop.digitMaps.empty() || !loop.raggedDigits.empty())
    return loop.explain()
           << "schedule " << name
           << ": expected no op that combines or regroups the slices of an all-reduce, and "
              "slices of one size";
  int64_t devices = plan->groupSize();
  const int64_t *digit = llvm::find(loop.streamSizes, devices);
  if (digit == loop.streamSizes.end())
    return loop.explain() << "schedule " << name << ": expected a stream digit for the " << devices
                          << " devices, each of which reduces its slices, found none of this size";
  AllReduceLoop all{loop,
                    reshard,
                    std::move(*plan),
                    OwnerDigits(loop, digit - loop.streamSizes.begin(), devices),
                    {},
                    {},
                    order,
                    sums,
                    epilogue};
  std::tie(all.producers, all.consumers) = loop.splitAround(reshard);
  if (epilogue)
    if (Obstacle why = verifyEpiloguePush(loop, reshard, all.digits, all.producers.size()))
      return why;
  SchedulePlan emission{
      [all = std::move(all)](ProgramBuilder &program) { return Emission(all, program).emit(); },
      {Capability::OneSided},
      /*addsInRankOrder=*/!sums};
  emission.uses.add(Capability::EpilogueStore, epilogue);
  return emission;
}
