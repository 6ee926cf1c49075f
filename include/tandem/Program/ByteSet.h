//===- ByteSet.h - which bytes a view covers --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_BYTESET_H
#define TANDEM_PROGRAM_BYTESET_H

#include "tandem/Program/Types.h"

#include <optional>

namespace tandem {

/// A layout as a set of bytes: runs of `run` bytes at all combinations of `dims`, largest stride
/// first. Ignores order, repetition and dimensions of size 1. Example: columns 0 to 3 of
/// f32[8,16] are {{8, 64}}, run 16.
struct ByteSet {
  struct Dim {
    uint64_t extent, stride; ///< bytes
  };
  std::vector<Dim> dims;
  uint64_t run = 0;     ///< bytes; 0: the set is empty
  uint64_t span = 0;    ///< bytes from the first to the end of the last
  uint64_t bytes = 0;   ///< number of bytes in the set
  bool isNested = true; ///< each stride leads beyond all that the shorter ones reach

  explicit ByteSet(const Layout &layout);
};

/// A piece [begin, end) of memory.
struct Interval {
  uint64_t begin, end;
};
/// Appends the set at `address` as sorted disjoint intervals; false above a million.
bool intervals(uint64_t address, const ByteSet &set, std::vector<Interval> &out);

/// Number of common bytes of two sets at two addresses; none if the sets have too many pieces.
std::optional<uint64_t> commonBytes(uint64_t a, const ByteSet &setA, uint64_t b,
                                    const ByteSet &setB);

} // namespace tandem

#endif // TANDEM_PROGRAM_BYTESET_H
