//===- CountAllocations.cpp - counts what the runtime allocates -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CountAllocations.h"

#include <cstdlib>
#include <new>

extern "C" const char __executable_start, etext; // NOLINT: of the linker

using namespace tandem::test;

std::atomic<bool> tandem::test::counting{false};
std::atomic<uint64_t> tandem::test::allocations{0};

namespace {

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
