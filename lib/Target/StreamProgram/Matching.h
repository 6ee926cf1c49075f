//===- Matching.h - messages and collectives across ranks -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_MATCHING_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_MATCHING_H

#include "Code.h"

namespace mlir::tandem::target {

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

/// Sees all messages and collectives of all ranks, rank after rank, and finds those that do not
/// fit. Memory: what is still open (messages whose other side has not come), and the collectives of
/// one rank of each group.
class Matcher {
public:
  explicit Matcher(const Code &code);

  void beginRank(uint32_t rank);
  LogicalResult message(const Message &message);
  LogicalResult collective(uint32_t channel, const CollectiveCall &call);
  /// After the commands of a rank: it must have done all collectives of its groups.
  LogicalResult endRank();
  /// After all ranks: no message may be left open.
  LogicalResult finish();

private:
  struct Open {
    uint64_t key; ///< channel, from, to
    uint32_t number;
    uint32_t instrAndSide; ///< 2 * instr + isSend
    uint64_t bytesAndType; ///< 4 * bytes + dtype; kEmpty = no entry
  };
  static constexpr uint64_t kEmpty = ~uint64_t(0);
  size_t home(uint64_t key, uint32_t number) const;
  void grow();
  LogicalResult mismatch(const Message &message, const Open &other) const;

  /// The collectives of the first rank of a group.
  struct Group {
    uint32_t firstRank = kNone;
    std::vector<CollectiveCall> calls;
  };

  const Code &code;
  std::vector<Open> table; ///< linear probing; a power of two
  size_t used = 0;
  std::vector<std::vector<Group>> groups; ///< per channel
  std::vector<uint32_t> done;             ///< per channel: collectives of this rank
  uint32_t rank = 0;
};

} // namespace mlir::tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_MATCHING_H
