//===- OneSidedCases.cpp - put, signal and wait_signal ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

#include "tandem/Runtime/Channel.h"

namespace tandem::test {

namespace {

/// Everybody puts its input into slot r of everybody's symmetric memory, in `chunks` chunks with a
/// signal each, and copies what has arrived to its output. Slot s of the signals counts the chunks
/// of rank s. The runs alternate between the two halves, and every pair of ranks waits for each
/// other: no barrier is needed between runs.
Scenario gather(uint32_t ranks, DType t, int64_t n, int64_t chunks, unsigned runs,
                bool pipelined = false) {
  Scenario scenario(ranks);
  int64_t chunk = n / chunks;
  uint64_t bytes = static_cast<uint64_t>(n) * sizeOf(t);
  uint32_t in = scenario.spec.stacked("in", false, t, {n});
  uint32_t out = scenario.spec.stacked("out", true, t, {ranks, n});
  scenario.resize(pipelined ? 1 : 3);
  scenario.runs = runs;
  scenario.pipelined = pipelined;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint32_t inBuffer = rank.argument(in, bytes), outBuffer = rank.argument(out, bytes * ranks);
    uint32_t symmetric = rank.symmetric(bytes * ranks);
    uint16_t ch = rank.channel(everybody(ranks), OneSided);
    rank.slots.assign(ranks, static_cast<uint64_t>(chunks));
    uint64_t step = static_cast<uint64_t>(chunk) * sizeOf(t);
    rank.sync(1, 0);
    for (int64_t c = 0; c < chunks; ++c)
      for (uint32_t d = 0; d < ranks; ++d) {
        uint32_t peer = (r + d) % ranks;
        rank.put(1, ch, rank.view(symmetric, t, {chunk}, r * bytes + c * step),
                 rank.view(inBuffer, t, {chunk}, c * step), peer);
        // Half of the ranks' slots are known to be theirs alone.
        rank.signal(1, ch, peer, r, static_cast<uint64_t>(c + 1), r % 2 == 0);
      }
    for (uint32_t d = 0; d < ranks; ++d) {
      uint32_t peer = (r + ranks - d) % ranks;
      for (int64_t c = 0; c < chunks; ++c) {
        rank.waitSignal(0, ch, peer, static_cast<uint64_t>(c + 1));
        uint64_t at = peer * bytes + c * step;
        rank.copy(0, rank.view(outBuffer, t, {chunk}, at), rank.view(symmetric, t, {chunk}, at));
      }
    }
    rank.sync(0, 1);
    for (size_t set = 0; set < scenario.data.size(); ++set) {
      scenario.at(set, r, in) = encodeValues(t, numbers(n, set * 100 + r));
      std::vector<double> all;
      for (uint32_t from = 0; from < ranks; ++from) {
        std::vector<double> theirs = numbers(n, set * 100 + from);
        all.insert(all.end(), theirs.begin(), theirs.end());
      }
      scenario.at(set, r, out) = encodeValues(t, all);
    }
  }
  return scenario;
}

/// A put whose two ends are strided, to the next rank.
Scenario stridedPut(uint32_t ranks, DType t, Shape shape, Shape srcStrides, Shape dstStrides,
                    int64_t storage) {
  Scenario scenario(ranks);
  uint64_t bytes = static_cast<uint64_t>(storage) * sizeOf(t);
  uint32_t in = scenario.spec.stacked("in", false, t, {storage});
  uint32_t out = scenario.spec.stacked("out", true, t, shape);
  scenario.resize(1);
  scenario.runs = 4;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint32_t previous = (r + ranks - 1) % ranks;
    uint32_t from = rank.view(rank.argument(in, bytes), t, shape, srcStrides, 0);
    uint32_t outView =
        rank.view(rank.argument(out, static_cast<uint64_t>(product(shape)) * sizeOf(t)), t, shape);
    uint32_t to = rank.view(rank.symmetric(bytes), t, shape, dstStrides, 0);
    uint16_t ch = rank.channel(everybody(ranks), OneSided);
    rank.slots = {1, 1};
    rank.put(0, ch, to, from, (r + 1) % ranks);
    rank.signal(0, ch, (r + 1) % ranks, 0, 1);
    rank.waitSignal(0, ch, 0, 1);
    rank.copy(0, outView, to);
    // The reader tells the writer: else with more than two ranks one could be two runs ahead.
    rank.signal(0, ch, previous, 1, 1);
    rank.waitSignal(0, ch, 1, 1);
    Tensor src = strided(t, shape, srcStrides, 0, storage);
    scenario.at(0, r, in) = encodeValues(t, numbers(storage, r));
    src.values = numbers(storage, previous);
    std::vector<double> expected;
    forEachIndex(shape, [&](const Shape &i) { expected.push_back(src.at(i)); });
    scenario.at(0, r, out) = encodeValues(t, expected);
  }
  return scenario;
}

/// A token goes round the ring `rounds` times: signals alone, values larger than one.
Scenario token(uint32_t ranks, uint64_t rounds) {
  Scenario scenario(ranks);
  scenario.resize(1);
  scenario.runs = 20;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint16_t ch = rank.channel(everybody(ranks), OneSided);
    rank.slots = {rounds};
    for (uint64_t round = 1; round <= rounds; ++round) {
      if (r != 0)
        rank.waitSignal(0, ch, 0, round);
      rank.signal(0, ch, (r + 1) % ranks, 0, round);
      if (r == 0)
        rank.waitSignal(0, ch, 0, round);
    }
  }
  return scenario;
}

/// Two ranks raise one slot of a third, each over a channel that the other is not in, the lower
/// value last: it must not lower what is there.
Scenario acrossGroups() {
  Scenario scenario(3);
  scenario.resize(1);
  scenario.runs = 4;
  auto channel = [&](uint32_t r, uint32_t a, uint32_t b) {
    return scenario.spec.ranks[r].channel({a, b}, OneSided);
  };
  // All ranks name all channels; those that a rank is not in have no group there.
  for (uint32_t r = 0; r < 3; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    rank.slots = {2, 1, 1};
    for (auto [a, b] : {std::pair{0u, 2u}, std::pair{1u, 2u}, std::pair{0u, 1u}}) {
      if (r == a || r == b)
        channel(r, a, b);
      else
        rank.channels.push_back({"ch", OneSided, {}, 0});
    }
  }
  RankSpec &high = scenario.spec.ranks[0], &low = scenario.spec.ranks[1],
           &reader = scenario.spec.ranks[2];
  high.signal(0, 0, 1, 0, 2); // slot 0 of rank 2
  high.signal(0, 2, 1, 1, 1); // slot 1 of rank 1: now you
  low.waitSignal(0, 2, 1, 1);
  low.signal(0, 1, 1, 0, 1); // slot 0 of rank 2
  low.signal(0, 1, 1, 2, 1); // slot 2 of rank 2: done
  reader.waitSignal(0, 1, 2, 1);
  reader.waitSignal(0, 0, 0, 2);
  // Nobody is a run ahead.
  reader.signal(0, 0, 0, 1, 1); // slot 1 of rank 0
  high.waitSignal(0, 0, 1, 1);
  return scenario;
}

} // namespace

void addOneSidedCases(Cases &cases) {
  auto add = [&](const std::string &name, std::vector<uint32_t> ranks, auto make) {
    cases.push_back({"OneSided." + name, std::move(ranks), OneSided, make});
  };
  for (DType t : kMovedDTypes)
    add("gather." + nameOf(t), {1, 2, 3, 4}, [=](uint32_t p) { return gather(p, t, 21, 3, 6); });
  add("gather.large", {2, 4}, [](uint32_t p) { return gather(p, DType::F32, 1 << 17, 4, 4); });
  add("gather.zero-size", {2}, [](uint32_t p) { return gather(p, DType::F32, 0, 1, 3); });
  add("gather.many-runs", {2, 3}, [](uint32_t p) { return gather(p, DType::F32, 40, 2, 150); });
  add("gather.pipelined", {2, 4},
      [](uint32_t p) { return gather(p, DType::F32, 40, 2, 50, true); });
  add("gather.by-turns", {1, 2}, [](uint32_t p) {
    Scenario scenario = gather(p, DType::F32, 40, 2, 9);
    scenario.byTurns = true;
    return scenario;
  });
  for (DType t : kAllDTypes)
    add("strided." + nameOf(t), {1, 2, 3},
        [=](uint32_t p) { return stridedPut(p, t, {5, 4}, {1, 6}, {11, 2}, 60); });
  add("strided.columns", {2},
      [](uint32_t p) { return stridedPut(p, DType::F32, {50, 40}, {90, 1}, {64, 1}, 4500); });
  add("across-groups", {3}, [](uint32_t) { return acrossGroups(); });
  add("token", {1, 2, 3, 4}, [](uint32_t p) { return token(p, 7); });
}

} // namespace tandem::test
