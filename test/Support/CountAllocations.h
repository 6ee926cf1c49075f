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

#include <atomic>
#include <cstdint>

namespace tandem::test {

extern std::atomic<bool> counting;
/// While `counting` was true.
extern std::atomic<uint64_t> allocations;

} // namespace tandem::test

#endif // TANDEM_TEST_SUPPORT_COUNTALLOCATIONS_H
