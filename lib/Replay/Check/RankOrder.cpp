//===- RankOrder.cpp - which ranks one run orders ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Order.h"

#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>

namespace tandem::check {

using namespace replay;

namespace {

using Words = std::vector<uint64_t>;

/// Computes along one execution, per stream, the set of ranks whose START precedes its next
/// command.
class TieDriver final : public InstantDriver {
public:
  TieDriver(const World &world, size_t words) : InstantDriver(world), words(words) {
    uint32_t events = world.numEvents();
    sets.assign(world.numStreams(), Words(words, 0));
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      sets[world.ranks[r].firstStream][r / 64] |= uint64_t(1) << r % 64;
    recorded.resize(events);
    waitsLeft.assign(events, 0);
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      for (CommandId i = world.ranks[r].begin; i < world.ranks[r].end; ++i)
        if (world.commands[i].kind == Kind::Wait)
          ++waitsLeft[world.ranks[r].firstEvent + world.commands[i].aux];
    raised.resize(world.slots.size());
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      for (CommandId i = world.ranks[r].begin; i < world.ranks[r].end; ++i)
        if (const Command &command = world.commands[i]; command.kind == Kind::Signal)
          raisesOf(i, r).add(command.value);
  }

  void begin(CommandId c) override {
    const Command &command = world.commands[c];
    uint32_t rank = world.rankOf(c);
    Words &set = sets[world.ranks[rank].firstStream + command.stream];
    uint32_t event = world.ranks[rank].firstEvent + command.aux;
    switch (infoOf(command.kind).sync) {
    case Sync::Record:
      if (waitsLeft[event] > 0)
        recorded[event] = set;
      break;
    case Sync::Wait:
      join(set, recorded[event]);
      if (--waitsLeft[event] == 0)
        Words().swap(recorded[event]);
      break;
    case Sync::Send:
      if (command.partner != kNone)
        messages[c] = set;
      break;
    case Sync::Signal:
      raisesOf(c, rank).sets.push_back(set);
      break;
    case Sync::WaitSignal:
      join(set, commonOfRaises(world.firstSlot[rank] + command.aux, command.value));
      break;
    case Sync::None:
    case Sync::Collective:
    case Sync::Group:
    case Sync::Recv:
      break;
    }
    InstantDriver::begin(c);
  }

  void beginCollective(uint32_t index) override {
    const replay::MatchedCollective &collective = world.collectives[index];
    const CommandId *members = &world.members[collective.members];
    const std::vector<uint32_t> &group = world.groups[collective.group];
    const Command &first = world.commands[members[0]];
    auto kind = static_cast<tandem::CollectiveKind>(first.op);
    Words all(words, 0);
    for (uint32_t m = 0; m < group.size(); ++m)
      if (!program::isFromRoot(kind) || group[m] == first.peer)
        join(all, setOf(members[m]));
    for (uint32_t m = 0; m < group.size(); ++m)
      if (!program::isToRoot(kind) || group[m] == first.peer)
        join(setOf(members[m]), all);
    InstantDriver::beginCollective(index);
  }

  void end(CommandId c) override {
    if (world.commands[c].kind != Kind::Group)
      return;
    for (CommandId m = c + 1; m <= c + world.commands[c].aux; ++m) {
      const Command &message = world.commands[m];
      if (message.kind != Kind::Recv)
        continue;
      auto at = messages.find(message.partner);
      if (at == messages.end())
        continue;
      join(setOf(c), at->second);
      messages.erase(at);
    }
  }

  const Words &atEnd(uint32_t rank) const { return sets[world.ranks[rank].firstStream]; }

private:
  /// The signals of one stream that raise a slot, in stream order.
  struct Raises {
    uint64_t stream = 0;
    std::vector<uint64_t> mostValue; ///< per signal: the largest value up to it
    std::vector<Words> sets;         ///< per issued signal: what precedes it

    void add(uint64_t value) {
      mostValue.push_back(mostValue.empty() ? value : std::max(value, mostValue.back()));
    }
  };

  Raises &raisesOf(CommandId signal, uint32_t rank) {
    const Command &command = world.commands[signal];
    uint64_t stream = uint64_t(rank) << 16 | command.stream;
    std::vector<Raises> &all = raised[world.firstSlot[command.peer] + command.aux];
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const Raises &raises) { return raises.stream == stream; });
    if (found != all.end())
      return *found;
    all.emplace_back().stream = stream;
    return all.back();
  }

  Words &setOf(CommandId c) {
    return sets[world.ranks[world.rankOf(c)].firstStream + world.commands[c].stream];
  }
  static void join(Words &into, const Words &from) {
    for (size_t w = 0; w < from.size(); ++w)
      into[w] |= from[w];
  }

  /// The ranks before every signal that could have raised the slot to `value`. Of one stream's
  /// signals only the first counts; a stream whose signal has not been issued gives the empty set.
  Words commonOfRaises(uint32_t slot, uint64_t value) const {
    Words common(words, ~uint64_t(0));
    for (const Raises &raises : raised[slot]) {
      size_t first = std::lower_bound(raises.mostValue.begin(), raises.mostValue.end(), value) -
                     raises.mostValue.begin();
      if (first == raises.mostValue.size())
        continue;
      if (first >= raises.sets.size())
        return Words(words, 0);
      for (size_t w = 0; w < words; ++w)
        common[w] &= raises.sets[first][w];
    }
    return common;
  }

  const size_t words;
  std::vector<Words> sets;                       ///< per stream of each rank
  std::vector<Words> recorded;                   ///< per event, until its last wait
  std::vector<uint32_t> waitsLeft;               ///< per event
  std::unordered_map<CommandId, Words> messages; ///< per send in flight
  std::vector<std::vector<Raises>> raised;       ///< per slot
};

} // namespace

RankOrder::RankOrder(const World &world, const CheckOptions &options)
    : words((world.numRanks() + 63) / 64), bits(words * world.numRanks(), 0) {
  TieDriver driver(world, words);
  WalkOptions walk;
  walk.bufferedSends = options.bufferedSends;
  Walker walker(world, walk, driver);
  driver.run(walker);
  for (uint32_t r = 0; r < world.numRanks(); ++r)
    std::copy(driver.atEnd(r).begin(), driver.atEnd(r).end(), bits.begin() + r * words);
}

} // namespace tandem::check
