//===- LoopPlans.cpp - the commands of a loop -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CostModelImpl.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tandem {

LoopPlan::LoopPlan(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
LoopPlan::LoopPlan(LoopPlan &&) = default;
LoopPlan::~LoopPlan() = default;

LoopPlan CostModel::startPlan() const {
  auto ranks = static_cast<uint32_t>(implementation->options.ranks);
  machine::Plan plan;
  plan.ranksPerNode = implementation->machine.ranksPerNode(ranks);
  return LoopPlan(
      std::unique_ptr<LoopPlan::Implementation>(new LoopPlan::Implementation{std::move(plan)}));
}

double CostModel::predict(const LoopPlan &plan) const {
  return machine::predict(implementation->machine, plan.implementation->plan);
}

namespace {

/// Turns items into commands.
class Writer {
public:
  Writer(const machine::Machine &machine, const CostModel::Options &options, machine::Plan &plan)
      : machine(machine), options(options), plan(plan) {}

  void add(const LoopItem &item, uint32_t stream) {
    switch (item.kind) {
    case LoopItem::Kind::Compute:
      return addCompute(item, stream);
    case LoopItem::Kind::Messages:
      if (item.copied > 0)
        copy(stream, item.copied);
      plan.message(stream, item.bytes, item.groupNodes > 1);
      return;
    case LoopItem::Kind::Collective:
      if (options.collectives)
        plan.collective(stream,
                        machine.collectiveCost(static_cast<tandem::CollectiveKind>(item.collective),
                                               item.group, item.groupNodes, item.bytes));
      else
        addExpanded(item, stream);
    }
  }

  /// An iteration on a worker: what adds to results of the whole loop comes last, on the main
  /// stream. `waits`: it must wait for what is on the worker, and that for it.
  void addIteration(ArrayRef<LoopItem> items, uint32_t stream, bool waits) {
    auto isLast = [](const LoopItem &item) { return item.accumulates; };
    for (const LoopItem &item : items) {
      if (!isLast(item)) {
        add(item, stream);
        waits = true;
      }
    }
    if (llvm::none_of(items, isLast))
      return;
    if (waits)
      plan.sync(0, stream);
    for (const LoopItem &item : items)
      if (isLast(item))
        add(item, 0);
    if (waits)
      plan.sync(stream, 0);
  }

  /// `pieces` pieces of so many bytes become one, on the main stream.
  void reduce(double piece, uint32_t pieces) {
    plan.compute(0, machine::Cost::Kernel,
                 machine.memorySeconds(machine::MemoryWork::Reduce, piece * (pieces + 1)));
  }

  void copy(uint32_t stream, double bytes) {
    plan.compute(stream, machine::Cost::Kernel,
                 machine.memorySeconds(machine::MemoryWork::Copy, 2 * bytes));
  }

private:
  void addCompute(const LoopItem &item, uint32_t stream) {
    for (uint32_t i = 0; i < item.repeat; ++i)
      plan.compute(stream, item.isMatmul() ? machine::Cost::Matmul : machine::Cost::Kernel,
                   item.seconds);
  }

  void accumulate(uint32_t stream, double bytes) {
    plan.compute(stream, machine::Cost::Kernel,
                 machine.memorySeconds(machine::MemoryWork::Elementwise, 3 * bytes));
  }

  /// `steps` messages, one after another; what arrives is added to, if it `reduces`.
  void addMessages(const LoopItem &item, uint32_t stream, uint32_t steps, double bytes,
                   bool reduces) {
    for (uint32_t step = 0; step < steps; ++step) {
      plan.message(stream, bytes, item.groupNodes > 1);
      if (reduces)
        accumulate(stream, bytes);
    }
  }

  /// What hostir-expand-collectives writes.
  void addExpanded(const LoopItem &item, uint32_t stream) {
    uint32_t others = item.group - 1;
    uint32_t levels = llvm::Log2_32_Ceil(item.group);
    switch (item.collective) {
    case LoopItem::Collective::AllGather:
      copy(stream, item.bytes);
      return addMessages(item, stream, others, item.bytes, false);
    case LoopItem::Collective::ReduceScatter:
      return addMessages(item, stream, others, item.bytes, true);
    case LoopItem::Collective::AllReduce:
      addMessages(item, stream, others, item.bytes / item.group, true);
      return addMessages(item, stream, others, item.bytes / item.group, false);
    case LoopItem::Collective::AllToAll:
      copy(stream, item.bytes);
      return addMessages(item, stream, 1, others * item.bytes, false);
    case LoopItem::Collective::Gather:
    case LoopItem::Collective::Scatter:
      return addMessages(item, stream, 1, others * item.bytes, false);
    case LoopItem::Collective::Broadcast:
      return addMessages(item, stream, levels, item.bytes, false);
    case LoopItem::Collective::Reduce:
      return addMessages(item, stream, levels, item.bytes, true);
    }
  }

  const machine::Machine &machine;
  const CostModel::Options &options;
  machine::Plan &plan;
};

} // namespace

static uint32_t getStreams(int64_t streams, int64_t workers, int64_t slices) {
  int64_t most = std::min(workers, slices);
  return static_cast<uint32_t>(streams ? std::min(streams, most) : most);
}

void CostModel::addPipeline(LoopPlan &loop, const LoopWork &work, int64_t streams) const {
  machine::Plan &plan = loop.implementation->plan;
  Writer writer(implementation->machine, implementation->options, plan);
  if (work.slices <= 1) {
    for (const LoopItem &item : work.items)
      writer.add(item, 0);
    return;
  }
  uint32_t workers = getStreams(streams, implementation->options.workers, work.slices);
  plan.fork(workers);
  for (int64_t slice = 0; slice < work.slices; ++slice)
    writer.addIteration(work.items, 1 + static_cast<uint32_t>(slice) % workers, false);
  plan.join(workers);
}

void CostModel::addExchange(LoopPlan &loop, const LoopWork &work, int64_t streams,
                            bool copiesOwn) const {
  machine::Plan &plan = loop.implementation->plan;
  Writer writer(implementation->machine, implementation->options, plan);
  const LoopItem &gather = work.items.front();
  // All gathers that the loop begins with go in one group of messages.
  ArrayRef<LoopItem> rest = work.items;
  double bytes = gather.bytes;
  for (rest = rest.drop_front(); !rest.empty() && rest.front().oneOwner; rest = rest.drop_front())
    bytes += rest.front().bytes;
  uint32_t workers = getStreams(streams, implementation->options.workers, work.slices);
  int64_t own = work.slices / gather.group;
  plan.fork(workers);
  for (int64_t slice = 0; slice < work.slices; ++slice) {
    uint32_t stream = 1 + static_cast<uint32_t>(slice) % workers;
    if (slice >= own)
      plan.message(stream, bytes, gather.groupNodes > 1);
    else if (copiesOwn)
      writer.copy(stream, bytes);
    writer.addIteration(rest, stream, slice >= own || copiesOwn);
  }
  plan.join(workers);
}

/// A matmul computes an own slice straight into the receive memory.
static bool isInPlace(ArrayRef<LoopItem> producers) {
  return !producers.empty() && producers.back().isMatmul();
}

void CostModel::addExchangeReduce(LoopPlan &loop, const LoopWork &work, int64_t streams) const {
  machine::Plan &plan = loop.implementation->plan;
  Writer writer(implementation->machine, implementation->options, plan);
  const LoopItem &scatter = work.items.back();
  ArrayRef<LoopItem> producers = ArrayRef(work.items).drop_back();
  uint32_t workers = getStreams(streams, implementation->options.workers, work.slices);
  int64_t own = work.slices / scatter.group;
  plan.fork(workers);
  for (int64_t slice = 0; slice < work.slices; ++slice) {
    uint32_t stream = 1 + static_cast<uint32_t>(slice) % workers;
    for (const LoopItem &item : producers)
      writer.add(item, stream);
    if (slice < work.slices - own)
      plan.message(stream, scatter.bytes, scatter.groupNodes > 1);
    else if (!isInPlace(producers))
      writer.copy(stream, scatter.bytes);
  }
  plan.join(workers);
  writer.reduce(scatter.bytes * static_cast<double>(own), scatter.group);
}

//===----------------------------------------------------------------------===//
// Push
//===----------------------------------------------------------------------===//

/// Stream 1 copies; those that compute are the main one, or the workers behind it.
static uint32_t getComputeStreams(int64_t streams, int64_t workers) {
  return static_cast<uint32_t>(std::max<int64_t>(1, std::min(streams, workers - 1)));
}

static uint32_t getComputeStream(uint32_t streams, int64_t number) {
  return streams == 1 ? 0 : 2 + static_cast<uint32_t>(number) % streams;
}

static SmallVector<int64_t> getBatches(ArrayRef<int64_t> merge, int64_t devices) {
  return merge.empty() ? SmallVector<int64_t>(devices, 1) : SmallVector<int64_t>(merge);
}

SmallVector<LoopItem> CostModel::together(ArrayRef<LoopItem> items, int64_t count) const {
  LoopWork work;
  work.items.assign(items.begin(), items.end());
  for (LoopItem &item : work.items) {
    item.rows *= static_cast<double>(count);
    item.seconds *= static_cast<double>(count);
  }
  return count == 1 ? work.items : cut(work, 1).items;
}

void CostModel::addPushGather(LoopPlan &loop, const LoopWork &work, int64_t streams,
                              ArrayRef<int64_t> merge, bool copiesAll) const {
  machine::Plan &plan = loop.implementation->plan;
  Writer writer(implementation->machine, implementation->options, plan);
  const LoopItem &gather = work.items.front();
  ArrayRef<LoopItem> consumers = ArrayRef(work.items).drop_front();
  uint32_t computing = getComputeStreams(streams, implementation->options.workers);
  uint32_t forked = computing == 1 ? 1 : computing + 1;
  int64_t devices = gather.group, slices = work.slices / devices;
  plan.fork(forked);
  SmallVector<uint32_t> arrived;
  for (int64_t i = slices; i < work.slices; ++i) {
    plan.put(1, gather.bytes, gather.groupNodes > 1);
    arrived.push_back(plan.signal(1));
  }
  int64_t first = 0, number = 0;
  for (int64_t count : getBatches(merge, devices)) {
    for (int64_t slice = 0; slice < slices; ++slice) {
      uint32_t stream = getComputeStream(computing, number++);
      for (int64_t device = first; device < first + count; ++device) {
        if (device > 0)
          plan.waitSignal(stream, arrived[(device - 1) * slices + slice]);
        if (copiesAll)
          writer.copy(stream, gather.bytes);
      }
      writer.addIteration(together(consumers, count), stream, first > 0);
    }
    first += count;
  }
  plan.join(forked);
}

void CostModel::addPushReduce(LoopPlan &loop, const LoopWork &work, int64_t streams,
                              ArrayRef<int64_t> merge) const {
  machine::Plan &plan = loop.implementation->plan;
  Writer writer(implementation->machine, implementation->options, plan);
  const LoopItem &scatter = work.items.back();
  ArrayRef<LoopItem> producers = ArrayRef(work.items).drop_back();
  uint32_t computing = getComputeStreams(streams, implementation->options.workers);
  uint32_t forked = computing == 1 ? 1 : computing + 1;
  int64_t devices = scatter.group, slices = work.slices / devices;
  plan.fork(forked);
  SmallVector<uint32_t> arrived;
  int64_t left = devices, number = 0;
  for (int64_t count : getBatches(merge, devices)) {
    left -= count;
    // The own slices are the last of the last batch, and stay.
    int64_t sent = left > 0 ? count : count - 1;
    for (int64_t slice = 0; slice < slices; ++slice) {
      uint32_t stream = getComputeStream(computing, number++);
      for (const LoopItem &item : together(producers, count))
        writer.add(item, stream);
      if (sent > 0)
        plan.sync(1, stream);
      for (int64_t device = 0; device < sent; ++device) {
        plan.put(1, scatter.bytes, scatter.groupNodes > 1);
        arrived.push_back(plan.signal(1));
      }
      if (left == 0 && !(count == 1 && isInPlace(producers)))
        writer.copy(stream, scatter.bytes);
    }
  }
  plan.join(forked);
  for (uint32_t signal : arrived)
    plan.waitSignal(0, signal);
  writer.reduce(scatter.bytes * static_cast<double>(slices), scatter.group);
}

} // namespace tandem
