//===- ArenaPlan.h - places for buffers that may or may not meet -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Assigns offsets to items so that items with overlapping live ranges do not overlap in memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_ARENAPLAN_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_ARENAPLAN_H

#include "tandem/Dialect/HostIR/Evaluate/ProgramWalk.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

/// The largest arena: 64 TiB. Slots of all 1024 workers still fit in 64 bits.
inline constexpr int64_t kMaxArenaBytes = int64_t(1) << 46;

/// One item of an arena. Sizes and offsets are multiples of kBufferAlignment.
struct ArenaItem {
  int64_t size = 0;
  /// Position where its first live range begins.
  Position first = 0;
  /// Clocks of what has ended at its begin and end: see BufferLife.
  Clock start, end;
  /// Set by placeItems.
  int64_t offset = 0;
};

/// Pairs (i, j) of items that may be live at once. Time linear in the items and in the pairs with
/// overlapping time spans: items are swept by begin, and leave once they have ended for all later
/// items.
std::vector<std::pair<unsigned, unsigned>> findMeetings(ArrayRef<ArenaItem> items);

/// Pairs of items whose ranges [begin, end] in the text overlap.
std::vector<std::pair<unsigned, unsigned>>
findMeetings(ArrayRef<std::pair<int64_t, int64_t>> ranges);

/// Assigns offsets: largest item first, each at the lowest free offset among the placed items that
/// it meets. Returns the bytes needed; above kMaxArenaBytes some offsets are missing.
int64_t placeItems(MutableArrayRef<ArenaItem> items,
                   ArrayRef<std::pair<unsigned, unsigned>> meetings);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_ARENAPLAN_H
