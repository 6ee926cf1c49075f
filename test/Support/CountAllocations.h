//===- CountAllocations.h - counts what the runtime allocates ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CountAllocations.cpp, a source of the test's binary, replaces operator new. The runtime is linked
// into the binary, so everything that the runtime allocates in C++ is counted, on all threads.
// Libraries that it calls (oneDNN, the stand-in for CUDA) are not: the loader binds their operator
// new to this one too, so their callers are told apart by address.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_COUNTALLOCATIONS_H
#define TANDEM_TEST_SUPPORT_COUNTALLOCATIONS_H

#include "tandem/Program/Status.h"

#include <atomic>
#include <cstdint>
#include <thread>

namespace tandem::test {

extern std::atomic<bool> counting;
/// While `counting` was true.
extern std::atomic<uint64_t> allocations;

/// On each of `ranks` threads: 24 runs by enqueue(run), then 24 that count, until the first rank is
/// done. `arrived`: 0 at first, the same for all ranks.
template <typename Enqueue, typename Wait>
Status countRuns(uint32_t ranks, std::atomic<uint32_t> &arrived, Enqueue enqueue, Wait wait) {
  auto runs = [&]() -> Status {
    for (unsigned run = 0; run < 24; ++run) {
      TANDEM_RETURN_IF_ERROR(enqueue(run));
      if (run % 3 == 0)
        TANDEM_RETURN_IF_ERROR(wait());
    }
    return wait();
  };
  TANDEM_RETURN_IF_ERROR(runs());
  // The bootstrap's barrier allocates, so ranks meet here without it.
  if (++arrived == ranks)
    counting = true;
  while (!counting && arrived < ranks)
    std::this_thread::yield();
  Status status = runs();
  counting = false;
  return status;
}

} // namespace tandem::test

#endif // TANDEM_TEST_SUPPORT_COUNTALLOCATIONS_H
