//===- LintTest.cpp - what is legal but costs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include <algorithm>

using namespace tandem;
using namespace tandem::check;

namespace {

CheckOptions lint() {
  CheckOptions options;
  options.lint = true;
  return options;
}

} // namespace

TEST(Lint, NothingToSay) {
  expectClean(exchange(3), lint());
  expectClean(push(3), lint());
}

TEST(Lint, OnlyIfAsked) {
  ProgramSpec spec = exchange(2);
  spec.ranks[0].sync(0, 2);
  expectClean(spec);
  expectOnly(spec, {"redundant-sync"}, lint());
  EXPECT_FALSE(run(spec, lint()).hasErrors());
}

TEST(Lint, WaitsTwice) {
  ProgramSpec spec = doubleBuffered();
  auto &commands = spec.ranks[0].commands;
  size_t at = nth(spec, 0, Kind::wait, 2);
  commands.insert(commands.begin() + static_cast<ptrdiff_t>(at), commands[at]);
  Report report = run(spec, lint());
  EXPECT_EQ(report.counts[static_cast<unsigned>(Diagnosis::RedundantSync)], 1u);
}

TEST(Lint, TransitiveWait) {
  // Stream 2 waits for stream 1, which has waited for stream 0; then for stream 0 too.
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint32_t event = rank.record(0);
  rank.wait(1, event);
  rank.sync(2, 1);
  rank.wait(2, event);
  rank.copy(2, spec.row[0][0], spec.x[0]);
  rank.sync(0, 2);
  expectOnly(spec, {"redundant-sync"}, lint());
}

TEST(Lint, CopyThatCouldBeAView) {
  Basic spec(1, 2);
  RankSpec &rank = spec.ranks[0];
  uint32_t staging = rank.view(rank.arena(kBytes), DType::F32, {4});
  rank.copy(0, staging, spec.x[0]);
  rank.copy(0, spec.row[0][0], staging);
  rank.copy(0, spec.row[0][1], staging);
  expectOnly(spec, {"copy-view"}, lint());
  // Not if it is changed where it lies.
  rank.add(Kind::accumulate, 0, {staging, spec.x[0]});
  rank.copy(0, spec.row[0][1], staging);
  expectClean(spec, lint());
}

TEST(Lint, NobodyReads) {
  ProgramSpec spec = gathered(2);
  drop(spec, 0, Kind::copy, 0);
  RankSpec &rank = spec.ranks[0];
  // y is made otherwise; what was gathered is not read.
  uint32_t y = command(spec, 0, Kind::collective, 1).operands[0];
  uint32_t x = command(spec, 0, Kind::collective, 0).operands[1];
  for (uint64_t row = 0; row < 2; ++row) {
    rank.copy(0, rank.view(rank.views[y].buffer(), DType::F32, {4}, row * kBytes), x);
    std::rotate(rank.commands.begin(), rank.commands.end() - 1, rank.commands.end());
  }
  expectOnly(spec, {"unread-data"}, lint());
}

TEST(Lint, HalfOfABufferIsNotRead) {
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer = rank.arena(2 * kBytes);
  uint32_t halves[] = {rank.view(buffer, DType::F32, {4}),
                       rank.view(buffer, DType::F32, {4}, kBytes)};
  rank.copy(0, halves[0], spec.x[0]);
  rank.add(Kind::accumulate, 0, {halves[0], spec.x[0]});
  rank.copy(0, halves[1], halves[0]);
  rank.add(Kind::accumulate, 0, {halves[1], halves[0]});
  rank.copy(0, spec.row[0][0], halves[0]);
  Report report = run(spec, lint());
  ASSERT_EQ(diagnoses(report), std::set<std::string>{"unread-data"});
  EXPECT_EQ(report.findings[0].message,
            "rank 0: the data written to bytes [16, 32) of the arena is never read");
}

TEST(Lint, PartOfAnInput) {
  Basic spec(1, 1);
  RankSpec &rank = spec.ranks[0];
  uint32_t x = rank.views[spec.x[0]].buffer();
  rank.copy(0, spec.row[0][0], rank.view(x, DType::F32, {4}, {0}, 4));
  Report report = run(spec, lint());
  ASSERT_EQ(diagnoses(report), std::set<std::string>{"unread-data"});
  EXPECT_EQ(report.findings[0].message, "rank 0: byte 0 of input \"x\" is never read");
}

TEST(Lint, OneAfterTheOther) {
  // A collective and a matmul on two streams, tied so that they never overlap.
  Basic spec(2, 4);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t buffer = rank.arena(2 * kBytes);
    uint32_t out = rank.view(rank.views[spec.y[r]].buffer(), DType::F32, {4, 4});
    rank.sync(1, 0);
    rank.collective(1, channel, CollectiveKind::AllGather, rank.view(buffer, DType::F32, {2, 4}),
                    spec.x[r]);
    rank.sync(2, 1);
    uint32_t a = rank.view(buffer, DType::F32, {4, 2}), b = rank.view(buffer, DType::F32, {2, 4});
    rank.add(Kind::matmul, 2, {out, a, b});
    rank.sync(0, 2);
  }
  expectOnly(spec, {"serial-stream"}, lint());
}
