//===- AbortBoardTest.cpp - that a rank gives up, said to its host -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AbortBoard.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using tandem::ccl::AbortBoard;

namespace {

/// A page of another process, and a pipe: what is written into it ends the process.
struct Other {
  explicit Other(bool givesUp) {
    int up[2], down[2];
    EXPECT_EQ(::pipe(up), 0);
    EXPECT_EQ(::pipe(down), 0);
    process = ::fork();
    if (process == 0) {
      AbortBoard board;
      AbortBoard::Address mine = board.address();
      char byte = 0;
      bool ok = ::write(up[1], &mine, sizeof mine) == ssize_t(sizeof mine) &&
                ::read(down[0], &byte, 1) == 1;
      if (givesUp)
        board.post("of the other process");
      ok = ok && ::write(up[1], "!", 1) == 1 && ::read(down[0], &byte, 1) == 1;
      ::_exit(ok ? 0 : 1);
    }
    from = up[0];
    to = down[1];
    EXPECT_EQ(::read(from, &address, sizeof address), ssize_t(sizeof address));
  }
  void step() const {
    char byte = 0;
    EXPECT_EQ(::write(to, "x", 1), 1);
    EXPECT_EQ(::read(from, &byte, 1), 1);
  }
  void end() const {
    int status = 0;
    EXPECT_EQ(::write(to, "x", 1), 1);
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
    ::close(from);
    ::close(to);
  }
  pid_t process;
  int from, to;
  AbortBoard::Address address;
};

TEST(AbortBoard, OfTheSameProcess) {
  AbortBoard a, b, c;
  std::vector<AbortBoard::Address> addresses{a.address(), b.address(), c.address()};
  for (AbortBoard *page : {&a, &b, &c})
    page->connect(addresses);
  EXPECT_FALSE(a.firstAbort());
  c.post("first");
  c.post("second");
  auto abort = a.firstAbort();
  ASSERT_TRUE(abort);
  EXPECT_EQ(abort->member, 2u);
  EXPECT_EQ(abort->reason, "first");
  EXPECT_FALSE(c.firstAbort()); // of others, that is
  b.post(std::string(5000, 'x'));
  abort = a.firstAbort();
  ASSERT_TRUE(abort);
  EXPECT_EQ(abort->member, 1u);
  EXPECT_EQ(abort->reason.find_first_not_of('x'), std::string::npos);
  EXPECT_GT(abort->reason.size(), 1000u);
}

TEST(AbortBoard, OfAnotherProcessAlsoWhenItHasEnded) {
  Other says(true), saysNothing(false);
  AbortBoard mine;
  mine.connect({mine.address(), saysNothing.address, says.address});
  EXPECT_FALSE(mine.firstAbort());
  says.step();
  saysNothing.step();
  auto abort = mine.firstAbort();
  ASSERT_TRUE(abort);
  EXPECT_EQ(abort->member, 2u);
  EXPECT_EQ(abort->reason, "of the other process");
  says.end();
  saysNothing.end();
  EXPECT_EQ(mine.firstAbort()->member, 2u);
}

TEST(AbortBoard, WhatIsNoPageIsNotReached) {
  Other gone(false);
  gone.step();
  gone.end();
  AbortBoard mine, other;
  other.post("nobody hears it");
  AbortBoard::Address elsewhere = other.address(), input = other.address(), small = other.address();
  ++elsewhere.number; // of another host that has a file like this
  input.memory.fd = 0;
  small.memory.bytes = 8;
  mine.connect({{}, gone.address, elsewhere, input, small});
  EXPECT_FALSE(mine.firstAbort());
  mine.connect({other.address()});
  EXPECT_TRUE(mine.firstAbort());
}

} // namespace
