//===- ArenaPlan.cpp - places for buffers that may or may not meet -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArenaPlan.h"

#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

using Meetings = std::vector<std::pair<unsigned, unsigned>>;

// Indices 0 ... size-1 in stable order of `key`.
template <typename KeyFn> static std::vector<unsigned> sortedBy(size_t size, KeyFn key) {
  std::vector<unsigned> order(size);
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order,
             [&](unsigned a, unsigned b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  return order;
}

Meetings hostir::findMeetings(ArrayRef<ArenaItem> items) {
  std::vector<unsigned> order = sortedBy(items.size(), [&](unsigned i) { return items[i].first; });
  // The common clock of all items from here on.
  std::vector<Clock> known(items.size());
  for (size_t k = items.size(); k-- > 0;) {
    known[k] = items[order[k]].start;
    if (k + 1 < items.size())
      for (auto [a, b] : llvm::zip_equal(known[k], known[k + 1]))
        a = std::min(a, b);
  }
  Meetings meetings;
  std::vector<unsigned> alive;
  for (size_t k = 0; k < order.size(); ++k) {
    unsigned item = order[k];
    llvm::erase_if(alive, [&](unsigned other) { return isBefore(items[other].end, known[k]); });
    for (unsigned other : alive)
      if (!isBefore(items[other].end, items[item].start))
        meetings.emplace_back(other, item);
    alive.push_back(item);
  }
  return meetings;
}

Meetings hostir::findMeetings(ArrayRef<std::pair<int64_t, int64_t>> ranges) {
  Meetings meetings;
  std::vector<unsigned> alive;
  for (unsigned item : sortedBy(ranges.size(), [&](unsigned i) { return ranges[i].first; })) {
    llvm::erase_if(alive,
                   [&](unsigned other) { return ranges[other].second < ranges[item].first; });
    for (unsigned other : alive)
      meetings.emplace_back(other, item);
    alive.push_back(item);
  }
  return meetings;
}

int64_t hostir::placeItems(MutableArrayRef<ArenaItem> items,
                           ArrayRef<std::pair<unsigned, unsigned>> meetings) {
  std::vector<std::vector<unsigned>> neighbours(items.size());
  for (auto [a, b] : meetings) {
    neighbours[a].push_back(b);
    neighbours[b].push_back(a);
  }
  std::vector<bool> placed(items.size());
  int64_t bytes = 0;
  for (unsigned i : sortedBy(items.size(), [&](unsigned i) { return -items[i].size; })) {
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (unsigned other : neighbours[i])
      if (placed[other] && items[other].size > 0)
        taken.emplace_back(items[other].offset, items[other].offset + items[other].size);
    llvm::sort(taken);
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (offset + items[i].size <= begin)
        break;
      offset = std::max(offset, end);
    }
    items[i].offset = offset;
    placed[i] = true;
    bytes = std::max(bytes, offset + items[i].size);
    if (bytes > kMaxArenaBytes)
      return bytes; // avoids overflow of further sums
  }
  return bytes;
}
