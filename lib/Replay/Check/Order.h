//===- Order.h - happens-before over all ranks ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_ORDER_H
#define TANDEM_CHECK_ORDER_H

#include "CheckImpl.h"

#include <unordered_map>
#include <unordered_set>

namespace tandem::check {

/// The relation `<` of docs/semantics.md, by search: exact, linear in the program per source. The
/// last source is cached, so ask all questions about one source in a row.
class Order {
public:
  explicit Order(const World &world);

  /// E(x) < B(y); for a put x: its arrival < B(y). `runs`: y is this many runs after x.
  bool before(CommandId x, CommandId y, unsigned runs = 0);
  /// For a put x: its arrival, else E(x), before END of `rank` in x's run.
  bool beforeEnd(CommandId x, uint32_t rank);
  /// True once the searches have exceeded their limit: all later answers are "ordered".
  bool exhausted() const { return isExhausted; }

private:
  void search(CommandId x);
  /// Continues from the end of a run into the next.
  void nextRun();
  void clear();
  void reachBegin(CommandId c);
  void reachEnd(CommandId c);
  void reachRaise(CommandId signal);
  void reachArrival(CommandId put);
  void drain();
  void visit(CommandId c);
  void visitCollective(CommandId c);

  uint32_t chainOf(CommandId c) const {
    return world.ranks[world.rankOf(c)].firstStream + world.commands[c].stream;
  }

  const World &world;
  std::vector<CommandId> head;     ///< per chain (a stream of a rank)
  std::vector<uint32_t> firstWait; ///< per event, into waits; one more at the end
  std::vector<CommandId> waits;

  CommandId source = kNone;
  unsigned run = 0;               ///< runs after that of `source`
  std::vector<CommandId> reached; ///< per chain: the first command whose B is after; kNone: none
  std::vector<uint8_t> ended;     ///< per chain: its end is after
  std::vector<std::pair<CommandId, CommandId>> pending; ///< [first, last) on one chain
  std::unordered_map<CommandId, uint32_t> raisesOf; ///< per wait: number of raises that are after
  std::unordered_set<CommandId> raised;
  uint64_t visited = 0; ///< commands, over all searches
  bool isExhausted = false;
};

/// The pairs of ranks that one run orders: START on rank a < END on rank b.
class RankOrder {
public:
  RankOrder(const World &world, const CheckOptions &options);
  bool before(uint32_t from, uint32_t to) const {
    return bits[size_t(to) * words + from / 64] >> from % 64 & 1;
  }

private:
  size_t words;
  std::vector<uint64_t> bits;
};

} // namespace tandem::check

#endif // TANDEM_CHECK_ORDER_H
