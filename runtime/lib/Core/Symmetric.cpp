//===- Symmetric.cpp - symmetric memory of an instance ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which block of symmetric memory an instance uses, and the barriers of all ranks. Ranks make the
// same choices, since each one sees what all ranks of its channels need.
//
//===----------------------------------------------------------------------===//

#include "Encode.h"
#include "InstanceImpl.h"

#include "tandem/Program/Container.h"
#include "tandem/Program/ExchangeMemory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <xxhash.h>

namespace tandem::core {

namespace {

uint64_t roundUp(uint64_t n) { return (n + sp::kAlignment - 1) / sp::kAlignment * sp::kAlignment; }

bool isOneSided(const sp::Channel &channel) { return (channel.capabilities() & OneSided) != 0; }

/// Where the signals of barriers begin. The program's own signals are before them: those of
/// usual runs, and those of runs in the caller's graphs.
uint32_t firstBarrierSlot(const sp::RankProgram &data) { return 2 * count(data.signal_slots()); }

/// The signal by which `rank` enters the barrier of runs in the caller's graphs.
uint32_t captureBarrierSlot(const sp::RankProgram &data, uint32_t ranks, uint32_t channel,
                            uint32_t rank) {
  return firstBarrierSlot(data) + channel * ranks + rank;
}

/// The signal by which `rank` says that it begins a usual run that has a barrier before it.
uint32_t runBarrierSlot(const sp::RankProgram &data, uint32_t ranks, uint32_t channel,
                        uint32_t rank) {
  return captureBarrierSlot(data, ranks, count(data.channels()) + channel, rank);
}

uint32_t endOfBarrierSlots(const sp::RankProgram &data, uint32_t ranks) {
  return runBarrierSlot(data, ranks, count(data.channels()), 0);
}

/// Where the memory of exchanges that signal per block or by LL begins.
uint32_t firstExchangeWord(const sp::RankProgram &data, uint32_t ranks) {
  uint32_t unit = sp::kAlignment / sizeof(uint64_t);
  return (endOfBarrierSlots(data, ranks) + unit - 1) / unit * unit;
}

/// The most that any rank may need; what ranks say of their needs is not checked before.
constexpr uint64_t kMostBufferBytes = uint64_t(1) << 48;
constexpr uint32_t kMostSignals = uint32_t(1) << 28;

/// Signals that a block has space for: those of some tens of programs.
constexpr uint32_t kSignals = 4096, kMostSpare = 16 * kSignals;

/// A signal command of a rank: it raises slot `slot` of rank `rank` to `value`.
struct Raise {
  uint32_t rank = 0, slot = 0;
  uint64_t value = 0;
};

/// What one rank tells the others.
struct Need {
  std::vector<uint32_t> members; ///< all ranks of each one-sided channel; else none
  uint64_t bufferBytes = 0;
  uint32_t signals = 0;      ///< space for so many
  std::vector<Raise> raises; ///< to the largest value, by rank, then slot

  auto fields() { return std::tie(members, bufferBytes, signals, raises); }
  /// The largest value to which this rank raises a slot; 0: it does not.
  uint64_t raised(uint32_t rank, uint32_t slot) const {
    auto at = std::lower_bound(raises.begin(), raises.end(), std::pair(rank, slot),
                               [](const Raise &raise, std::pair<uint32_t, uint32_t> key) {
                                 return std::pair(raise.rank, raise.slot) < key;
                               });
    return at != raises.end() && at->rank == rank && at->slot == slot ? at->value : 0;
  }
};

/// The ranks of the one-sided channels if these connect the same ones; else none.
std::vector<uint32_t> membersOf(const sp::RankProgram &data) {
  std::vector<uint32_t> members;
  for (uint32_t c = 0; c < count(data.channels()); ++c) {
    const sp::Channel &channel = *data.channels()->Get(c);
    if (!isOneSided(channel) || count(channel.group()) == 0)
      continue;
    std::vector<uint32_t> group(channel.group()->begin(), channel.group()->end());
    std::sort(group.begin(), group.end());
    if (!members.empty() && members != group)
      return {};
    members = group;
  }
  return members.empty() ? std::vector<uint32_t>{data.rank()} : members;
}

Need needOf(const sp::RankProgram &data, const std::vector<uint32_t> &members) {
  Need need;
  need.members = members;
  need.bufferBytes = roundUp(data.symmetric_bytes());
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> raises;
  for (const sp::Command *command : *data.commands())
    if (command->kind() == sp::CommandKind::signal) {
      uint32_t rank = data.channels()->Get(command->channel())->group()->Get(command->peer());
      uint64_t &value = raises[{rank, command->aux()}];
      value = std::max<uint64_t>(value, command->value());
    }
  for (const auto &[slot, value] : raises)
    need.raises.push_back({slot.first, slot.second, value});
  return need;
}

/// Whether each run of the program on this rank ends after all members have begun it, because it
/// waits for something that each of them does in the run. (It may be so for other reasons, too.)
bool hearsAll(const sp::RankProgram &data, const std::vector<uint32_t> &members,
              const std::vector<Need> &needs) {
  std::set<uint32_t> heard{data.rank()};
  for (const sp::Command *command : *data.commands()) {
    if (command->kind() == sp::CommandKind::recv)
      heard.insert(data.channels()->Get(command->channel())->group()->Get(command->peer()));
    if (command->kind() != sp::CommandKind::wait_signal)
      continue;
    std::vector<uint32_t> by; // who can release it
    for (size_t m = 0; m < members.size(); ++m)
      if (needs[m].raised(data.rank(), command->aux()) >= command->value())
        by.push_back(members[m]);
    if (by.size() == 1)
      heard.insert(by[0]);
  }
  return std::includes(heard.begin(), heard.end(), members.begin(), members.end());
}

} // namespace

SymmetricMemory layoutSymmetric(const sp::RankProgram &data, uint32_t ranks) {
  bool oneSided = false;
  for (uint32_t c = 0; c < count(data.channels()); ++c)
    oneSided |= isOneSided(*data.channels()->Get(c));
  SymmetricMemory memory;
  memory.bufferBytes = roundUp(data.symmetric_bytes());
  memory.signalOffset = 2 * memory.bufferBytes;
  memory.numSignals = oneSided ? endOfBarrierSlots(data, ranks) : count(data.signal_slots());
  if (uint64_t words = oneSided ? program::exchangeMemory(data).size : 0) // two sets
    memory.numSignals = firstExchangeWord(data, ranks) +
                        static_cast<uint32_t>(std::min<uint64_t>(2 * words, kMostSignals));
  memory.totalBytes = memory.signalOffset + roundUp(memory.numSignals * sizeof(uint64_t));
  return memory;
}

Status InstanceImpl::takeMemory(const std::vector<uint32_t> &members, uint64_t bufferBytes,
                                uint32_t signals, bool *grows) {
  if (bufferBytes > kMostBufferBytes || signals > kMostSignals)
    return Status(Code::OutOfMemory,
                  fmt::format("symmetric memory of 2 x {} bytes and {} signals; expected at most "
                              "2 x {} and {}",
                              bufferBytes, signals, kMostBufferBytes, kMostSignals));
  auto pools = context.symmetricPools(members);
  uint64_t largest = 0, held = 0;
  for (const auto &pool : pools) {
    TANDEM_ASSIGN_OR_RETURN(symmetric, pool->take(context.device(), bufferBytes, signals));
    if (symmetric)
      return Status();
    largest = std::max(largest, pool->bytesOfBuffer());
    held += pool->memory()->size();
  }
  // Blocks stay where they are, since peers know their addresses. If programs grow again and again,
  // blocks double, so that all together are about four times the largest need at most.
  uint64_t needed = bufferBytes;
  if (*grows && pools.size() >= 2 && bufferBytes > largest)
    bufferBytes = std::max(bufferBytes, 2 * largest);
  *grows = bufferBytes > needed;
  uint32_t space =
      members.empty() ? signals : std::max(kSignals, signals + std::min(3 * signals, kMostSpare));
  auto pool = SymmetricPool::create(context.device(), number, bufferBytes, space);
  if (!pool)
    return pool.status().withPrefix(fmt::format(
        "symmetric memory of 2 x {} bytes and {} signals, next to {} bytes in {} earlier blocks: ",
        bufferBytes, space, held, pools.size()));
  TANDEM_ASSIGN_OR_RETURN(symmetric, (*pool)->take(context.device(), bufferBytes, signals));
  context.addSymmetricPool(members, *pool);
  return Status();
}

Status InstanceImpl::makeSymmetric() {
  SymmetricMemory alone = layoutSymmetric(data, context.worldSize());
  std::vector<uint32_t> members =
      context.sharesMemory() ? membersOf(data) : std::vector<uint32_t>();
  Need mine = needOf(data, members);
  mine.signals = alone.numSignals;
  TANDEM_ASSIGN_OR_RETURN(auto said, allGatherStrings(context.bootstrap(), encode(mine.fields())));
  std::vector<Need> needs;
  uint64_t bufferBytes = alone.bufferBytes;
  uint32_t signals = alone.numSignals;
  for (uint32_t rank : members) {
    Need &theirs = needs.emplace_back();
    if (!decode(said[rank], theirs.fields()))
      theirs = Need(); // then the members differ
    bufferBytes = std::max(bufferBytes, needs.back().bufferBytes);
    signals = std::max(signals, needs.back().signals);
  }
  if (std::any_of(needs.begin(), needs.end(),
                  [&](const Need &need) { return need.members != mine.members; })) {
    members.clear();
    bufferBytes = alone.bufferBytes;
    signals = alone.numSignals;
  }
  // On the host, a put may arrive after it has ended, and nothing says that its target waits for
  // it. On GPUs, it has arrived when its run ends.
  bool orders = !context.device().hostMemory() && hearsAll(data, members, needs);

  struct Choice {
    uint64_t block, orders, tooLarge;
  };
  Status status;
  std::vector<Choice> all(context.worldSize());
  auto take = [&](bool mayGrow) -> Status {
    bool grows = mayGrow;
    if (alone.totalBytes > 0 && !symmetric)
      status = takeMemory(members, bufferBytes, signals, &grows);
    Choice choice{symmetric ? (**symmetric).number() : 0, orders,
                  grows && status.code() == Code::OutOfMemory};
    return context.bootstrap().allGather(&choice, sizeof choice, all.data()).withPrefix(prefix());
  };
  TANDEM_RETURN_IF_ERROR(take(/*mayGrow=*/true));
  // Blocks have one size on all members. So where a larger block than needed is more than one
  // member has, all of them take what is needed.
  if (std::any_of(all.begin(), all.end(), [](const Choice &rank) { return rank.tooLarge != 0; })) {
    if (std::any_of(members.begin(), members.end(),
                    [&](uint32_t rank) { return all[rank].tooLarge != 0; }))
      symmetric.reset();
    TANDEM_RETURN_IF_ERROR(take(/*mayGrow=*/false));
  }
  for (uint32_t rank : members) {
    orders &= all[rank].orders != 0;
    if (uint64_t theirs = all[rank].block, ours = symmetric ? (**symmetric).number() : 0;
        status.ok() && theirs != 0 && theirs != ours)
      status = Status(Code::Internal,
                      fmt::format("expected the symmetric memory of instance {}, found that of {} "
                                  "on rank {}",
                                  ours, theirs, rank));
  }
  for (size_t m = 0; m < members.size(); ++m)
    peerBytes[members[m]] = needs[m].bufferBytes;
  ordersRanks = orders;
  peers = std::move(members);
  return agree(status, "allocate symmetric memory");
}

Status InstanceImpl::checkPut(const Put &put, uint32_t to) const {
  auto found = peerBytes.find(to);
  return found == peerBytes.end() ? Status() : checkTarget(put, found->second, to);
}

void InstanceImpl::addProtocol(FusedExchange &exchange, uint32_t i) const {
  program::ExchangeMemory memory = program::exchangeMemory(data);
  const program::ExchangeMemory::Place *place = memory.find(i);
  if (!place)
    return;
  const sp::Command &head = *data.commands()->Get(i);
  const sp::Exchange &typed = *program::exchangeOf(data, head);
  const sp::Channel &channel = *data.channels()->Get(typed.channel());
  uint64_t first = firstExchangeWord(data, context.worldSize());
  ExchangeFlags &flags = exchange.flags.emplace();
  flags.usesLL = place->usesLL;
  flags.self = channel.self();
  flags.members = channel.group()->size();
  flags.firstSlot = typed.slot();
  flags.blocks = static_cast<uint32_t>(head.value());
  flags.firstFlag = first + place->first;
  flags.numFlags = place->size;
  flags.firstLL = first + memory.firstLL;
  flags.bufferLL = memory.bufferLL;
  flags.set = memory.size;
  flags.number = place->number;
  flags.numLL = memory.numLL;
  const sp::View &slots =
      *data.views()->Get(typed.scratch() == sp::kNoView ? typed.out()->Get(0) : typed.scratch());
  const Layout &layout = programHandle->layout(slots.layout());
  flags.slots = data.buffers()->Get(slots.buffer())->offset() + slots.offset();
  flags.slotBytes = static_cast<uint64_t>(layout.strides[0]) * sizeOf(layout.dtype);
  std::string key = fmt::format("{} {} {} {} {} {} {} {}", static_cast<int>(typed.kind()),
                                head.op(), flags.members, flags.blocks, flags.usesLL, flags.number,
                                flags.numLL, flags.bufferLL);
  for (const FusedExchange::Step &step : exchange.steps)
    key += fmt::format(" {} {} {} {} {}", step.move.out.str(), step.move.in.str(), step.move.terms,
                       step.move.termStride, step.move.reduces ? step.move.reduceOp : 3);
  flags.key = XXH3_64bits(key.data(), key.size());
}

Status InstanceImpl::prepareRunBarrier() {
  // Behind runs of other instances, if these can share the memory, and behind replays.
  bool shares = peers.size() >= 2;
  if (!symmetric || (!shares && !context.device().hasGraphs()))
    return Status();
  for (uint32_t c = 0; c < channels.size(); ++c) {
    if (!channels[c] || !isOneSided(*data.channels()->Get(c)))
      continue;
    TANDEM_RETURN_IF_ERROR(prepareBarrier(runBarrier, c, [&](uint32_t rank) {
      return runBarrierSlot(data, context.worldSize(), c, rank);
    }));
    if (shares) // all one-sided channels have the same members
      break;
  }
  return Status();
}

Status InstanceImpl::prepareCaptureBarrier() {
  for (uint32_t c = 0; c < channels.size(); ++c)
    if (channels[c] && isOneSided(*data.channels()->Get(c)))
      TANDEM_RETURN_IF_ERROR(prepareBarrier(captureBarrier, c, [&](uint32_t rank) {
        return captureBarrierSlot(data, context.worldSize(), c, rank);
      }));
  return Status();
}

Status InstanceImpl::prepareBarrier(Barrier &into, uint32_t c,
                                    const std::function<uint32_t(uint32_t)> &slotOf) {
  const sp::Channel &channel = *data.channels()->Get(c);
  FusedExchange all;
  all.steps.resize(2);
  for (uint32_t member = 0; member < channel.group()->size(); ++member) {
    if (member == channel.self())
      continue;
    Signal signal;
    signal.peer = member;
    signal.slot = slotOf(context.rank());
    signal.value = signal.perRun = 1;
    signal.ofBarrier = true;
    all.steps[0].signals.push_back(signal);
    all.steps[1].waits.push_back({slotOf(channel.group()->Get(member)), 1, 1, 0, member});
  }
  const std::vector<WaitSignal> &waits = all.steps[1].waits;
  if (waits.empty())
    return Status();
  auto add = [](std::vector<std::unique_ptr<Operation>> &list, auto made) {
    if (made)
      list.push_back(std::move(*made));
    return made.status();
  };
  auto mark = [&](uint32_t rank) {
    into.waits.back()->marker = uint64_t(number) << 32 | (kBarrier + rank);
  };
  auto rankOf = [&](const WaitSignal &wait) { return channel.group()->Get(*wait.barrierMember); };
  // One kernel is quicker than one for each signal and wait: on 2 H100 5.5 us instead of 7.
  Status status = add(into.waits, channels[c]->prepareExchange(all));
  if (status.ok())
    mark(waits.size() == 1 ? rankOf(waits[0]) : context.worldSize());
  if (status.code() != Code::Unsupported)
    return status;
  for (const Signal &signal : all.steps[0].signals)
    TANDEM_RETURN_IF_ERROR(add(into.signals, channels[c]->prepareSignal(signal)));
  for (const WaitSignal &wait : waits) {
    TANDEM_RETURN_IF_ERROR(add(into.waits, channels[c]->prepareWaitSignal(wait)));
    mark(rankOf(wait));
  }
  return Status();
}

void InstanceImpl::beginGeneration(Slot &slot) {
  SymmetricPool::Generation generation{static_cast<unsigned>(slot.frame.epoch % 2)};
  if (symmetric)
    generation = (**symmetric).next(number, ordersRanks);
  slot.generation = generation.number;
  if (slot.frame.parity != generation.parity) {
    slot.frame.parity = generation.parity;
    slot.bindings = 0; // addresses of the other buffer
  }
  slot.needsBarrier = generation.needsBarrier;
}

Status InstanceImpl::enterBarrier(Slot &slot) {
  if (!slot.needsBarrier)
    return Status();
  // When a rank has heard from all others, these have ended their earlier runs. On the host, puts
  // to a third rank may still be under way, but have arrived when that rank has heard from all.
  size_t rounds = context.device().hostMemory() ? 2 : 1;
  for (size_t i = 0; i < rounds; ++i) {
    Frame &frame = slot.barrierFrames[i];
    // The number of a run: also if ranks have not passed equally many barriers, which is an error
    // of theirs, a signal is that of its run.
    frame.epoch = 2 * slot.generation + i;
    frame.errors = this;
    for (const auto *list : {&runBarrier.signals, &runBarrier.waits})
      for (const auto &operation : *list)
        TANDEM_RETURN_IF_ERROR(operation->enqueue(*slot.main.load(), frame));
  }
  return Status();
}

} // namespace tandem::core
