//===- ExchangeDescriptor.h - fused exchanges of all ranks -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the blocks of a fused exchange signal on their own, or words carry flags, all ranks do so
// (docs/fused-exchange.md, "Signals"). Each tells the others what its kernel would do, and all find
// the same answer.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_EXCHANGEDESCRIPTOR_H
#define TANDEM_PROGRAM_EXCHANGEDESCRIPTOR_H

#include "tandem/Program/FusedExchange.h"

#include <optional>
#include <string>
#include <string_view>

namespace tandem::sp {
struct RankProgram;
} // namespace tandem::sp

namespace tandem::program {

/// The most ranks of an exchange by words, and the most bytes of the words of all of them.
inline constexpr uint32_t kMostWordRanks = 8;
inline constexpr uint64_t kMostWordBytes = uint64_t(1) << 24;
/// Bytes of a value that exchanges by words can send.
inline constexpr uint64_t kMostWordValue = kMostWordBytes / (4 * kMostWordRanks);

/// Memory behind a rank's signals, in words of 8 bytes, for the exchanges of a program that signal
/// by blocks or words. Runs in the caller's graphs have a second set.
struct ExchangeRoom {
  struct Place {
    uint32_t head = 0; ///< by number of the command
    ExchangeSignals signals = ExchangeSignals::Block;
    uint64_t first = 0;  ///< the word of its wait w and block b: first + w * blocks + b
    uint32_t number = 0; ///< by words: its number among those, from 0
  };
  std::vector<Place> places;
  uint32_t numByWords = 0;
  uint64_t firstOfWords = 0; ///< of the words of data, which all exchanges by words share
  uint64_t halfOfWords = 0;  ///< they have two halves, which they use in turn; a multiple of 8
  uint64_t size = 0;         ///< a multiple of 8

  const Place *find(uint32_t head) const;
};
/// Of a verified program.
ExchangeRoom exchangeRoom(const sp::RankProgram &data);

/// Words of 8 bytes that one rank sends to one other in an exchange by words: four for each unit of
/// 16 bytes of data. A half has place for those of all ranks.
constexpr uint64_t wordsOfUnits(uint64_t units) { return 4 * units; }

/// A part, and the signal that it raises or awaits.
struct DescribedPart {
  ExchangePart part;
  uint32_t slot = 0; ///< of the peer, or of this rank
  uint64_t value = 0, perRun = 0;
};

/// What a rank tells the others of a fused exchange.
struct ExchangeDescriptor {
  uint32_t number = 0; ///< among the program's exchanges that signal by blocks or words
  ExchangeSignals signals = ExchangeSignals::Block;
  uint32_t blocks = 0;       ///< that can run at the same time here
  uint32_t blocksOfRoom = 0; ///< that its room has words for
  uint64_t first = 0;        ///< ExchangeRoom::Place, as a signal of the rank
  uint64_t firstOfWords = 0; ///< likewise
  uint64_t halfOfWords = 0;  ///< ExchangeRoom
  uint64_t sizeOfSet = 0;    ///< from a word to the same one of runs in the caller's graphs
  uint32_t wordNumber = 0, numByWords = 0;
  std::vector<DescribedPart> parts;

  std::string str() const;
  /// None if the text is anything else than str() of a descriptor.
  static std::optional<ExchangeDescriptor> parse(std::string_view text);
};

/// How the members of a group run an exchange.
struct ExchangeMatch {
  uint32_t blocks = 0; ///< of all kernels
  /// [member][n]: the n-th signal of the member is for this wait of its peer, counted likewise.
  std::vector<std::vector<uint32_t>> waitOf;
  std::string whyNotByWords; ///< empty: words may carry flags. The fields below are valid only then
  /// Index of each member's value: the term of a sum, else the number of the member.
  std::vector<uint32_t> terms;
  /// [member]: where its value lies on each member, in bytes from the start of symmetric memory.
  std::vector<uint64_t> slots;
  static constexpr uint32_t kNone = ~uint32_t(0);
  /// [member][term]: the store that copies this value to one more place of the member, or kNone.
  /// Numbers count the stores of step 0, then those of step 1.
  std::vector<std::vector<uint32_t>> copies;
};

/// Whether block b of each kernel needs to wait only for block b of the others; an error says why
/// not. By index in the group.
Expected<ExchangeMatch> matchExchange(const std::vector<ExchangeDescriptor> &descriptors);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_EXCHANGEDESCRIPTOR_H
