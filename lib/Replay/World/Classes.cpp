//===- Classes.cpp - classes of equivalent ranks ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Classes are the coarsest partition of the ranks such that all ranks of one class have the same
// description, and peers of the same classes. Each table of peers is a permutation, so what comes
// to the ranks of a class comes from one class, too, one message to each rank.
// Example: 16 ranks, 8 in a node, each sends to the next rank. Ranks 7 and 15 send through the
// network, so classes are ranks of equal index in their node.
//
//===----------------------------------------------------------------------===//

#include "ReplayImpl.h"

#include <algorithm>
#include <map>

namespace tandem::replay {

namespace {

using Table = std::vector<uint32_t>;

class Partition {
public:
  Partition(const std::vector<Command> &commands, const UniformRanks &uniform,
            uint32_t devicesPerNode)
      : uniform(uniform), numRanks(uniform.numRanks), devicesPerNode(devicesPerNode),
        sendersOf(uniform.tables.size()), arrivals(uniform.channels.size() * numRanks) {
    for (const Command &command : commands)
      if (isCommunication(command.kind))
        items.push_back({command.kind, command.channel});
  }

  std::optional<RankClasses> run() {
    if (!invertTables() || !findGroups())
      return std::nullopt;
    std::vector<Table> rows(numRanks);
    marks.resize(numRanks);
    for (uint32_t r = 0; r < numRanks; ++r) {
      if (!match(r))
        return std::nullopt;
      describe(r, rows[r]);
    }
    for (uint32_t known = 0; number(rows) != known;) {
      known = static_cast<uint32_t>(first.size());
      if (known > 1 && known > numRanks / 2)
        return std::nullopt; // not worth it
      describeNeighbours(rows);
    }
    return finish();
  }

private:
  struct Item {
    Kind kind;
    uint16_t channel;
  };

  const Table &peers(size_t item) const {
    return uniform.tables[uniform.communications[item].peers];
  }
  const Table &slots(size_t item) const {
    return uniform.tables[uniform.communications[item].slots];
  }
  /// By rank: the one whose message, put or signal comes there.
  const Table &senders(size_t item) const { return sendersOf[uniform.communications[item].peers]; }

  bool invertTables() {
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].kind == Kind::Signal || items[i].kind == Kind::WaitSignal)
        numSlots = std::max(numSlots, 1 + *std::max_element(slots(i).begin(), slots(i).end()));
      if (items[i].kind == Kind::WaitSignal || !senders(i).empty())
        continue;
      Table &inverse = sendersOf[uniform.communications[i].peers];
      inverse.assign(numRanks, kNone);
      for (uint32_t r = 0; r < numRanks; ++r) {
        if (inverse[peers(i)[r]] != kNone)
          return false;
        inverse[peers(i)[r]] = r;
      }
    }
    return true;
  }

  uint32_t nodeOf(uint32_t rank) const { return devicesPerNode ? rank / devicesPerNode : 0; }

  Reach reachOf(uint32_t rank, uint32_t peer) const {
    if (rank == peer)
      return Reach::Self;
    return nodeOf(rank) == nodeOf(peer) ? Reach::Node : Reach::Network;
  }

  /// The group of each rank, by channel, and the nodes of each group. False if a rank is in none.
  bool findGroups() {
    for (const UniformRanks::Channel &channel : uniform.channels) {
      Table &group = groupOf.emplace_back(numRanks, kNone), &nodes = nodesOf.emplace_back();
      std::map<std::pair<uint32_t, uint32_t>, bool> seen; // by group and node
      nodes.assign(channel.members.size() / channel.groupSize, 0);
      for (uint32_t i = 0; i < channel.members.size(); ++i) {
        uint32_t g = i / channel.groupSize;
        group[channel.members[i]] = g;
        nodes[g] += seen.try_emplace({g, nodeOf(channel.members[i])}, true).second;
      }
      if (std::find(group.begin(), group.end(), kNone) != group.end())
        return false;
    }
    return true;
  }

  /// Sets the marks of a rank. Of a receive: the number of its send; the k-th message of a channel
  /// from one rank to another belongs to the k-th receive. Of a wait_signal, and of a signal that
  /// comes to the rank: the number of the slot, where slots are numbered by first use. False if
  /// messages are left.
  bool match(uint32_t rank) {
    Table &mark = marks[rank];
    mark.assign(items.size(), 0);
    Table idOf(numSlots, kNone);
    uint32_t ids = 0;
    auto number = [&](uint32_t slot) {
      return idOf[slot] == kNone ? idOf[slot] = ids++ : idOf[slot];
    };
    auto queue = [&](size_t item, uint32_t sender) -> Queue & {
      return arrivals[size_t(items[item].channel) * numRanks + sender];
    };
    for (uint32_t i = 0; i < items.size(); ++i)
      if (items[i].kind == Kind::Send)
        queue(i, senders(i)[rank]).sends.push_back(i);
      else if (items[i].kind == Kind::Signal)
        mark[i] = number(slots(i)[senders(i)[rank]]);
    bool matched = true;
    for (uint32_t i = 0; i < items.size(); ++i) {
      if (items[i].kind == Kind::WaitSignal)
        mark[i] = number(slots(i)[rank]);
      if (items[i].kind != Kind::Recv)
        continue;
      Queue &from = queue(i, peers(i)[rank]);
      if (from.next == from.sends.size())
        matched = false;
      else
        mark[i] = from.sends[from.next++];
    }
    for (uint32_t i = 0; i < items.size(); ++i)
      if (items[i].kind == Kind::Send) {
        Queue &from = queue(i, senders(i)[rank]);
        matched &= from.next == from.sends.size();
        from = Queue();
      }
    return matched;
  }

  /// All that is known of a rank before there are classes.
  void describe(uint32_t rank, Table &row) const {
    row = marks[rank];
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].kind != Kind::WaitSignal)
        row.push_back(static_cast<uint32_t>(reachOf(rank, peers(i)[rank])));
    for (size_t channel = 0; channel < groupOf.size(); ++channel)
      row.push_back(nodesOf[channel][groupOf[channel][rank]]);
  }

  /// The classes of a rank, of its peers, and of its groups.
  void describeNeighbours(std::vector<Table> &rows) const {
    std::vector<std::vector<Table>> groups(uniform.channels.size());
    for (uint32_t channel = 0; channel < groups.size(); ++channel)
      for (uint32_t g = 0; g < nodesOf[channel].size(); ++g)
        groups[channel].push_back(classesIn(channel, g));
    for (uint32_t r = 0; r < numRanks; ++r) {
      rows[r] = {classOf[r]};
      for (size_t t = 0; t < sendersOf.size(); ++t)
        if (!sendersOf[t].empty())
          rows[r].push_back(classOf[uniform.tables[t][r]]);
      for (uint32_t channel = 0; channel < groups.size(); ++channel) {
        const Table &in = groups[channel][groupOf[channel][r]];
        rows[r].insert(rows[r].end(), in.begin(), in.end());
      }
    }
  }

  Table classesIn(uint32_t channel, uint32_t group) const {
    const UniformRanks::Channel &all = uniform.channels[channel];
    Table in;
    for (uint32_t i = 0; i < all.groupSize; ++i)
      in.push_back(classOf[all.members[size_t(group) * all.groupSize + i]]);
    std::sort(in.begin(), in.end());
    in.erase(std::unique(in.begin(), in.end()), in.end());
    return in;
  }

  /// Ranks with equal rows get one class, in the order of their first ranks; returns how many.
  uint32_t number(const std::vector<Table> &rows) {
    std::map<Table, uint32_t> known;
    classOf.clear();
    first.clear();
    for (uint32_t r = 0; r < numRanks; ++r) {
      auto [at, isNew] = known.try_emplace(rows[r], static_cast<uint32_t>(first.size()));
      if (isNew)
        first.push_back(r);
      classOf.push_back(at->second);
    }
    return static_cast<uint32_t>(first.size());
  }

  RankClasses finish() const {
    RankClasses classes;
    classes.numSlots = numSlots;
    for (uint32_t rank : first) {
      auto &list = classes.communications.emplace_back();
      for (uint32_t i = 0; i < items.size(); ++i) {
        if (items[i].kind == Kind::WaitSignal) {
          list.push_back({kNone, marks[rank][i], Reach::Unknown});
          continue;
        }
        uint32_t peer = peers(i)[rank];
        uint32_t aux = items[i].kind == Kind::Send     ? i
                       : items[i].kind == Kind::Signal ? marks[peer][i]
                                                       : marks[rank][i];
        list.push_back({classOf[peer], aux, reachOf(rank, peer)});
      }
    }
    for (uint32_t channel = 0; channel < groupOf.size(); ++channel) {
      auto &groups = classes.groups.emplace_back();
      for (uint32_t rank : first) {
        uint32_t group = groupOf[channel][rank];
        groups.push_back({classesIn(channel, group),
                          {uniform.channels[channel].groupSize, nodesOf[channel][group]}});
      }
    }
    return classes;
  }

  /// Sends of one channel from one rank to the rank at hand.
  struct Queue {
    Table sends;
    size_t next = 0;
  };

  const UniformRanks &uniform;
  const uint32_t numRanks, devicesPerNode;
  std::vector<Item> items;
  std::vector<Table> sendersOf;        ///< by table of peers
  std::vector<Queue> arrivals;         ///< by channel and sender
  std::vector<Table> groupOf, nodesOf; ///< by channel: per rank, per group
  std::vector<Table> marks;            ///< by rank: per item
  uint32_t numSlots = 0;
  Table classOf, first; ///< per rank; per class, its first rank
};

} // namespace

std::optional<RankClasses> findClasses(const std::vector<Command> &commands,
                                       const UniformRanks &ranks, uint32_t devicesPerNode) {
  return Partition(commands, ranks, devicesPerNode).run();
}

} // namespace tandem::replay
