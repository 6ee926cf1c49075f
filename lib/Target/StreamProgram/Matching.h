//===- Matching.h - messages and collectives across ranks -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_MATCHING_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_MATCHING_H

#include "Code.h"
#include "tandem/Support/LLVM.h"

namespace tandem::target {

/// One side of a message.
struct Message {
  uint32_t channel, from, to; ///< world ranks
  uint32_t number;            ///< number of earlier messages with this channel, from and to
  bool isSend;
  DType dtype;
  uint64_t bytes;
  uint32_t instr; ///< the operation
};

/// The properties of a collective that all ranks of a group must agree on.
struct CollectiveCall {
  uint8_t kind, reduction, dtype;
  uint32_t root;
  uint64_t bytes; ///< of a slice
  uint32_t instr;
};

/// Receives the messages and collectives of all ranks in ascending order and reports mismatches.
/// Memory: the unmatched messages, and the collectives of one rank per group.
class Matcher {
public:
  explicit Matcher(const Code &code);

  void beginRank(uint32_t rank);
  LogicalResult message(const Message &message);
  LogicalResult collective(uint32_t channel, const CollectiveCall &call);
  /// Call after a rank's commands. Checks that it has the other sides of all messages with earlier
  /// ranks, and all collectives of its groups.
  LogicalResult endRank();

private:
  /// A message with one side seen.
  struct Open {
    uint64_t key; ///< channel, from, to
    uint32_t number;
    uint32_t instrAndSide; ///< 2 * instr + isSend
    uint64_t bytesAndType; ///< 256 * bytes + dtype
    bool closed;
  };
  /// The index of a message in `table`, or a free one.
  size_t find(uint64_t key, uint32_t number) const;
  void insert(const Open &open);
  LogicalResult mismatch(const Message &message, const Open &other) const;
  /// Reports a message without its other side.
  LogicalResult alone(const Open &open, size_t more) const;

  /// The collectives of the first rank of a group.
  struct Group {
    uint32_t firstRank = kNone;
    std::vector<CollectiveCall> calls;
  };

  const Code &code;
  /// Per later rank: the unmatched messages with it. A rank appends to one list per peer and
  /// searches a small table; a table of all open messages would miss the cache.
  std::vector<std::vector<Open>> inboxes;
  std::vector<Open> open; ///< of this rank
  std::vector<uint32_t>
      table; ///< indices into `open`: linear probing; a power of two; kNone = empty
  std::vector<std::vector<Group>> groups; ///< per channel
  std::vector<uint32_t> done;             ///< per channel: collectives of this rank
  uint32_t rank = 0;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_MATCHING_H
