//===- ExchangeMemory.h - flags and LL buffers of exchanges -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_EXCHANGEMEMORY_H
#define TANDEM_PROGRAM_EXCHANGEMEMORY_H

#include "tandem/Program/Expand.h"

namespace tandem {
class Program;
} // namespace tandem

namespace tandem::program {

/// Memory after a rank's signals, in words of 8 bytes, for the typed exchanges of a program that
/// signal per block or by LL. Runs in the caller's graphs have a second set.
struct ExchangeMemory {
  struct Place {
    uint32_t head = 0; ///< by number of the command
    bool usesLL = false;
    uint32_t number = 0; ///< of those that use LL, from 0
    /// The flag of member m, shot s and block b: first + (s * members + m) * blocks + b.
    uint64_t first = 0, size = 0;
  };
  std::vector<Place> places;
  uint32_t numLL = 0;
  uint64_t firstLL = 0;  ///< of the LL buffers, which all exchanges share
  uint64_t bufferLL = 0; ///< exchanges alternate between two buffers of this size; a multiple of 8
  uint64_t size = 0;     ///< a multiple of 8

  const Place *find(uint32_t head) const;
};
/// Of a verified program.
ExchangeMemory exchangeMemory(const sp::RankProgram &data);

/// Words of 8 bytes that one rank sends to one other by LL: four for each unit of 16 bytes of data.
constexpr uint64_t wordsOfLL(uint64_t units) { return 4 * units; }

} // namespace tandem::program

#endif // TANDEM_PROGRAM_EXCHANGEMEMORY_H
