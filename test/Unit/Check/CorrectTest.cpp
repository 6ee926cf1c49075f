//===- CorrectTest.cpp - correct programs pass ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

TEST(Correct, Exchange) {
  for (uint32_t ranks : {1, 2, 3, 5, 8})
    expectClean(exchange(ranks));
}

TEST(Correct, Gathered) {
  for (uint32_t ranks : {1, 2, 3, 8})
    expectClean(gathered(ranks));
}

TEST(Correct, Push) {
  for (uint32_t ranks : {1, 2, 3, 8, 70})
    expectClean(push(ranks));
}

TEST(Correct, Credited) { expectClean(credited()); }

TEST(Correct, DoubleBuffered) { expectClean(doubleBuffered()); }

TEST(Correct, Buffered) {
  CheckOptions options;
  options.bufferedSends = true;
  expectClean(exchange(3), options);
  expectClean(gathered(3), options);
  expectClean(push(3), options);
}

TEST(Correct, QueuesShared) {
  for (unsigned queues : {1, 2, 3}) {
    CheckOptions options;
    options.queues = queues;
    expectClean(exchange(3), options);
    expectClean(push(3), options);
    expectClean(doubleBuffered(), options);
  }
}

TEST(Correct, OrderThroughAnotherRank) {
  // Stream 1 of rank 0 fills the arena and sends; rank 1 answers; stream 2 of rank 0 receives the
  // answer and reads the arena. No event ties the two streams, the messages do.
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t staging = rank.view(rank.arena(kBytes), DType::F32, {4});
    uint32_t answer = rank.view(rank.arena(kBytes), DType::F32, {4});
    rank.sync(1, 0);
    rank.sync(2, 0);
    if (r == 0) {
      rank.copy(1, staging, spec.x[r]);
      rank.group(1, channel, 1);
      rank.send(1, channel, spec.x[r], 1, 0);
      rank.group(2, channel, 1);
      rank.recv(2, channel, answer, 1, 0);
      rank.copy(2, spec.row[r][0], staging);
    } else {
      rank.group(1, channel, 1);
      rank.recv(1, channel, staging, 0, 0);
      rank.group(1, channel, 1);
      rank.send(1, channel, staging, 0, 0);
      rank.copy(1, spec.row[r][0], staging);
    }
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  expectClean(spec);
}

TEST(Correct, ReadsAtOnce) {
  // Two streams read the same bytes: no race.
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  uint32_t staging = rank.view(rank.arena(kBytes), DType::F32, {4});
  rank.copy(0, staging, spec.x[0]);
  rank.sync(1, 0);
  rank.sync(2, 0);
  rank.copy(1, spec.row[0][0], staging);
  rank.copy(2, spec.row[0][1], staging);
  rank.sync(0, 1);
  rank.sync(0, 2);
  expectClean(spec);
}

TEST(Correct, InterleavedColumns) {
  // Two streams write the even and the odd columns of y.
  Basic spec(1, 4);
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer = rank.views[spec.y[0]].buffer();
  uint32_t half = rank.view(rank.arena(32), DType::F32, {4, 2});
  rank.copy(0, rank.view(rank.views[half].buffer(), DType::F32, {4}), spec.x[0]);
  rank.copy(0, rank.view(rank.views[half].buffer(), DType::F32, {4}, 16), spec.x[0]);
  rank.sync(1, 0);
  rank.sync(2, 0);
  rank.copy(1, rank.view(buffer, DType::F32, {4, 2}, {4, 2}, 0), half);
  rank.copy(2, rank.view(buffer, DType::F32, {4, 2}, {4, 2}, 4), half);
  rank.sync(0, 1);
  rank.sync(0, 2);
  expectClean(spec);
}

TEST(Correct, ArenaPlaceUsedAgain) {
  // Two buffers have one place, one after the other.
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  uint32_t a = rank.arena(kBytes);
  rank.buffers.emplace_back(sp::Space::arena, 0, 0, kBytes, 0);
  auto b = static_cast<uint32_t>(rank.buffers.size() - 1);
  uint32_t viewA = rank.view(a, DType::F32, {4}), viewB = rank.view(b, DType::F32, {4});
  rank.copy(0, viewA, spec.x[0]);
  rank.copy(0, spec.row[0][0], viewA);
  rank.copy(0, viewB, spec.x[0]);
  rank.copy(0, spec.row[0][1], viewB);
  expectClean(spec);
}

TEST(Correct, NoElements) {
  ProgramSpec spec(2);
  spec.stacked("x", false, DType::F32, {0});
  spec.stacked("y", true, DType::F32, {0});
  for (RankSpec &rank : spec.ranks) {
    uint16_t channel = rank.channel({0, 1});
    uint32_t x = rank.view(rank.argument(0, 0), DType::F32, {0});
    uint32_t y = rank.view(rank.argument(1, 0), DType::F32, {0});
    rank.group(0, channel, 2);
    rank.send(0, channel, x, 1 - rank.rank, 0);
    rank.recv(0, channel, y, 1 - rank.rank, 0);
  }
  expectClean(spec);
}
