//===- SharedProgramsTest.cpp - programs that a launcher passes to ranks ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedPrograms.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;

TEST(SharedPrograms, ProgramsAndProblems) {
  std::string bytes("a\0b", 3);
  auto made = SharedPrograms::create({{bytes, ""}, {"", "cannot open x"}, {"", ""}, {"last", ""}});
  ASSERT_TRUE(made) << made.status().message();
  auto opened = SharedPrograms::open((*made)->fd());
  ASSERT_TRUE(opened) << opened.status().message();
  ASSERT_EQ((*opened)->size(), 4u);
  auto program = [&](size_t index) {
    auto read = (*opened)->program(index);
    EXPECT_TRUE(read) << read.status().message();
    return read ? *read : ProgramBytes();
  };
  EXPECT_EQ(program(0).bytes, bytes);
  EXPECT_EQ(program(0).problem, "");
  EXPECT_EQ(program(1).bytes, "");
  EXPECT_EQ(program(1).problem, "cannot open x");
  EXPECT_EQ(program(2).bytes, "");
  EXPECT_EQ(program(3).bytes, "last");
  EXPECT_EQ((*opened)->program(4).status().message(), "handing over programs: no program 4 of 4");
  // What a rank notes, the launcher reads.
  EXPECT_EQ((*made)->tally().passed + (*made)->tally().failed, 0u);
  (*opened)->note({3, 1});
  EXPECT_EQ((*made)->tally().passed, 3u);
  EXPECT_EQ((*made)->tally().failed, 1u);
}

TEST(SharedPrograms, OtherFiles) {
  EXPECT_FALSE(SharedPrograms::open(-1));
  int fd = ::memfd_create("other", 0);
  EXPECT_FALSE(SharedPrograms::open(fd));
  uint64_t count = 5; // and no entries
  ASSERT_EQ(::ftruncate(fd, 32), 0);
  ASSERT_EQ(::pwrite(fd, &count, sizeof count, 0), ssize_t(sizeof count));
  EXPECT_FALSE(SharedPrograms::open(fd));
  ASSERT_EQ(::ftruncate(fd, 4096), 0);
  uint64_t beyond[] = {4090, 7, 1}; // the first entry's
  ASSERT_EQ(::pwrite(fd, beyond, sizeof beyond, 16), ssize_t(sizeof beyond));
  EXPECT_FALSE(SharedPrograms::open(fd));
  ::close(fd);
}
