//===- ExpandCollectives.cpp - collectives out of messages -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Collectives/CollectiveBuilder.h"
#include "PassLog.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"

namespace tandem::hostir {
#define GEN_PASS_DEF_EXPANDCOLLECTIVES
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace tandem::hostir

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

// A group of one: a copy, with or without a dimension of extent 1.
static void expandAlone(CollectiveBuilder &build, Value input, Value output) {
  int64_t inputRank = cast<MemRefType>(input.getType()).getRank();
  int64_t outputRank = cast<MemRefType>(output.getType()).getRank();
  if (inputRank > outputRank)
    input = build.element(input, 0);
  else if (outputRank > inputRank)
    output = build.element(output, 0);
  build.copy(input, output);
}

static void expand(CollectiveOp op, ChannelOp channel) {
  // No messages without elements, on all devices.
  if (getSliceType(op).getNumElements() == 0)
    return;
  CollectiveBuilder build(op, channel);
  Value input = op.getInput(), output = op.getOutput(), root = op.getRoot();
  if (build.size() == 1)
    return expandAlone(build, input, output);
  switch (op.getKind()) {
  case CollectiveKind::AllGather:
    return expandAllGather(build, input, output);
  case CollectiveKind::AllReduce:
    return expandAllReduce(build, input, output);
  case CollectiveKind::ReduceScatter:
    return expandReduceScatter(build, input, output);
  case CollectiveKind::AllToAll:
    return expandAllToAll(build, input, output);
  case CollectiveKind::Broadcast:
    return expandBroadcast(build, input, output, root);
  case CollectiveKind::Reduce:
    return expandReduce(build, input, output, root);
  case CollectiveKind::Gather:
    return expandGather(build, input, output, root);
  case CollectiveKind::Scatter:
    return expandScatter(build, input, output, root);
  }
}

// Replaces the channel's `collectives` by `two_sided`.
static void replaceCapability(ChannelOp channel) {
  auto attr = [&](Capability capability) {
    return CapabilityAttr::get(channel.getContext(), capability);
  };
  SmallVector<Attribute> capabilities;
  for (Capability capability : {Capability::TwoSided, Capability::OneSided})
    if (capability == Capability::TwoSided || channel.can(capability))
      capabilities.push_back(attr(capability));
  channel.setCapabilitiesAttr(ArrayAttr::get(channel.getContext(), capabilities));
}

namespace {
struct ExpandCollectives : public hostir::impl::ExpandCollectivesBase<ExpandCollectives> {
  using ExpandCollectivesBase::ExpandCollectivesBase;

  void runOnOperation() override {
    getOperation().walk([&](ChannelOp channel) {
      if (lacksCollectives(channel.getName()) && channel.can(Capability::Collectives))
        replaceCapability(channel);
    });
    SmallVector<CollectiveOp> collectives;
    getOperation().walk([&](CollectiveOp op) { collectives.push_back(op); });
    for (CollectiveOp op : collectives) {
      auto channel = op.getChannel().getDefiningOp<ChannelOp>();
      if (!channel) {
        op.emitOpError() << "expected a channel of 'hostir.channel', found another value";
        return signalPassFailure();
      }
      if (channel.can(Capability::Collectives))
        continue;
      if (log)
        logger(*this, op) << "expanded " << stringifyCollectiveKind(op.getKind()) << " among "
                          << channel.groupSize() << " devices";
      expand(op, channel);
      op.erase();
      ++numExpanded;
    }
  }

  bool lacksCollectives(StringRef channel) {
    return llvm::any_of(channelsWithoutCollectives,
                        [&](const std::string &name) { return name == "*" || name == channel; });
  }
};
} // namespace
