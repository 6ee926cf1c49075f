//===- Footprints.h - which views share bytes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_FOOTPRINTS_H
#define TANDEM_CHECK_FOOTPRINTS_H

#include "CheckImpl.h"

#include <map>
#include <memory>
#include <mutex>

namespace tandem::check {

/// A layout as a set of bytes: runs of `run` bytes at all combinations of `dims`, largest stride
/// first. Ignores order, repetition and dimensions of size 1.
struct ByteSet {
  struct Dim {
    uint64_t extent, stride; ///< bytes
  };
  std::vector<Dim> dims;
  uint64_t run = 0;   ///< bytes; 0: the set is empty
  uint64_t span = 0;  ///< bytes from the first to the end of the last
  uint64_t bytes = 0; ///< number of bytes in the set

  explicit ByteSet(const Layout &layout);
};

/// Number of common bytes of two sets at two addresses.
uint64_t commonBytes(uint64_t a, const ByteSet &setA, uint64_t b, const ByteSet &setB);

/// A piece [begin, end) of memory.
struct Interval {
  uint64_t begin, end;
};
/// Appends the set at `address` as sorted disjoint intervals; false above a million.
bool intervals(uint64_t address, const ByteSet &set, std::vector<Interval> &out);

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
