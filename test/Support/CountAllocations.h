//===- CountAllocations.h - counts what the runtime allocates ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces operator new, so one source of a binary includes it. The runtime is linked into the
// binary, so everything that the runtime allocates in C++ is counted, on all threads. Libraries
// that it calls (oneDNN, the stand-in for CUDA) are not: the loader binds their operator new to
// this one too, so their callers are told apart by address.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_COUNTALLOCATIONS_H
#define TANDEM_TEST_SUPPORT_COUNTALLOCATIONS_H

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" const char __executable_start, etext; // of the linker

namespace {

std::atomic<bool> counting{false};
std::atomic<uint64_t> allocations{0};

/// `caller`: the return address of operator new.
void *allocate(std::size_t bytes, std::size_t alignment, const void *caller) {
  const auto *at = static_cast<const char *>(caller);
  if (counting && at >= &__executable_start && at < &etext)
    ++allocations;
  bytes = bytes ? bytes : 1;
  void *memory =
      alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                : std::malloc(bytes);
  if (!memory)
    std::abort();
  return memory;
}

} // namespace

void *operator new(std::size_t bytes) { return allocate(bytes, 0, __builtin_return_address(0)); }
void *operator new[](std::size_t bytes) { return allocate(bytes, 0, __builtin_return_address(0)); }
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void *operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif // TANDEM_TEST_SUPPORT_COUNTALLOCATIONS_H
