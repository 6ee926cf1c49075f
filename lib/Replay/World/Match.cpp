//===- Match.cpp - who waits for whom ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReplayImpl.h"

#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>
#include <map>

namespace tandem::replay {

namespace {

/// The operand that holds one slice on every member of a collective.
uint32_t sliceOperand(tandem::CollectiveKind kind) {
  bool isOut = !program::stacksOut(kind) && (program::stacksIn(kind) || program::isFromRoot(kind));
  return isOut ? 0 : 1;
}

/// Messages by channel, source, destination and tag, in an open-addressing hash table.
class MessageTable {
public:
  MessageTable(const World &world, size_t sends) : world(world) {
    size_t size = 16;
    while (size < sends * 2)
      size *= 2;
    table.assign(size, kNone);
  }

  void insert(CommandId send, uint32_t source) {
    const Command &c = world.commands[send];
    size_t at = hash(c, source, c.peer);
    while (table[at] != kNone)
      at = (at + 1) & (table.size() - 1);
    table[at] = send;
  }

  CommandId find(const Command &recv, uint32_t destination) const {
    for (size_t at = hash(recv, recv.peer, destination); table[at] != kNone;
         at = (at + 1) & (table.size() - 1)) {
      const Command &send = world.commands[table[at]];
      const Rank &source = world.ranks[recv.peer];
      if (send.aux == recv.aux && send.channel == recv.channel && send.peer == destination &&
          table[at] >= source.begin && table[at] < source.end)
        return table[at];
    }
    return kNone;
  }

private:
  size_t hash(const Command &c, uint32_t source, uint32_t destination) const {
    // Receives of one rank are looked up in a row: keep them close together.
    uint64_t key = (uint64_t(c.channel) << 48 | uint64_t(c.aux)) * 0x9e3779b97f4a7c15u;
    key ^= (uint64_t(destination) << 32 | source) * 0xc2b2ae3d27d4eb4fu;
    return (key ^ key >> 29) & (table.size() - 1);
  }

  const World &world;
  std::vector<CommandId> table;
};

class Matcher {
public:
  explicit Matcher(World &world) : world(world) {}

  void run() {
    checkGroups();
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      walk(r);
    messages();
    collectives();
    slots();
  }

private:
  void mismatch(Mismatch::Problem problem, CommandId a, CommandId b = kNone,
                uint32_t rank = kNone) {
    Mismatch m;
    m.problem = problem;
    m.a = a;
    m.b = b;
    m.rank = rank;
    world.mismatches.push_back(m);
  }

  /// All members of a channel's group on any rank must have the same group there.
  void checkGroups() {
    std::map<std::pair<uint32_t, uint32_t>, bool> seen;
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      for (uint32_t c = 0; c < world.ranks[r].groups.size(); ++c) {
        uint32_t group = world.ranks[r].groups[c];
        if (group == kNone || !seen.try_emplace({c, group}, true).second)
          continue;
        for (uint32_t member : world.groups[group])
          if (world.ranks[member].groups[c] != group) {
            Mismatch m;
            m.problem = Mismatch::GroupsDiffer;
            m.rank = member;
            m.other = r;
            m.channel = c;
            world.mismatches.push_back(m);
            break;
          }
      }
  }

  /// Checks one rank's stream order, events and collectives, and collects the other commands.
  void walk(uint32_t r) {
    Rank &rank = world.ranks[r];
    std::vector<CommandId> last(rank.numStreams, kNone), records(rank.numEvents, kNone);
    std::vector<uint32_t> sequence(rank.groups.size(), 0);
    CommandId group = kNone, head = kNone;
    for (CommandId i = rank.begin; i < rank.end; ++i) {
      Command &c = world.commands[i];
      if (isMessage(c.kind)) {
        c.next = group;
        numSends += c.kind == Kind::Send;
        continue;
      }
      if (last[c.stream] != kNone)
        world.commands[last[c.stream]].next = i;
      last[c.stream] = i;
      if (c.isGated || c.isFused)
        c.partner = head;
      if (c.kind == Kind::Group)
        group = i;
      else if (c.kind == Kind::GatedMatmul || c.kind == Kind::FusedExchange)
        head = i;
      else if (c.kind == Kind::Record)
        records[c.aux] = i;
      else if (c.kind == Kind::Wait)
        c.partner = records[c.aux];
      else if (c.kind == Kind::Collective)
        c.partner = collective(r, i, c.channel, rank.groups[c.channel], sequence[c.channel]++);
      else if (c.kind == Kind::Put)
        put(i);
      else if (c.kind == Kind::Signal)
        world.slots[world.firstSlot[c.peer] + c.aux].raises.push_back(i);
      else if (c.kind == Kind::WaitSignal)
        world.slots[world.firstSlot[r] + c.aux].waits.push_back(i);
    }
  }

  uint32_t collective(uint32_t rank, CommandId id, uint32_t channel, uint32_t group,
                      uint32_t sequence) {
    std::vector<uint32_t> &instances = sequences[{channel, group}];
    const std::vector<uint32_t> &ranks = world.groups[group];
    if (sequence >= instances.size()) {
      instances.push_back(static_cast<uint32_t>(world.collectives.size()));
      world.collectives.push_back(
          {channel, group, sequence, static_cast<uint32_t>(world.members.size())});
      world.members.resize(world.members.size() + ranks.size(), kNone);
    }
    auto [place, isNew] = selves.try_emplace({group, rank}, 0);
    if (isNew)
      place->second =
          static_cast<uint32_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    world.members[world.collectives[instances[sequence]].members + place->second] = id;
    return instances[sequence];
  }

  void put(CommandId id) {
    const Command &c = world.commands[id];
    const Rank &rank = world.ranks[world.rankOf(id)];
    const View &dst = *world.operand(rank, c, 0);
    if (dst.address + world.layoutOf(dst).spanBytes() > world.ranks[c.peer].symmetricBytes)
      mismatch(Mismatch::PutOutside, id, kNone, c.peer);
    world.incoming[c.peer].push_back(id);
  }

  void messages() {
    MessageTable table(world, numSends);
    forMessages(Kind::Send, [&](CommandId i, uint32_t r) { table.insert(i, r); });
    forMessages(Kind::Recv, [&](CommandId i, uint32_t r) {
      Command &recv = world.commands[i];
      recv.partner = table.find(recv, r);
      if (recv.partner == kNone)
        return mismatch(Mismatch::RecvWithoutSend, i);
      Command &send = world.commands[recv.partner];
      send.partner = i;
      const Rank &source = world.ranks[recv.peer], &here = world.ranks[r];
      const View &out = *world.operand(here, recv, 0), &in = *world.operand(source, send, 0);
      if (out.layout == in.layout)
        return;
      const Layout &a = world.layoutOf(in), &b = world.layoutOf(out);
      if (a.dtype != b.dtype)
        mismatch(Mismatch::MessageType, recv.partner, i);
      else if (a.numElements() != b.numElements())
        mismatch(Mismatch::MessageSize, recv.partner, i);
    });
    forMessages(Kind::Send, [&](CommandId i, uint32_t) {
      if (world.commands[i].partner == kNone)
        mismatch(Mismatch::SendWithoutRecv, i);
    });
  }

  template <typename Body> void forMessages(Kind kind, Body body) {
    if (numSends == 0 && kind == Kind::Send)
      return;
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      for (CommandId i = world.ranks[r].begin; i < world.ranks[r].end; ++i)
        if (world.commands[i].kind == kind)
          body(i, r);
  }

  void collectives() {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<bool>> reported;
    for (const MatchedCollective &collective : world.collectives) {
      const CommandId *first = &world.members[collective.members];
      uint32_t size = world.groupSize(collective);
      const CommandId *reference =
          std::find_if(first, first + size, [](CommandId id) { return id != kNone; });
      auto &known = reported[{collective.channel, collective.group}];
      known.resize(size);
      for (uint32_t m = 0; m < size; ++m) {
        if (known[m] || first[m] == *reference)
          continue;
        // Report only a member's first difference: later collectives would differ too.
        known[m] = compare(*reference, first[m], world.groups[collective.group][m]);
      }
    }
  }

  bool compare(CommandId a, CommandId b, uint32_t rank) {
    if (b == kNone)
      return mismatch(Mismatch::CollectiveMissing, a, b, rank), true;
    const char *field = differing(a, b);
    if (!field)
      return false;
    mismatch(Mismatch::CollectiveDiffers, a, b);
    world.mismatches.back().field = field;
    return true;
  }

  /// Null: the collectives fit.
  const char *differing(CommandId a, CommandId b) const {
    const Command &x = world.commands[a], &y = world.commands[b];
    auto kind = static_cast<tandem::CollectiveKind>(x.op);
    if (x.op != y.op)
      return "kind";
    if (x.peer != y.peer)
      return "root";
    if (program::isReduction(kind) && x.reduceOp != y.reduceOp)
      return "reduction";
    uint32_t operand = sliceOperand(kind);
    const Layout &l = world.layoutOf(*world.operand(world.ranks[world.rankOf(a)], x, operand));
    const Layout &m = world.layoutOf(*world.operand(world.ranks[world.rankOf(b)], y, operand));
    if (l.dtype != m.dtype)
      return "type";
    return l.numElements() != m.numElements() ? "size" : nullptr;
  }

  void slots() {
    for (Slot &slot : world.slots) {
      std::sort(slot.raises.begin(), slot.raises.end(), [&](CommandId a, CommandId b) {
        uint64_t x = world.commands[a].value, y = world.commands[b].value;
        return x != y ? x < y : a < b;
      });
      uint64_t most = slot.raises.empty() ? 0 : world.commands[slot.raises.back()].value;
      for (CommandId wait : slot.waits)
        if (world.commands[wait].value > most)
          mismatch(Mismatch::WaitWithoutSignal, wait);
    }
  }

  World &world;
  size_t numSends = 0;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> sequences;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> selves;
};

} // namespace

void matchAll(World &world) {
  world.incoming.resize(world.numRanks());
  Matcher(world).run();
}

} // namespace tandem::replay
