//===- Remote.cpp - memory that peers reach into ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Remote.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tandem::check {

using namespace replay;

namespace {

/// An access to the symmetric memory of one rank, by itself or by a peer's put.
struct Touch {
  CommandId command = kNone;
  uint32_t rank = 0; ///< that issues it
  uint32_t place = 0;
  bool writes = false, isPut = false;
  const uint32_t *clock = nullptr; ///< local ones: what has ended before, per stream
};

/// The commands of one stream that raise a slot or wait for it, in its order.
struct SlotUsers {
  uint64_t key = 0; ///< which stream (of raises: and channel)
  std::vector<CommandId> commands;
  std::vector<uint64_t> mostValue; ///< per command: the largest value up to it
  std::vector<uint32_t> ticks;     ///< of waits: their numbers in the stream, as clocks count

  void add(CommandId command, uint64_t value) {
    mostValue.push_back(mostValue.empty() ? value : std::max(value, mostValue.back()));
    commands.push_back(command);
  }
};

/// A slot with its users by stream, so that a question costs a binary search per stream.
struct SlotIndex {
  std::vector<SlotUsers> raises, waits;
};

class RemoteChecker {
public:
  RemoteChecker(const World &world, const CheckOptions &options, const Execution &execution,
                const std::vector<LocalResult> &locals, const FootprintTable &footprints,
                Order &order, Findings &findings)
      : world(world), execution(execution), locals(locals), footprints(footprints), order(order),
        findings(findings) {
    bool oneSided = std::any_of(world.incoming.begin(), world.incoming.end(),
                                [](const auto &puts) { return !puts.empty(); });
    if (oneSided)
      ties.emplace(world, options);
  }

  void run() {
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      if (!world.incoming[r].empty())
        checkTarget(r);
    for (const Slot &slot : world.slots)
      checkSlot(slot);
  }

private:
  // Within one run

  void checkTarget(uint32_t r) {
    target = r;
    graph = locals[r].overlaps.get();
    std::vector<Touch> touches;
    for (const SymmetricAccess &access : locals[r].symmetric)
      touches.push_back({access.command, r, access.place, access.writes, false,
                         locals[r].clocks.data() + access.clock});
    for (CommandId put : world.incoming[r])
      touches.push_back({put, world.rankOf(put), placeOfPut(put), true, true, nullptr});
    std::sort(touches.begin(), touches.end(), [&](const Touch &a, const Touch &b) {
      return execution.when[a.command] < execution.when[b.command];
    });
    indexSlots();
    writes.assign(graph->places.size(), {});
    reads.assign(graph->places.size(), {});
    for (const Touch &touch : touches)
      compare(touch);
    checkRuns(touches);
  }

  uint32_t placeOfPut(CommandId put) const {
    const Command &command = world.commands[put];
    const View &dst = *world.operand(world.ranks[world.rankOf(put)], command, 0);
    Place place{Space::Symmetric, 0, dst.address, dst.layout};
    return static_cast<uint32_t>(
        std::lower_bound(graph->places.begin(), graph->places.end(), place) -
        graph->places.begin());
  }

  static SlotUsers &usersOf(std::vector<SlotUsers> &all, uint64_t key) {
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const SlotUsers &users) { return users.key == key; });
    if (found != all.end())
      return *found;
    all.emplace_back().key = key;
    return all.back();
  }

  /// Of a raise: what must be equal for it to be ordered after the puts of its stream.
  uint64_t raiserOf(CommandId command) const {
    const Command &c = world.commands[command];
    return uint64_t(world.rankOf(command)) << 32 | uint64_t(c.stream) << 16 | c.channel;
  }

  /// Indexes the slots of the target.
  void indexSlots() {
    uint32_t firstSlot = world.firstSlot[target], end = world.firstSlot[target + 1];
    slots.assign(end - firstSlot, {});
    if (std::all_of(world.slots.begin() + firstSlot, world.slots.begin() + end,
                    [](const Slot &slot) { return slot.waits.empty(); }))
      return;
    std::vector<CommandId> raises;
    for (uint32_t s = firstSlot; s < end; ++s) {
      raises = world.slots[s].raises;
      std::sort(raises.begin(), raises.end());
      for (CommandId raise : raises)
        usersOf(slots[s - firstSlot].raises, raiserOf(raise))
            .add(raise, world.commands[raise].value);
    }
    const Rank &rank = world.ranks[target];
    std::vector<uint32_t> ticks(rank.numStreams, 0);
    ticks[0] = 1; // START
    for (CommandId i = rank.begin; i < rank.end; ++i) {
      const Command &command = world.commands[i];
      ticks[command.stream] += takesPart(command.kind);
      if (command.kind != Kind::WaitSignal)
        continue;
      SlotUsers &waits = usersOf(slots[command.aux].waits, command.stream);
      waits.add(i, command.value);
      waits.ticks.push_back(ticks[command.stream]);
    }
  }

  void compare(const Touch &touch) {
    for (const Overlaps::Edge *e = graph->begin(touch.place); e != graph->end(touch.place); ++e) {
      for (const Touch &earlier : writes[e->to])
        compare(earlier, touch);
      if (touch.writes)
        for (const Touch &earlier : reads[e->to])
          compare(earlier, touch);
    }
    if (touch.writes) {
      writes[touch.place].assign(1, touch);
      reads[touch.place].clear();
    } else {
      reads[touch.place].push_back(touch);
    }
  }

  void compare(const Touch &a, const Touch &b) {
    if (a.command == b.command || (!a.isPut && !b.isPut) || ordered(a, b))
      return;
    // Another execution may have them the other way round, which `<` does not say either.
    if (!findings.wants(Diagnosis::Race))
      return findings.count(Diagnosis::Race);
    auto verb = [](const Touch &t) { return t.isPut ? "puts" : t.writes ? "writes" : "reads"; };
    findings.add({Diagnosis::Race,
                  fmt::format("rank {} {} {} of rank {}, which rank {} {} in no order with it",
                              b.rank, verb(b),
                              describeBytes(world, target, footprints, graph->places[a.place],
                                            graph->places[b.place]),
                              target, a.rank, verb(a)),
                  {b.command, a.command},
                  {world.describe(b.command), world.describe(a.command)}});
  }

  /// `a` came first in the execution, so only a < b can be.
  bool ordered(const Touch &a, const Touch &b) {
    if (a.isPut && !b.isPut && waitBetween(a.command, b.clock))
      return true;
    return order.before(a.command, b.command);
  }

  /// The usual case without a search: the first signal behind the put, and a wait for it alone that
  /// is over at `clock` of the target.
  bool waitBetween(CommandId put, const uint32_t *clock) const {
    const Command &p = world.commands[put];
    unsigned steps = 0;
    for (CommandId c = p.next; c != kNone && steps < 16; c = world.commands[c].next, ++steps) {
      const Command &signal = world.commands[c];
      if (signal.kind != Kind::Signal || signal.channel != p.channel || signal.peer != p.peer)
        continue;
      // Any wait for more than the other raises can give is released by a signal behind the put.
      const SlotIndex &slot = slots[signal.aux];
      uint64_t least = mostOfOthers(slot, put) + 1;
      return std::any_of(slot.waits.begin(), slot.waits.end(), [&](const SlotUsers &waits) {
        size_t first = std::lower_bound(waits.mostValue.begin(), waits.mostValue.end(), least) -
                       waits.mostValue.begin();
        return first < waits.ticks.size() && clock[waits.key] >= waits.ticks[first];
      });
    }
    return false;
  }

  /// The largest value to which a slot is raised by anything but signals behind the put, in its
  /// stream and channel.
  uint64_t mostOfOthers(const SlotIndex &slot, CommandId put) const {
    uint64_t most = 0, key = raiserOf(put);
    for (const SlotUsers &raises : slot.raises) {
      size_t others = raises.commands.size();
      if (raises.key == key)
        others = std::lower_bound(raises.commands.begin(), raises.commands.end(), put) -
                 raises.commands.begin();
      if (others > 0)
        most = std::max(most, raises.mostValue[others - 1]);
    }
    return most;
  }

  // Over runs

  /// R2: what a run does with a half is over before the next but one writes there, and the other
  /// way round.
  void checkRuns(const std::vector<Touch> &touches) {
    // Per place and rank one reader and one writer: all commands of a rank are inside of its run.
    std::vector<std::vector<const Touch *>> some(graph->places.size());
    for (const Touch &touch : touches) {
      auto &known = some[touch.place];
      bool stands = std::any_of(known.begin(), known.end(), [&](const Touch *t) {
        return t->rank == touch.rank && t->writes == touch.writes && t->isPut == touch.isPut &&
               !touch.isPut;
      });
      if (!stands)
        known.push_back(&touch);
    }
    // What a put does to itself is said only where nothing else is said of it.
    std::unordered_set<CommandId> reported;
    for (bool itself : {false, true})
      for (uint32_t p = 0; p < some.size(); ++p)
        for (const Overlaps::Edge *e = graph->begin(p); e != graph->end(p); ++e)
          for (const Touch *x : some[p])
            for (const Touch *y : some[e->to])
              if ((x->command == y->command) == itself && conflict(*x, *y) && !overRuns(*x, *y) &&
                  (!itself || !reported.count(y->command))) {
                reported.insert(y->command);
                reportRuns(*x, *y);
              }
  }

  static bool conflict(const Touch &x, const Touch &y) {
    return (x.writes || y.writes) && (x.isPut || y.isPut);
  }

  /// x of run n is over before y of run n + 2.
  bool overRuns(const Touch &x, const Touch &y) {
    if (x.isPut) {
      // Its arrival is known to the target; from there on as an access of the target.
      if ((waitBetween(x.command, locals[target].clockAtEnd.data()) ||
           order.beforeEnd(x.command, target)) &&
          (y.rank == target || ties->tied(target, y.rank)))
        return true;
    } else if (x.rank == y.rank || ties->tied(x.rank, y.rank)) {
      return true;
    }
    return order.before(x.command, y.command, 2);
  }

  void reportRuns(const Touch &x, const Touch &y) {
    if (!findings.wants(Diagnosis::OverwrittenEarly))
      return findings.count(Diagnosis::OverwrittenEarly);
    auto verb = [](const Touch &t) { return t.isPut ? "put" : t.writes ? "write" : "read"; };
    findings.add(
        {Diagnosis::OverwrittenEarly,
         fmt::format("rank {} may {} {} of rank {} two runs ahead, before rank {} has {} it",
                     y.rank, verb(y),
                     describeBytes(world, target, footprints, graph->places[x.place],
                                   graph->places[y.place]),
                     target, x.rank, x.isPut || x.writes ? "written" : "read"),
         {y.command, x.command},
         {world.describe(y.command), world.describe(x.command)}});
  }

  /// Whether a later run's signal can release a wait before one of its own run has been raised.
  void checkSlot(const Slot &slot) {
    if (slot.waits.empty() || slot.raises.size() < 2)
      return;
    auto stream = [&](CommandId c) {
      return std::make_pair(world.rankOf(c), world.commands[c].stream);
    };
    CommandId front = slot.raises.front();
    if (std::all_of(slot.raises.begin(), slot.raises.end(),
                    [&](CommandId c) { return stream(c) == stream(front); }))
      return;
    std::set<uint64_t> seen;
    for (CommandId wait : slot.waits) {
      uint64_t value = world.commands[wait].value;
      for (CommandId early : slot.raises) {
        if (world.commands[early].value >= value)
          break; // it releases the wait in this run too
        auto guards = [&](CommandId g) {
          return world.commands[g].value >= value &&
                 (stream(g) == stream(early) || order.before(g, early, 1));
        };
        if (order.before(wait, early, 1) ||
            std::any_of(slot.raises.begin(), slot.raises.end(), guards))
          continue;
        if (!seen.insert(uint64_t(wait) << 32 | early).second)
          continue;
        findings.add({Diagnosis::SignalWrongRun,
                      fmt::format("rank {} waits for slot {} to reach {}; rank {} may be a run "
                                  "ahead and raise it to {} of the next run before",
                                  slot.rank, slot.slot, value, world.rankOf(early),
                                  world.commands[early].value),
                      {wait, early},
                      {world.describe(wait), world.describe(early)}});
      }
    }
  }

  const World &world;
  const Execution &execution;
  const std::vector<LocalResult> &locals;
  const FootprintTable &footprints;
  Order &order;
  Findings &findings;
  std::optional<Ties> ties;

  uint32_t target = 0;
  const Overlaps *graph = nullptr;
  std::vector<SlotIndex> slots;                  ///< of the target
  std::vector<std::vector<Touch>> writes, reads; ///< per place: the last write, the reads since
};

} // namespace

void checkRemote(const World &world, const CheckOptions &options, const Execution &execution,
                 const std::vector<LocalResult> &locals, const FootprintTable &footprints,
                 Order &order, Findings &findings) {
  RemoteChecker(world, options, execution, locals, footprints, order, findings).run();
}

} // namespace tandem::check
