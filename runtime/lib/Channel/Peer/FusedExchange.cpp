//===- FusedExchange.cpp - puts, signals and waits by one kernel ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel stores to the memory of peers, raises their signals and awaits its own
// (docs/fused-exchange.md).
//
//===----------------------------------------------------------------------===//

#include "PeerMemory.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::peer {

using gpu::ExchangeArguments;
using gpu::ExchangeSignal;
using gpu::GpuStream;
using gpu::Kernels;

namespace {

class ExchangeOperation final : public gpu::GpuOperation {
public:
  ExchangeOperation(PeerMemoryRef peers, uint32_t self, const Kernels &kernels,
                    const FusedExchange &exchange, gpu::ExchangePlan plan, gpu::Scratch arrivals,
                    gpu::FunctionHandle countRun, void *released, std::string whyNoGraph)
      : peers(std::move(peers)), kernels(kernels), self(self), exchange(exchange),
        plan(std::move(plan)), arrivals(std::move(arrivals)), countRun(countRun),
        released(released), noGraph(std::move(whyNoGraph)) {
    // The block that raises the first signals knows that all have read the number.
    for (const FusedExchange::Step &step : exchange.steps)
      canCount |= !step.signals.empty();
  }

  std::string whyNoGraph() const override { return noGraph; }

  Status issue(GpuStream &stream, const Frame &frame) override {
    ExchangeArguments arguments;
    gpu::Capture *capture = stream.capturing();
    if (capture) {
      arguments.countsRun = capture->countsItself;
      arguments.epoch = static_cast<uint64_t *>(capture->epoch);
      capture->reads(countRun, canCount);
    }
    auto at = [&](uint32_t member, uint32_t slot, uint64_t perRun, uint64_t value) {
      return ExchangeSignal{
          static_cast<uint64_t *>((*peers)[member].signal(frame.firstSignal + slot)), perRun,
          value + (capture ? 0 : frame.epoch * perRun)};
    };
    ExchangeSignal *waits = arguments.waits, *signals = arguments.signals;
    gpu::ExchangeStore *stores = arguments.stores;
    for (size_t s = 0; s < exchange.steps.size(); ++s) {
      const FusedExchange::Step &from = exchange.steps[s];
      arguments.steps[s].numWaits = static_cast<int32_t>(from.waits.size());
      arguments.steps[s].numSignals = static_cast<int32_t>(from.signals.size());
      for (const WaitSignal &wait : from.waits)
        *waits++ = at(self, wait.slot, wait.perRun, wait.value);
      for (const Signal &signal : from.signals)
        *signals++ = at(signal.peer, signal.slot, signal.perRun, signal.value);
      for (size_t k = 0; k < from.sources.size(); ++k)
        *stores++ = {addressOf(from.targets[k], frame), frame.pointers[from.sources[k].slot]};
    }
    arguments.released = static_cast<const uint64_t *>(released);
    arguments.letGo = static_cast<const uint64_t *>(peers->shared().letGoWord());
    arguments.progress = static_cast<uint64_t *>(stream.progressWord());
    arguments.command = marker;
    arguments.arrivals = static_cast<uint64_t *>(arrivals.data());
    TANDEM_RETURN_IF_ERROR(plan.run(kernels, stream.native(), arguments));
    return stream.track(marker);
  }

private:
  void *addressOf(const FusedExchange::Target &target, const Frame &frame) const {
    if (!target.put)
      return frame.pointers[target.local.slot];
    const Member &peer = (*peers)[target.put->peer];
    return peer.base + frame.half * peer.halfBytes + target.put->offset;
  }

  PeerMemoryRef peers;
  const Kernels &kernels;
  uint32_t self;
  const FusedExchange exchange;
  const gpu::ExchangePlan plan;
  gpu::Scratch arrivals; ///< zero before the first run
  gpu::FunctionHandle countRun;
  void *released;
  std::string noGraph;
  bool canCount = false;
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareExchange(PeerMemoryRef peers, uint32_t self,
                                                     const Kernels &kernels,
                                                     const FusedExchange &exchange) {
  if (peers->shared().driver->info().signalsApart)
    return Status(Code::Unsupported, "a running kernel of this GPU does not see what others store "
                                     "in cached memory");
  // The parts alone are prepared for their checks, and for what they say of graphs.
  std::string whyNoGraph;
  std::vector<program::ExchangeMove> moves;
  size_t waits = 0, signals = 0;
  for (const FusedExchange::Step &step : exchange.steps) {
    waits += step.waits.size();
    signals += step.signals.size();
  }
  if (waits > gpu::kMostExchangeWaits || signals > gpu::kMostExchangeSignals)
    return Status(Code::Unsupported,
                  fmt::format("expected at most {} waits and {} signals, found {} and {}",
                              int(gpu::kMostExchangeWaits), int(gpu::kMostExchangeSignals), waits,
                              signals));
  for (const FusedExchange::Step &step : exchange.steps) {
    moves.push_back(step.move);
    for (const WaitSignal &wait : step.waits) {
      TANDEM_ASSIGN_OR_RETURN(auto alone, prepareWaitSignal(peers, self, kernels, wait));
      whyNoGraph = alone->whyNoGraph();
    }
    for (const Signal &signal : step.signals)
      TANDEM_RETURN_IF_ERROR(prepareSignal(peers, kernels, signal).status());
    for (const FusedExchange::Target &target : step.targets)
      if (target.put)
        TANDEM_RETURN_IF_ERROR(preparePut(peers, kernels, *target.put).status());
  }
  // All blocks of all ranks run at the same time.
  uint32_t ranks = peers->numRanksOfGpu();
  if (ranks > 1 && exchange.besideGated)
    return Status(
        Code::Unsupported,
        fmt::format("{} ranks share this GPU: their gated matmuls may hold all of its SMs", ranks));
  unsigned most = peers->shared().driver->info().processors / ranks;
  if (most == 0)
    return Status(Code::Unsupported, fmt::format("{} ranks share this GPU, which has {} SMs", ranks,
                                                 peers->shared().driver->info().processors));
  TANDEM_ASSIGN_OR_RETURN(
      gpu::ExchangePlan plan,
      gpu::ExchangePlan::make(kernels, moves, std::min<unsigned>(exchange.blocks, most)));
  constexpr uint64_t kBytes = gpu::kMostExchangeSteps * sizeof(uint64_t);
  std::shared_ptr<DeviceState> state = peers->shared().shared_from_this();
  TANDEM_ASSIGN_OR_RETURN(gpu::Scratch arrivals, gpu::Scratch::make(state, kBytes));
  const uint64_t zeros[gpu::kMostExchangeSteps] = {};
  TANDEM_RETURN_IF_ERROR(state->driver->copy(arrivals.data(), zeros, kBytes));
  TANDEM_ASSIGN_OR_RETURN(gpu::FunctionHandle countRun, kernels.get("run_words"));
  TANDEM_ASSIGN_OR_RETURN(void *released, state->releaseWord());
  return std::make_unique<ExchangeOperation>(std::move(peers), self, kernels, exchange,
                                             std::move(plan), std::move(arrivals), countRun,
                                             released, std::move(whyNoGraph));
}

} // namespace tandem::peer
