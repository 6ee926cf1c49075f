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
#include <cstring>
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
                    gpu::HeldProcessors held, gpu::FunctionHandle countRun, uint64_t *stopped,
                    std::string whyNoGraph)
      : peers(std::move(peers)), kernels(kernels), self(self), exchange(exchange),
        plan(std::move(plan)), arrivals(std::move(arrivals)), held(std::move(held)),
        countRun(countRun), stopped(stopped), noGraph(std::move(whyNoGraph)) {
    // The block that raises the first signals knows that all have read the number.
    for (const FusedExchange::Step &step : exchange.steps)
      canCount |= !step.signals.empty();
  }

  void mayAgree(std::shared_ptr<const ExchangeAgreement> with, std::optional<gpu::LLPlan> plan) {
    agreement = std::move(with);
    ll = std::move(plan);
  }

  std::string whyNoGraph() const override { return noGraph; }

  Status issue(GpuStream &stream, const Frame &frame) override {
    return agreement && agreement->usesLL ? issueLL(stream, frame) : issueSimple(stream, frame);
  }

private:
  /// What both kernels have. True if the run is captured.
  template <typename Arguments> bool begin(Arguments &arguments, GpuStream &stream) const {
    gpu::Capture *capture = stream.capturing();
    if (capture) {
      arguments.countsRun = capture->countsItself;
      arguments.epoch = static_cast<uint64_t *>(capture->epoch);
      capture->reads(countRun, canCount);
    }
    arguments.abortFlag = peers->shared().abortFlag();
    arguments.stopped = stopped;
    arguments.progress = static_cast<uint64_t *>(stream.progressWord());
    arguments.command = marker;
    arguments.arrivals = static_cast<uint64_t *>(arrivals.data());
    return capture;
  }

  Status issueSimple(GpuStream &stream, const Frame &frame) {
    ExchangeArguments arguments;
    arguments.plain = peers->signalsPlainly();
    bool isCaptured = begin(arguments, stream);
    auto at = [&](uint64_t *word, uint64_t perRun, uint64_t value) {
      return ExchangeSignal{word, perRun, value + (isCaptured ? 0 : frame.epoch * perRun)};
    };
    auto slotOf = [&](uint32_t member, uint32_t slot) {
      return static_cast<uint64_t *>((*peers)[member].signal(frame.firstSignal + slot));
    };
    bool hasBlockFlags = agreement && !agreement->all.empty();
    // A signal of the program, or the flags in its place: one for each block.
    auto wordOf = [&](uint32_t member, uint32_t slot) {
      if (!hasBlockFlags)
        return slotOf(member, slot);
      const ExchangeFlags &flags = agreement->flags;
      uint64_t first = uint64_t(slot - flags.firstSlot) * flags.blocks;
      return wordAt(member, agreement->all[member].firstFlag + first, frame);
    };
    ExchangeSignal *waits = arguments.waits, *signals = arguments.signals;
    gpu::ExchangeStore *stores = arguments.stores;
    for (size_t s = 0; s < exchange.steps.size(); ++s) {
      const FusedExchange::Step &from = exchange.steps[s];
      arguments.steps[s].numWaits = static_cast<int32_t>(from.waits.size());
      arguments.steps[s].numSignals = static_cast<int32_t>(from.signals.size());
      for (const WaitSignal &wait : from.waits)
        *waits++ = at(wordOf(self, wait.slot), wait.perRun, wait.value);
      for (const Signal &signal : from.signals)
        *signals++ = at(wordOf(signal.peer, signal.slot), signal.perRun, signal.value);
      for (size_t k = 0; k < from.sources.size(); ++k)
        *stores++ = {addressOf(from.targets[k], frame), frame.pointers[from.sources[k].slot]};
    }
    TANDEM_RETURN_IF_ERROR(
        plan.run(kernels, stream.native(), arguments, hasBlockFlags ? agreement->blocks : 0));
    return stream.track(marker);
  }

  Status issueLL(GpuStream &stream, const Frame &frame) {
    gpu::LLArguments arguments;
    bool isCaptured = begin(arguments, stream);
    const ExchangeFlags &flags = agreement->flags;
    // From 1 on: the words are 0 at first.
    arguments.perRun = flags.numLL;
    arguments.value = flags.number + 1 + (isCaptured ? 0 : frame.epoch * arguments.perRun);
    arguments.bufferWords = flags.bufferLL;
    arguments.ranks = static_cast<int32_t>(flags.members);
    arguments.own = static_cast<int32_t>(self);
    // First come the own value, perhaps its copy, and the puts; then the sum, or copies of what has
    // come from the members at distance 1, 2, ... (program::deriveParts).
    const FusedExchange::Step &sends = exchange.steps[0], &uses = exchange.steps[1];
    for (size_t k = 0; k < sends.sources.size(); ++k) {
      const FusedExchange::Target &target = sends.targets[k];
      arguments.sources[target.put ? target.put->peer : self] =
          frame.pointers[sends.sources[k].slot];
      if (k == 1 && !target.put)
        arguments.copies[self] = addressOf(target, frame);
    }
    for (uint32_t k = 0; k < uses.targets.size() && !uses.move.reduces; ++k)
      arguments.copies[(self + k + 1) % flags.members] = addressOf(uses.targets[k], frame);
    if (uses.move.reduces)
      arguments.sum = addressOf(uses.targets[0], frame);
    const Member &me = (*peers)[self];
    for (uint32_t member = 0; member < flags.members; ++member) {
      arguments.buffers[member] = wordAt(member, agreement->all[member].firstLL, frame);
      arguments.slots[member] =
          me.base + frame.parity * me.bufferBytes + flags.slots + member * flags.slotBytes;
    }
    TANDEM_RETURN_IF_ERROR(ll->run(kernels, stream.native(), arguments, agreement->blocks));
    return stream.track(marker);
  }

  void *addressOf(const FusedExchange::Target &target, const Frame &frame) const {
    if (!target.put)
      return frame.pointers[target.local.slot];
    const Member &peer = (*peers)[target.put->peer];
    return peer.base + frame.parity * peer.bufferBytes + target.put->offset;
  }

  /// A word of a member. Runs in the caller's graphs have words of their own.
  uint64_t *wordAt(uint32_t member, uint64_t word, const Frame &frame) const {
    uint64_t set = frame.firstSignal > 0 ? agreement->all[member].set : 0;
    return static_cast<uint64_t *>((*peers)[member].signal(static_cast<uint32_t>(word + set)));
  }

  PeerMemoryRef peers;
  const Kernels &kernels;
  uint32_t self;
  const FusedExchange exchange;
  const gpu::ExchangePlan plan;
  std::optional<gpu::LLPlan> ll;
  std::shared_ptr<const ExchangeAgreement> agreement; ///< null: one signal per step
  gpu::Scratch arrivals;                              ///< zero before the first run
  gpu::HeldProcessors held;                           ///< if it waits
  gpu::FunctionHandle countRun;
  uint64_t *stopped;
  std::string noGraph;
  bool canCount = false;
};

/// Null, if this rank does not support it.
std::optional<gpu::LLPlan> planLL(const Kernels &kernels, const FusedExchange &exchange) {
  if (!exchange.flags->usesLL || exchange.steps.size() != 2)
    return std::nullopt;
  const program::ExchangeMove &sends = exchange.steps[0].move, &uses = exchange.steps[1].move;
  if (sends.stores.empty() || !sends.in.sameShape(sends.out) || sends.in.dtype != sends.out.dtype ||
      (uses.reduces && (uses.stores.size() != 1 || exchange.steps[1].targets[0].put ||
                        sends.in.dtype != uses.out.dtype || !sends.in.sameShape(uses.out))))
    return std::nullopt;
  auto plan = gpu::LLPlan::make(kernels, sends.in, sends.out, uses.reduces ? &uses.out : nullptr,
                                static_cast<ReduceOp>(uses.reduceOp));
  if (!plan)
    return std::nullopt;
  return std::move(*plan);
}

/// Whether the flags and LL buffers of a member lie in the memory of its signals.
bool isValid(const ExchangeCapability &of, const ExchangeFlags &flags, const Member &member) {
  uint64_t all = member.numSignals;
  if (of.set > all || of.firstFlag > all || of.firstLL > all || of.set % 2 != 0 ||
      of.firstLL % 2 != 0)
    return false;
  return of.set + of.firstFlag + flags.numFlags <= all &&
         (!of.hasLL || of.set + of.firstLL + 2 * flags.bufferLL <= all);
}

} // namespace

std::string bytesOf(const ExchangeAgreements &agreements) {
  std::string bytes;
  for (const auto &agreement : agreements)
    bytes.append(reinterpret_cast<const char *>(&agreement->own), sizeof agreement->own);
  return bytes;
}

void agree(const ExchangeAgreements &agreements, const PeerMemory &peers,
           const std::vector<std::string> &members,
           const std::function<void(const std::string &)> &log) {
  // All members see the same bytes, so they decide alike.
  constexpr size_t kBytes = sizeof(ExchangeCapability);
  for (uint32_t m = 0; m < members.size(); ++m)
    if (members[m].size() != agreements.size() * kBytes) {
      if (!agreements.empty())
        log(fmt::format("{} exchanges signal once per step: member {} has other kernels",
                        agreements.size(), m));
      return;
    }
  uint32_t numLL = 0; // exchanges that all members can do so
  for (size_t i = 0; i < agreements.size(); ++i) {
    ExchangeAgreement &one = *agreements[i];
    std::vector<ExchangeCapability> all(members.size());
    one.blocks = one.flags.blocks;
    bool agree = true, hasLL = true;
    for (uint32_t m = 0; m < members.size(); ++m) {
      std::memcpy(&all[m], members[m].data() + i * kBytes, kBytes);
      one.blocks = std::min(one.blocks, all[m].blocks);
      hasLL = hasLL && all[m].hasLL;
      agree = agree && all[m].key == one.own.key && all[m].blocks > 0 &&
              isValid(all[m], one.flags, peers[m]);
    }
    if (!agree) {
      log("an exchange signals once per step: not all members have its kernel");
      continue;
    }
    one.all = std::move(all);
    numLL += one.usesLL = hasLL;
  }
  // They share memory, as each of them waits for all members and they are numbered without gaps:
  // all, or none.
  for (const auto &one : agreements)
    if (one->flags.usesLL && numLL != one->flags.numLL) {
      one->usesLL = false;
      log(fmt::format("an exchange signals per block, not by LL: {} of {} have a kernel", numLL,
                      one->flags.numLL));
    }
}

Expected<std::unique_ptr<Operation>> prepareExchange(PeerMemoryRef peers, uint32_t self,
                                                     const Kernels &kernels,
                                                     const FusedExchange &exchange,
                                                     ExchangeAgreements &agreements) {
  if (peers->shared().driver->info().separateSignalPad)
    return Status(Code::Unsupported, "a running kernel of this GPU does not see what others store "
                                     "in cached memory");
  // The parts alone are prepared for their checks, and for what they say of graphs.
  std::string whyNoGraph;
  std::vector<program::ExchangeMove> moves;
  std::optional<uint32_t> stream; // of its waits
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
      stream = wait.stream;
    }
    for (const Signal &signal : step.signals)
      TANDEM_RETURN_IF_ERROR(prepareSignal(peers, kernels, signal).status());
    for (const FusedExchange::Target &target : step.targets)
      if (target.put)
        TANDEM_RETURN_IF_ERROR(preparePut(peers, kernels, *target.put).status());
  }
  std::shared_ptr<DeviceState> state = peers->shared().shared_from_this();
  unsigned blocks = exchange.blocks;
  gpu::HeldProcessors held; // all blocks run at the same time
  if (stream) {
    TANDEM_ASSIGN_OR_RETURN(held,
                            gpu::HeldProcessors::take(*state, peers->user(*stream), blocks, 1));
    blocks = held.count();
  }
  TANDEM_ASSIGN_OR_RETURN(gpu::ExchangePlan plan, gpu::ExchangePlan::make(kernels, moves, blocks));
  constexpr uint64_t kBytes = gpu::kMostExchangeSteps * sizeof(uint64_t);
  TANDEM_ASSIGN_OR_RETURN(gpu::Scratch arrivals, gpu::Scratch::make(state, kBytes));
  const uint64_t zeros[gpu::kMostExchangeSteps] = {};
  TANDEM_RETURN_IF_ERROR(state->driver->copy(arrivals.data(), zeros, kBytes));
  TANDEM_ASSIGN_OR_RETURN(gpu::FunctionHandle countRun, kernels.get("run_words"));
  TANDEM_ASSIGN_OR_RETURN(uint64_t *stopped, state->stoppedWord());
  auto operation = std::make_unique<ExchangeOperation>(
      std::move(peers), self, kernels, exchange, std::move(plan), std::move(arrivals),
      std::move(held), countRun, stopped, std::move(whyNoGraph));
  if (exchange.flags) {
    auto agreement = std::make_shared<ExchangeAgreement>();
    const ExchangeFlags &flags = *exchange.flags;
    std::optional<gpu::LLPlan> ll = planLL(kernels, exchange);
    agreement->flags = flags;
    agreement->own = {flags.key, flags.firstFlag, flags.firstLL, flags.set, blocks, ll.has_value()};
    operation->mayAgree(agreement, std::move(ll));
    agreements.push_back(std::move(agreement));
  }
  return operation;
}

} // namespace tandem::peer
