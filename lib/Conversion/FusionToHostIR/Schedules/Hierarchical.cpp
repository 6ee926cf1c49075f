//===- Hierarchical.cpp - a ring across nodes, puts inside each node -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/GatherLoop.h"
#include "Support/Messages.h"
#include "Support/OneSided.h"
#include "Support/Peers.h"
#include "Support/ScatterLoop.h"
#include "Support/SliceFactors.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

namespace {

/// The devices that communicate, as nodes with equally many devices each. The last axis of the mesh
/// numbers the devices of a node, the other axes number the nodes. Example: of ["node" = 2, "gpu" =
/// 4] device 6 has number 2 in node 1.
struct Nodes {
  SmallVector<StringAttr> across, inside; ///< the axes of either kind that communicate
  int64_t nodes = 1, devices = 1;         ///< how many nodes, and devices in each
  bool isInsideFirst = false;             ///< the owners' digit is inside * across

  /// None if owners are not numbered node by node or the other
  /// way round.
  static Explained<Nodes> match(const StreamLoop &loop, const fusion::SliceReshard &plan);
};

/// What gathers and reductions share: streams, channels, and this device's coordinates.
class HierarchicalLoop {
public:
  /// `writes`: devices of a node write to each other; otherwise they exchange messages.
  HierarchicalLoop(const Nodes &nodes, MeshAttr mesh, Location loc, ProgramBuilder &program,
                   bool writes = true);

  LogicalResult overlap(function_ref<LogicalResult()> body) const {
    return program.overlap(loc, 2, mesh, body);
  }
  /// The stream of the puts inside of the node, and of the messages between nodes.
  Value getCopyStream() const { return program.getWorker(loc, 0); }
  Value getNetworkStream() const { return program.getWorker(loc, 1); }
  void sync(Value stream, Value after) const {
    hostir::SyncOp::create(builder, loc, stream, after);
  }

  /// The number among the owners of device `inside` of node `across`.
  Value getOwner(Value across, Value inside) const;

  /// Messages to the previous node and from the next one, between devices of one number.
  MessageGroup getHop() const;
  /// Messages to the device of the node that is `distance` away, and from that on the other side.
  MessageGroup getInside(Value distance) const;
  /// Slice `number` in step `step` as a signal tells of it.
  Value getNumber(Value step, Value number, int64_t slices) const;

  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  const Nodes &nodes;
  MeshAttr mesh;
  Peers across, inside;         ///< the devices of this one's number, and those of its node
  std::optional<OneSided> puts; ///< inside of the node, unless it is one device or sends messages

private:
  Value acrossChannel; ///< null if there is one node
  Value insideChannel; ///< of messages; null if the node puts
};

} // namespace

Explained<Nodes> Nodes::match(const StreamLoop &loop, const fusion::SliceReshard &plan) {
  Nodes result;
  StringAttr last = plan.mesh.getAxes().back().name;
  for (StringAttr axis : plan.axes) {
    (axis == last ? result.inside : result.across).push_back(axis);
    (axis == last ? result.devices : result.nodes) *= plan.mesh.axisSize(axis);
  }
  result.isInsideFirst =
      !result.inside.empty() && !result.across.empty() && plan.axes.front() == last;
  if (!result.inside.empty() && plan.axes.front() != last && plan.axes.back() != last)
    return loop.explain()
           << "schedule hierarchical: expected the mesh's last axis, " << last
           << ", to be the first or the last of the axes that split the dimension, found it "
              "between others";
  return result;
}

HierarchicalLoop::HierarchicalLoop(const Nodes &nodes, MeshAttr mesh, Location loc,
                                   ProgramBuilder &program, bool writes)
    : program(program), builder(program.getBuilder()), loc(loc), nodes(nodes), mesh(mesh),
      across(program, loc, mesh, nodes.across), inside(program, loc, mesh, nodes.inside) {
  if (nodes.nodes > 1)
    acrossChannel = program.getChannel(mesh, nodes.across, hostir::Capability::TwoSided);
  if (nodes.devices > 1 && writes)
    puts.emplace(inside, mesh, nodes.inside);
  else if (nodes.devices > 1)
    insideChannel = program.getChannel(mesh, nodes.inside, hostir::Capability::TwoSided);
}

Value HierarchicalLoop::getOwner(Value acrossIndex, Value insideIndex) const {
  auto [outer, inner] = nodes.isInsideFirst ? std::pair(insideIndex, acrossIndex)
                                            : std::pair(acrossIndex, insideIndex);
  int64_t innerSize = nodes.isInsideFirst ? nodes.nodes : nodes.devices;
  return program.math(loc).linear(outer, innerSize, inner);
}

MessageGroup HierarchicalLoop::getHop() const {
  Value one = program.getIndex(1);
  return {acrossChannel, across.getTarget(one), across.getSource(one), getNetworkStream()};
}

MessageGroup HierarchicalLoop::getInside(Value distance) const {
  return {insideChannel, inside.getTarget(distance), inside.getSource(distance), getCopyStream()};
}

Value HierarchicalLoop::getNumber(Value step, Value number, int64_t slices) const {
  return program.math(loc).linear(step, slices, number);
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

namespace {

/// In step n a device has the slices of the device of its own number on the n-th next node: it
/// forwards them to the previous node, puts them to the other devices of its node, and computes on
/// them and on what those devices put.
class HierarchicalGather {
public:
  /// `merges`: computes on all slices of another node at once. `sends`: slices are spread by
  /// messages, which need no symmetric memory: they arrive in results of the program, too.
  HierarchicalGather(const GatherLoop &gather, const Nodes &nodes, bool merges, bool sends,
                     ProgramBuilder &program)
      : gather(gather), merges(merges), sends(sends && nodes.devices > 1),
        loop(nodes, gather.plan.mesh, gather.getLoc(), program, !sends), body(gather.loop, program),
        program(program), builder(program.getBuilder()), loc(gather.getLoc()),
        slices(gather.digits.numSlices()) {}

  LogicalResult emit();

private:
  LogicalResult prepare();
  LogicalResult step(Value step, bool isFirst, bool forwards);
  LogicalResult forward(Value step, bool isOwn);
  LogicalResult spread(Value step, bool isOwn);
  LogicalResult exchange(Value step, Value distance, bool isOwn);
  LogicalResult compute(Value step, bool isOwn);
  LogicalResult computeHere(Value step, bool isOwn);
  LogicalResult computeThere(Value step, Value distance);
  LogicalResult exchangeAndCompute(Value step, bool isOwn);
  /// Waits for the slices of a whole node, then computes on them at once.
  LogicalResult computeNode(Value step);

  const GatherLoop &gather;
  bool merges, sends;
  HierarchicalLoop loop;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  int64_t slices;
  SmallVector<Value> received; ///< for each gather: symmetric memory, or its buffer
  std::optional<GatherHops> hops;
};

} // namespace

LogicalResult HierarchicalGather::prepare() {
  // One device of each node needs no puts, either.
  if (!loop.puts)
    for (fusion::ReshardOp reshard : gather.gathers)
      received.push_back(program.getOrAllocBuffer(reshard.getResult()));
  else
    received = gather.allocReceived(program);
  hops.emplace(gather, body, received);
  return body.prepare();
}

/// Sends the slices of `step` to the previous node and receives those of the next step.
LogicalResult HierarchicalGather::forward(Value step, bool isOwn) {
  Value next = program.math(loc).add(step, 1);
  // One after the other: what creates ops is no argument next to another, or compilers' programs
  // differ.
  Value owner = loop.getOwner(loop.across.getSource(step), loop.inside.me);
  Value from = loop.getOwner(loop.across.getSource(next), loop.inside.me);
  return hops->emit(owner, from, isOwn, SliceNumbers(), loop.getHop());
}

/// Puts the slices of `step` where they belong on the other devices of the node.
LogicalResult HierarchicalGather::spread(Value step, bool isOwn) {
  Value owner = loop.getOwner(loop.across.getSource(step), loop.inside.me);
  return program.loop(loc, 1, loop.nodes.devices, [&](Value distance) {
    Value peer = loop.inside.getTarget(distance);
    auto put = [&](Value number, const SliceIndex &slice, Value) -> LogicalResult {
      for (size_t i = 0; i < gather.gathers.size(); ++i) {
        FailureOr<Value> source = hops->getSource(i, slice, isOwn),
                         target = hops->getPlace(i, slice);
        if (failed(source) || failed(target))
          return failure();
        loop.puts->put(*source, *target, peer, loop.getCopyStream());
      }
      Value value = loop.getNumber(step, number, slices);
      loop.puts->signal(peer, value, loop.getCopyStream());
      return success();
    };
    return gather.digits.forEachSlice(body, loc, owner, isOwn, {}, onMain, put);
  });
}

/// Sends the slices of `step` that this device has to another one of the node, and receives those
/// of the device on the other side.
LogicalResult HierarchicalGather::exchange(Value step, Value distance, bool isOwn) {
  Value node = loop.across.getSource(step);
  Value owner = loop.getOwner(node, loop.inside.me);
  Value from = loop.getOwner(node, loop.inside.getSource(distance));
  return hops->emit(owner, from, isOwn, SliceNumbers(), loop.getInside(distance));
}

/// Computes on the slices of `step` that this device owns or has got from another node.
LogicalResult HierarchicalGather::computeHere(Value step, bool isOwn) {
  Value owner = loop.getOwner(loop.across.getSource(step), loop.inside.me);
  if (isOwn)
    return gather.computeOwn(body, owner, onMain);
  return gather.computeFrom(body, owner, onMain, [&](Value, const SliceIndex &slice, Value stream) {
    return gather.copyReceived(body, received, slice, stream);
  });
}

/// Computes on those that come from the device `distance` away in the node.
LogicalResult HierarchicalGather::computeThere(Value step, Value distance) {
  Value peer = loop.inside.getSource(distance);
  return gather.computeFrom(body, loop.getOwner(loop.across.getSource(step), peer), onMain,
                            [&](Value number, const SliceIndex &slice, Value stream) {
                              if (loop.puts)
                                loop.puts->waitFor(peer, loop.getNumber(step, number, slices),
                                                   stream);
                              return gather.copyReceived(body, received, slice, stream);
                            });
}

LogicalResult HierarchicalGather::compute(Value step, bool isOwn) {
  if (failed(computeHere(step, isOwn)))
    return failure();
  return program.loop(loc, 1, loop.nodes.devices,
                      [&](Value distance) { return computeThere(step, distance); });
}

/// With messages: the exchange at a distance is issued before the compute on what the one before
/// has brought.
LogicalResult HierarchicalGather::exchangeAndCompute(Value step, bool isOwn) {
  int64_t last = loop.nodes.devices - 1;
  auto arrive = [&] { loop.sync(program.getMainStream(), loop.getCopyStream()); };
  if (merges && !isOwn) {
    if (failed(program.loop(loc, 1, last + 1,
                            [&](Value distance) { return exchange(step, distance, isOwn); })))
      return failure();
    arrive();
    return computeNode(step);
  }
  if (failed(exchange(step, program.getIndex(1), isOwn)) || failed(computeHere(step, isOwn)) ||
      failed(program.loop(loc, 1, last, [&](Value distance) -> LogicalResult {
        arrive();
        Value next = program.math(loc).add(distance, 1);
        if (failed(exchange(step, next, isOwn)))
          return failure();
        return computeThere(step, distance);
      })))
    return failure();
  arrive();
  return computeThere(step, program.getIndex(last));
}

LogicalResult HierarchicalGather::computeNode(Value step) {
  Value stream = program.getMainStream(), zero = program.getIndex(0);
  Value from = loop.across.getSource(step);
  auto arrive = [&](Value device) {
    SliceIndex slice = gather.digits.getIndex(builder, loc, loop.getOwner(from, device), zero,
                                              /*isFirst=*/false);
    return gather.copyReceived(body, received, slice, stream);
  };
  if (failed(arrive(loop.inside.me)) ||
      failed(program.loop(loc, 1, loop.nodes.devices, [&](Value distance) {
        Value peer = loop.inside.getSource(distance);
        if (loop.puts)
          loop.puts->waitFor(peer, loop.getNumber(step, zero, slices), stream);
        return arrive(peer);
      })))
    return failure();
  SliceIndex all = gather.digits.getIndex(builder, loc, loop.getOwner(from, zero), zero,
                                          /*isFirst=*/false, loop.nodes.devices);
  return body.emitSlices(gather.consumers, all, stream, /*isStreamUsed=*/true);
}

LogicalResult HierarchicalGather::step(Value step, bool isFirst, bool forwards) {
  if (!isFirst) {
    // What the last hop has brought, before the next one is issued.
    loop.sync(loop.getCopyStream(), loop.getNetworkStream());
    loop.sync(program.getMainStream(), loop.getNetworkStream());
  }
  if (forwards && failed(forward(step, isFirst)))
    return failure();
  if (sends)
    return exchangeAndCompute(step, isFirst);
  if (failed(spread(step, isFirst)))
    return failure();
  return merges && !isFirst ? computeNode(step) : compute(step, isFirst);
}

LogicalResult HierarchicalGather::emit() {
  if (failed(prepare()))
    return failure();
  LogicalResult done = loop.overlap([&] {
    return program.steps(loc, loop.nodes.nodes, [&](Value number, bool isFirst, bool isLast) {
      return step(number, isFirst, /*forwards=*/!isLast);
    });
  });
  return succeeded(done) ? body.finish() : done;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {

/// In step i each node computes the slices of the (i + 1)-th next node, the local ones last. Its
/// devices put them to the device of the owner's number, which adds them to the partial sum that
/// comes from the next node, and sends the sum to the previous node.
class HierarchicalReduce {
public:
  HierarchicalReduce(const ScatterLoop &scatter, const Nodes &nodes, ProgramBuilder &program)
      : scatter(scatter), loop(nodes, scatter.scattered.plan.mesh, scatter.getLoc(), program),
        body(scatter.loop, program), program(program), builder(program.getBuilder()),
        loc(scatter.getLoc()), slices(scatter.digits.numSlices()) {}

  LogicalResult emit();

private:
  LogicalResult compute(Value step);
  void reduce(Value step, bool isFirst, bool isLast);
  /// The number of the slot of device `from` of the node in step `step`; the last one is for what
  /// the next node sends.
  Value getNumber(Value step, Value from);
  /// The slots of the node's devices in a step, with that of the next node if `withNext`.
  Value getPlaces(Value step, bool withNext);

  const ScatterLoop &scatter;
  HierarchicalLoop loop;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  int64_t slices;
  Value received; ///< [step * (devices + 1) + source, own piece...]
  Value sum;      ///< what is sent to the previous node
};

} // namespace

Value HierarchicalReduce::getNumber(Value step, Value from) {
  return program.math(loc).linear(step, loop.nodes.devices + 1, from);
}

Value HierarchicalReduce::getPlaces(Value step, bool withNext) {
  return hostir::buildRangeView(builder, loc, received, 0, getNumber(step, program.getIndex(0)),
                                loop.nodes.devices + withNext);
}

LogicalResult HierarchicalReduce::compute(Value step) {
  Value next = program.math(loc).add(step, 1);
  Value node = loop.across.getSource(next);
  ReceiveSlot slot = scatter.getSlot(program, received, getNumber(step, loop.inside.me));
  LogicalResult done = program.loop(loc, 1, loop.nodes.devices, [&](Value distance) {
    Value peer = loop.inside.getTarget(distance);
    return scatter.computeFor(body, loop.getOwner(node, peer), onMain,
                              [&](Value number, const SliceIndex &slice, Value stream) {
                                loop.sync(loop.getCopyStream(), stream);
                                loop.puts->put(scatter.getComputed(program, slice),
                                               scatter.getTarget(program, slot, slice), peer,
                                               loop.getCopyStream());
                                Value value = loop.getNumber(step, number, slices);
                                loop.puts->signal(peer, value, loop.getCopyStream());
                                return success();
                              });
  });
  if (failed(done))
    return failure();
  return scatter.computeOwn(body, loop.getOwner(node, loop.inside.me), slot, onMain);
}

void HierarchicalReduce::reduce(Value step, bool isFirst, bool isLast) {
  Value stream = loop.getNetworkStream();
  loop.sync(stream, program.getMainStream());
  if (!isFirst) {
    Value next = program.getIndex(loop.nodes.devices);
    Exchanged piece{sum, scatter.getSlot(program, received, getNumber(step, next)).buffer};
    loop.getHop().emit(program, loc, piece);
  }
  Value last = program.getIndex(slices - 1);
  (void)program.loop(loc, 1, loop.nodes.devices, [&](Value distance) {
    loop.puts->waitFor(loop.inside.getSource(distance), loop.getNumber(step, last, slices), stream);
    return success();
  });
  auto kind = ReduceKindAttr::get(builder.getContext(), scatter.scattered.plan.reduction);
  hostir::ReduceOp::create(builder, loc, kind, getPlaces(step, /*withNext=*/!isFirst),
                           isLast ? program.getBuffer(scatter.scatter.getResult()) : sum,
                           builder.getDenseI64ArrayAttr({0}), stream);
}

LogicalResult HierarchicalReduce::emit() {
  int64_t steps = loop.nodes.nodes;
  SmallVector<int64_t> shape = scatter.getReceivedShape();
  shape.front() = steps * (loop.nodes.devices + 1);
  Type element = scatter.scatter.getType().getElementType();
  received = program.allocSymmetric(loc, shape, element);
  if (steps > 1)
    sum = program.alloc(loc, MemRefType::get(ArrayRef(shape).drop_front(), element));
  if (failed(scatter.prepare(body)))
    return failure();
  return loop.overlap([&] {
    return program.steps(loc, steps, [&](Value step, bool isFirst, bool isLast) {
      if (failed(compute(step)))
        return failure();
      reduce(step, isFirst, isLast);
      return success();
    });
  });
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

namespace {

/// For gathers and reductions over several nodes whose slices have one owner each: each slice
/// crosses the network once per node, and is spread inside of each node by one-sided copies
/// (docs/schedules.md).
class Hierarchical : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    return {"hierarchical",
            {{"merge", Option::Kind::Word, 0, {"none", "node"}},
             {"spread", Option::Kind::Word, 0, {"put", "send"}}},
            {{{"merge", "node"}, {fusion::LoopKind::Gather}},
             {{"spread", "send"}, {fusion::LoopKind::Gather}}}};
  }
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;
  Explained<SchedulePlan> match(const StreamLoop &loop) const override;
};

} // namespace

void Hierarchical::getCandidates(const StreamLoop &loop,
                                 SmallVectorImpl<Candidate> &candidates) const {
  // Along one axis it is a ring or a push, which are candidates of their own.
  auto isAcrossNodes = [](fusion::ReshardOp op) {
    return llvm::count_if(fusion::getAxes(op.getType()).getMesh().getAxes(),
                          [](const MeshAxis &axis) { return axis.size > 1; }) > 1;
  };
  if (llvm::none_of(loop.reshards(), isAcrossNodes))
    return;
  auto add = [&](StringRef options) {
    fusion::ScheduleAttr schedule = getAttr(loop.op->getContext(), options);
    if (!loop.streamSizes.empty())
      candidates.push_back({schedule});
    addSliced(loop, schedule, getOwnerFactor, candidates);
  };
  add("");
  add("merge = node");
  // Results of the program cannot be put to: messages save a copy.
  if (loop.ops.size() == loop.reshards().size())
    add("spread = send");
}

Explained<SchedulePlan> Hierarchical::match(const StreamLoop &loop) const {
  if (std::optional<SchedulePlan> plan = planIfNothingMoves(loop))
    return *plan;
  bool merges = loop.schedule.getWord("merge") == "node";
  bool sends = loop.schedule.getWord("spread") == "send";
  if (ScatterLoop::isScatterLoop(loop)) {
    Explained<ScatterLoop> scatter = ScatterLoop::match(loop);
    if (failed(scatter))
      return scatter.explanation();
    if (Obstacle why = scatter->verifyReduces())
      return why;
    Explained<Nodes> nodes = Nodes::match(loop, scatter->scattered.plan);
    if (failed(nodes))
      return nodes.explanation();
    return SchedulePlan{[scatter = *scatter, nodes = *nodes](ProgramBuilder &program) {
                          return HierarchicalReduce(scatter, nodes, program).emit();
                        },
                        program::CapabilitySet().add(Capability::OneSided, nodes->devices > 1),
                        /*addsInRankOrder=*/false};
  }
  Explained<GatherLoop> gather = GatherLoop::match(loop);
  if (failed(gather))
    return gather.explanation();
  if (Obstacle why = gather->verifyForwarded())
    return why;
  Explained<Nodes> nodes = Nodes::match(loop, gather->plan);
  if (failed(nodes))
    return nodes.explanation();
  if (merges && nodes->isInsideFirst)
    return loop.explain()
           << "schedule hierarchical: expected the slices of a node's devices to be neighbours "
              "with 'merge', found those of devices with one number";
  if (merges)
    if (Obstacle why = verifyMerge(loop, gather->digits, nodes->across))
      return why;
  return SchedulePlan{
      [gather = *gather, nodes = *nodes, merges, sends](ProgramBuilder &program) {
        return HierarchicalGather(gather, nodes, merges, sends, program).emit();
      },
      program::CapabilitySet().add(Capability::OneSided, nodes->devices > 1 && !sends)};
}

std::unique_ptr<Schedule> tandem::createHierarchicalSchedule() {
  return std::make_unique<Hierarchical>();
}
