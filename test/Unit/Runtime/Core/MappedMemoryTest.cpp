//===- MappedMemoryTest.cpp - host memory of several processes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/MappedMemory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem;
using testing::HasSubstr;

namespace {

constexpr uint64_t kBytes = 3 * 4096 + 8;

volatile uint64_t *words(const MappedMemory &block) {
  return static_cast<volatile uint64_t *>(block.base());
}

/// Runs `body` in another process; its result is the process's exit status.
template <typename F> int inChild(F body) {
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST(MappedMemory, IsFoundByItsBaseUntilItIsFreed) {
  auto block = MappedMemory::allocate(kBytes);
  ASSERT_TRUE(block) << block.status().message();
  const void *base = (*block)->base();
  for (uint64_t i = 0; i < kBytes / 8; ++i)
    ASSERT_EQ(words(**block)[i], 0u);
  EXPECT_EQ(MappedMemory::find(base), *block);
  EXPECT_EQ(MappedMemory::find(static_cast<const char *>(base) + 8), nullptr);
  block->reset();
  EXPECT_EQ(MappedMemory::find(base), nullptr);
}

TEST(MappedMemory, OtherProcessesWriteIt) {
  auto block = MappedMemory::allocate(kBytes);
  ASSERT_TRUE(block) << block.status().message();
  MappedMemory::Handle handle = (*block)->handle();
  EXPECT_EQ(handle.bytes, kBytes);
  EXPECT_EQ(inChild([&] {
              auto mapped = MappedMemory::map(handle);
              if (!mapped || MappedMemory::find((*mapped)->base()))
                return 1;
              words(**mapped)[kBytes / 8 - 1] = 7;
              return 0;
            }),
            0);
  EXPECT_EQ(words(**block)[kBytes / 8 - 1], 7u);
}

TEST(MappedMemory, StaysValidAfterItsOwner) {
  auto block = MappedMemory::allocate(kBytes);
  ASSERT_TRUE(block) << block.status().message();
  auto mapped = MappedMemory::map((*block)->handle());
  ASSERT_TRUE(mapped) << mapped.status().message();
  words(**block)[5] = 9;
  block->reset();
  EXPECT_EQ(words(**mapped)[5], 9u);
  words(**mapped)[5] = 10;
}

TEST(MappedMemory, IsMappedOnce) {
  auto block = MappedMemory::allocate(kBytes);
  ASSERT_TRUE(block) << block.status().message();
  auto one = MappedMemory::map((*block)->handle()), two = MappedMemory::map((*block)->handle());
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*one, *two);
  EXPECT_NE((*one)->base(), (*block)->base());
}

/// A larger file would end the process.
TEST(MappedMemory, KeepsToTheLimitOfFiles) {
  EXPECT_EQ(inChild([] {
              rlimit limit{kBytes - 1, kBytes - 1};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              return MappedMemory::allocate(kBytes).status().code() == Code::Unsupported ? 0 : 1;
            }),
            0);
}

TEST(MappedMemory, SaysWhyItCannotBeMapped) {
  auto block = MappedMemory::allocate(kBytes), other = MappedMemory::allocate(kBytes);
  ASSERT_TRUE(block && other);
  MappedMemory::Handle handle = (*block)->handle(), wrong = handle, larger = handle;
  wrong.fd = (*other)->handle().fd;
  larger.bytes = kBytes + 1;
  for (const MappedMemory::Handle &bad : {wrong, larger})
    EXPECT_THAT(std::string(MappedMemory::map(bad).status().message()),
                HasSubstr("refers to another file"));
  block->reset();
  EXPECT_THAT(std::string(MappedMemory::map(handle).status().message()),
              HasSubstr("No such file or directory"));
  EXPECT_EQ(MappedMemory::allocate(~uint64_t(0)).status().code(), Code::OutOfMemory);
}
