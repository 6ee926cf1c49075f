//===- ExchangeSpec.cpp - reshards by fused exchanges ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"

#include <fmt/format.h>
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
    CommandSpec &exchange = rank.add(sp::CommandKind::fused_exchange, 0);
    exchange.value = blocks;
    exchange.op = signals;
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
    auto first = rank.commands.begin() + head + 1;
    parts.emplace_back(first, rank.commands.end());
    rank.commands.erase(first, rank.commands.end());
    if (twoShots)
      rank.copy(0, rank.view(result, DType::F32, {columns}),
                rank.view(sums, DType::F32, {columns}));
    sp::ExchangeT &typed = rank.exchanges.emplace_back();
    typed.kind =
        twoShots ? sp::ExchangeKind::two_shot_all_reduce : sp::ExchangeKind::one_shot_all_reduce;
    typed.channel = channel;
    typed.in = {rank.view(own, DType::F32, {columns})};
    typed.out = {rank.view(twoShots ? sums : result, DType::F32, {columns})};
    typed.copy = {sp::kNoView};
    typed.scratch = terms;
  }
}

void ExchangeSpec::makePlain() {
  for (RankSpec &rank : ranks) {
    auto exchange = rank.commands.erase(rank.commands.begin() + head);
    rank.commands.insert(exchange, parts[rank.rank].begin(), parts[rank.rank].end());
  }
}

CommandSpec &ExchangeSpec::part(uint32_t rank, sp::CommandKind kind, uint32_t n) {
  uint32_t i = head;
  while (ranks[rank].commands[i].kind != kind || n-- > 0)
    ++i;
  return ranks[rank].commands[i];
}

void ExchangeSpec::drop(uint32_t rank, sp::CommandKind kind, uint32_t n) {
  std::vector<CommandSpec> &commands = ranks[rank].commands;
  commands.erase(commands.begin() + (&part(rank, kind, n) - commands.data()));
}

ProgramSpec gatherSpec(uint32_t size, const std::vector<DType> &types, int64_t count,
                       uint64_t blocks, uint8_t signals, bool isPlain) {
  ProgramSpec spec(size);
  std::vector<uint32_t> inputs, results, everybody;
  for (uint32_t r = 0; r < size; ++r)
    everybody.push_back(r);
  for (DType type : types)
    inputs.push_back(spec.stacked(fmt::format("x{}", inputs.size()), false, type, {count}));
  for (DType type : types)
    results.push_back(spec.stacked(fmt::format("y{}", results.size()), true, type, {size * count}));
  for (RankSpec &rank : spec.ranks) {
    uint16_t channel = rank.channel(everybody, 2); // one-sided
    rank.slots.assign(size, 1);
    rank.add(sp::CommandKind::fused_exchange, 0).value = blocks;
    sp::ExchangeT &typed = rank.exchanges.emplace_back();
    typed.kind = sp::ExchangeKind::all_gather;
    typed.channel = channel;
    std::vector<uint32_t> others;
    for (uint32_t distance = 1; distance < size; ++distance)
      others.push_back((rank.rank + size - distance) % size);
    std::vector<std::pair<uint32_t, uint32_t>> arrived;
    for (size_t k = 0; k < types.size(); ++k) {
      uint64_t bytes = static_cast<uint64_t>(count) * sizeOf(types[k]);
      auto part = [&](uint32_t buffer, uint32_t of) {
        return rank.view(buffer, types[k], {count}, bytes * of);
      };
      uint32_t own = part(rank.argument(inputs[k], bytes), 0);
      uint32_t result = rank.argument(results[k], size * bytes), all = rank.symmetric(size * bytes),
               mine = part(all, rank.rank);
      rank.copy(0, mine, own);
      rank.copy(0, part(result, rank.rank), own);
      for (uint32_t peer : others) {
        rank.put(0, channel, mine, own, peer);
        arrived.emplace_back(part(result, peer), part(all, peer));
      }
      typed.in.push_back(own);
      typed.out.push_back(rank.view(all, types[k], {size, count}));
      typed.copy.push_back(rank.view(result, types[k], {size, count}));
    }
    for (uint32_t peer : others)
      rank.signal(0, channel, peer, rank.rank, 1, true);
    for (uint32_t peer : others)
      rank.waitSignal(0, channel, peer, 1);
    for (auto [to, from] : arrived)
      rank.copy(0, to, from);
    rank.commands[0].op = signals;
    if (isPlain)
      rank.commands.erase(rank.commands.begin());
    else
      rank.commands.resize(1);
  }
  return spec;
}

} // namespace tandem::test
