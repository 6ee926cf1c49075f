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
  uint32_t number;            ///< how many of this channel, from and to came before
  bool isSend;
  sp::DType dtype;
  uint64_t bytes;
  uint32_t instr; ///< whose operation it is
};

/// What all ranks of a group must agree on.
struct CollectiveCall {
  uint8_t kind, reduction, dtype;
  uint32_t root;
  uint64_t bytes; ///< of a slice
  uint32_t instr;
};

/// Sees all messages and collectives of all ranks, rank after rank in ascending order, and finds
/// those that do not fit. Memory: messages whose other side is a later rank, and the collectives of
/// one rank of each group.
class Matcher {
public:
  explicit Matcher(const Code &code);

  void beginRank(uint32_t rank);
  LogicalResult message(const Message &message);
  LogicalResult collective(uint32_t channel, const CollectiveCall &call);
  /// After the commands of a rank: it must have the other sides of all messages with earlier ranks,
  /// and have done all collectives of its groups.
  LogicalResult endRank();

private:
  /// A message of which one side has been seen.
  struct Open {
    uint64_t key; ///< channel, from, to
    uint32_t number;
    uint32_t instrAndSide; ///< 2 * instr + isSend
    uint64_t bytesAndType; ///< 8 * bytes + dtype
    bool closed;
  };
  /// The place of a message in `table`, or where it would stand.
  size_t find(uint64_t key, uint32_t number) const;
  void insert(const Open &open);
  LogicalResult mismatch(const Message &message, const Open &other) const;
  /// Reports a message that one side alone has.
  LogicalResult alone(const Open &open, size_t more) const;

  /// The collectives of the first rank of a group.
  struct Group {
    uint32_t firstRank = kNone;
    std::vector<CollectiveCall> calls;
  };

  const Code &code;
  /// Per rank that is still to come: the messages that others have with it. What one rank adds goes
  /// to the ends of as many lists as it has peers, and what a rank looks up is small: a table of
  /// all open messages would be all cache misses.
  std::vector<std::vector<Open>> inboxes;
  std::vector<Open> open;      ///< of this rank
  std::vector<uint32_t> table; ///< places in `open`: linear probing; a power of two; kNone = empty
  std::vector<std::vector<Group>> groups; ///< per channel
  std::vector<uint32_t> done;             ///< per channel: collectives of this rank
  uint32_t rank = 0;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_MATCHING_H
