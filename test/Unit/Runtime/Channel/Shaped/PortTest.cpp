//===- PortTest.cpp - transfers that share a port ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Port.h"
#include "Sharing.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

using tandem::shaped::Port;

TEST(Port, ATransferAloneHasTheWholeRate) {
  Port port(10);
  Port::Transfer transfer = port.begin(100, 2, 1);
  EXPECT_DOUBLE_EQ(port.endOf(transfer, 1), 12);
  EXPECT_DOUBLE_EQ(port.endOf(transfer, 7), 12);
  EXPECT_DOUBLE_EQ(port.endOf(transfer, 12), 12);
  EXPECT_DOUBLE_EQ(port.endOf(transfer, 20), 20);
}

TEST(Port, TransfersAtTheSameTimeShareIt) {
  Port port(10);
  Port::Transfer first = port.begin(100, 0, 0), second = port.begin(100, 0, 0);
  EXPECT_DOUBLE_EQ(port.endOf(first, 0), 20);
  EXPECT_DOUBLE_EQ(port.endOf(second, 0), 20);
}

TEST(Port, ALaterTransferDelaysAnEarlierOne) {
  Port port(10);
  Port::Transfer first = port.begin(100, 0, 0);
  EXPECT_DOUBLE_EQ(port.endOf(first, 1), 10);
  Port::Transfer second = port.begin(100, 5, 4);
  // 50 bytes each until 15, then 50 of the second alone.
  EXPECT_DOUBLE_EQ(port.endOf(first, 4), 15);
  EXPECT_DOUBLE_EQ(port.endOf(second, 4), 20);
  EXPECT_DOUBLE_EQ(port.endOf(second, 17), 20);
}

TEST(Port, NoBytesEndWhenTheyStart) {
  Port port(10);
  Port::Transfer busy = port.begin(1000, 0, 0), empty = port.begin(0, 3, 0);
  EXPECT_DOUBLE_EQ(port.endOf(empty, 0), 3);
  EXPECT_DOUBLE_EQ(port.endOf(busy, 3), 100);
}

TEST(Port, TransfersAfterAPauseStartAnew) {
  Port port(10);
  EXPECT_DOUBLE_EQ(port.endOf(port.begin(100, 0, 0), 0), 10);
  EXPECT_DOUBLE_EQ(port.endOf(port.begin(100, 1000, 1000), 1000), 1010);
}

/// The simulator's machine model has the same ports.
TEST(Port, AgreesWithTheSimulator) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::uniform_real_distribution<double> gap(0, 3), size(0.5, 40);
    Port port(10);
    tandem::simulate::Sharing sharing;
    tandem::simulate::Sharing::Use use{sharing.addResource(10), 1};
    std::map<uint32_t, double> expected;
    std::map<uint32_t, Port::Transfer> transfers;
    double now = 0;
    for (uint32_t i = 0; i < 12; ++i) {
      now += gap(random);
      double bytes = size(random);
      while (sharing.nextEnd() <= now) {
        double end = sharing.nextEnd();
        expected[sharing.finishNext()] = end;
      }
      sharing.start(bytes, 10, &use, 1, i, now);
      transfers[i] = port.begin(bytes, now, now);
    }
    // The ends after the last begin are those that can still be asked for.
    while (sharing.nextEnd() < 1e9) {
      double end = sharing.nextEnd();
      uint32_t which = sharing.finishNext();
      EXPECT_NEAR(port.endOf(transfers[which], now), end, 1e-9) << "round " << round;
    }
    for (auto [which, end] : expected)
      EXPECT_LE(port.endOf(transfers[which], now), now) << "ended at " << end;
  }
}
