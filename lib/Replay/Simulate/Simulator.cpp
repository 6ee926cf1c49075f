//===- Simulator.cpp - a run, event by event ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fabric.h"
#include "SimulatorImpl.h"

#include "tandem/Replay/Walker.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <limits>
#include <queue>
#include <unordered_map>

namespace tandem::simulate {

using machine::Machine;
using machine::Mover;
using replay::Command;
using replay::CommandId;
using replay::Kind;
using replay::kNone;
using replay::Sync;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Simulator final : public replay::Driver {
public:
  Simulator(const replay::World &world, const Machine &machine, const machine::Launching &launching,
            const Options &options, Result &result)
      : world(world), machine(machine), launching(launching), options(options),
        costs(world, machine, launching), issue(world, costs, launching),
        previous(predecessors(world)), result(result), fabric(machine, world.numRanks(), sharing),
        walker(world, {}, *this), puts(world.numRanks()) {
    result.begin.assign(world.commands.size(), 0);
    result.end.assign(world.commands.size(), 0);
  }

  Status run() {
    walker.advance();
    while (true) {
      double timer = timers.empty() ? kNever : timers.top().time;
      // What begins now goes before what ends now, and may change when that is.
      double work = timer == now ? kNever : sharing.nextEnd();
      if (timer == kNever && work == kNever)
        break;
      if (timer <= work) {
        Timer next = timers.top();
        timers.pop();
        now = next.time;
        enter(next.phase, next.command);
      } else {
        now = work;
        endWork(sharing.finishNext());
      }
      walker.advance();
    }
    if (!walker.finished())
      return stalled();
    for (double end : result.end)
      result.seconds = std::max(result.seconds, end);
    delayAll();
    if (!options.totalOnly)
      summarise();
    return Status();
  }

  /// The fixed time of a run depends on the time of its commands, which is known only at the end.
  /// So all times move by what it is longer than assumed.
  void delayAll() {
    double start = issue.first(), late = launching.run.at((result.seconds - start) * 1e6) - start;
    if (late == 0)
      return;
    issue.delay(late);
    for (std::vector<double> *times : {&result.begin, &result.end})
      for (double &time : *times)
        time += late;
    result.seconds += late;
  }

  void begin(CommandId id) override {
    const Command &command = world.commands[id];
    double start = std::max(now, issue.at(id)), overhead = costs.overhead(command);
    result.begin[id] = start;
    if (costs.isInExchangeKernel(command))
      return beginExchange(id, start);
    if (command.isGated && costs.isInGatedKernel(command))
      return beginPart(id, start);
    if (command.kind == Kind::GatedMatmul) {
      if (costs.isInGatedKernel(command))
        fabric.leaveSms(world.rankOf(id), double(command.value), now);
      else
        result.ungated = std::min(result.ungated, id);
      return at(start + overhead, id, Phase::Complete);
    }
    if (command.kind == Kind::FusedExchange) {
      result.unfused = std::min(result.unfused, id);
      return at(start, id, Phase::Complete);
    }
    switch (replay::infoOf(command.kind).sync) {
    case Sync::Send:
    case Sync::Recv:
      return;
    case Sync::Record:
      return at(start, id, Phase::Complete);
    case Sync::Wait:
      // Waiting costs time only if the record has just completed.
      return at(std::max(start, result.end[command.partner] + overhead), id, Phase::Complete);
    case Sync::WaitSignal:
      return at(start + overhead, id, Phase::Complete);
    case Sync::Signal:
      return at(start + overhead + costs.linkOf(world.rankOf(id), command).latency, id,
                Phase::Complete);
    case Sync::Group:
      if (machine.twoSided.mover == Mover::Sm)
        fabric.takeSms(world.rankOf(id), machine.twoSided.sms, now);
      return;
    case Sync::Collective:
      if (machine.collectives.mover == Mover::Sm)
        fabric.takeSms(world.rankOf(id), machine.collectives.sms, now);
      return;
    case Sync::None:
      break;
    }
    double begin = command.kind == Kind::Put ? engineReady(id, start) : start;
    at(begin + overhead, id, Phase::Work);
  }

  void beginTransfer(CommandId send, CommandId recv) override {
    const Command &command = world.commands[send];
    uint32_t from = world.rankOf(send);
    double posted = std::max({now, issue.at(send), issue.at(recv)});
    result.begin[send] = result.begin[recv] = posted;
    double bytes = costs.bytes(world.ranks[from], command, 0);
    double startup = costs.overhead(Kind::Send) + machine.twoSided.startup.at(bytes) +
                     costs.linkOf(from, command).latency +
                     costs.packing(world.ranks[from], command, 0) +
                     costs.packing(world.ranks[world.rankOf(recv)], world.commands[recv], 0);
    at(posted + startup, send, Phase::Work);
  }

  void beginCollective(uint32_t index) override {
    CommandId first = firstMember(index);
    double posted = now;
    forMembers(index, [&](CommandId member) { posted = std::max(posted, result.begin[member]); });
    at(posted + costs.overhead(Kind::Collective) + costs.collective(index).latency, first,
       Phase::Work);
  }

  void end(CommandId id) override {
    result.end[id] = now;
    bool group = world.commands[id].kind == Kind::Group;
    if ((group ? machine.twoSided.mover : machine.collectives.mover) == Mover::Sm)
      fabric.takeSms(world.rankOf(id), group ? -machine.twoSided.sms : -machine.collectives.sms,
                     now);
  }

private:
  enum class Phase : uint8_t {
    Work,     ///< overheads are over
    Move,     ///< of a put: its engine is ready to move bytes
    Complete, ///< the command ends
  };
  struct Timer {
    double time;
    CommandId command;
    Phase phase;
    bool operator<(const Timer &other) const {
      return time != other.time ? time > other.time : command > other.command;
    }
  };
  /// A device's copy engines.
  struct Engines {
    double busy = 0;
    std::deque<CommandId> queue;
    double seconds = 0;
  };

  void at(double time, CommandId command, Phase phase) {
    // Work that can begin at the same time begins in issue order, as on a copy engine.
    if (time > now || phase == Phase::Work)
      timers.push({time, command, phase});
    else
      enter(phase, command);
  }

  void enter(Phase phase, CommandId command) {
    switch (phase) {
    case Phase::Work:
      return startWork(command);
    case Phase::Move:
      return startMessage(command, machine.oneSided, 1);
    case Phase::Complete:
      return complete(command);
    }
  }

  /// A kernel that runs a fused exchange, or a part of it.
  void beginExchange(CommandId id, double start) {
    const Command &command = world.commands[id];
    uint32_t rank = world.rankOf(id);
    if (command.kind == Kind::FusedExchange) {
      fabric.takeBlocks(rank, costs.exchangeBlocks(id), now);
      return at(start + costs.overhead(command) + machine.exchange.startup, id, Phase::Complete);
    }
    if (command.kind == Kind::Put)
      return at(start, id, Phase::Work);
    double latency =
        command.kind == Kind::Signal ? costs.linkOf(rank, command).latency : 0; // to the peer
    at(start + costs.exchangePart(world.ranks[rank], id) + latency, id, Phase::Complete);
  }

  /// A part of a gated matmul that a kernel runs. Rows are on their way while they are computed,
  /// and the next ones are computed while a signal travels: such work begins before its command.
  void beginPart(CommandId id, double start) {
    const Command &command = world.commands[id];
    uint32_t rank = world.rankOf(id);
    if (command.kind == Kind::Signal) {
      if (id < world.commands[id].partner + world.commands[command.partner].aux &&
          world.commands[id + 1].kind == Kind::Matmul)
        beginEarly(id + 1);
      return at(start + machine.exchange.signal + costs.linkOf(rank, command).latency, id,
                Phase::Complete);
    }
    if (command.kind == Kind::WaitSignal)
      return at(start, id, Phase::Complete);
    if (auto found = early.find(id); found == early.end())
      at(start, id, Phase::Work);
    else if (found->second == Early::Ended)
      at(start, id, Phase::Complete);
    else
      found->second = Early::Awaited;
  }

  void beginEarly(CommandId id) {
    early[id] = Early::Begun;
    at(now, id, Phase::Work);
  }

  /// Blocks store to a peer; the transport by copy engines has nothing to do with it.
  void startStores(CommandId id) {
    const Command &command = world.commands[id];
    uint32_t rank = world.rankOf(id);
    if (costs.reachOf(rank, command) == replay::Reach::Network)
      result.outOfReach = std::min(result.outOfReach, id);
    fabric.countCopy(rank, 1, now);
    fabric.countCopy(command.peer, 1, now);
    uses.clear();
    double rate = fabric.path(rank, command.peer, costs.reachOf(rank, command),
                              std::numeric_limits<double>::max(), Mover::Sm, uses);
    if (command.isFused)
      rate = std::min(rate, costs.exchangeRate(id));
    const replay::Rank &owner = world.ranks[rank];
    run(id, command.isFused ? costs.exchangeBytes(owner, id) : costs.bytes(owner, command, 1), rate,
        uses.data(), uses.size());
  }

  /// A kernel's SMs are free after its last part.
  void endPart(CommandId id) {
    const Command &part = world.commands[id], &head = world.commands[part.partner];
    if (id != part.partner + head.aux)
      return;
    if (part.isGated && costs.isInGatedKernel(part))
      fabric.leaveSms(world.rankOf(id), -double(head.value), now);
    else if (part.isFused && costs.isInExchangeKernel(part))
      fabric.takeBlocks(world.rankOf(id), -costs.exchangeBlocks(id), now);
  }

  void complete(CommandId id) {
    result.end[id] = now;
    const Command &command = world.commands[id];
    if ((command.isFused || command.isGated) && command.partner != kNone)
      endPart(id);
    if (world.commands[id].kind == Kind::Send && world.commands[id].partner != kNone)
      result.end[world.commands[id].partner] = now;
    walker.complete(id);
  }

  void startWork(CommandId id) {
    const Command &command = world.commands[id];
    uint32_t rank = world.rankOf(id);
    if (command.kind == Kind::Send)
      return startMessage(id, machine.twoSided, 0);
    if (command.kind == Kind::Collective)
      return startCollective(id, command.partner);
    if (command.kind == Kind::Put) {
      if (costs.isInExchangeKernel(command) || costs.isInGatedKernel(command))
        return startStores(id);
      return machine.oneSided.mover == Mover::Copy ? requestEngine(id, rank) : startPut(id, rank);
    }
    if (command.isGated && costs.isInGatedKernel(command)) {
      if (id < command.partner + world.commands[command.partner].aux &&
          world.commands[id + 1].kind == Kind::Put)
        beginEarly(id + 1);
      beginTiles(id);
    }
    Sharing::Use use = fabric.compute(rank, CommandCosts::costOf(command.kind));
    run(id, costs.work(world.ranks[rank], command), 1, &use, 1);
  }

  /// Starts shared work, or ends the command at once if it has none.
  void run(CommandId id, double work, double maxRate, const Sharing::Use *uses, size_t count) {
    if (work > 0)
      sharing.start(work, maxRate, uses, count, id, now);
    else
      endWork(id);
  }

  void startMessage(CommandId id, const machine::Transport &transport, uint32_t operand) {
    const Command &command = world.commands[id];
    uint32_t rank = world.rankOf(id);
    double bytes = costs.bytes(world.ranks[rank], command, operand);
    uses.clear();
    double rate =
        fabric.path(rank, command.peer, costs.reachOf(rank, command), bytes, transport.mover, uses);
    rate = std::min(rate, transport.bandwidth);
    if (command.kind == Kind::Put)
      rate *= costs.rowShare(world.ranks[rank], command) * costs.driftShare(id);
    run(id, bytes, rate, uses.data(), uses.size());
  }

  /// Delay of a put after a command that it waits for; kNone: the start of the run.
  double changeAfter(CommandId before) const {
    while (before != kNone && world.commands[before].kind == Kind::Record)
      before = previous[before]; // which takes no time
    if (before == kNone)
      return launching.engineStart;
    Kind kind = world.commands[before].kind;
    return kind == Kind::Put || kind == Kind::Signal ? 0 : launching.engineChange;
  }

  /// When a put that would begin at `start` can request an engine.
  double engineReady(CommandId put, double start) const {
    CommandId before = previous[put];
    if (before == kNone)
      return start + changeAfter(kNone);
    double ready = start, hop = costs.overhead(Kind::Wait);
    auto isEvent = [&](CommandId c) {
      Kind kind = c == kNone ? Kind::Put : world.commands[c].kind;
      return kind == Kind::Wait || kind == Kind::Record;
    };
    for (; isEvent(before); before = previous[before]) {
      if (world.commands[before].kind == Kind::Record)
        continue;
      CommandId record = world.commands[before].partner;
      ready = std::max(ready, result.end[record] + hop + changeAfter(previous[record]));
    }
    return before == kNone ? ready : std::max(ready, result.end[before] + changeAfter(before));
  }

  void requestEngine(CommandId id, uint32_t rank) {
    Engines &engines = puts[rank];
    if (engines.busy >= machine.copyEngines) {
      engines.queue.push_back(id);
      return;
    }
    engines.busy += 1;
    startPut(id, rank);
  }

  void startPut(CommandId id, uint32_t rank) {
    const Command &command = world.commands[id];
    double bytes = costs.bytes(world.ranks[rank], command, 1);
    if (machine.oneSided.mover == Mover::Copy) {
      if (costs.reachOf(rank, command) == replay::Reach::Network)
        result.outOfReach = std::min(result.outOfReach, id);
      fabric.countCopy(rank, 1, now);
      fabric.countCopy(command.peer, 1, now);
    }
    // Takes the engine now; the bytes move after the startup.
    result.begin[id] = now;
    double startup = machine.oneSided.startup.at(bytes) + costs.linkOf(rank, command).latency;
    at(now + startup, id, Phase::Move);
  }

  void startCollective(CommandId id, uint32_t index) {
    machine::CollectiveCost cost = costs.collective(index);
    double seconds = cost.seconds - cost.latency;
    if (!(seconds > 0))
      return complete(id);
    uses.clear();
    fabric.collective(world.groups[world.collectives[index].group], cost.nodeBytes / seconds,
                      cost.networkBytes / seconds, uses);
    run(id, seconds, 1, uses.data(), uses.size());
  }

  void endWork(CommandId id) {
    const Command &command = world.commands[id];
    if (command.kind == Kind::Put &&
        (costs.isInExchangeKernel(command) || costs.isInGatedKernel(command))) {
      fabric.countCopy(world.rankOf(id), -1, now);
      fabric.countCopy(command.peer, -1, now);
    } else if (command.kind == Kind::Put && machine.oneSided.mover == Mover::Copy) {
      releaseEngine(id, world.rankOf(id));
    }
    if (auto found = early.find(id); found != early.end() && found->second == Early::Begun)
      found->second = Early::Ended;
    else if (double end = endTiles(id); end > now)
      at(end, id, Phase::Complete);
    else
      complete(id);
  }

  /// SMs that lack tiles of open rows are idle, and the next rows are not computed the faster for
  /// it: what a gated matmul computes without a pause lasts a whole number of waves.
  void beginTiles(CommandId id) {
    Tiles &tiles = busy[world.commands[id].partner];
    if (now <= tiles.end)
      return;
    tiles.late = {now, 0, 0};
    if (now >= tiles.last) // all SMs are idle
      tiles.all = tiles.late;
  }

  /// When its tiles end; for parts with others after them: now.
  double endTiles(CommandId id) {
    const Command &part = world.commands[id];
    if (part.kind != Kind::Matmul || !part.isGated || !costs.isInGatedKernel(part))
      return now;
    const replay::Rank &rank = world.ranks[world.rankOf(id)];
    const CommandCosts::GatedKernel &kernel = costs.gatedKernel(rank, part);
    if (!kernel.waits)
      return now;
    Tiles &tiles = busy[part.partner];
    tiles.end = now;
    CommandCosts::GatedRows rows = costs.gatedRows(rank, part);
    for (Tiles::Run *run : {&tiles.all, &tiles.late}) {
      // A tile of rows of several parts is one; a slice of K is a part of each tile's wave.
      if (rows.share == 1)
        run->rows += rows.rows;
      else
        run->slices += kernel.waves(rows.rows) * rows.share;
      double waves = kernel.waves(run->rows) + run->slices;
      tiles.last = std::max(tiles.last, run->since + waves * kernel.wave);
    }
    for (CommandId c = id + 1; c <= part.partner + world.commands[part.partner].aux; ++c)
      if (world.commands[c].kind == Kind::Matmul)
        return now;
    return tiles.last;
  }

  void releaseEngine(CommandId id, uint32_t rank) {
    Engines &engines = puts[rank];
    engines.busy -= 1;
    engines.seconds += now - result.begin[id];
    fabric.countCopy(rank, -1, now);
    fabric.countCopy(world.commands[id].peer, -1, now);
    if (engines.queue.empty())
      return;
    CommandId next = engines.queue.front();
    engines.queue.pop_front();
    engines.busy += 1;
    startPut(next, rank);
  }

  CommandId firstMember(uint32_t index) const {
    CommandId first = kNone;
    forMembers(index, [&](CommandId member) { first = std::min(first, member); });
    return first;
  }

  template <typename Fn> void forMembers(uint32_t index, Fn &&fn) const {
    const replay::MatchedCollective &collective = world.collectives[index];
    for (uint32_t m = 0; m < world.groupSize(collective); ++m)
      if (CommandId member = world.members[collective.members + m]; member != kNone)
        fn(member);
  }

  Status stalled() const {
    std::string where;
    std::vector<replay::Position> stuck = walker.stuck();
    for (size_t i = 0; i < std::min<size_t>(3, stuck.size()); ++i)
      where += (i ? "; " : "") + world.describe(stuck[i].at);
    if (stuck.size() > 3)
      where += fmt::format("; and {} streams more", stuck.size() - 3);
    return Status(Code::InvalidProgram, fmt::format("@{} does not finish: {}", world.name, where));
  }

  void summarise() {
    PathFinder paths(world, result, issue, previous);
    result.ranks.resize(world.numRanks());
    for (uint32_t r = 0; r < world.numRanks(); ++r) {
      RankResult &rank = result.ranks[r];
      for (CommandId c = world.ranks[r].begin; c < world.ranks[r].end; ++c)
        rank.sequential += costs.alone(r, c);
      rank.shares = timeline::sharesOf(spansOf(world, result, previous, r));
      if (rank.shares.total > result.ranks[result.slowestRank].shares.total)
        result.slowestRank = r;
      result.sequential = std::max(result.sequential, rank.sequential);
    }
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      result.ranks[r].path = paths.walk(r, r == result.slowestRank ? &result.path : nullptr);
    fabric.utilisation(result.seconds, result.utilisation);
    copyEngines();
  }

  void copyEngines() {
    Utilisation engines{"copy engines", 0, 0};
    for (const Engines &device : puts) {
      double part = result.seconds > 0 ? device.seconds / machine.copyEngines / result.seconds : 0;
      engines.average += part / static_cast<double>(puts.size());
      engines.most = std::max(engines.most, part);
    }
    if (machine.oneSided.mover == Mover::Copy)
      result.utilisation.push_back(engines);
  }

  const replay::World &world;
  const Machine &machine;
  const machine::Launching &launching;
  const Options &options;
  CommandCosts costs;
  IssueTimes issue;
  std::vector<CommandId> previous;
  Result &result;
  Sharing sharing;
  Fabric fabric;
  replay::Walker walker;
  std::vector<Engines> puts; ///< per rank
  /// Work of parts of gated matmuls that has begun before its command has.
  enum class Early : uint8_t { Begun, Ended, Awaited };
  std::unordered_map<CommandId, Early> early;
  /// Of a gated matmul.
  struct Tiles {
    /// What has been computed since then: rows with all of K, and waves of slices of K.
    struct Run {
      double since = 0, rows = 0, slices = 0;
    };
    Run all;         ///< since all SMs were idle
    Run late;        ///< since some were
    double end = -1; ///< of the last part's work
    double last = 0; ///< of the last wave
  };
  std::unordered_map<CommandId, Tiles> busy; ///< by their heads
  std::priority_queue<Timer> timers;
  std::vector<Sharing::Use> uses;
  double now = 0;
};

} // namespace

Expected<Result> simulate(const replay::World &world, const Machine &machine,
                          const Options &options) {
  TANDEM_RETURN_IF_ERROR(machine.checkRanks(world.numRanks()));
  const machine::Launching &launching =
      machine.hasGraph && !options.noGraph ? machine.graph : machine.streams;
  Result result;
  TANDEM_RETURN_IF_ERROR(Simulator(world, machine, launching, options, result).run());
  return result;
}

} // namespace tandem::simulate
