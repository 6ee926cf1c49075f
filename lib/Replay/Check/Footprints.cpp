//===- Footprints.cpp - which views share bytes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Footprints.h"

#include <algorithm>

namespace tandem::check {

FootprintTable::FootprintTable(const World &world) {
  sets.reserve(world.layouts.size());
  for (const Layout &layout : world.layouts)
    sets.emplace_back(layout);
}

std::shared_ptr<const Overlaps> FootprintTable::overlaps(std::vector<Place> places) {
  uint64_t hash = places.size();
  for (const Place &place : places) {
    uint64_t word = place.address ^ uint64_t(place.layout) << 40 ^ uint64_t(place.argument) << 56 ^
                    uint64_t(place.space) << 62;
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto [at, last] = known.equal_range(hash);
    for (; at != last; ++at)
      if (at->second->places == places)
        return at->second;
  }
  std::shared_ptr<const Overlaps> made = compute(std::move(places));
  std::lock_guard<std::mutex> lock(mutex);
  known.emplace(hash, made);
  return made;
}

std::shared_ptr<const Overlaps> FootprintTable::compute(std::vector<Place> places) const {
  auto result = std::make_shared<Overlaps>();
  result->places = std::move(places);
  const std::vector<Place> &all = result->places;
  struct Pair {
    uint32_t a, b;
    uint64_t common;
  };
  std::vector<Pair> pairs;
  std::vector<uint32_t> active; // places that reach the begin of the next one
  for (uint32_t p = 0; p < all.size(); ++p) {
    const ByteSet &mine = set(all[p].layout);
    auto over = [&](uint32_t q) {
      return !all[q].sameMemory(all[p]) ||
             all[q].address + set(all[q].layout).span <= all[p].address;
    };
    active.erase(std::remove_if(active.begin(), active.end(), over), active.end());
    for (uint32_t q : active)
      // Too many pieces to look at: taken to overlap.
      if (uint64_t common = commonBytes(all[q].address, set(all[q].layout), all[p].address, mine)
                                .value_or(std::min(set(all[q].layout).bytes, mine.bytes)))
        pairs.push_back({q, p, common});
    active.push_back(p);
  }
  std::vector<uint32_t> &first = result->first;
  first.assign(all.size() + 1, 0);
  // A nonempty place overlaps itself.
  auto hasBytes = [&](uint32_t p) { return set(all[p].layout).bytes != 0; };
  for (uint32_t p = 0; p < all.size(); ++p)
    first[p + 1] += hasBytes(p);
  for (const Pair &pair : pairs) {
    ++first[pair.a + 1];
    ++first[pair.b + 1];
  }
  for (size_t p = 0; p < all.size(); ++p)
    first[p + 1] += first[p];
  result->edges.resize(first.back());
  std::vector<uint32_t> at(first.begin(), first.end() - 1);
  for (uint32_t p = 0; p < all.size(); ++p)
    if (hasBytes(p))
      result->edges[at[p]++] = {p, set(all[p].layout).bytes};
  for (const Pair &pair : pairs) {
    result->edges[at[pair.a]++] = {pair.b, pair.common};
    result->edges[at[pair.b]++] = {pair.a, pair.common};
  }
  return result;
}

} // namespace tandem::check
