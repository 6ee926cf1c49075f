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
#include <sstream>

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

  void mayAgree(std::shared_ptr<const ExchangeAgreement> with, std::optional<gpu::WordPlan> plan) {
    agreement = std::move(with);
    words = std::move(plan);
  }

  std::string whyNoGraph() const override { return noGraph; }

  Status issue(GpuStream &stream, const Frame &frame) override {
    return agreement && agreement->byWords ? issueWords(stream, frame) : issueSteps(stream, frame);
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

  Status issueSteps(GpuStream &stream, const Frame &frame) {
    ExchangeArguments arguments;
    arguments.plain = peers->signalsPlainly();
    bool isCaptured = begin(arguments, stream);
    auto at = [&](uint64_t *word, uint64_t perRun, uint64_t value) {
      return ExchangeSignal{word, perRun, value + (isCaptured ? 0 : frame.epoch * perRun)};
    };
    auto slotOf = [&](uint32_t member, uint32_t slot) {
      return static_cast<uint64_t *>((*peers)[member].signal(frame.firstSignal + slot));
    };
    bool isApart = agreement && !agreement->descriptors.empty();
    auto wordOf = [&](uint32_t member, uint32_t wait) {
      const program::ExchangeDescriptor &descriptor = agreement->descriptors[member];
      return roomOf(member, descriptor.first + uint64_t(wait) * descriptor.blocksOfRoom, frame);
    };
    ExchangeSignal *waits = arguments.waits, *signals = arguments.signals;
    gpu::ExchangeStore *stores = arguments.stores;
    for (size_t s = 0; s < exchange.steps.size(); ++s) {
      const FusedExchange::Step &from = exchange.steps[s];
      arguments.steps[s].numWaits = static_cast<int32_t>(from.waits.size());
      arguments.steps[s].numSignals = static_cast<int32_t>(from.signals.size());
      for (const WaitSignal &wait : from.waits) {
        auto number = static_cast<uint32_t>(waits - arguments.waits);
        *waits++ =
            at(isApart ? wordOf(self, number) : slotOf(self, wait.slot), wait.perRun, wait.value);
      }
      for (const Signal &signal : from.signals) {
        auto number = static_cast<size_t>(signals - arguments.signals);
        *signals++ = at(isApart ? wordOf(signal.peer, agreement->match.waitOf[self][number])
                                : slotOf(signal.peer, signal.slot),
                        signal.perRun, signal.value);
      }
      for (size_t k = 0; k < from.sources.size(); ++k)
        *stores++ = {addressOf(from.targets[k], frame), frame.pointers[from.sources[k].slot]};
    }
    TANDEM_RETURN_IF_ERROR(
        plan.run(kernels, stream.native(), arguments, isApart ? agreement->match.blocks : 0));
    return stream.track(marker);
  }

  Status issueWords(GpuStream &stream, const Frame &frame) {
    gpu::WordArguments arguments;
    bool isCaptured = begin(arguments, stream);
    const program::ExchangeDescriptor &descriptor = agreement->descriptors[self];
    // From 1 on: the words are 0 at first.
    arguments.perRun = descriptor.numByWords;
    arguments.value = descriptor.wordNumber + 1 + (isCaptured ? 0 : frame.epoch * arguments.perRun);
    arguments.half = descriptor.halfOfWords;
    const program::ExchangeMatch &match = agreement->match;
    const FusedExchange::Step &sends = exchange.steps[0], &uses = exchange.steps[1];
    uint32_t own = match.terms[self];
    arguments.ranks = static_cast<int32_t>(match.terms.size());
    arguments.own = static_cast<int32_t>(own);
    for (size_t k = 0; k < sends.sources.size(); ++k) {
      const FusedExchange::Target &target = sends.targets[k];
      arguments.sources[target.put ? match.terms[target.put->peer] : own] =
          frame.pointers[sends.sources[k].slot];
    }
    const Member &me = (*peers)[self];
    for (uint32_t member = 0; member < match.terms.size(); ++member) {
      uint32_t term = match.terms[member];
      arguments.places[term] = roomOf(member, agreement->descriptors[member].firstOfWords, frame);
      arguments.slots[term] = me.base + frame.half * me.halfBytes + match.slots[member];
    }
    for (uint32_t term = 0; term < match.terms.size(); ++term)
      if (uint32_t k = match.copies[self][term]; k != program::ExchangeMatch::kNone)
        arguments.copies[term] = addressOf(
            k < sends.targets.size() ? sends.targets[k] : uses.targets[k - sends.targets.size()],
            frame);
    if (uses.move.reduces)
      arguments.sum = addressOf(uses.targets[0], frame);
    TANDEM_RETURN_IF_ERROR(words->run(kernels, stream.native(), arguments, match.blocks));
    return stream.track(marker);
  }

  void *addressOf(const FusedExchange::Target &target, const Frame &frame) const {
    if (!target.put)
      return frame.pointers[target.local.slot];
    const Member &peer = (*peers)[target.put->peer];
    return peer.base + frame.half * peer.halfBytes + target.put->offset;
  }

  /// A word of a member's room. Runs in the caller's graphs have signals of their own.
  uint64_t *roomOf(uint32_t member, uint64_t word, const Frame &frame) const {
    uint64_t set = frame.firstSignal > 0 ? agreement->descriptors[member].sizeOfSet : 0;
    return static_cast<uint64_t *>((*peers)[member].signal(static_cast<uint32_t>(word + set)));
  }

  PeerMemoryRef peers;
  const Kernels &kernels;
  uint32_t self;
  const FusedExchange exchange;
  const gpu::ExchangePlan plan;
  std::optional<gpu::WordPlan> words;
  std::shared_ptr<const ExchangeAgreement> agreement; ///< null: one signal per step
  gpu::Scratch arrivals;                              ///< zero before the first run
  gpu::HeldProcessors held;                           ///< if it waits
  gpu::FunctionHandle countRun;
  uint64_t *stopped;
  std::string noGraph;
  bool canCount = false;
};

/// Null, if this rank does not support it.
std::optional<gpu::WordPlan> planWords(const Kernels &kernels, const FusedExchange &exchange) {
  if (exchange.descriptor->signals != program::ExchangeSignals::Word || exchange.steps.size() != 2)
    return std::nullopt;
  const program::ExchangeMove &sends = exchange.steps[0].move, &uses = exchange.steps[1].move;
  if (sends.stores.empty() || !sends.in.sameShape(sends.out) || sends.in.dtype != sends.out.dtype ||
      (uses.reduces && (uses.stores.size() != 1 || exchange.steps[1].targets[0].put ||
                        sends.in.dtype != uses.out.dtype || !sends.in.sameShape(uses.out))))
    return std::nullopt;
  auto plan = gpu::WordPlan::make(kernels, sends.in, sends.out, uses.reduces ? &uses.out : nullptr,
                                  static_cast<ReduceOp>(uses.reduceOp));
  if (!plan)
    return std::nullopt;
  return std::move(*plan);
}

/// Whether a descriptor is valid: its room lies in the memory of the rank's signals, and each put
/// in the symmetric memory of its peer. Peers take the addresses from the descriptor.
bool isValid(const program::ExchangeDescriptor &descriptor, const PeerMemory &peers, uint32_t owner,
             uint32_t numMembers) {
  const Member &member = peers[owner];
  uint64_t waits = 0, units = 0;
  std::vector<uint32_t> others; // that get a value
  for (const program::DescribedPart &described : descriptor.parts) {
    waits += described.part.kind == program::ExchangePart::Kind::WaitSignal;
    if (described.part.kind != program::ExchangePart::Kind::Put)
      continue;
    const program::PlacedView &place = described.part.out;
    units = std::max(units, (place.layout.numBytes() + 15) / 16);
    if (described.part.peer >= numMembers ||
        place.address + place.layout.spanBytes() > peers[described.part.peer].halfBytes)
      return false;
    if (std::find(others.begin(), others.end(), described.part.peer) == others.end())
      others.push_back(described.part.peer);
  }
  uint64_t all = member.numSignals;
  if (descriptor.sizeOfSet > all || descriptor.first > all || descriptor.firstOfWords > all ||
      descriptor.halfOfWords > all)
    return false;
  uint64_t end = descriptor.sizeOfSet + descriptor.first + waits * descriptor.blocksOfRoom;
  if (descriptor.signals == program::ExchangeSignals::Word) {
    if ((others.size() + 1) * program::wordsOfUnits(units) > descriptor.halfOfWords)
      return false;
    end =
        std::max(end, descriptor.sizeOfSet + descriptor.firstOfWords + 2 * descriptor.halfOfWords);
  }
  return end <= all && descriptor.firstOfWords % 2 == 0 && descriptor.halfOfWords % 2 == 0 &&
         descriptor.sizeOfSet % 2 == 0;
}

} // namespace

std::string textOf(const ExchangeAgreements &agreements) {
  std::string text;
  for (const auto &agreement : agreements)
    text += agreement->descriptor.str() + "\n";
  return text;
}

void agree(const ExchangeAgreements &agreements, const PeerMemory &peers,
           const std::vector<std::string> &members,
           const std::function<void(const std::string &)> &log) {
  std::vector<std::vector<program::ExchangeDescriptor>> all; // of each member
  auto refuse = [&](const std::string &why) {
    if (!agreements.empty())
      log(fmt::format("{} fused exchanges signal once per step: {}", agreements.size(), why));
  };
  for (uint32_t m = 0; m < members.size(); ++m) {
    std::vector<program::ExchangeDescriptor> &descriptors = all.emplace_back();
    std::istringstream in(members[m]);
    for (std::string line; std::getline(in, line);) {
      std::optional<program::ExchangeDescriptor> descriptor =
          program::ExchangeDescriptor::parse(line);
      if (!descriptor || !isValid(*descriptor, peers, m, static_cast<uint32_t>(members.size())))
        return refuse(fmt::format("the descriptor of member {} is not valid", m));
      descriptors.push_back(std::move(*descriptor));
    }
  }
  // All members see the same texts, so they decide alike.
  for (uint32_t m = 0; m < all.size(); ++m)
    if (all[m].size() != all[0].size())
      return refuse(fmt::format("members 0 and {} describe {} and {} exchanges", m, all[0].size(),
                                all[m].size()));
  std::string whyNoWords;
  for (size_t i = 0; i < agreements.size(); ++i) {
    ExchangeAgreement &one = *agreements[i];
    std::vector<program::ExchangeDescriptor> descriptors;
    for (const auto &ofMember : all)
      descriptors.push_back(ofMember[i]);
    bool wantsWords =
        std::any_of(descriptors.begin(), descriptors.end(), [](const auto &descriptor) {
          return descriptor.signals == program::ExchangeSignals::Word;
        });
    auto match = program::matchExchange(descriptors);
    if (!match) {
      log(fmt::format("a fused exchange signals once per step: {}", match.status().message()));
      if (wantsWords)
        whyNoWords = match.status().message();
      continue;
    }
    if (wantsWords && !match->whyNotByWords.empty())
      whyNoWords = match->whyNotByWords;
    one.match = std::move(*match);
    one.descriptors = std::move(descriptors);
  }
  // Exchanges by words share memory, as each of them waits for all members and they are numbered
  // without gaps: all, or none.
  auto wouldUseWords = [](const auto &one) {
    return !one->descriptors.empty() && one->descriptor.signals == program::ExchangeSignals::Word;
  };
  auto byWords = std::count_if(agreements.begin(), agreements.end(), wouldUseWords);
  for (const auto &one : agreements)
    if (whyNoWords.empty() && wouldUseWords(one) && byWords != one->descriptor.numByWords)
      whyNoWords = fmt::format("{} of {} have a kernel", byWords, one->descriptor.numByWords);
  for (const auto &one : agreements)
    one->byWords = whyNoWords.empty() && wouldUseWords(one);
  if (!whyNoWords.empty())
    log(fmt::format("fused exchanges signal by blocks, not by words: {}", whyNoWords));
}

Expected<std::unique_ptr<Operation>> prepareExchange(PeerMemoryRef peers, uint32_t self,
                                                     const Kernels &kernels,
                                                     const FusedExchange &exchange,
                                                     ExchangeAgreements &agreements) {
  if (peers->shared().driver->info().signalsApart)
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
  if (exchange.descriptor) {
    auto agreement = std::make_shared<ExchangeAgreement>();
    agreement->descriptor = *exchange.descriptor;
    agreement->descriptor.blocks = blocks;
    std::optional<gpu::WordPlan> words = planWords(kernels, exchange);
    // Of other forms, the comparison says why.
    if (!words && exchange.steps.size() == 2)
      agreement->descriptor.signals = program::ExchangeSignals::Block;
    operation->mayAgree(agreement, std::move(words));
    agreements.push_back(std::move(agreement));
  }
  return operation;
}

} // namespace tandem::peer
