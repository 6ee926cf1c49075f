//===- OneSided.cpp - puts and signals of a schedule ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneSided.h"

#include "tandem/Program/FusedExchange.h"

using namespace mlir;
using namespace tandem;
using program::Capability;

OneSided::OneSided(const Peers &peers, MeshAttr mesh, ArrayRef<StringAttr> axes, int64_t sets)
    : program(peers.program), loc(peers.loc), peers(peers),
      channel(program.getChannel(mesh, axes, hostir::Capability::OneSided)),
      firstSignal(program.takeSignals(peers.devices * sets)) {}

void OneSided::put(Value source, Value target, Value peer, Value stream) const {
  hostir::PutOp::create(program.getBuilder(), loc, source, target, peer, channel, stream);
}

Value OneSided::getSlot(Value device, int64_t set) const {
  return program.math(loc).add(device, firstSignal + set * peers.devices);
}

void OneSided::signal(Value peer, Value number, Value stream, int64_t set) const {
  OpBuilder &builder = program.getBuilder();
  hostir::SignalOp::create(builder, loc, getSlot(peers.me, set), program.math(loc).add(number, 1),
                           peer, channel, stream);
}

void OneSided::waitFor(Value from, Value number, Value stream, int64_t set) const {
  OpBuilder &builder = program.getBuilder();
  hostir::WaitSignalOp::create(builder, loc, getSlot(from, set), program.math(loc).add(number, 1),
                               channel, stream);
}

void OneSided::waitForAll(Value number, Value stream, int64_t set) const {
  (void)program.loop(loc, 1, peers.devices, [&](Value distance) {
    waitFor(peers.getSource(distance), number, stream, set);
    return success();
  });
}

LogicalResult OneSided::putSlices(LoopEmitter &body, const GatherLoop &gather,
                                  ArrayRef<Value> received,
                                  function_ref<Value(Value distance)> getStream,
                                  SliceNumbers numbers) const {
  OpBuilder &builder = program.getBuilder();
  return program.loop(loc, 1, peers.devices, [&](Value distance) {
    Value peer = peers.getTarget(distance), copies = getStream(distance);
    auto put = [&](Value number, const SliceIndex &slice, Value stream) -> LogicalResult {
      SmallVector<std::pair<Value, Value>> pieces;
      for (auto [gathered, to] : llvm::zip_equal(gather.gathers, received)) {
        fusion::ReshardOp reshard = gathered;
        FailureOr<ReshardPlan> plan = planReshardFor(reshard, slice, peer, builder);
        if (failed(plan))
          return failure();
        Value source =
            makeView(builder, loc, program.getBuffer(reshard.getInput()), plan->source, true);
        pieces.push_back({source, makeView(builder, loc, to, plan->target, true)});
      }
      for (auto [source, target] : pieces)
        this->put(source, target, peer, stream);
      signal(peer, number, stream);
      return success();
    };
    return gather.digits.forEachSlice(
        body, loc, peers.me, /*isFirst=*/true, numbers, [&](Value) { return copies; }, put);
  });
}

LogicalResult OneSided::pushSlices(LoopEmitter &body, const GatherLoop &gather, Value received,
                                   int64_t blocks, Value stream) const {
  OpBuilder &builder = program.getBuilder();
  fusion::ReshardOp reshard = gather.gathers.front();
  bool isRagged = !gather.loop.raggedDigits.empty();
  SmallVector<Value> sources, targets;
  auto push = [&](Value first) {
    using Protocol = hostir::ExchangeProtocol;
    hostir::PeerExchangeOp::create(
        builder, loc, hostir::ExchangeKind::Push, sources, targets, /*copies=*/ValueRange(),
        /*scratch=*/Value(), program.math(loc).add(first, 1), /*cut=*/0, firstSignal, blocks,
        Protocol::Simple, channel, stream, /*reduction=*/ReduceKindAttr());
    sources.clear();
    targets.clear();
  };
  auto addSlice = [&](Value number) -> LogicalResult {
    SliceIndex index = gather.digits.getIndex(builder, loc, peers.me, number, /*isFirst=*/true);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
      FailureOr<ReshardPlan> plan = planReshardFor(reshard, slice, Value(), builder);
      if (failed(plan))
        return failure();
      Value source = program.getBuffer(reshard.getInput());
      sources.push_back(makeView(builder, loc, source, plan->source, true));
      targets.push_back(makeView(builder, loc, received, plan->target, true));
      if (isRagged)
        push(number);
      return success();
    });
  };
  int64_t slices = gather.digits.numSlices();
  // A loop, since a view of the wrong shape with a constant index could be out of bounds.
  if (isRagged)
    return program.loop(loc, 0, slices, addSlice);
  for (int64_t number = 0; number < slices; ++number)
    if (failed(addSlice(program.getIndex(number))))
      return failure();
  push(program.getIndex(0));
  return success();
}

fusion::ScheduleInfo tandem::withPushOptions(fusion::ScheduleInfo info) {
  info.options.push_back({"blocks", fusion::ScheduleOption::Kind::Integer});
  info.rules.push_back({{"by", "sms"}, {fusion::LoopKind::Gather}});
  info.rules.push_back({{"blocks"}, {}, {}, fusion::ScheduleChoice{"by", "sms"}});
  return info;
}

program::CapabilitySet tandem::usesOfPush(std::optional<int64_t> blocks) {
  return program::CapabilitySet{Capability::OneSided}
      .add(Capability::SimpleProtocol, blocks.has_value())
      .add(Capability::StoresBesideCompute, blocks.has_value());
}

Explained<std::optional<int64_t>> tandem::getPushBlocks(const StreamLoop &loop,
                                                        const GatherLoop &gather) {
  StringRef name = loop.schedule.getName();
  int64_t blocks = loop.schedule.getInteger("blocks");
  if (loop.schedule.getWord("by") != "sms")
    return std::optional<int64_t>();
  if (gather.gathers.size() != 1)
    return loop.explain() << "schedule " << name << ", by = sms: expected one gather, found "
                          << gather.gathers.size();
  if (blocks > static_cast<int64_t>(program::kMostExchangeBlocks))
    return loop.explain() << "schedule " << name << ": expected at most "
                          << program::kMostExchangeBlocks << " thread blocks, found " << blocks;
  return std::optional<int64_t>(blocks ? blocks : loop.thresholds.pushBlocks);
}
