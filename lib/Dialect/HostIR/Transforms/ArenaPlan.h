//===- ArenaPlan.h - places for buffers that may or may not meet -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Offsets for items of known sizes such that items which may be alive at the same time do not
// overlap.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_ARENAPLAN_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_ARENAPLAN_H

#include "tandem/Dialect/HostIR/Evaluate/ProgramWalk.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

/// The largest arena that is planned: 64 TiB. Places of all 1024 workers still fit in 64 bits.
inline constexpr int64_t kMaxArenaBytes = int64_t(1) << 46;

/// One item of an arena. Sizes and offsets are multiples of kBufferAlignment.
struct ArenaItem {
  int64_t size = 0;
  /// Order of its first life's begin.
  Position first = 0;
  /// What has surely ended when it begins, and when it ends: see BufferLife.
  Clock start, end;
  /// Set by placeItems.
  int64_t offset = 0;
};

/// Pairs (i, j) of items that may be alive at once. Takes time linear in the items and in the pairs
/// of items whose time spans overlap: items are swept in order of their beginning and leave when
/// they are over for all that follow.
std::vector<std::pair<unsigned, unsigned>> findMeetings(ArrayRef<ArenaItem> items);

/// Pairs of items whose ranges [begin, end] in the text overlap.
std::vector<std::pair<unsigned, unsigned>>
findMeetings(ArrayRef<std::pair<int64_t, int64_t>> ranges);

/// Gives every item its offset: the largest first, each at the lowest place where no placed item
/// that it meets lies. Returns the bytes needed; where that is more than kMaxArenaBytes, places are
/// missing.
int64_t placeItems(MutableArrayRef<ArenaItem> items,
                   ArrayRef<std::pair<unsigned, unsigned>> meetings);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_ARENAPLAN_H
