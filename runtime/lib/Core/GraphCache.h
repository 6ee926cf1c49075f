//===- GraphCache.h - graphs of a run by the addresses of its arguments ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frameworks alternate among few sets of addresses, or pass new ones in every run. So a graph is
// made for addresses that come back, and one graph is moved from addresses to addresses for those
// that do not: making one waits until the device is idle, moving one does not.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_GRAPHCACHE_H
#define TANDEM_LIB_CORE_GRAPHCACHE_H

#include "tandem/Runtime/Device.h"

#include <array>
#include <vector>

namespace tandem::core {

/// At most kMost graphs; the least recently used one makes room. Not thread-safe.
class GraphCache {
public:
  static constexpr size_t kMost = 16;
  using Addresses = std::vector<void *>;
  struct Entry {
    Addresses addresses;          ///< empty while the graph is changed
    std::unique_ptr<Graph> graph; ///< null: being made, or it could not be
    uint64_t lastUse = 0;
  };

  /// The entry with a graph for these addresses, or null.
  Entry *find(const Addresses &addresses);
  /// Notes that find() found none. Whether that has happened before, among the last few.
  bool noteMiss(const Addresses &addresses);
  /// Where the graph for addresses that were missed goes: a new entry, or one whose graph is to be
  /// moved. `returns`: they have been missed before.
  Entry &place(bool returns);
  void clear() {
    entries.clear();
    ++cleared;
  }
  /// How often clear() was called; until it is again, entries stay where they are.
  uint64_t timesCleared() const { return cleared; }

private:
  std::vector<Entry> entries;
  size_t recent = 0; ///< index of the last one that was found
  uint64_t uses = 0, cleared = 0;
  std::array<uint64_t, 4 * kMost> missed{}; ///< hashes, a ring
  size_t misses = 0;
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_GRAPHCACHE_H
