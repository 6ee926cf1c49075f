//===- KernelAbort.h - how an abort ends what waits in kernels --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_KERNELABORT_H
#define TANDEM_LIB_DEVICE_GPU_KERNELABORT_H

#include "KernelArguments.h"
#include "KernelLanguage.h"

namespace tandem::gpu {

/// Polls of a signal, a millisecond or less, before a wait reports that it waits and looks for an
/// abort: both touch memory of the host, which costs more than most waits.
constexpr unsigned kShortPolls = 1024;

/// Whether an abort ends a wait that has looked `polls` times in vain. It looks seldom: many blocks
/// that read the host's memory all the time would slow down what it waits for.
__device__ inline bool isAborted(const uint64_t *flag, const uint64_t *stopped, unsigned polls) {
  return (polls % 64 == 63 && loadShared(stopped)) ||
         (polls % kShortPolls == kShortPolls - 1 && loadShared(flag));
}

/// Before a wait ends that an abort has ended: no later work of this GPU raises a signal.
__device__ inline void stopSignals(uint64_t *stopped) {
  if (loadShared(stopped) == kStopped)
    return;
  storeShared(stopped, uint64_t(kStopping));
  fenceSystem(); // run_words writes a word, then reads `stopped`
  for (int i = 1; i <= kSignalWords; ++i)
    storeShared(stopped + i, uint64_t(0));
  fenceSystem();
  storeShared(stopped, uint64_t(kStopped));
  fenceSystem();
}

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_KERNELABORT_H
