//===- ExchangeSpec.cpp - an all-reduce by fused exchanges ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"

#include <functional>

namespace tandem::test {

ExchangeSpec::ExchangeSpec(uint32_t size, bool twoShots, int64_t columns, uint64_t blocks,
                           uint8_t signals)
    : ProgramSpec(size) {
  int64_t width = twoShots ? columns / size : columns;
  uint64_t all = static_cast<uint64_t>(columns) * 4, slice = static_cast<uint64_t>(width) * 4;
  uint32_t x = stacked("x", false, DType::F32, {columns});
  uint32_t y = stacked("y", true, DType::F32, {columns});
  std::vector<uint32_t> everybody;
  for (uint32_t r = 0; r < size; ++r)
    everybody.push_back(r);
  for (RankSpec &rank : ranks) {
    uint32_t own = rank.argument(x, all), result = rank.argument(y, all);
    uint32_t slots = rank.symmetric(slice * size), sums = twoShots ? rank.symmetric(all) : 0;
    uint16_t channel = rank.channel(everybody, 2); // one-sided
    rank.slots.assign(size * (twoShots ? 2 : 1), 1);
    auto piece = [&](uint32_t of) {
      return rank.view(own, DType::F32, {width}, twoShots ? slice * of : 0);
    };
    uint32_t mine = rank.view(slots, DType::F32, {width}, slice * rank.rank);
    auto forEachPeer = [&](const std::function<void(uint32_t)> &body) {
      for (uint32_t distance = 1; distance < size; ++distance)
        body((rank.rank + size - distance) % size);
    };
    auto meet = [&](uint32_t first) {
      forEachPeer(
          [&](uint32_t peer) { rank.signal(0, channel, peer, first + rank.rank, 1, true); });
      forEachPeer([&](uint32_t peer) { rank.waitSignal(0, channel, first + peer, 1); });
    };
    head = static_cast<uint32_t>(rank.commands.size());
    rank.add(sp::CommandKind::fused_exchange, 0).value = blocks;
    rank.commands.back().op = signals;
    rank.copy(0, mine, piece(rank.rank));
    forEachPeer([&](uint32_t peer) { rank.put(0, channel, mine, piece(peer), peer); });
    meet(0);
    uint32_t sum = twoShots ? rank.view(sums, DType::F32, {width}, slice * rank.rank)
                            : rank.view(result, DType::F32, {width});
    uint32_t terms = rank.view(slots, DType::F32, {size, width});
    rank.add(sp::CommandKind::reduce, 0, {sum, terms}).value = 1;
    if (twoShots) {
      forEachPeer([&](uint32_t peer) { rank.put(0, channel, sum, sum, peer); });
      meet(size);
    }
    numParts = static_cast<uint32_t>(rank.commands.size()) - head - 1;
    rank.commands[head].aux = numParts;
    if (twoShots)
      rank.copy(0, rank.view(result, DType::F32, {columns}),
                rank.view(sums, DType::F32, {columns}));
  }
}

CommandSpec &ExchangeSpec::part(uint32_t rank, sp::CommandKind kind, uint32_t n) {
  uint32_t i = 0;
  while (part(rank, i).kind != kind || n-- > 0)
    ++i;
  return part(rank, i);
}

void ExchangeSpec::drop(uint32_t rank, sp::CommandKind kind, uint32_t n) {
  std::vector<CommandSpec> &commands = ranks[rank].commands;
  commands.erase(commands.begin() + (&part(rank, kind, n) - commands.data()));
  --commands[head].aux;
}

} // namespace tandem::test
