//===- LocalPass.h - what one rank does to its memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_LOCALPASS_H
#define TANDEM_CHECK_LOCALPASS_H

#include "Footprints.h"

namespace tandem::check {

/// Clocks count these: records and waits only hand on what others have counted, and the messages of
/// a group are counted with it.
inline bool takesPart(replay::Kind kind) {
  return kind != replay::Kind::Record && kind != replay::Kind::Wait && !replay::isMessage(kind);
}

/// Two accesses that the rank's own order leaves open. Other ranks may order them.
struct OpenPair {
  CommandId first, second; ///< in the order of issue
  bool firstWrites, secondWrites;
  uint32_t placeA, placeB; ///< into `overlaps`
};

/// An access to symmetric memory that remote ones are compared with.
struct SymmetricAccess {
  CommandId command; ///< of the rank itself
  uint32_t place;
  bool writes;
  uint32_t
      clock; ///< first of numStreams in LocalResult::clocks: what has ended before it, by stream
};

/// What the pass over one rank leaves for the ones over all ranks.
struct LocalResult {
  std::shared_ptr<const Overlaps> overlaps;
  std::vector<OpenPair> open;
  std::vector<SymmetricAccess> symmetric;
  /// Puts and signals, ascending, and the same of them.
  std::vector<std::pair<CommandId, uint32_t>> oneSided;
  std::vector<uint32_t> clocks;
  /// Per stream: how many of its commands have surely ended at END.
  std::vector<uint32_t> clockAtEnd;
  uint64_t numOverlaps = 0;
};

/// Section 3 for one rank: vector clocks over its streams in the order of issue, and per place the
/// last write and the reads since. Reports uninitialized reads, lives, results, R1.
LocalResult checkRank(const World &world, uint32_t rank, const CheckOptions &options,
                      const Execution &execution, FootprintTable &footprints, Findings &findings);

/// "bytes [0, 64) of arg2 "t2"", of what two places of a rank have in common.
std::string describeBytes(const World &world, uint32_t rank, const FootprintTable &footprints,
                          const Place &a, const Place &b);

} // namespace tandem::check

#endif // TANDEM_CHECK_LOCALPASS_H
