//===- TwoSidedCases.cpp - groups of send and recv ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

#include "tandem/Runtime/Channel.h"

#include <algorithm>

namespace tandem::test {

namespace {

std::vector<uint32_t> everybody(uint32_t ranks) {
  std::vector<uint32_t> group(ranks);
  for (uint32_t r = 0; r < ranks; ++r)
    group[r] = r;
  return group;
}

std::vector<double> valuesOf(DType t, int64_t count, uint64_t seed) {
  std::vector<double> values = numbers(count, seed);
  for (double &value : values)
    value = rounded(t, value);
  return values;
}

/// Everybody sends its tensor `distance` on, each end with its own strides (elements of an array of
/// `storage`).
Scenario shift(uint32_t ranks, DType t, Shape shape, Shape sendStrides, Shape recvStrides,
               int64_t storage, uint32_t distance, unsigned runs = 3) {
  Scenario scenario(ranks);
  uint32_t in = scenario.spec.stacked("in", false, t, {storage});
  uint32_t out = scenario.spec.stacked("out", true, t, {storage});
  scenario.resize(2);
  scenario.runs = runs;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint64_t bytes = static_cast<uint64_t>(storage) * sizeOf(t);
    uint32_t from = rank.view(rank.argument(in, bytes), t, shape, sendStrides, 0);
    uint32_t to = rank.view(rank.argument(out, bytes), t, shape, recvStrides, 0);
    uint16_t ch = rank.channel(everybody(ranks), TwoSided);
    rank.group(0, ch, 2);
    rank.send(0, ch, from, (r + distance) % ranks, 0);
    rank.recv(0, ch, to, (r + ranks - distance % ranks) % ranks, 0);
    for (size_t set = 0; set < 2; ++set) {
      scenario.at(set, r, in) = encodeValues(t, valuesOf(t, storage, set * 100 + r));
      Tensor src = strided(t, shape, sendStrides, 0, storage),
             dst = strided(t, shape, recvStrides, 0, storage);
      src.values = valuesOf(t, storage, set * 100 + (r + ranks - distance % ranks) % ranks);
      dst.values = decodeValues(t, Bytes(bytes, kPoison));
      forEachIndex(shape, [&](const Shape &i) { dst.at(i) = src.at(i); });
      scenario.at(set, r, out) = encodeValues(t, dst.values);
    }
  }
  return scenario;
}

/// All to all, in one group or one group per distance, over `streams` streams of one channel or of
/// a channel each.
Scenario exchange(uint32_t ranks, int64_t n, bool oneGroup, uint16_t streams, bool channelEach) {
  constexpr DType t = DType::F32;
  Scenario scenario(ranks);
  uint32_t in = scenario.spec.stacked("in", false, t, {ranks, n});
  uint32_t out = scenario.spec.stacked("out", true, t, {ranks, n});
  scenario.resize(2);
  scenario.runs = 6;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint64_t slice = static_cast<uint64_t>(n) * 4;
    uint32_t inBuffer = rank.argument(in, slice * ranks),
             outBuffer = rank.argument(out, slice * ranks);
    std::vector<uint16_t> channels;
    for (uint16_t s = 0; s < (channelEach ? streams : 1); ++s)
      channels.push_back(rank.channel(everybody(ranks), TwoSided, "ch" + std::to_string(s)));
    uint32_t start = rank.record(0);
    for (uint16_t s = 1; s < streams; ++s)
      rank.wait(s, start);
    if (oneGroup)
      rank.group(0, channels[0], 2 * ranks);
    for (uint32_t d = 0; d < ranks; ++d) {
      auto stream = static_cast<uint16_t>(oneGroup ? 0 : d % streams);
      uint16_t ch = channelEach ? channels[stream] : channels[0];
      uint32_t to = (r + d) % ranks, from = (r + ranks - d) % ranks;
      if (!oneGroup)
        rank.group(stream, ch, 2);
      rank.recv(stream, ch, rank.view(outBuffer, t, {n}, from * slice), from, d);
      rank.send(stream, ch, rank.view(inBuffer, t, {n}, to * slice), to, d);
    }
    for (uint16_t s = 1; s < streams; ++s)
      rank.sync(0, s);
    for (size_t set = 0; set < 2; ++set) {
      scenario.at(set, r, in) = encodeValues(t, numbers(n * ranks, set * 100 + r));
      std::vector<double> expected;
      for (uint32_t from = 0; from < ranks; ++from) {
        std::vector<double> theirs = numbers(n * ranks, set * 100 + from);
        expected.insert(expected.end(), theirs.begin() + r * n, theirs.begin() + (r + 1) * n);
      }
      scenario.at(set, r, out) = encodeValues(t, expected);
    }
  }
  return scenario;
}

/// Several messages between the same two ranks; the receiver asks for the last one first.
Scenario tagsOutOfOrder(uint32_t ranks, bool separateGroups) {
  constexpr DType t = DType::I32;
  constexpr uint32_t count = 4;
  Scenario scenario(ranks);
  uint32_t in = scenario.spec.stacked("in", false, t, {count, 8});
  uint32_t out = scenario.spec.stacked("out", true, t, {count, 8});
  scenario.resize(1);
  scenario.runs = 4;
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint32_t next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
    uint32_t inBuffer = rank.argument(in, 128), outBuffer = rank.argument(out, 128);
    uint16_t ch = rank.channel(everybody(ranks), TwoSided);
    uint32_t start = rank.record(0);
    rank.wait(1, start);
    // Sends on a stream of their own where groups are separate: their order against the receives is
    // open.
    if (!separateGroups)
      rank.group(0, ch, 2 * count);
    for (uint32_t k = 0; k < count; ++k) {
      uint32_t last = count - 1 - k;
      if (separateGroups)
        rank.group(1, ch, 1);
      rank.send(separateGroups ? 1 : 0, ch, rank.view(inBuffer, t, {8}, k * 32), next, k);
      if (separateGroups)
        rank.group(static_cast<uint16_t>(2 + last), ch, 1);
      rank.recv(static_cast<uint16_t>(separateGroups ? 2 + last : 0), ch,
                rank.view(outBuffer, t, {8}, last * 32), previous, last);
    }
    for (uint16_t s = 1; s < rank.numStreams; ++s)
      rank.sync(0, s);
    scenario.at(0, r, in) = encodeValues(t, numbers(count * 8, r));
    scenario.at(0, r, out) = encodeValues(t, numbers(count * 8, previous));
  }
  return scenario;
}

/// The two ends see other shapes of the same number of elements.
Scenario otherShape(uint32_t ranks) {
  constexpr DType t = DType::BF16;
  Scenario scenario(ranks);
  uint32_t in = scenario.spec.stacked("in", false, t, {60});
  uint32_t out = scenario.spec.stacked("out", true, t, {24});
  scenario.resize(1);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint32_t next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
    uint32_t from = rank.view(rank.argument(in, 120), t, {4, 6}, {11, 2}, 2);
    uint32_t to = rank.view(rank.argument(out, 48), t, {2, 3, 4}, {3, 1, 6}, 0);
    uint16_t ch = rank.channel(everybody(ranks), TwoSided);
    rank.group(0, ch, 2);
    rank.send(0, ch, from, next, 0);
    rank.recv(0, ch, to, previous, 0);
    scenario.at(0, r, in) = encodeValues(t, valuesOf(t, 60, r));
    Tensor src = strided(t, {4, 6}, {11, 2}, 1, 60), dst = strided(t, {2, 3, 4}, {3, 1, 6}, 0, 24);
    src.values = valuesOf(t, 60, previous);
    dst.values.assign(24, 0);
    std::vector<double> flat;
    forEachIndex(src.shape, [&](const Shape &i) { flat.push_back(src.at(i)); });
    size_t n = 0;
    forEachIndex(dst.shape, [&](const Shape &i) { dst.at(i) = flat[n++]; });
    scenario.at(0, r, out) = encodeValues(t, dst.values);
  }
  return scenario;
}

/// Only some ranks are in the group, not in the order of their numbers; the others do nothing.
Scenario subgroup(uint32_t ranks, std::vector<uint32_t> group) {
  constexpr DType t = DType::F32;
  Scenario scenario(ranks);
  uint32_t in = scenario.spec.stacked("in", false, t, {5});
  uint32_t out = scenario.spec.stacked("out", true, t, {5});
  scenario.resize(1);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    scenario.at(0, r, in) = encodeValues(t, numbers(5, r));
    auto member = static_cast<uint32_t>(std::find(group.begin(), group.end(), r) - group.begin());
    auto size = static_cast<uint32_t>(group.size());
    if (member == size) {
      rank.channels.push_back({"ch", TwoSided, {}, 0});
      scenario.at(0, r, out) = Bytes(20, kPoison);
      rank.argument(in, 20);
      rank.argument(out, 20);
      continue;
    }
    uint16_t ch = rank.channel(group, TwoSided);
    uint32_t from = rank.view(rank.argument(in, 20), t, {5}),
             to = rank.view(rank.argument(out, 20), t, {5});
    rank.group(0, ch, 2);
    rank.send(0, ch, from, (member + 1) % size, 0);
    rank.recv(0, ch, to, (member + size - 1) % size, 0);
    scenario.at(0, r, out) = encodeValues(t, numbers(5, group[(member + size - 1) % size]));
  }
  return scenario;
}

Scenario emptyGroup(uint32_t ranks) {
  Scenario scenario(ranks);
  scenario.resize(1);
  for (RankSpec &rank : scenario.spec.ranks)
    rank.group(0, rank.channel(everybody(ranks), TwoSided), 0);
  return scenario;
}

} // namespace

void addTwoSidedCases(Cases &cases) {
  auto add = [&](const std::string &name, std::vector<uint32_t> ranks, auto make) {
    cases.push_back({"TwoSided." + name, std::move(ranks), TwoSided, make});
  };
  for (DType t : kMovedDTypes) {
    add("shift." + nameOf(t), {1, 2, 3, 4},
        [=](uint32_t p) { return shift(p, t, {7, 5}, {5, 1}, {5, 1}, 35, 1); });
    add("strided." + nameOf(t), {1, 2, 3},
        [=](uint32_t p) { return shift(p, t, {4, 3}, {1, 5}, {9, 2}, 40, 1); });
  }
  add("zero-size", {1, 2, 4},
      [](uint32_t p) { return shift(p, DType::F32, {0, 3}, {3, 1}, {3, 1}, 2, 1); });
  add("one-element", {2, 3}, [](uint32_t p) { return shift(p, DType::F16, {1}, {1}, {1}, 1, 1); });
  add("scalar", {2}, [](uint32_t p) { return shift(p, DType::I32, {}, {}, {}, 1, 1); });
  add("to-itself", {1, 2}, [](uint32_t p) { return shift(p, DType::F32, {9}, {1}, {1}, 9, p); });
  add("large", {2, 4},
      [](uint32_t p) { return shift(p, DType::F32, {1 << 18}, {1}, {1}, 1 << 18, 1); });
  add("large-strided", {2}, [](uint32_t p) {
    return shift(p, DType::F16, {512, 333}, {400, 1}, {1, 600}, 512 * 400, 1);
  });
  add("many-runs", {2, 3},
      [](uint32_t p) { return shift(p, DType::F32, {17}, {1}, {1}, 17, 1, 200); });
  add("pipelined", {2, 4}, [](uint32_t p) {
    Scenario scenario = shift(p, DType::F32, {17}, {1}, {1}, 17, 1, 50);
    scenario.pipelined = true;
    return scenario;
  });
  add("exchange.one-group", {1, 2, 3, 4},
      [](uint32_t p) { return exchange(p, 33, true, 1, false); });
  add("exchange.one-stream", {2, 3, 4},
      [](uint32_t p) { return exchange(p, 33, false, 1, false); });
  add("exchange.streams", {2, 3, 4}, [](uint32_t p) { return exchange(p, 33, false, 3, false); });
  add("exchange.channels", {2, 4}, [](uint32_t p) { return exchange(p, 33, false, 3, true); });
  add("exchange.large", {2, 4}, [](uint32_t p) { return exchange(p, 50000, false, 4, true); });
  add("tags.one-group", {1, 2, 3}, [](uint32_t p) { return tagsOutOfOrder(p, false); });
  add("tags.streams", {1, 2, 3}, [](uint32_t p) { return tagsOutOfOrder(p, true); });
  cases.back().needs = kTagsInAnyOrder;
  add("other-shape", {1, 2}, [](uint32_t p) { return otherShape(p); });
  add("subgroup", {4}, [](uint32_t p) { return subgroup(p, {3, 1}); });
  add("subgroup-of-one", {3}, [](uint32_t p) { return subgroup(p, {2}); });
  add("permuted", {4}, [](uint32_t p) { return subgroup(p, {2, 0, 3, 1}); });
  add("empty-group", {1, 2}, [](uint32_t p) { return emptyGroup(p); });
}

} // namespace tandem::test
