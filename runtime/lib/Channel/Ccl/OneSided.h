//===- OneSided.h - puts and signals by NCCL --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL has one counter for each pair of ranks of a communicator (ncclPutSignal and ncclSignal raise
// it by one, ncclWaitSignal waits until it has been raised so many times more). So a signal of a
// program is a place in the order of what its sender does to the receiver, which all members
// compute when they compare their commands.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_CCL_ONESIDED_H
#define TANDEM_CHANNEL_CCL_ONESIDED_H

#include "Communicator.h"

namespace tandem::ccl {

/// What the operations of one channel share.
struct Counters;

/// The one-sided part of a channel. Prepare functions: one thread.
class OneSided {
public:
  /// Makes the symmetric memory known to NCCL. Collective over the group; all members give memory
  /// of one size.
  static Expected<std::unique_ptr<OneSided>> create(CommunicatorRef communicator,
                                                    const gpu::Kernels &kernels,
                                                    const SymmetricMemory &symmetric,
                                                    const core::WaitLimit &limit);
  ~OneSided();

  Expected<std::unique_ptr<Operation>> preparePut(const Put &put);
  Expected<std::unique_ptr<Operation>> prepareSignal(const Signal &signal);
  Expected<std::unique_ptr<Operation>> prepareWaitSignal(const WaitSignal &wait);

  /// A line, beginning with "o ", for each prepared command.
  std::string prepared() const;
  /// Finds the place of each signal that this rank waits for. `members`: the lines of all members,
  /// among others. Unsupported, on all members alike, where one counter for each pair does not say
  /// which signals have come.
  Status compare(const std::vector<std::string> &members);

private:
  OneSided(CommunicatorRef communicator, const gpu::Kernels &kernels,
           const SymmetricMemory &symmetric, const core::WaitLimit &limit);
  Status enter(void *memory, uint64_t bytes, Window *window);

  CommunicatorRef communicator;
  const gpu::Kernels &kernels;
  const core::WaitLimit limit;
  const std::shared_ptr<Counters> counters;
  std::string lines;
  uint64_t stagingBytes = 0; ///< of the puts so far
};

} // namespace tandem::ccl

#endif // TANDEM_CHANNEL_CCL_ONESIDED_H
