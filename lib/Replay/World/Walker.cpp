//===- Walker.cpp - a walk through all command lists ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Walker.h"

#include "tandem/Program/RowCopy.h"

#include <algorithm>
#include <set>

namespace tandem::replay {

Driver::~Driver() = default;

namespace {
enum State : uint8_t { Ahead, Begun, Complete };
} // namespace

/// A queue of a rank is a *process*: it is at one command and waits for one thing at a time.
struct Walker::Impl {
  Impl(const World &world, const WalkOptions &options, Driver &driver)
      : world(world), options(options), driver(driver), state(world.commands.size(), Ahead),
        arrived(world.collectives.size(), 0), level(world.slots.size(), 0) {
    uint32_t processes = 0;
    for (const Rank &rank : world.ranks) {
      firstProcess.push_back(processes);
      processes += queuesOf(rank);
    }
    firstProcess.push_back(processes);
    at.assign(processes, kNone);
    nextWaiter.assign(processes, kNone);
    enlisted.assign(processes, 0);
    outstanding.assign(processes, 0);
    eventWaiters.assign(world.numEvents(), kNone);
    slotWaiters.assign(world.slots.size(), kNone);
    if (options.sms.total > 0) {
      freeSMs.assign(world.numRanks(), options.sms.total);
      smWaiters.assign(world.numRanks(), kNone);
      held.assign(processes, 0);
    }
    if (!options.queueOf.empty())
      queueNext.assign(world.commands.size(), kNone);
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      setHeads(r);
  }

  uint32_t queuesOf(const Rank &rank) const {
    uint32_t queues = 0;
    for (uint32_t s = 0; s < rank.numStreams; ++s)
      queues = std::max(queues, queue(rank, s) + 1);
    return queues;
  }

  uint32_t queue(const Rank &rank, uint32_t stream) const {
    return options.queueOf.empty() ? stream : options.queueOf[rank.firstStream + stream];
  }

  void setHeads(uint32_t r) {
    const Rank &rank = world.ranks[r];
    uint32_t queues = firstProcess[r + 1] - firstProcess[r], open = queues;
    std::vector<CommandId> last(queues, kNone);
    for (CommandId i = rank.begin; i < rank.end; ++i) {
      const Command &command = world.commands[i];
      if (isMessage(command.kind))
        continue;
      uint32_t q = queue(rank, command.stream);
      if (last[q] == kNone) {
        at[firstProcess[r] + q] = i;
        pending.push_back(firstProcess[r] + q);
        if (queueNext.empty() && --open == 0)
          return;
      } else if (!queueNext.empty()) {
        queueNext[last[q]] = i;
      }
      last[q] = i;
    }
  }

  uint32_t processOf(CommandId command) const {
    uint32_t r = world.rankOf(command);
    return firstProcess[r] + queue(world.ranks[r], world.commands[command].stream);
  }

  void advance() {
    for (;;) {
      if (!pending.empty()) {
        uint32_t process = pending.back();
        pending.pop_back();
        step(process, /*hurry=*/false);
      } else if (!deferred.empty()) {
        uint32_t process = deferred.back();
        deferred.pop_back();
        step(process, /*hurry=*/true);
      } else {
        return;
      }
    }
  }

  /// SMs that the command needs at once; 0: it runs without (copy engines, events).
  unsigned smsOf(CommandId c) const {
    const Command &command = world.commands[c];
    switch (infoOf(command.kind).engine) {
    case program::Engine::None:
      return 0;
    case program::Engine::Copy:
      return isByCopyEngine(world, world.ranks[world.rankOf(c)], command) ? 0 : 1;
    case program::Engine::Sm:
      return 1;
    case program::Engine::Wait:
      return options.sms.perWait;
    case program::Engine::Channel:
      return options.sms.perChannel;
    case program::Engine::Fused:
      return command.kind == Kind::GatedMatmul ? heldByGated(options.sms, command)
                                               : heldByExchange(options.sms, command);
    }
    return 0;
  }

  static bool waitsOnSMs(const Command &command) {
    program::Engine engine = infoOf(command.kind).engine;
    return engine == program::Engine::Wait || engine == program::Engine::Channel ||
           engine == program::Engine::Fused;
  }

  /// Of a gated matmul or fused exchange.
  bool isPart(CommandId c) const { return world.commands[c].isGated || world.commands[c].isFused; }

  /// False if the process has to wait for SMs.
  bool takeSMs(uint32_t process, CommandId c) {
    const Command &command = world.commands[c];
    unsigned needed = smsOf(c);
    if (needed == 0 || held[process] > 0)
      return true;
    uint32_t rank = world.rankOf(c);
    bool isChannel = infoOf(command.kind).engine == program::Engine::Channel;
    // NCCL keeps a later command of the channel back.
    if (isChannel && busy.count({rank, command.channel}))
      return true;
    if (freeSMs[rank] < needed) {
      enlist(smWaiters[rank], process);
      return false;
    }
    if (waitsOnSMs(command)) {
      freeSMs[rank] -= needed;
      held[process] = needed;
      if (isChannel)
        busy.insert({rank, command.channel});
    }
    return true;
  }

  void releaseSMs(uint32_t process, CommandId c) {
    // A gated matmul or fused exchange keeps them until its last part ends.
    if (held.empty() || held[process] == 0 ||
        (isPart(c) && c + 1 < world.commands.size() && isPart(c + 1)))
      return;
    uint32_t rank = world.rankOf(c);
    freeSMs[rank] += held[process];
    held[process] = 0;
    busy.erase({rank, world.commands[c].channel});
    wakeAll(smWaiters[rank]);
  }

  /// Runs a process until it has to wait.
  void step(uint32_t process, bool hurry) {
    if (enlisted[process])
      return;
    while (at[process] != kNone) {
      CommandId c = at[process];
      // Kernels that wait take their SMs first.
      if (!hurry && !held.empty() && state[c] == Ahead && smsOf(c) > 0 &&
          !waitsOnSMs(world.commands[c])) {
        deferred.push_back(process);
        return;
      }
      hurry = false;
      if (state[c] == Ahead && !tryBegin(process, c))
        return;
      if (state[c] != Complete)
        return;
      at[process] = queueNext.empty() ? world.commands[c].next : queueNext[c];
    }
  }

  /// False if it has to wait; it is then in the list of waiters.
  bool tryBegin(uint32_t process, CommandId c) {
    const Command &command = world.commands[c];
    if (command.kind == Kind::Wait && state[command.partner] != Complete) {
      uint32_t rank = world.rankOf(c);
      enlist(eventWaiters[world.ranks[rank].firstEvent + command.aux], process);
      return false;
    }
    if (!held.empty() && !takeSMs(process, c))
      return false;
    if (command.kind == Kind::WaitSignal) {
      uint32_t slot = world.firstSlot[world.rankOf(c)] + command.aux;
      if (level[slot] < command.value) {
        enlist(slotWaiters[slot], process);
        return false;
      }
    }
    if (command.kind == Kind::WaitSignal && !isPart(c))
      releaseSMs(process, c);
    state[c] = Begun;
    driver.begin(c);
    if (command.kind == Kind::Group)
      post(process, c, command.aux);
    else if (command.kind == Kind::Collective)
      arrive(command.partner);
    return true;
  }

  void enlist(uint32_t &head, uint32_t process) {
    nextWaiter[process] = head;
    head = process;
    enlisted[process] = 1;
  }

  void post(uint32_t process, CommandId group, uint32_t messages) {
    outstanding[process] = messages;
    if (messages == 0)
      return finishGroup(process, group);
    for (CommandId m = group + 1; m <= group + messages; ++m) {
      const Command &message = world.commands[m];
      bool isSend = message.kind == Kind::Send;
      state[m] = Begun;
      driver.begin(m);
      CommandId partner = message.partner;
      if (options.bufferedSends && isSend)
        partner == kNone ? complete(m) : driver.beginTransfer(m, partner);
      else if (options.bufferedSends && partner != kNone && state[partner] == Complete)
        finishMessage(m);
      else if (!options.bufferedSends && partner != kNone && state[partner] == Begun)
        driver.beginTransfer(isSend ? m : partner, isSend ? partner : m);
    }
  }

  void arrive(uint32_t index) {
    const MatchedCollective &collective = world.collectives[index];
    if (++arrived[index] == world.groupSize(collective))
      driver.beginCollective(index);
  }

  void finishGroup(uint32_t process, CommandId group) {
    state[group] = Complete;
    releaseSMs(process, group);
    driver.end(group);
    pending.push_back(process);
  }

  void finishMessage(CommandId message) {
    state[message] = Complete;
    CommandId group = world.commands[message].next;
    uint32_t process = processOf(group);
    if (--outstanding[process] == 0)
      finishGroup(process, group);
  }

  void complete(CommandId c) {
    const Command &command = world.commands[c];
    switch (infoOf(command.kind).sync) {
    case Sync::Send:
      finishMessage(c);
      if (command.partner != kNone && state[command.partner] == Begun)
        finishMessage(command.partner);
      return;
    case Sync::Collective: {
      const MatchedCollective &collective = world.collectives[command.partner];
      for (uint32_t m = 0; m < world.groupSize(collective); ++m) {
        CommandId member = world.members[collective.members + m];
        state[member] = Complete;
        releaseSMs(processOf(member), member);
        driver.end(member);
        pending.push_back(processOf(member));
      }
      return;
    }
    case Sync::Record:
      state[c] = Complete;
      wakeAll(eventWaiters[world.ranks[world.rankOf(c)].firstEvent + command.aux]);
      break;
    case Sync::Signal: {
      uint32_t slot = world.firstSlot[command.peer] + command.aux;
      state[c] = Complete;
      if (level[slot] < command.value) {
        level[slot] = command.value;
        wakeAll(slotWaiters[slot]); // waiters for higher values join the list again
      }
      break;
    }
    case Sync::Wait:
    case Sync::None:
    case Sync::Group:
    case Sync::Recv:
    case Sync::WaitSignal:
      state[c] = Complete;
    }
    if (isPart(c))
      releaseSMs(processOf(c), c);
    pending.push_back(processOf(c));
  }

  void wakeAll(uint32_t &head) {
    for (uint32_t process = head; process != kNone;) {
      pending.push_back(process);
      uint32_t next = nextWaiter[process];
      enlisted[process] = 0;
      process = next;
    }
    head = kNone;
  }

  CommandId waitsFor(CommandId c) const {
    const Command &command = world.commands[c];
    switch (infoOf(command.kind).sync) {
    case Sync::Wait:
      return command.partner;
    case Sync::WaitSignal: {
      const Slot &slot = *world.slotOf(world.rankOf(c), command.aux);
      for (CommandId raise : slot.raises)
        if (world.commands[raise].value >= command.value && state[raise] != Complete)
          return raise;
      return kNone;
    }
    case Sync::Group:
      for (CommandId m = c + 1; m <= c + command.aux; ++m)
        if (state[m] != Complete)
          return world.commands[m].partner;
      return kNone;
    case Sync::Collective: {
      const MatchedCollective &collective = world.collectives[command.partner];
      for (uint32_t m = 0; m < world.groupSize(collective); ++m) {
        CommandId member = world.members[collective.members + m];
        if (member == kNone || state[member] == Ahead)
          return member;
      }
      return kNone;
    }
    case Sync::Record:
    case Sync::None:
    case Sync::Send:
    case Sync::Recv:
    case Sync::Signal:
      break;
    }
    return kNone;
  }

  const World &world;
  const WalkOptions options;
  Driver &driver;
  std::vector<uint8_t> state;
  std::vector<uint32_t> arrived;                   ///< per collective
  std::vector<uint64_t> level;                     ///< per slot, relative to the run
  std::vector<uint32_t> firstProcess;              ///< per rank
  std::vector<CommandId> at;                       ///< per process
  std::vector<uint32_t> nextWaiter, outstanding;   ///< per process
  std::vector<uint8_t> enlisted;                   ///< per process: it is in a list of waiters
  std::vector<uint32_t> eventWaiters, slotWaiters; ///< first process of a list, or kNone
  std::vector<CommandId> queueNext;                ///< per command, if streams share queues
  std::vector<uint32_t> pending;                   ///< processes that may be able to continue
  // With a limit of SMs:
  std::vector<uint32_t> deferred;               ///< processes at a kernel that does not wait
  std::vector<unsigned> freeSMs;                ///< per rank
  std::vector<uint32_t> smWaiters;              ///< per rank: first process of a list, or kNone
  std::vector<unsigned> held;                   ///< SMs per process; empty: not limited
  std::set<std::pair<uint32_t, uint32_t>> busy; ///< rank and channel
};

bool isByCopyEngine(const World &world, const Rank &rank, const Command &command) {
  if (command.isFused || command.isGated)
    return false;
  const View *to = world.operand(rank, command, 0), *from = world.operand(rank, command, 1);
  return !to || !from || program::isByCopyEngine(world.layoutOf(*to), world.layoutOf(*from));
}

Walker::Walker(const World &world, const WalkOptions &options, Driver &driver)
    : impl(std::make_unique<Impl>(world, options, driver)) {}
Walker::~Walker() = default;

void Walker::advance() { impl->advance(); }
void Walker::complete(CommandId command) { impl->complete(command); }
bool Walker::isComplete(CommandId command) const { return impl->state[command] == Complete; }
CommandId Walker::waitsFor(CommandId command) const { return impl->waitsFor(command); }

bool Walker::holdsSMs(CommandId command) const {
  return !impl->held.empty() && impl->held[impl->processOf(command)] > 0;
}

bool Walker::waitsForSMs(CommandId command) const {
  unsigned needed = impl->smsOf(command);
  return !impl->held.empty() && !holdsSMs(command) && impl->state[command] == Ahead &&
         needed > impl->freeSMs[impl->world.rankOf(command)];
}

bool Walker::finished() const {
  return std::all_of(impl->at.begin(), impl->at.end(), [](CommandId c) { return c == kNone; });
}

uint32_t Walker::queueOf(CommandId command) const {
  const World &world = impl->world;
  return impl->queue(world.ranks[world.rankOf(command)], world.commands[command].stream);
}

std::vector<Position> Walker::stuck() const {
  std::vector<Position> result;
  for (uint32_t r = 0; r < impl->world.numRanks(); ++r)
    for (uint32_t p = impl->firstProcess[r]; p < impl->firstProcess[r + 1]; ++p)
      if (impl->at[p] != kNone)
        result.push_back({r, p - impl->firstProcess[r], impl->at[p]});
  return result;
}

} // namespace tandem::replay
