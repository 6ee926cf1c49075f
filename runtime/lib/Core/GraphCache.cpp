//===- GraphCache.cpp - graphs of a run by the addresses of its arguments ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphCache.h"

#include <algorithm>
#include <xxhash.h>

namespace tandem::core {

GraphCache::Entry *GraphCache::find(const Addresses &addresses) {
  auto matches = [&](const Entry &entry) { return entry.graph && entry.addresses == addresses; };
  if (recent >= entries.size() || !matches(entries[recent]))
    recent = static_cast<size_t>(std::find_if(entries.begin(), entries.end(), matches) -
                                 entries.begin());
  if (recent == entries.size())
    return nullptr;
  entries[recent].lastUse = ++uses;
  return &entries[recent];
}

bool GraphCache::noteMiss(const Addresses &addresses) {
  uint64_t hash =
      XXH3_64bits(static_cast<const void *>(addresses.data()), addresses.size() * sizeof(void *));
  bool known = std::find(missed.begin(), missed.end(), hash) != missed.end();
  if (!known)
    missed[misses++ % missed.size()] = hash;
  return known;
}

GraphCache::Entry &GraphCache::place(bool returns) {
  auto older = [](const Entry &a, const Entry &b) { return a.lastUse < b.lastUse; };
  auto empty = [](const Entry &entry) { return !entry.graph; };
  auto free = std::find_if(entries.begin(), entries.end(), empty);
  if (free != entries.end())
    return *free;
  auto oldest = std::min_element(entries.begin(), entries.end(), older);
  // A graph that cannot be moved is no use for other addresses.
  if (oldest == entries.end() ||
      (entries.size() < kMost && (returns || !oldest->graph->patches()))) {
    entries.reserve(kMost);
    return entries.emplace_back();
  }
  return *oldest;
}

} // namespace tandem::core
