//===- UniformRanks.h - ranks that issue the same commands ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_UNIFORMRANKS_H
#define TANDEM_PROGRAM_UNIFORMRANKS_H

#include <cstdint>
#include <vector>

namespace tandem {

/// How ranks differ that all issue the same commands, on the same streams, with operands of the
/// same layouts: in peers, signal slots and addresses. With the commands of rank 0, and except for
/// addresses, this is the program of all ranks. Example: in step d of a rotation, the table of
/// peers is [d, d + 1, ..., d - 1].
struct UniformRanks {
  static constexpr uint32_t kNone = 0xffffffffu;

  /// A send, recv, put, signal or wait_signal; indices into `tables`, or kNone.
  struct Communication {
    uint32_t peers = kNone; ///< world ranks; of all but wait_signal
    uint32_t slots = kNone; ///< of signal (at the peer) and wait_signal
  };
  /// Groups of equal size that together hold each rank once.
  struct Channel {
    uint32_t groupSize = 1;
    std::vector<uint32_t> members; ///< world ranks, group after group
  };

  uint32_t numRanks = 0;
  std::vector<std::vector<uint32_t>> tables; ///< one entry per rank
  std::vector<Communication> communications; ///< in issue order
  std::vector<Channel> channels;             ///< of the program's channel table
};

} // namespace tandem

#endif // TANDEM_PROGRAM_UNIFORMRANKS_H
