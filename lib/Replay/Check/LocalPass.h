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

/// Whether vector clocks count a command. Records and waits only pass clocks on; messages count
/// with their group.
inline bool takesPart(replay::Kind kind) {
  return kind != replay::Kind::Record && kind != replay::Kind::Wait && !replay::isMessage(kind);
}

/// Two accesses not ordered within their rank. Other ranks may order them.
struct OpenPair {
  CommandId first, second; ///< in the order of issue
  bool firstWrites, secondWrites;
  uint32_t placeA, placeB; ///< into `overlaps`
};

/// An access to symmetric memory, for comparison with remote accesses.
struct SymmetricAccess {
  CommandId command; ///< of this rank
  uint32_t place;
  bool writes;
  uint32_t
      clock; ///< first of numStreams in LocalResult::clocks: what has ended before it, by stream
};

/// Data from the pass over one rank for the passes over all ranks.
struct LocalResult {
  std::shared_ptr<const Overlaps> overlaps;
  std::vector<OpenPair> open;
  std::vector<SymmetricAccess> symmetric;
  /// Puts and signals, ascending, and the same for each.
  std::vector<std::pair<CommandId, uint32_t>> oneSided;
  std::vector<uint32_t> clocks;
  /// Per stream: number of commands that have ended at END.
  std::vector<uint32_t> clockAtEnd;
  uint64_t numOverlaps = 0;
};

/// Section 3 for one rank: vector clocks over its streams in issue order, and per place the last
/// write and the reads since. Reports uninitialised reads, live ranges, results, R1.
LocalResult checkRank(const World &world, uint32_t rank, const CheckOptions &options,
                      const Execution &execution, FootprintTable &footprints, Findings &findings);

/// "bytes [0, 64) of arg2 "t2"": the common bytes of two places of a rank.
std::string describeBytes(const World &world, uint32_t rank, const FootprintTable &footprints,
                          const Place &a, const Place &b);

class Order;

/// Checks races between puts and other accesses (section 3), R2, and signals of the wrong run
/// (section 2). For programs that finish.
void checkRemote(const World &world, const CheckOptions &options, const Execution &execution,
                 const std::vector<LocalResult> &locals, const FootprintTable &footprints,
                 Order &order, Findings &findings);

} // namespace tandem::check

#endif // TANDEM_CHECK_LOCALPASS_H
