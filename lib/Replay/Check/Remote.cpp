//===- Remote.cpp - memory that peers reach into ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalPass.h"
#include "Order.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tandem::check {

using namespace replay;

namespace {

/// An access to the symmetric memory of one rank, by itself or by a peer's put.
struct Touch {
  CommandId command = kNone;
  uint32_t rank = 0; ///< the issuing rank
  uint32_t place = 0;
  bool writes = false, isPut = false;
  const uint32_t *clock = nullptr; ///< local accesses: what has ended before, per stream
};

/// The commands of one stream that raise a slot or wait for it, in stream order.
struct SlotUsers {
  uint64_t key = 0; ///< the stream (for raises: and channel)
  std::vector<CommandId> commands;
  std::vector<uint64_t> mostValue; ///< per command: the largest value up to it
  std::vector<uint32_t> ticks;     ///< of waits: their numbers in the stream, as in clocks

  void add(CommandId command, uint64_t value) {
    mostValue.push_back(mostValue.empty() ? value : std::max(value, mostValue.back()));
    commands.push_back(command);
  }
};

/// A slot's users by stream, so a query is a binary search per stream.
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
    if (!oneSided)
      return;
    rankOrder.emplace(world, options);
    numberCommands();
    collectEdges();
  }

  void run() {
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      if (!world.incoming[r].empty())
        checkTarget(r);
    for (const Slot &slot : world.slots)
      checkSlot(slot);
  }

private:
  void numberCommands() {
    ticks.resize(world.commands.size());
    for (const Rank &rank : world.ranks) {
      std::vector<uint32_t> now(rank.numStreams, 0);
      now[0] = 1; // START
      for (CommandId i = rank.begin; i < rank.end; ++i) {
        const Command &command = world.commands[i];
        ticks[i] = now[command.stream] += takesPart(command.kind);
      }
    }
  }

  /// The signals that release a wait no other stream's signal could release: what precedes the
  /// signal precedes the end of the wait.
  void collectEdges() {
    for (const Slot &slot : world.slots) {
      if (slot.waits.empty() || slot.raises.empty())
        continue;
      std::vector<CommandId> raises = slot.raises;
      std::sort(raises.begin(), raises.end());
      uint32_t from = world.rankOf(raises.front());
      SlotUsers users;
      bool isOneStream = true;
      for (CommandId raise : raises) {
        isOneStream &= world.rankOf(raise) == from &&
                       world.commands[raise].stream == world.commands[raises.front()].stream;
        users.add(raise, world.commands[raise].value);
      }
      if (!isOneStream)
        continue;
      std::vector<Edge> &known = edges[pairOf(from, slot.rank)];
      for (CommandId wait : slot.waits) {
        size_t first = std::lower_bound(users.mostValue.begin(), users.mostValue.end(),
                                        world.commands[wait].value) -
                       users.mostValue.begin();
        if (first < raises.size())
          known.push_back({raises[first], wait});
      }
    }
    for (auto &[pair, known] : edges)
      std::sort(known.begin(), known.end(),
                [](const Edge &a, const Edge &b) { return a.wait < b.wait; });
  }

  static uint64_t pairOf(uint32_t from, uint32_t to) { return uint64_t(from) << 32 | to; }

  /// The commands that have ended before a put or signal, by stream.
  const uint32_t *clockAt(CommandId command) const {
    const LocalResult &local = locals[world.rankOf(command)];
    auto at = std::lower_bound(local.oneSided.begin(), local.oneSided.end(),
                               std::pair<CommandId, uint32_t>(command, 0));
    return local.clocks.data() + at->second;
  }

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

  /// Key of a raise; puts with the same key are ordered before it.
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
    for (CommandId i = rank.begin; i < rank.end; ++i) {
      const Command &command = world.commands[i];
      if (command.kind != Kind::WaitSignal)
        continue;
      SlotUsers &waits = usersOf(slots[command.aux].waits, command.stream);
      waits.add(i, command.value);
      waits.ticks.push_back(ticks[i]);
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
    // Unordered: another execution may have them in the other order.
    if (!findings.wants(Diagnosis::Race))
      return findings.count(Diagnosis::Race);
    auto verb = [](const Touch &t) { return t.isPut ? "puts" : t.writes ? "writes" : "reads"; };
    findings.add({Diagnosis::Race,
                  fmt::format("rank {} {} {} of rank {}, unordered with rank {}, which {} it",
                              b.rank, verb(b),
                              describeBytes(world, target, footprints, graph->places[a.place],
                                            graph->places[b.place]),
                              target, a.rank, verb(a)),
                  {b.command, a.command},
                  {world.describe(b.command), world.describe(a.command)}});
  }

  /// `a` came first in this execution, so only a < b is possible.
  bool ordered(const Touch &a, const Touch &b) {
    if (b.isPut ? peerKnows(a, b) : a.isPut && waitBetween(a.command, b.clock))
      return true;
    return order.before(a.command, b.command);
  }

  /// Common case of a put `b` without a search: `b`'s rank has waited for a signal of the target
  /// after `a`.
  bool peerKnows(const Touch &a, const Touch &b) const {
    auto found = edges.find(pairOf(target, b.rank));
    if (found == edges.end())
      return false;
    const std::vector<Edge> &known = found->second;
    const uint32_t *atPut = clockAt(b.command);
    auto edge = std::lower_bound(known.begin(), known.end(), b.command,
                                 [](const Edge &e, CommandId put) { return e.wait < put; });
    for (unsigned steps = 0; edge != known.begin() && steps < 16; ++steps) {
      --edge;
      if (atPut[world.commands[edge->wait].stream] < ticks[edge->wait])
        continue;
      const uint32_t *atSignal = clockAt(edge->signal);
      return a.isPut ? waitBetween(a.command, atSignal)
                     : atSignal[world.commands[a.command].stream] >= ticks[a.command];
    }
    return false;
  }

  /// Common case without a search: a wait for the first signal after the put is over at `clock` of
  /// the target, and no other signal could release it.
  bool waitBetween(CommandId put, const uint32_t *clock) const {
    const Command &p = world.commands[put];
    unsigned steps = 0;
    for (CommandId c = p.next; c != kNone && steps < 16; c = world.commands[c].next, ++steps) {
      const Command &signal = world.commands[c];
      if (signal.kind != Kind::Signal || signal.channel != p.channel || signal.peer != p.peer)
        continue;
      // A wait for more than others can raise is released by a signal after the put.
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

  /// The largest value to which other signals than those after the put (on its stream and channel)
  /// raise a slot.
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

  /// R2: accesses of run n to a symmetric buffer end before conflicting ones of run n + 2 begin.
  void checkRuns(const std::vector<Touch> &touches) {
    // One group of readers and one of writers per place and rank. Local accesses lie within their
    // rank's run, so the first represents all.
    std::vector<std::vector<Group>> groups(graph->places.size());
    for (const Touch &touch : touches) {
      bool arrives = touch.isPut && (waitBetween(touch.command, locals[target].clockAtEnd.data()) ||
                                     order.beforeEnd(touch.command, target));
      auto &known = groups[touch.place];
      auto group = std::find_if(known.begin(), known.end(), [&](const Group &g) {
        const Touch &t = *g.members.front();
        return t.rank == touch.rank && t.writes == touch.writes && t.isPut == touch.isPut &&
               g.arrives == arrives;
      });
      if (group == known.end())
        known.push_back({arrives, {&touch}});
      else if (touch.isPut)
        group->members.push_back(&touch);
    }
    // A put's conflict with itself is reported only without other findings for it.
    std::unordered_set<CommandId> reported;
    for (bool itself : {false, true})
      for (uint32_t p = 0; p < groups.size(); ++p)
        for (const Overlaps::Edge *e = graph->begin(p); e != graph->end(p); ++e)
          for (const Group &x : groups[p])
            for (const Group &y : groups[e->to])
              if (conflict(*x.members.front(), *y.members.front()) && !overRuns(x, y))
                searchRuns(x, y, itself, reported);
  }

  /// Accesses by one rank, of one kind, to one place.
  struct Group {
    bool arrives; ///< of puts: before the target's END
    std::vector<const Touch *> members;
  };

  /// Searches pairs of two groups that the order of their ranks does not decide.
  void searchRuns(const Group &xs, const Group &ys, bool itself,
                  std::unordered_set<CommandId> &reported) {
    for (const Touch *x : xs.members)
      for (const Touch *y : ys.members)
        if ((x->command == y->command) == itself && !order.before(x->command, y->command, 2) &&
            (!itself || !reported.count(y->command))) {
          reported.insert(y->command);
          reportRuns(*x, *y);
        }
  }

  static bool conflict(const Touch &x, const Touch &y) {
    return (x.writes || y.writes) && (x.isPut || y.isPut);
  }

  /// Whether x of run n ends before y of run n + 2 begins, by the order of ranks in one run. A
  /// put's arrival counts as an access of the target.
  bool overRuns(const Group &xs, const Group &ys) const {
    const Touch &x = *xs.members.front(), &y = *ys.members.front();
    uint32_t knower = x.isPut ? target : x.rank;
    return (!x.isPut || xs.arrives) && (knower == y.rank || rankOrder->before(knower, y.rank));
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
  std::optional<RankOrder> rankOrder;

  struct Edge {
    CommandId signal, wait;
  };
  std::vector<uint32_t> ticks; ///< numbers in their streams, as in clocks
  std::unordered_map<uint64_t, std::vector<Edge>>
      edges; ///< by pair of ranks, in order of the waits

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
