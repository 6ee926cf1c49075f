//===- Contents.h - what one rank's memory holds ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_CONTENTS_H
#define TANDEM_CHECK_CONTENTS_H

#include "LocalPass.h"

namespace tandem::check {

/// One access, for comparison with later ones.
struct Last {
  CommandId command = kNone;
  uint32_t stream = 0, tick = 0; ///< the tick-th command of its stream, from 1: see takesPart
  uint32_t buffer = kNone;       ///< the buffer it went through
};

/// Tracks the last writer of each place in issue order. Reports reads of unwritten memory, reads of
/// another buffer's data, and results that are not written.
class Contents {
public:
  Contents(const World &world, uint32_t rank, const Execution &execution,
           const FootprintTable &footprints, std::shared_ptr<const Overlaps> graph,
           Findings &findings);

  /// A peer's put into a place.
  void put(CommandId command, uint32_t place);
  void write(const Last &here, uint32_t place) { writes[place] = here; }
  const Last &lastWrite(uint32_t place) const { return writes[place]; }

  void checkInitialized(const Last &here, uint32_t place);
  /// Checks that a read of the arena finds data written through its own buffer.
  void checkLife(const Last &here, uint32_t place);
  /// At END.
  void checkResult(uint32_t argument);

private:
  bool isWritten(uint32_t place, uint32_t when) const;
  bool isCovered(uint32_t place, uint32_t when);
  uint64_t firstHole(uint32_t place, uint32_t when) const;
  void paint(const Last &here, uint32_t place);
  void reportLife(const Last &here, uint32_t place, uint32_t by);

  const World &world;
  const replay::Rank &rank;
  const uint32_t r;
  const Execution &execution;
  const FootprintTable &footprints;
  std::shared_ptr<const Overlaps> graph;
  Findings &findings;
  std::vector<Last> writes;      ///< per place: the last
  std::vector<uint32_t> putWhen; ///< per place: the earliest put into it; empty: no puts
  std::vector<uint8_t> covered;  ///< per place: whether all bytes are written
};

} // namespace tandem::check

#endif // TANDEM_CHECK_CONTENTS_H
