//===- Ring.cpp - slices go from neighbour to neighbour ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/GatherLoop.h"
#include "Support/Messages.h"
#include "Support/Peers.h"
#include "Support/ScatterLoop.h"
#include "Support/SliceFactors.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

namespace {

/// The options. With two directions, each has its own channel and stream.
struct Form {
  int64_t directions = 1;
  bool splits = false; ///< each direction carries half of every device's slices, all the way round
  bool isDoubleBuffered = false; ///< of a gather: slices live in two shards for each direction

  /// None if slices of one device cannot be halved.
  static Explained<Form> match(const StreamLoop &loop, int64_t slices);
  SliceNumbers getNumbers(int64_t direction, int64_t slices) const {
    if (!splits)
      return {};
    return direction == 0 ? SliceNumbers{0, slices / 2} : SliceNumbers{slices / 2, slices};
  }
};

/// A ring of devices. In direction 0 slices come from the next device, so the device that owns them
/// is the farther on the longer they travel; in direction 1 it is the other way round.
class RingLoop {
public:
  RingLoop(const Form &form, const fusion::SliceReshard &plan, Location loc,
           ProgramBuilder &program);

  LogicalResult overlap(function_ref<LogicalResult()> body) const {
    return program.overlap(loc, form.directions, mesh, body);
  }
  Value getStream(int64_t direction) const { return program.getWorker(loc, direction); }
  /// `stream` goes on when `after` has done what it has so far.
  void sync(Value stream, Value after) const {
    hostir::SyncOp::create(program.getBuilder(), loc, stream, after);
  }
  /// The device at a distance, in the direction that slices come from.
  Value getDevice(int64_t direction, Value distance) const {
    return direction == 0 ? peers.getSource(distance) : peers.getTarget(distance);
  }
  MessageGroup getGroup(int64_t direction) const;
  Value addOne(Value step) const { return program.math(loc).add(step, 1); }

  const Form form;
  ProgramBuilder &program;
  Location loc;
  MeshAttr mesh;
  Peers peers;

private:
  SmallVector<Value, 2> channels; ///< one for each direction
};

} // namespace

RingLoop::RingLoop(const Form &form, const fusion::SliceReshard &plan, Location loc,
                   ProgramBuilder &program)
    : form(form), program(program), loc(loc), mesh(plan.mesh),
      peers(program, loc, plan.mesh, plan.axes) {
  for (int64_t direction = 0; direction < form.directions; ++direction)
    channels.push_back(program.getChannel(mesh, plan.axes, hostir::Capability::TwoSided,
                                          static_cast<unsigned>(direction)));
}

MessageGroup RingLoop::getGroup(int64_t direction) const {
  Value one = program.getIndex(1);
  Value next = getDevice(direction, one), previous = getDevice(1 - direction, one);
  return {channels[direction], /*to=*/previous, /*from=*/next, getStream(direction)};
}

Explained<Form> Form::match(const StreamLoop &loop, int64_t slices) {
  Form form;
  form.splits = loop.schedule.getWord("split") == "yes";
  form.directions = form.splits ? 2 : std::max<int64_t>(1, loop.schedule.getInteger("directions"));
  if (form.directions > 2)
    return loop.explain() << "schedule ring: expected 1 or 2 directions, found " << form.directions;
  bool goesBothWays = form.splits || (form.directions == 2 && ScatterLoop::isScatterLoop(loop));
  if (goesBothWays && slices % 2 != 0)
    return loop.explain()
           << "schedule ring: expected an even number of slices per device, half of which go "
              "each way, found "
           << slices << "; append a stream digit of 2";
  form.splits = goesBothWays;
  int64_t buffers = loop.schedule.getInteger("buffers");
  if (buffers != 0 && buffers != 2)
    return loop.explain()
           << "schedule ring: expected buffers = 2, or none for one per device, found " << buffers;
  form.isDoubleBuffered = buffers == 2;
  return form;
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

/// Two shards for each gather and direction: what arrives in one step is computed on, and sent on,
/// while the next arrives in the other one.
class DoubleBuffers {
public:
  /// Gathered values get no buffer of their own.
  DoubleBuffers(const GatherLoop &gather, int64_t directions, ProgramBuilder &program)
      : gather(gather) {
    for (int64_t i = 0; i < 2 * directions; ++i)
      for (fusion::ReshardOp reshard : gather.gathers) {
        RankedTensorType type = reshard.getInput().getType();
        Value shard = program.alloc(
            gather.getLoc(), MemRefType::get(*fusion::getLocalShape(type), type.getElementType()));
        shards[i].push_back(shard);
        program.setBuffer(reshard.getResult(), shard);
      }
  }
  /// Where slices arrive that are computed on in `step`, one for each gather.
  ArrayRef<Value> get(int64_t direction, int64_t step) const {
    return shards[2 * direction + step % 2];
  }
  /// Lets the loop read a slice there.
  LogicalResult read(LoopEmitter &body, ArrayRef<Value> from, const SliceIndex &slice) const {
    for (auto [reshard, shard] : llvm::zip_equal(gather.gathers, from)) {
      FailureOr<ReshardPlan> plan = planReshardFor(reshard, slice, Value(), body.getBuilder());
      if (failed(plan))
        return failure();
      body.readFrom(fusion::ReshardOp(reshard).getResult(), {shard, plan->source});
    }
    return success();
  }

private:
  const GatherLoop &gather;
  SmallVector<Value> shards[4];
};

namespace {

/// In step 0 the device computes on its own slices, in step d on those that the hops of step d - 1
/// have brought. The hop of a step is issued before its compute and sends what that reads.
class RingGather {
public:
  RingGather(const GatherLoop &gather, const Form &form, ProgramBuilder &program)
      : gather(gather), form(form), program(program), body(gather.loop, program) {}

  LogicalResult emit();

private:
  // `number`: of the step, if it is known, which is with double buffers.
  LogicalResult hop(int64_t direction, Value step, int64_t number);
  LogicalResult compute(int64_t direction, Value step, int64_t number);
  /// Steps [first, end) with the same directions: `computes` have brought slices, `hopping` bring
  /// more.
  LogicalResult emitSteps(int64_t first, int64_t end, int64_t computes, int64_t hopping);
  LogicalResult emitStep(Value step, int64_t number, int64_t computes, int64_t hopping);
  LogicalResult emitAll();
  /// In how many steps slices come from a direction: whole shards come from the nearer side.
  int64_t countSteps(int64_t direction) const;
  SliceNumbers getNumbers(int64_t direction) const {
    return form.getNumbers(direction, gather.digits.numSlices());
  }

  const GatherLoop &gather;
  const Form &form;
  ProgramBuilder &program;
  LoopEmitter body;
  std::optional<DoubleBuffers> buffers;
  std::optional<RingLoop> ring;
};

} // namespace

int64_t RingGather::countSteps(int64_t direction) const {
  int64_t others = gather.digits.devices - 1;
  if (form.splits || form.directions == 1)
    return direction < form.directions ? others : 0;
  return direction == 0 ? llvm::divideCeil(others, 2) : others / 2;
}

LogicalResult RingGather::hop(int64_t direction, Value step, int64_t number) {
  bool isOwn = number == 0;
  Value owner = isOwn ? ring->peers.me : ring->getDevice(direction, step);
  ArrayRef<Value> from, to;
  if (buffers) {
    from = buffers->get(direction, number);
    to = buffers->get(direction, number + 1);
    // What the compute of the step before has read is overwritten.
    if (number >= 2)
      ring->sync(ring->getStream(direction), program.getMainStream());
  }
  Value next = ring->getDevice(direction, ring->addOne(step));
  return GatherHops(gather, body)
      .emit(owner, next, isOwn, getNumbers(direction), ring->getGroup(direction), from, to);
}

LogicalResult RingGather::compute(int64_t direction, Value step, int64_t number) {
  LogicalResult done = gather.computeFrom(
      body, ring->getDevice(direction, step), onMain,
      [&](Value, const SliceIndex &slice, Value) {
        return buffers ? buffers->read(body, buffers->get(direction, number), slice) : success();
      },
      getNumbers(direction));
  body.clearPlaces();
  return done;
}

LogicalResult RingGather::emitStep(Value step, int64_t number, int64_t computes, int64_t hopping) {
  for (int64_t direction = 0; direction < computes; ++direction)
    ring->sync(program.getMainStream(), ring->getStream(direction));
  for (int64_t direction = 0; direction < hopping; ++direction)
    if (failed(hop(direction, step, number)))
      return failure();
  for (int64_t direction = 0; direction < computes; ++direction)
    if (failed(compute(direction, step, number)))
      return failure();
  return success();
}

LogicalResult RingGather::emitSteps(int64_t first, int64_t end, int64_t computes, int64_t hopping) {
  if (!buffers)
    return program.loop(gather.getLoc(), first, end,
                        [&](Value step) { return emitStep(step, first, computes, hopping); });
  for (int64_t step = first; step < end; ++step)
    if (failed(emitStep(program.getIndex(step), step, computes, hopping)))
      return failure();
  return success();
}

LogicalResult RingGather::emitAll() {
  int64_t steps[2] = {countSteps(0), countSteps(1)};
  auto countFrom = [&](int64_t step) { // directions that bring slices of `step`
    return static_cast<int64_t>(step <= steps[0]) + static_cast<int64_t>(step <= steps[1]);
  };
  for (int64_t direction = 0; direction < countFrom(1); ++direction)
    if (failed(hop(direction, program.getIndex(0), /*number=*/0)))
      return failure();
  if (failed(gather.computeOwn(body, ring->peers.me, onMain)))
    return failure();
  // Runs of equal steps are one loop.
  for (int64_t first = 1, end = 2; first <= steps[0]; first = end++) {
    while (end <= steps[0] && countFrom(end) == countFrom(first) &&
           countFrom(end + 1) == countFrom(first + 1))
      ++end;
    if (failed(emitSteps(first, end, countFrom(first), countFrom(first + 1))))
      return failure();
  }
  return success();
}

LogicalResult RingGather::emit() {
  if (form.isDoubleBuffered)
    buffers.emplace(gather, form.directions, program);
  if (failed(body.prepare()))
    return failure();
  ring.emplace(form, gather.plan, gather.getLoc(), program);
  LogicalResult done = ring->overlap([&] { return emitAll(); });
  return succeeded(done) ? body.finish() : done;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Partial sums travel: in step d = 0 ... P-2 the device computes the slices of the device at
/// distance d + 1, adds the partial sum that has come from the next device, and sends the sum to
/// the previous one. Its own slices come last, and what arrives then completes them. A step is
/// computed while the sums of the step before travel. With two directions, each carries half of the
/// slices.
static LogicalResult emitReduce(const ScatterLoop &scatter, const Form &form,
                                ProgramBuilder &program) {
  LoopEmitter body(scatter.loop, program);
  OpBuilder &builder = program.getBuilder();
  Location loc = scatter.getLoc();
  auto type = MemRefType::get(ArrayRef(scatter.getReceivedShape()).drop_front(),
                              scatter.scatter.getType().getElementType());
  SmallVector<Value, 2> arrived;
  for (int64_t direction = 0; direction < form.directions; ++direction)
    arrived.push_back(program.alloc(loc, type));
  if (failed(scatter.prepare(body)))
    return failure();
  RingLoop ring(form, scatter.scattered.plan, loc, program);
  Value main = program.getMainStream();
  auto kind = ReduceKindAttr::get(builder.getContext(), scatter.scattered.plan.reduction);
  auto add = [&](int64_t direction, const SliceIndex &slice, Value target) {
    hostir::AccumulateOp::create(builder, loc, kind,
                                 scatter.getTarget(program, arrived[direction], slice), target,
                                 ring.getStream(direction));
  };
  auto emitStep = [&](int64_t direction, Value step, bool isFirst) {
    MessageGroup group = ring.getGroup(direction);
    return scatter.computeFor(
        body, ring.getDevice(direction, ring.addOne(step)), onMain,
        [&](Value, const SliceIndex &slice, Value stream) {
          ring.sync(group.stream, stream);
          Value sum = scatter.getComputed(program, slice);
          if (!isFirst)
            add(direction, slice, sum);
          group.emit(program, loc,
                     Exchanged{sum, scatter.getTarget(program, arrived[direction], slice)});
          return success();
        },
        form.getNumbers(direction, scatter.digits.numSlices()));
  };
  auto emitSteps = [&](Value step, bool isFirst) -> LogicalResult {
    for (int64_t direction = 0; direction < form.directions; ++direction)
      if (failed(emitStep(direction, step, isFirst)))
        return failure();
    return success();
  };

  return ring.overlap([&]() -> LogicalResult {
    if (failed(emitSteps(program.getIndex(0), /*isFirst=*/true)) ||
        failed(program.loop(loc, 1, ring.peers.devices - 1,
                            [&](Value step) { return emitSteps(step, /*isFirst=*/false); })))
      return failure();
    Value result = program.getBuffer(scatter.scatter.getResult());
    for (int64_t direction = 0; direction < form.directions; ++direction) {
      SliceNumbers numbers = form.getNumbers(direction, scatter.digits.numSlices());
      if (failed(scatter.computeOwn(body, ring.peers.me, result, onMain, numbers)))
        return failure();
      ring.sync(ring.getStream(direction), main);
      if (failed(scatter.digits.forEachSlice(body, loc, ring.peers.me, /*isFirst=*/false, numbers,
                                             onMain, [&](Value, const SliceIndex &slice, Value) {
                                               add(direction, slice,
                                                   scatter.getTarget(program, result, slice));
                                               return success();
                                             })))
        return failure();
    }
    return success();
  });
}

/// The same with partial sums in f32 that the matmuls add to what has arrived: no addition of its
/// own, and no buffer for what is computed. A matmul waits for the sum that it adds to, so each
/// direction computes while the sums of the other one travel. In step s a sum lies in slot s mod
/// 2, and the next one arrives in the other slot; the last one in the result.
static LogicalResult emitAddingReduce(const ScatterLoop &scatter, const Form &form,
                                      ProgramBuilder &program) {
  LoopEmitter body(scatter.loop, program);
  Location loc = scatter.getLoc();
  SmallVector<int64_t> shape = scatter.getReceivedShape();
  shape.front() = 2;
  SmallVector<Value, 2> received;
  for (int64_t direction = 0; direction < form.directions; ++direction)
    received.push_back(
        program.alloc(loc, MemRefType::get(shape, scatter.scatter.getType().getElementType())));
  if (failed(scatter.prepare(body)))
    return failure();
  RingLoop ring(form, scatter.scattered.plan, loc, program);
  Value main = program.getMainStream(), result = program.getBuffer(scatter.scatter.getResult());
  auto getSlot = [&](int64_t direction, Value step) {
    Value parity = program.math(loc).mod(step, 2);
    return scatter.getSlot(program, received[direction], parity);
  };
  auto compute = [&](int64_t direction, Value device, ReceiveSlot slot, bool adds) {
    if (adds)
      ring.sync(main, ring.getStream(direction));
    return scatter.computeOwn(body, device, slot, onMain,
                              form.getNumbers(direction, scatter.digits.numSlices()), adds);
  };
  auto emitStep = [&](int64_t direction, Value step, bool isFirst, bool isLast) -> LogicalResult {
    Value next = ring.addOne(step), device = ring.getDevice(direction, next);
    ReceiveSlot slot = getSlot(direction, step);
    ReceiveSlot target = isLast ? ReceiveSlot(result) : getSlot(direction, next);
    if (failed(compute(direction, device, slot, /*adds=*/!isFirst)))
      return failure();
    MessageGroup group = ring.getGroup(direction);
    ring.sync(group.stream, main);
    return scatter.digits.forEachSlice(
        body, loc, device, /*isFirst=*/false,
        form.getNumbers(direction, scatter.digits.numSlices()), onMain,
        [&](Value, const SliceIndex &slice, Value) {
          Value from = scatter.getTarget(program, slot, slice);
          group.emit(program, loc, Exchanged{from, scatter.getTarget(program, target, slice)});
          return success();
        });
  };
  auto emitSteps = [&](Value step, bool isFirst, bool isLast) -> LogicalResult {
    for (int64_t direction = 0; direction < form.directions; ++direction)
      if (failed(emitStep(direction, step, isFirst, isLast)))
        return failure();
    return success();
  };

  return ring.overlap([&]() -> LogicalResult {
    if (failed(program.steps(loc, ring.peers.devices - 1, emitSteps)))
      return failure();
    for (int64_t direction = 0; direction < form.directions; ++direction)
      if (failed(compute(direction, ring.peers.me, result, /*adds=*/true)))
        return failure();
    return success();
  });
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

namespace {

/// Devices forward what has arrived to their neighbour, in one direction or in both
/// (docs/schedules.md).
class Ring : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    return {"ring",
            {{"directions", Option::Kind::Integer},
             {"split", Option::Kind::Word, 0, {"no", "yes"}},
             {"buffers", Option::Kind::Integer}},
            {{{"sum", "matmul"}, {fusion::LoopKind::Reduction}},
             {{"buffers"}, {fusion::LoopKind::Gather}}}};
  }
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;
  Explained<SchedulePlan> match(const StreamLoop &loop) const override;
};

} // namespace

/// With more devices, a ring's hops take longer than anything else by their number alone, and much
/// time to price.
static constexpr int64_t kMostDevices = 16;

/// Whole shards both ways suit gathers that feed compute: both arrivals of a step do. Split shards
/// suit gathers alone. The price decides between them and the other schedules. In a reduction both
/// ways, each matmul may add to the sum that has arrived.
void Ring::getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  MLIRContext *context = loop.op->getContext();
  fusion::ScheduleAttr oneWay = getAttr(context), bothWays = getAttr(context, "directions = 2"),
                       adding = getAttr(context, "directions = 2, sum = matmul");
  bool reduces = ScatterLoop::isScatterLoop(loop);
  if (!loop.streamSizes.empty())
    candidates.push_back({reduces ? oneWay : bothWays});
  auto getFactor = [&](bool ofGathers) {
    return [ofGathers](fusion::ReshardOp op) {
      SmallVector<fusion::StreamFactor> factors = getOwnerFactor(op);
      llvm::erase_if(factors, [&](const fusion::StreamFactor &factor) {
        return factor.toOwners == ofGathers || factor.count > kMostDevices;
      });
      return factors;
    };
  };
  addSliced(loop, bothWays, getFactor(true), candidates);
  addSliced(loop, oneWay, getFactor(false), candidates);
  if (loop.ops.size() == loop.reshards().size())
    addSliced(loop, getAttr(context, "split = yes"), getFineOwnerFactors, candidates);
  // Matmuls that add to what has arrived need slices that travel both ways, and sums in f32.
  auto getSumsBothWays = [](fusion::ReshardOp op) {
    SmallVector<fusion::StreamFactor> factors;
    if (fusion::getAxes(op.getInput()).isPartial() && op.getType().getElementType().isF32())
      factors = getFineOwnerFactors(op);
    llvm::erase_if(factors, [](const fusion::StreamFactor &factor) { return !factor.toOwners; });
    return factors;
  };
  if (reduces && !loop.streamSizes.empty())
    candidates.push_back({adding});
  addSliced(loop, adding, getSumsBothWays, candidates);
}

Explained<SchedulePlan> Ring::match(const StreamLoop &loop) const {
  if (std::optional<SchedulePlan> plan = planIfNothingMoves(loop))
    return *plan;
  bool addsInMatmul = loop.schedule.getWord("sum") == "matmul";
  if (ScatterLoop::isScatterLoop(loop)) {
    Explained<ScatterLoop> scatter = ScatterLoop::match(loop);
    if (failed(scatter))
      return scatter.explanation();
    if (Obstacle why = scatter->verifyReduces())
      return why;
    Explained<Form> form = Form::match(loop, scatter->digits.numSlices());
    if (failed(form))
      return form.explanation();
    if (addsInMatmul && !scatter->canAdd())
      return loop.explain()
             << "schedule ring: expected partial sums in f32 of matmuls without bias, with "
                "'sum = matmul', found "
             << scatter->scatter.getInput().getType();
    return SchedulePlan{[scatter = *scatter, form = *form, addsInMatmul](ProgramBuilder &program) {
                          return addsInMatmul ? emitAddingReduce(scatter, form, program)
                                              : emitReduce(scatter, form, program);
                        },
                        /*uses=*/{}, /*addsInRankOrder=*/false};
  }
  Explained<GatherLoop> gather = GatherLoop::match(loop);
  if (failed(gather))
    return gather.explanation();
  if (Obstacle why = gather->verifyForwarded())
    return why;
  Explained<Form> form = Form::match(loop, gather->digits.numSlices());
  if (failed(form))
    return form.explanation();
  if (form->isDoubleBuffered && !gather->readsInPlace())
    return loop.explain()
           << "schedule ring: expected ops that read one slice at a time with the option "
              "'buffers', found one that needs the gathered value";
  return SchedulePlan{[gather = *gather, form = *form](ProgramBuilder &program) {
    return RingGather(gather, form, program).emit();
  }};
}

std::unique_ptr<Schedule> tandem::createRingSchedule() { return std::make_unique<Ring>(); }
