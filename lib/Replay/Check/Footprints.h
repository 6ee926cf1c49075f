//===- Footprints.h - which views share bytes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_FOOTPRINTS_H
#define TANDEM_CHECK_FOOTPRINTS_H

#include "CheckImpl.h"

#include "tandem/Program/ByteSet.h"

#include <map>
#include <memory>
#include <mutex>

namespace tandem::check {

/// A place in one rank's memory.
struct Place {
  replay::Space space = replay::Space::Arena;
  uint32_t argument = 0;
  uint64_t address = 0;
  uint32_t layout = 0;

  bool sameMemory(const Place &other) const {
    return space == other.space && argument == other.argument;
  }
  friend bool operator<(const Place &a, const Place &b) {
    if (a.space != b.space)
      return a.space < b.space;
    if (a.argument != b.argument)
      return a.argument < b.argument;
    return a.address != b.address ? a.address < b.address : a.layout < b.layout;
  }
  friend bool operator==(const Place &a, const Place &b) { return !(a < b) && !(b < a); }
};

/// The overlapping pairs among a rank's places.
struct Overlaps {
  struct Edge {
    uint32_t to;
    uint64_t common; ///< bytes, more than 0
  };
  std::vector<Place> places; ///< sorted, all different
  std::vector<uint32_t> first;
  std::vector<Edge> edges; ///< of place p: first[p] to first[p + 1]; it is its own neighbour

  const Edge *begin(uint32_t place) const { return edges.data() + first[place]; }
  const Edge *end(uint32_t place) const { return edges.data() + first[place + 1]; }
};

/// Computes overlaps; ranks with equal places share them. Any thread.
class FootprintTable {
public:
  explicit FootprintTable(const World &world);
  const ByteSet &set(uint32_t layout) const { return sets[layout]; }
  /// `places`: sorted, without duplicates.
  std::shared_ptr<const Overlaps> overlaps(std::vector<Place> places);

private:
  std::shared_ptr<const Overlaps> compute(std::vector<Place> places) const;

  std::vector<ByteSet> sets; ///< per layout of the world
  std::mutex mutex;
  std::multimap<uint64_t, std::shared_ptr<const Overlaps>> known; ///< by a hash of the places
};

} // namespace tandem::check

#endif // TANDEM_CHECK_FOOTPRINTS_H
