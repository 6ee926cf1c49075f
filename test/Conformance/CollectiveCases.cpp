//===- CollectiveCases.cpp - all collectives ---*- C++ -*-===//
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

struct Options {
  CollectiveKind kind = CollectiveKind::AllGather;
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  Shape slice{6};
  uint32_t root = 0;
  bool inPlace = false;
  bool stridedViews = false;   ///< all views take every second element of wider memory
  std::vector<uint32_t> group; ///< empty: everybody
  unsigned runs = 3;
};

bool stacksIn(CollectiveKind kind) {
  return kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll ||
         kind == CollectiveKind::Scatter;
}
bool stacksOut(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll ||
         kind == CollectiveKind::Gather;
}

using Values = std::vector<double>;

/// What each member gets, from what each gave (flat, slices one after the other); empty: it gets
/// nothing.
std::vector<Values> reference(const Options &o, const std::vector<Values> &in, int64_t slice) {
  size_t size = in.size();
  std::vector<Values> out(size);
  auto part = [&](size_t from, size_t i) {
    return Values(in[from].begin() + static_cast<int64_t>(i) * slice,
                  in[from].begin() + static_cast<int64_t>(i + 1) * slice);
  };
  auto combined = [&](size_t i) {
    Values result = part(0, i);
    for (size_t m = 1; m < size; ++m) {
      Values next = part(m, i);
      for (size_t e = 0; e < result.size(); ++e)
        result[e] = o.op == ReduceOp::Sum   ? result[e] + next[e]
                    : o.op == ReduceOp::Max ? std::max(result[e], next[e])
                                            : std::min(result[e], next[e]);
    }
    return result;
  };
  auto append = [](Values &to, const Values &more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (size_t m = 0; m < size; ++m) {
    bool isRoot = m == o.root;
    switch (o.kind) {
    case CollectiveKind::Gather:
      if (!isRoot)
        break;
      [[fallthrough]];
    case CollectiveKind::AllGather:
      for (size_t from = 0; from < size; ++from)
        append(out[m], part(from, 0));
      break;
    case CollectiveKind::Reduce:
      if (!isRoot)
        break;
      [[fallthrough]];
    case CollectiveKind::AllReduce:
      out[m] = combined(0);
      break;
    case CollectiveKind::ReduceScatter:
      out[m] = combined(m);
      break;
    case CollectiveKind::AllToAll:
      for (size_t from = 0; from < size; ++from)
        append(out[m], part(from, m));
      break;
    case CollectiveKind::Broadcast:
      out[m] = part(o.root, 0);
      break;
    case CollectiveKind::Scatter:
      out[m] = part(o.root, m);
      break;
    }
  }
  return out;
}

Scenario collective(uint32_t ranks, Options o) {
  Scenario scenario(ranks);
  if (o.group.empty())
    for (uint32_t r = 0; r < ranks; ++r)
      o.group.push_back(r);
  auto size = static_cast<int64_t>(o.group.size());
  o.root %= static_cast<uint32_t>(size);
  auto stack = [&](bool yes) {
    Shape shape = o.slice;
    if (yes)
      shape.insert(shape.begin(), size);
    return shape;
  };
  Shape inShape = stack(stacksIn(o.kind)), outShape = stack(stacksOut(o.kind));
  uint32_t in = scenario.spec.stacked("in", false, o.dtype, inShape);
  uint32_t out = scenario.spec.stacked("out", true, o.dtype, outShape);
  constexpr size_t sets = 2;
  scenario.resize(sets);
  scenario.runs = o.runs;
  scenario.tolerance = o.op == ReduceOp::Sum ? toleranceOf(o.dtype) : 0;
  auto bytesOf = [&](const Shape &shape) {
    return static_cast<uint64_t>(product(shape)) * sizeOf(o.dtype);
  };
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    auto member =
        static_cast<uint32_t>(std::find(o.group.begin(), o.group.end(), r) - o.group.begin());
    uint32_t inArgument = rank.view(rank.argument(in, bytesOf(inShape)), o.dtype, inShape);
    uint32_t outBuffer = rank.argument(out, bytesOf(outShape));
    uint32_t outArgument = rank.view(outBuffer, o.dtype, outShape);
    for (size_t set = 0; set < sets; ++set) {
      scenario.at(set, r, in) = encodeValues(o.dtype, numbers(product(inShape), set * 100 + r));
      scenario.at(set, r, out) = Bytes(bytesOf(outShape), kPoison);
    }
    if (member == size) {
      rank.channels.push_back({"ch", Collectives, {}, 0});
      continue;
    }
    uint16_t ch = rank.channel(o.group, Collectives);
    // Staged through the arena, where views may have strides and lie on one another.
    auto wide = [&](const Shape &shape) {
      Shape strides = denseStrides(shape);
      if (o.stridedViews)
        for (int64_t &stride : strides)
          stride *= 2;
      uint64_t factor = o.stridedViews ? 2 : 1;
      return rank.view(rank.arena(bytesOf(shape) * factor + 4), o.dtype, shape, strides, 0);
    };
    uint32_t inView = 0, outView = 0;
    auto sliceOf = [&](uint32_t stacked) {
      const sp::View whole = rank.views[stacked];
      const LayoutSpec layout = rank.layouts[whole.layout()];
      return rank.view(whole.buffer(), o.dtype, o.slice,
                       Shape(layout.strides.begin() + 1, layout.strides.end()),
                       static_cast<uint64_t>(layout.strides[0]) * member * sizeOf(o.dtype));
    };
    if (o.inPlace && stacksOut(o.kind)) {
      outView = wide(outShape);
      inView = sliceOf(outView);
    } else if (o.inPlace && stacksIn(o.kind)) {
      inView = wide(inShape);
      outView = sliceOf(inView);
    } else {
      inView = wide(inShape);
      outView = o.inPlace ? inView : wide(outShape);
    }
    bool isRoot = member == o.root;
    bool reads =
        isRoot || (o.kind != CollectiveKind::Broadcast && o.kind != CollectiveKind::Scatter);
    bool writes = isRoot || (o.kind != CollectiveKind::Reduce && o.kind != CollectiveKind::Gather);
    if (reads)
      rank.copy(0, inView, inArgument);
    CommandSpec &command = rank.collective(0, ch, o.kind, writes ? outView : sp::kNoView,
                                           reads ? inView : sp::kNoView);
    command.reduceOp = static_cast<sp::ReduceOp>(o.op);
    command.peer = o.root;
    if (writes)
      rank.copy(0, outArgument, outView);
  }
  for (size_t set = 0; set < sets; ++set) {
    std::vector<Values> given;
    for (uint32_t r : o.group)
      given.push_back(numbers(product(inShape), set * 100 + r));
    std::vector<Values> expected = reference(o, given, product(o.slice));
    for (size_t m = 0; m < o.group.size(); ++m)
      if (!expected[m].empty())
        scenario.at(set, o.group[m], out) = encodeValues(o.dtype, expected[m]);
  }
  return scenario;
}

/// Two collectives at the same time, on two streams of one channel or of two.
Scenario overlapping(uint32_t ranks, bool twoChannels) {
  constexpr DType t = DType::F32;
  Scenario scenario(ranks);
  uint32_t in = scenario.spec.stacked("in", false, t, {ranks, 30});
  uint32_t gathered = scenario.spec.stacked("gathered", true, t, {ranks, 30 * ranks});
  uint32_t summed = scenario.spec.stacked("summed", true, t, {ranks, 30});
  scenario.resize(1);
  scenario.runs = 10;
  Values sum(30 * ranks, 0), all;
  std::vector<uint32_t> group;
  for (uint32_t r = 0; r < ranks; ++r) {
    Values mine = numbers(30 * ranks, r);
    all.insert(all.end(), mine.begin(), mine.end());
    for (size_t i = 0; i < mine.size(); ++i)
      sum[i] += mine[i];
    group.push_back(r);
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint64_t bytes = 120u * ranks;
    uint32_t inView = rank.view(rank.argument(in, bytes), t, {ranks, 30});
    uint32_t gatheredView =
        rank.view(rank.argument(gathered, bytes * ranks), t, {ranks, ranks, 30});
    uint32_t summedView = rank.view(rank.argument(summed, bytes), t, {ranks, 30});
    uint16_t first = rank.channel(group, Collectives, "a");
    uint16_t second = twoChannels ? rank.channel(group, Collectives, "b") : first;
    uint32_t start = rank.record(0);
    rank.wait(1, start);
    rank.wait(2, start);
    rank.collective(1, first, CollectiveKind::AllGather, gatheredView, inView);
    rank.collective(2, second, CollectiveKind::AllReduce, summedView, inView);
    rank.sync(0, 1);
    rank.sync(0, 2);
    scenario.at(0, r, in) = encodeValues(t, numbers(30 * ranks, r));
    scenario.at(0, r, gathered) = encodeValues(t, all);
    scenario.at(0, r, summed) = encodeValues(t, sum);
  }
  return scenario;
}

} // namespace

void addCollectiveCases(Cases &cases) {
  for (int k = 0; k <= static_cast<int>(CollectiveKind::Scatter); ++k) {
    auto kind = static_cast<CollectiveKind>(k);
    bool reduces = kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter ||
                   kind == CollectiveKind::Reduce;
    bool rooted = kind >= CollectiveKind::Broadcast;
    auto add = [&](const std::string &name, std::vector<uint32_t> ranks, Options o) {
      o.kind = kind;
      cases.push_back({"Collective." + std::string(toString(kind)) + "." + name, std::move(ranks),
                       Collectives, [=](uint32_t p) { return collective(p, o); }});
    };
    bool moves = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll;
    for (DType t : moves ? kMovedDTypes : kAllDTypes)
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min}) {
        if (op != ReduceOp::Sum && !reduces)
          continue;
        Options o;
        o.dtype = t;
        o.op = op;
        std::string suffix = "." + nameOf(t) + (reduces ? "." + std::string(toString(op)) : "");
        o.slice = {7, 3};
        add("odd" + suffix, {1, 2, 3, 4}, o);
        o.stridedViews = true;
        add("strided" + suffix, {1, 3}, o);
        o.inPlace = kind != CollectiveKind::AllToAll;
        add("strided-in-place" + suffix, {2, 3}, o);
        o.stridedViews = false;
        add("in-place" + suffix, {1, 2, 4}, o);
      }
    Options o;
    o.slice = {0, 4};
    add("zero-size", {1, 3}, o);
    o.slice = {};
    add("scalar", {1, 2, 4}, o);
    o.slice = {20000};
    add("large", {2, 4}, o);
    o.slice = {5};
    o.runs = 60;
    add("many-runs", {2, 3}, o);
    o.runs = 3;
    o.group = {3, 1, 2};
    add("subgroup", {4}, o);
    o.group.clear();
    for (o.root = 1; rooted && o.root < 4; ++o.root)
      add("root-" + std::to_string(o.root), {4}, o);
  }
  for (bool two : {false, true})
    cases.push_back(
        {std::string("Collective.overlapping.") + (two ? "two-channels" : "one-channel"),
         {2, 3, 4},
         Collectives,
         [=](uint32_t p) { return overlapping(p, two); }});
}

} // namespace tandem::test
