//===- CrossRankOrder.cpp - order between ranks by signals ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/CrossRankOrder.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

LogicalResult CrossRankOrder::onCommand(Operation *op, int stream) {
  if (auto signal = dyn_cast<SignalOp>(op))
    onSignal(channelOf(signal.getChannel()),
             {walk.valueOf(signal.getSlot()), walk.valueOf(signal.getPeer()), walk.issuers(),
              walk.valueOf(signal.getValue()).getConstant().value_or(0)},
             stream);
  else if (auto wait = dyn_cast<WaitSignalOp>(op))
    onWait(wait, stream);
  else if (auto put = dyn_cast<PutOp>(op))
    onPut(channelOf(put.getChannel()), put.getTarget(), walk.valueOf(put.getPeer()), stream);
  else if (auto exchange = dyn_cast<PeerExchangeOp>(op))
    exchange.isPush() ? onPush(exchange, stream) : onExchange(exchange, stream);
  return success();
}

unsigned CrossRankOrder::channelOf(Value value) {
  auto channel = value.getDefiningOp<ChannelOp>();
  auto [known, isNew] = channelNumbers.try_emplace(
      std::pair<Attribute, Attribute>(channel.getMesh(), channel.getAxes()), channels.size());
  if (isNew)
    channels.push_back({RankGroups(walk.ranksOf(channel.getMesh()), channel.getAxes()), {}});
  return known->second;
}

void CrossRankOrder::onPut(unsigned channel, Value target, Number peer, int stream) {
  Operation *alloc = getViewRoot(target).getDefiningOp();
  Buffer &buffer = buffers[alloc];
  if (!llvm::is_contained(buffer.channels, channel))
    buffer.channels.push_back(channel);
  Number issuers = walk.issuers();
  if (stream == kUnknownWorker || !peer.isKnown() || !issuers.isKnown())
    buffer.isUnknown = true;
  else
    pending[{stream, channel, peer, issuers}].push_back(alloc);
}

void CrossRankOrder::onSignal(unsigned channel, const Signal &signal, int stream) {
  if (!signal.slot.isKnown()) {
    anySlotMayRise = true;
    return;
  }
  auto [entry, isNew] = exchangeAt.try_emplace(signal.slot.getLeast(), exchanges.size());
  if (isNew) {
    Exchange &fresh = exchanges.emplace_back();
    fresh.channel = channel;
    fresh.firstSlot = fresh.lastSlot = entry->first;
    fresh.stream = stream;
    fresh.begin = walk.now();
    fresh.before = walk.before(stream);
    fresh.after.assign(walk.numStreams(), -1);
  }
  Exchange &exchange = exchanges[entry->second];
  exchange.isSound &= signal.peer.isKnown() && signal.issuers.isKnown() && signal.value > 0 &&
                      exchange.channel == channel && exchange.stream == stream &&
                      stream != kUnknownWorker;
  meetClock(exchange.before, walk.before(stream));
  exchange.lastSlot = std::max(exchange.lastSlot, walk.arithmetic().getGreatest(signal.slot));
  exchange.value = std::max(exchange.value, signal.value);
  // Of several signals of one slot to one peer, keep only the last value.
  Signal *last = exchange.signals.empty() ? nullptr : &exchange.signals.back();
  if (last && last->slot == signal.slot && last->peer == signal.peer &&
      last->issuers == signal.issuers && last->value <= signal.value)
    last->value = signal.value;
  else
    exchange.signals.push_back(signal);
  auto covered = pending.find({stream, channel, signal.peer, signal.issuers});
  if (covered == pending.end())
    return;
  for (Operation *alloc : covered->second) {
    Buffer &buffer = buffers[alloc];
    if (buffer.exchanges.empty() || buffer.exchanges.back() != entry->second)
      buffer.exchanges.push_back(entry->second);
  }
  pending.erase(covered);
}

void CrossRankOrder::onWait(WaitSignalOp op, int stream) {
  Wait wait = {walk.valueOf(op.getSlot()), walk.issuers(),
               walk.valueOf(op.getValue()).getConstant().value_or(0), stream, walk.now()};
  // A wait that may not be issued, or runs on an unknown worker, orders nothing.
  if (wait.slot.isKnown() && wait.issuers.isKnown() && stream != kUnknownWorker)
    waits.push_back(wait);
}

void CrossRankOrder::onPush(PeerExchangeOp op, int stream) {
  unsigned channel = channelOf(op.getChannel());
  const RankGroups &groups = channels[channel].groups;
  auto tabulate = [&](function_ref<int64_t(int64_t self)> numberOf) {
    std::vector<int64_t> entries;
    for (size_t rank = 0; rank < groups.self.size(); ++rank)
      entries.push_back(groups.group[rank] < 0 ? 0 : numberOf(groups.self[rank]));
    return walk.arithmetic().table(std::move(entries));
  };
  int64_t size = groups.groupSize,
          value = op.getValue() ? walk.valueOf(op.getValue()).getConstant().value_or(0) : 1;
  Number slot = tabulate([&](int64_t self) { return op.getSlot() + self; });
  for (int64_t distance = 1; distance < size; ++distance) {
    Number peer = tabulate([&](int64_t self) { return (self + size - distance) % size; });
    for (auto [number, output] : llvm::enumerate(op.getOutputs())) {
      onPut(channel, output, peer, stream);
      int64_t raised = value > 0 ? value + static_cast<int64_t>(number) : 0;
      onSignal(channel, {slot, peer, walk.issuers(), raised}, stream);
    }
  }
}

void CrossRankOrder::onExchange(PeerExchangeOp op, int stream) {
  unsigned channel = channelOf(op.getChannel()), number = exchanges.size();
  const RankGroups &groups = channels[channel].groups;
  Number issuers = walk.issuers();
  bool isSound = stream != kUnknownWorker && issuers.isKnown();
  for (uint32_t rank : groups.members)
    isSound = isSound && walk.arithmetic().at(issuers, rank);
  Exchange &exchange = exchanges.emplace_back();
  exchange.isTyped = true;
  exchange.isSound = exchange.ordersAllPairs = isSound;
  exchange.channel = channel;
  exchange.stream = stream;
  exchange.firstSlot = op.getSlot();
  exchange.lastSlot = exchange.firstSlot + groups.groupSize * (op.isTwoShot() ? 2 : 1) - 1;
  exchangeAt.try_emplace(exchange.firstSlot, number);
  exchange.begin = walk.now();
  exchange.before = walk.before(stream);
  exchange.after.assign(walk.numStreams(), -1);
  if (isSound) {
    exchange.before[stream] = walk.now() - 1; // it signals before it has added
    exchange.after[stream] = walk.now();
  }
  SmallVector<Value> reached;
  if (op.getScratch())
    reached.push_back(op.getScratch());
  if (op.isAllGather() || op.isTwoShot())
    llvm::append_range(reached, op.getOutputs());
  for (Value value : reached) {
    Buffer &buffer = buffers[getViewRoot(value).getDefiningOp()];
    if (!llvm::is_contained(buffer.channels, channel))
      buffer.channels.push_back(channel);
    buffer.exchanges.push_back(number);
  }
}

//===----------------------------------------------------------------------===//
// Deciding
//===----------------------------------------------------------------------===//

void CrossRankOrder::decide(Exchange &exchange) const {
  const Channel &channel = channels[exchange.channel];
  const RankNumbers &numbers = walk.arithmetic();
  int64_t slots = exchange.lastSlot - exchange.firstSlot + 1, size = channel.groups.groupSize;
  exchange.isSound &= slots <= 4 * size;
  if (!exchange.isSound)
    return;
  struct Slot {
    int64_t sender = -1, value = 0;
    bool isWaitedFor = false;
  };
  int64_t pairs = 0;
  for (size_t group = 0; group < channel.groups.numGroups(); ++group) {
    ArrayRef<uint32_t> members = channel.groups.membersOf(static_cast<int32_t>(group));
    std::vector<Slot> table(size * slots); // [member][slot]
    auto slotOf = [&](int64_t member, Number slot, uint32_t rank) -> Slot & {
      return table[member * slots + numbers.at(slot, rank) - exchange.firstSlot];
    };
    for (const Signal &signal : exchange.signals)
      for (auto [sender, rank] : llvm::enumerate(members)) {
        if (!numbers.at(signal.issuers, rank))
          continue;
        int64_t peer = numbers.at(signal.peer, rank);
        exchange.isSound &= peer >= 0 && peer < size;
        if (!exchange.isSound)
          return;
        Slot &slot = slotOf(peer, signal.slot, rank);
        bool isAlone = slot.sender < 0 || slot.sender == static_cast<int64_t>(sender);
        exchange.isSound &= isAlone && slot.value <= signal.value;
        slot.sender = static_cast<int64_t>(sender);
        slot.value = signal.value;
      }
    for (const Wait &wait : exchange.waits)
      for (auto [member, rank] : llvm::enumerate(members))
        if (numbers.at(wait.issuers, rank))
          slotOf(static_cast<int64_t>(member), wait.slot, rank).isWaitedFor = true;
    for (int64_t member = 0; member < size; ++member) {
      SmallVector<bool> isSender(size, false);
      for (const Slot &slot : ArrayRef(table).slice(member * slots, slots)) {
        if (slot.sender < 0)
          continue;
        exchange.isSound &= slot.isWaitedFor;
        if (slot.sender != member && !std::exchange(isSender[slot.sender], true))
          ++pairs;
      }
    }
  }
  exchange.ordersAllPairs =
      exchange.isSound &&
      pairs == static_cast<int64_t>(channel.groups.numGroups()) * size * (size - 1);
}

void CrossRankOrder::finish() {
  // A slot in two exchanges has several senders.
  Exchange *previous = nullptr;
  for (auto [slot, number] : exchangeAt) {
    Exchange &exchange = exchanges[number];
    exchange.isSound &= !anySlotMayRise;
    if (previous && previous->lastSlot >= exchange.firstSlot)
      previous->isSound = exchange.isSound = false;
    if (!previous || previous->lastSlot < exchange.lastSlot)
      previous = &exchange;
  }
  // A wait for the last value waits for all earlier ones.
  for (const Wait &wait : waits) {
    auto next = exchangeAt.upper_bound(wait.slot.getLeast());
    if (next == exchangeAt.begin())
      continue;
    Exchange &exchange = exchanges[std::prev(next)->second];
    if (walk.arithmetic().getGreatest(wait.slot) > exchange.lastSlot || wait.value < exchange.value)
      continue;
    exchange.waits.push_back(wait);
    exchange.after[wait.stream] = std::max(exchange.after[wait.stream], wait.position);
  }
  for (const auto &[key, allocs] : pending)
    for (Operation *alloc : allocs)
      buffers[alloc].isUnknown = true;

  // Equal loops give equal exchanges except for their slots: decide once.
  std::map<std::vector<std::tuple<Number, Number, Number, int64_t>>, std::pair<bool, bool>> decided;
  for (auto [number, exchange] : llvm::enumerate(exchanges)) {
    std::vector<std::tuple<Number, Number, Number, int64_t>> key;
    auto offset = [&, first = exchange.firstSlot](Number slot) {
      return walk.arithmetic().evaluate({IntegerKind::Sub}, slot, Number::constant(first));
    };
    Number channel = Number::constant(exchange.channel), none;
    key.emplace_back(channel, none, none, exchange.lastSlot - exchange.firstSlot);
    for (const Signal &signal : exchange.signals)
      key.emplace_back(offset(signal.slot), signal.peer, signal.issuers, signal.value);
    for (const Wait &wait : exchange.waits)
      key.emplace_back(offset(wait.slot), none, wait.issuers, 0);
    if (exchange.isSound && !exchange.isTyped) {
      auto [known, isNew] = decided.try_emplace(std::move(key));
      if (isNew) {
        decide(exchange);
        known->second = {exchange.isSound, exchange.ordersAllPairs};
      }
      std::tie(exchange.isSound, exchange.ordersAllPairs) = known->second;
    }
    if (exchange.isSound && exchange.ordersAllPairs)
      channels[exchange.channel].exchanges.push_back(number);
  }
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

ArrayRef<unsigned> CrossRankOrder::channelsInto(Operation *alloc) const {
  auto found = buffers.find(alloc);
  return found == buffers.end() ? ArrayRef<unsigned>() : ArrayRef(found->second.channels);
}

std::optional<Clock> CrossRankOrder::arrivalOf(Operation *alloc) const {
  Clock clock(walk.numStreams(), -1);
  auto found = buffers.find(alloc);
  if (found == buffers.end())
    return clock;
  if (found->second.isUnknown)
    return std::nullopt;
  for (unsigned number : found->second.exchanges) {
    if (!exchanges[number].isSound)
      return std::nullopt;
    joinClock(clock, exchanges[number].after);
  }
  return clock;
}

std::optional<Clock> CrossRankOrder::knownToPeers(unsigned channel, const Clock &end) const {
  // Signals after `end` are in later exchanges.
  ArrayRef<unsigned> candidates = channels[channel].exchanges;
  Position last = *std::max_element(end.begin(), end.end());
  const auto *first = std::lower_bound(
      candidates.begin(), candidates.end(), last,
      [&](unsigned number, Position position) { return exchanges[number].begin < position; });
  for (unsigned number : llvm::make_range(first, candidates.end()))
    if (isBefore(end, exchanges[number].before)) {
      Clock clock = end;
      joinClock(clock, exchanges[number].after);
      return clock;
    }
  return std::nullopt;
}
