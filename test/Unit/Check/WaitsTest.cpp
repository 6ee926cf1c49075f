//===- WaitsTest.cpp - what a command waits for -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include "tandem/Replay/Waits.h"

#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::check;

namespace {

std::shared_ptr<const replay::World> load(const ProgramSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto world = replay::World::load(**file);
  EXPECT_TRUE(world.ok()) << world.status().message();
  return *world;
}

/// The n-th command of a kind in rank 0's list.
replay::CommandId find(const replay::World &world, replay::Kind kind, size_t n = 0) {
  for (replay::CommandId id = world.ranks[0].begin; id < world.ranks[0].end; ++id)
    if (world.commands[id].kind == kind && n-- == 0)
      return id;
  ADD_FAILURE() << "no such command";
  return 0;
}

/// "1 send, 2 recv": ranks and kinds of what the command waits for.
std::string awaited(const replay::World &world, replay::CommandId id) {
  std::string text;
  for (replay::CommandId other : awaitedBy(world, id))
    text += (text.empty() ? "" : ", ") + std::to_string(world.rankOf(other)) + " " +
            std::string(toString(world.commands[other].kind));
  return text;
}

} // namespace

// Each step sends to one neighbour and receives from the other.
TEST(Waits, AGroupWaitsForTheOtherEnds) {
  auto world = load(exchange(3));
  EXPECT_EQ(awaited(*world, find(*world, replay::Kind::Group)), "2 recv, 1 send");
  EXPECT_EQ(awaited(*world, find(*world, replay::Kind::Group, 1)), "1 recv, 2 send");
  EXPECT_EQ(awaited(*world, find(*world, replay::Kind::Wait)), "0 record");
  EXPECT_EQ(awaited(*world, find(*world, replay::Kind::Copy)), "");
  EXPECT_EQ(missingFor(*world, find(*world, replay::Kind::Group)), "");
}

TEST(Waits, ACollectiveWaitsForTheOtherMembers) {
  auto world = load(gathered(3));
  EXPECT_EQ(awaited(*world, find(*world, replay::Kind::Collective)), "1 collective, 2 collective");
  EXPECT_EQ(missingFor(*world, find(*world, replay::Kind::Collective)), "");
}

TEST(Waits, AWaitForASignalWaitsForTheRankThatRaisesIt) {
  auto world = load(push(2));
  replay::CommandId wait = find(*world, replay::Kind::WaitSignal);
  EXPECT_EQ(awaited(*world, wait), "1 signal");
  EXPECT_EQ(missingFor(*world, wait), "");
}

TEST(Waits, WhatTheProgramLacks) {
  ProgramSpec messages = exchange(2);
  drop(messages, 1, Kind::send, 0);
  auto world = load(messages);
  replay::CommandId group = find(*world, replay::Kind::Group);
  EXPECT_EQ(awaited(*world, group), "1 recv");
  EXPECT_EQ(missingFor(*world, group), "the program has no send for its message");

  ProgramSpec signals = push(2);
  drop(signals, 1, Kind::signal, 0);
  world = load(signals);
  EXPECT_EQ(missingFor(*world, find(*world, replay::Kind::WaitSignal)),
            "no rank of the program raises the signal so far");

  ProgramSpec collectives = gathered(3);
  drop(collectives, 2, Kind::collective, 1);
  world = load(collectives);
  replay::CommandId second = find(*world, replay::Kind::Collective, 1);
  EXPECT_EQ(awaited(*world, second), "1 collective");
  EXPECT_EQ(missingFor(*world, second), "rank 2 of the program issues fewer collectives");
}
