//===- MemoryTest.cpp - contents of memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

namespace {

/// One rank: x copied into an arena buffer of 4 rows and from there into y.
struct Staged : Basic {
  Staged() : Basic(1, 4), rank(ranks[0]), buffer(rank.arena(4 * kBytes)) {
    for (uint64_t i = 0; i < 4; ++i) {
      stage.push_back(rank.view(buffer, DType::F32, {4}, i * kBytes));
      rank.copy(0, stage.back(), x[0]);
    }
    whole = rank.view(buffer, DType::F32, {4, 4});
    rank.copy(0, y[0], whole);
  }
  RankSpec &rank;
  uint32_t buffer;
  std::vector<uint32_t> stage;
  uint32_t whole = 0;
};

/// An arena buffer at the place of another.
uint32_t sameplace(RankSpec &rank, uint32_t buffer, uint64_t bytes = kBytes) {
  rank.buffers.emplace_back(sp::Space::arena, 0, rank.buffers[buffer].offset(), bytes, 0);
  return static_cast<uint32_t>(rank.buffers.size() - 1);
}

} // namespace

TEST(Memory, Staged) { expectClean(Staged()); }

TEST(Memory, NothingWritten) {
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  rank.copy(0, spec.row[0][0], rank.view(rank.arena(kBytes), DType::F32, {4}));
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, OneRowMissing) {
  Staged spec;
  drop(spec, 0, Kind::copy, 2);
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, OneElementMissing) {
  Staged spec;
  command(spec, 0, Kind::copy, 3).operands[0] =
      spec.rank.view(spec.buffer, DType::F32, {3}, 3 * kBytes);
  command(spec, 0, Kind::copy, 3).operands[1] =
      spec.rank.view(spec.rank.views[spec.x[0]].buffer(), DType::F32, {3});
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, WrittenBehindTheRead) {
  Staged spec;
  swapCommands(spec, 0, nth(spec, 0, Kind::copy, 3), nth(spec, 0, Kind::copy, 4));
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, WrongOffset) {
  Staged spec;
  command(spec, 0, Kind::copy, 1).operands[0] = spec.stage[2];
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, ResultReadBeforeItIsWritten) {
  Basic spec(1, 2);
  spec.ranks[0].copy(0, spec.row[0][0], spec.row[0][1]);
  spec.ranks[0].copy(0, spec.row[0][1], spec.x[0]);
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, EvenColumnsOnly) {
  Basic spec(1, 4);
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer = rank.arena(4 * kBytes);
  uint32_t pair = rank.view(rank.views[spec.x[0]].buffer(), DType::F32, {2, 2});
  for (uint64_t half = 0; half < 2; ++half)
    rank.copy(0, rank.view(buffer, DType::F32, {2, 2}, {4, 2}, half * 2 * kBytes), pair);
  rank.copy(0, spec.y[0], rank.view(buffer, DType::F32, {4, 4}));
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, WritesInsideOfWrites) {
  // Three pieces are read; two writes hold them together, a third lies inside of the first.
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint32_t x = rank.views[spec.x[0]].buffer(), buffer = rank.arena(64);
  auto write = [&](uint64_t offset, int64_t elements) {
    rank.copy(0, rank.view(buffer, DType::F32, {elements}, offset),
              rank.view(x, DType::F32, {elements}, test::Shape{0}, 0));
  };
  write(0, 11);
  write(44, 5);
  write(16, 2);
  uint32_t out = rank.view(rank.views[spec.y[0]].buffer(), DType::F32, {2});
  rank.copy(0, spec.row[0][0], spec.x[0]);
  rank.add(Kind::reduce, 0, {out, rank.view(buffer, DType::F32, {3, 2}, {4, 1}, 20)}).value = 1;
  expectClean(spec);
  drop(spec, 0, Kind::copy, 1);
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, EvenColumnsReadBack) {
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer = rank.arena(2 * kBytes);
  uint32_t even = rank.view(buffer, DType::F32, {2, 2}, {4, 2}, 0);
  rank.copy(0, even, rank.view(rank.views[spec.x[0]].buffer(), DType::F32, {2, 2}));
  rank.copy(0, rank.view(rank.views[spec.y[0]].buffer(), DType::F32, {2, 2}), even);
  expectClean(spec);
}

TEST(Memory, AccumulateIntoNothing) {
  Basic spec(1, 1);
  spec.ranks[0].add(Kind::accumulate, 0, {spec.row[0][0], spec.x[0]});
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, MatmulAccumulatesIntoNothing) {
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint32_t out = rank.view(rank.views[spec.y[0]].buffer(), DType::F32, {2, 2});
  uint32_t a = rank.view(rank.views[spec.x[0]].buffer(), DType::F32, {2, 2});
  rank.add(Kind::matmul, 0, {out, a, a}).flags = static_cast<uint8_t>(sp::CommandFlags::accumulate);
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, BroadcastInputCountsOnTheRootOnly) {
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t in = rank.view(rank.arena(kBytes), DType::F32, {4});
    if (r == 0)
      rank.copy(0, in, spec.x[r]);
    rank.collective(0, channel, CollectiveKind::Broadcast, spec.row[r][0], in);
  }
  expectClean(spec);
  drop(spec, 0, Kind::copy, 0);
  expectOnly(spec, {"uninitialized-read"});
}

TEST(Memory, ReceivedCounts) {
  ProgramSpec spec = exchange(2);
  drop(spec, 1, Kind::recv, 0);
  drop(spec, 0, Kind::send, 0);
  expectOnly(spec, {"result-incomplete"});
}

TEST(Memory, RowOfTheResultMissing) {
  ProgramSpec spec = exchange(3);
  drop(spec, 2, Kind::copy, 0);
  expectOnly(spec, {"result-incomplete"});
}

TEST(Memory, NoResultAtAll) {
  Basic spec(2, 1);
  spec.ranks[0].copy(0, spec.row[0][0], spec.x[0]);
  expectOnly(spec, {"result-incomplete"});
}

TEST(Memory, LastElementOfTheResultMissing) {
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  rank.copy(0, rank.view(rank.views[spec.y[0]].buffer(), DType::F32, {3}),
            rank.view(rank.views[spec.x[0]].buffer(), DType::F32, {3}));
  Report report = run(spec);
  ASSERT_EQ(diagnoses(report), std::set<std::string>{"result-incomplete"});
  EXPECT_EQ(report.findings[0].message,
            "rank 0: byte 12 of the 16 of result \"y\" is never written");
}

TEST(Memory, ColumnOfTheResultMissing) {
  Basic spec(1, 4);
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer = rank.views[spec.y[0]].buffer();
  for (uint64_t column : {0, 1, 3})
    rank.copy(0, rank.view(buffer, DType::F32, {4}, {4}, column * 4), spec.x[0]);
  expectOnly(spec, {"result-incomplete"});
}

TEST(Memory, BufferUsedAfterItsPlaceWasGivenAway) {
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  uint32_t a = rank.arena(kBytes), b = sameplace(rank, a);
  uint32_t viewA = rank.view(a, DType::F32, {4}), viewB = rank.view(b, DType::F32, {4});
  rank.copy(0, viewA, spec.x[0]);
  rank.copy(0, viewB, spec.x[0]);
  rank.copy(0, spec.row[0][0], viewA);
  rank.copy(0, spec.row[0][1], spec.x[0]);
  expectOnly(spec, {"lifetime"});
}

TEST(Memory, BufferWrittenAfterItsEnd) {
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  uint32_t a = rank.arena(kBytes), b = sameplace(rank, a);
  uint32_t viewA = rank.view(a, DType::F32, {4}), viewB = rank.view(b, DType::F32, {4});
  rank.copy(0, viewA, spec.x[0]);
  rank.copy(0, spec.row[0][0], viewA);
  rank.copy(0, viewB, spec.x[0]);
  rank.copy(0, viewA, spec.x[0]); // late
  rank.copy(0, spec.row[0][1], viewB);
  expectOnly(spec, {"lifetime"});
}

TEST(Memory, PlacesThatOverlapInOneElement) {
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  uint32_t a = rank.arena(5 * kBytes), b = rank.arena(kBytes);
  rank.buffers[b] = sp::Buffer(sp::Space::arena, 0, 64, kBytes, 0);
  uint32_t viewA = rank.view(a, DType::F32, {4}, 52), viewB = rank.view(b, DType::F32, {4});
  rank.copy(0, viewA, spec.x[0]);
  rank.copy(0, viewB, spec.x[0]);
  rank.copy(0, spec.row[0][0], viewB);
  rank.copy(0, spec.row[0][1], viewA);
  expectOnly(spec, {"lifetime"});
}

TEST(Memory, RewrittenBeforeItIsReadIsFine) {
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  uint32_t a = rank.arena(2 * kBytes), b = sameplace(rank, a);
  uint32_t halves[] = {rank.view(a, DType::F32, {4}), rank.view(a, DType::F32, {4}, kBytes)};
  rank.copy(0, rank.view(b, DType::F32, {4}), spec.x[0]);
  rank.copy(0, halves[0], spec.x[0]);
  rank.copy(0, halves[1], spec.x[0]);
  rank.copy(0, spec.y[0], rank.view(a, DType::F32, {2, 4}));
  expectClean(spec);
}

namespace {

/// Rank 1 gets two messages into one place, one life after the other, and copies each to a row.
struct Received : Basic {
  Received() : Basic(2, 2) {
    for (RankSpec &rank : ranks)
      rank.channel({0, 1});
    RankSpec &from = ranks[0], &to = ranks[1];
    uint32_t a = to.arena(kBytes);
    for (uint32_t buffer : {a, sameplace(to, a)})
      lives.push_back(to.view(buffer, DType::F32, {4}));
    for (uint32_t i = 0; i < 2; ++i) {
      from.group(0, 0, 1);
      from.send(0, 0, x[0], 1, i);
      from.copy(0, row[0][i], x[0]);
      to.group(0, 0, 1);
      to.recv(0, 0, lives[i], 0, i);
      to.copy(0, row[1][i], lives[i]);
    }
  }
  std::vector<uint32_t> lives;
};

/// A kernel of native code that writes both rows of y.
ProgramSpec nativeKernel(uint32_t outputs) {
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  rank.kernels.push_back({"native", sp::KernelFormat::ptx, "sm_90", {1}});
  rank.kernels.back().outputs = outputs;
  rank.launch(0, 0, {spec.row[0][0], spec.row[0][1], spec.x[0]});
  return spec;
}

} // namespace

TEST(Memory, Received) { expectClean(Received()); }

TEST(Memory, MessageOfTheNextLife) {
  // As if the two groups stood in the other order: each message lands in the other's life.
  Received spec;
  command(spec, 1, Kind::recv, 0).operands[0] = spec.lives[1];
  command(spec, 1, Kind::recv, 1).operands[0] = spec.lives[0];
  expectOnly(spec, {"lifetime"});
}

TEST(Memory, BothMessagesBeforeTheFirstIsRead) {
  Received spec;
  swapCommands(spec, 1, nth(spec, 1, Kind::group, 1), nth(spec, 1, Kind::copy, 0));
  swapCommands(spec, 1, nth(spec, 1, Kind::recv, 1), nth(spec, 1, Kind::copy, 0));
  expectOnly(spec, {"lifetime"});
}

TEST(Memory, LifeThatIsReadOnceMore) {
  Received spec;
  command(spec, 1, Kind::copy, 1).operands[1] = spec.lives[0];
  expectOnly(spec, {"lifetime"});
}

TEST(Memory, NativeKernelWritesAllItsOutputs) { expectClean(nativeKernel(2)); }

TEST(Memory, NativeKernelReadsWhatIsNoOutput) {
  expectOnly(nativeKernel(1), {"uninitialized-read", "result-incomplete"});
}
