//===- RacesTest.cpp - accesses in no order ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

using namespace tandem;
using namespace tandem::check;

namespace {

/// One rank, y of `rows` rows; stream 0 fills all of them with x first, then streams 1 and 2 begin.
struct TwoStreams : Basic {
  explicit TwoStreams(int64_t rows = 2) : Basic(1, rows), rank(ranks[0]) {
    for (int64_t i = 0; i < rows; ++i)
      rank.copy(0, row[0][static_cast<size_t>(i)], x[0]);
    rank.sync(1, 0);
    rank.sync(2, 0);
  }
  ProgramSpec &joined() {
    rank.sync(0, 1);
    rank.sync(0, 2);
    return *this;
  }
  RankSpec &rank;
};

} // namespace

TEST(Races, NoStart) {
  ProgramSpec spec = exchange(2);
  dropWait(spec, 1, 0);
  expectOnly(spec, {"not-joined"});
}

TEST(Races, NoEnd) {
  ProgramSpec spec = exchange(2);
  dropWait(spec, 0, 3);
  expectOnly(spec, {"not-joined"});
}

TEST(Races, EndRecordedTooEarly) {
  ProgramSpec spec = exchange(2);
  // Stream 1's last record stands before its copy.
  swapCommands(spec, 0, nth(spec, 0, Kind::copy, 0), nth(spec, 0, Kind::record, 2));
  expectOnly(spec, {"not-joined"});
}

TEST(Races, TwoWriters) {
  TwoStreams spec;
  spec.rank.copy(1, spec.row[0][1], spec.x[0]);
  spec.rank.copy(2, spec.row[0][1], spec.x[0]);
  expectOnly(spec.joined(), {"race"});
}

TEST(Races, OtherRowsAreFine) {
  TwoStreams spec;
  spec.rank.copy(1, spec.row[0][0], spec.x[0]);
  spec.rank.copy(2, spec.row[0][1], spec.x[0]);
  expectClean(spec.joined());
}

TEST(Races, NothingIsWrittenTwice) {
  TwoStreams spec;
  uint32_t y = spec.rank.views[spec.y[0]].buffer(), x = spec.rank.views[spec.x[0]].buffer();
  for (uint32_t stream : {1, 2})
    spec.rank.copy(stream, spec.rank.view(y, DType::F32, {0, 4}, 0),
                   spec.rank.view(x, DType::F32, {0, 4}, 0));
  expectClean(spec.joined());
}

TEST(Races, OverlapOfOneElement) {
  TwoStreams spec;
  uint32_t y = spec.rank.views[spec.y[0]].buffer();
  spec.rank.copy(1, spec.row[0][0], spec.x[0]);
  spec.rank.copy(2, spec.rank.view(y, DType::F32, {4}, kBytes - 4), spec.x[0]);
  expectOnly(spec.joined(), {"race"});
}

TEST(Races, ColumnsThatOverlap) {
  // Stream 1 writes column 1, stream 2 columns 1 and 2, or 2 and 3.
  for (uint64_t column : {1, 2}) {
    TwoStreams spec(4);
    uint32_t y = spec.rank.views[spec.y[0]].buffer();
    uint32_t x = spec.rank.views[spec.x[0]].buffer();
    spec.rank.copy(1, spec.rank.view(y, DType::F32, {4}, {4}, 4), spec.x[0]);
    spec.rank.copy(2, spec.rank.view(y, DType::F32, {4, 2}, {4, 1}, 4 * column),
                   spec.rank.view(x, DType::F32, {4, 2}, {1, 0}, 0));
    if (column == 1)
      expectOnly(spec.joined(), {"race"});
    else
      expectClean(spec.joined());
  }
}

TEST(Races, ReadWhileWritten) {
  ProgramSpec spec = doubleBuffered();
  // Stream 2 does not wait for the first fill.
  dropWait(spec, 0, 2);
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_EQ(found, std::set<std::string>{"race"});
}

TEST(Races, BufferFilledAgainWhileRead) {
  ProgramSpec spec = doubleBuffered();
  // Stream 1 fills the first buffer again without waiting for its reader. Its wait is the fifth.
  dropWait(spec, 0, 4);
  expectOnly(spec, {"race"});
}

TEST(Races, WrongEvent) {
  ProgramSpec spec = doubleBuffered();
  // The wait for the second fill names the first one's event.
  uint32_t first = command(spec, 0, Kind::wait, 2).aux;
  command(spec, 0, Kind::wait, 3).aux = first;
  expectOnly(spec, {"race"});
}

TEST(Races, RecordBeforeWhatItIsToCover) {
  ProgramSpec spec = doubleBuffered();
  size_t record = nth(spec, 0, Kind::record, 2);
  swapCommands(spec, 0, record - 1, record);
  ASSERT_EQ(spec.ranks[0].commands[record].kind, Kind::copy);
  expectOnly(spec, {"race"});
}

TEST(Races, SendBufferOverwritten) {
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t out = rank.view(rank.arena(kBytes), DType::F32, {4});
    rank.copy(0, out, spec.x[r]);
    rank.sync(1, 0);
    rank.group(1, channel, 2);
    rank.send(1, channel, out, 1 - r, 0);
    rank.recv(1, channel, spec.row[r][0], 1 - r, 0);
    if (r == 1)
      rank.copy(0, out, spec.x[r]);
    rank.sync(0, 1);
  }
  expectOnly(spec, {"race"});
}

TEST(Races, ReceivedReadTooEarly) {
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t in = rank.view(rank.arena(kBytes), DType::F32, {4});
    rank.copy(0, in, spec.x[r]); // so that it holds something
    rank.sync(1, 0);
    rank.group(1, channel, 2);
    rank.send(1, channel, spec.x[r], 1 - r, 0);
    rank.recv(1, channel, in, 1 - r, 0);
    if (r == 0) {
      rank.copy(0, spec.row[r][0], in);
      rank.sync(0, 1);
    } else {
      rank.sync(0, 1);
      rank.copy(0, spec.row[r][0], in);
    }
  }
  expectOnly(spec, {"race"});
}

TEST(Races, SendIsNotOverWhenItsReceiveIs) {
  // Rank 1 answers what it received; the answer says that the data left, not that the send is over,
  // but the receive of rank 0 orders only what comes behind it.
  Basic spec(2, 1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t a = rank.view(rank.arena(kBytes), DType::F32, {4});
    uint32_t b = rank.view(rank.arena(kBytes), DType::F32, {4});
    rank.copy(0, a, spec.x[r]);
    rank.copy(0, spec.row[r][0], spec.x[r]);
    rank.sync(1, 0);
    rank.sync(2, 0);
    rank.group(1, channel, 1);
    if (r == 0) {
      rank.send(1, channel, a, 1, 0);
      rank.group(2, channel, 1);
      rank.recv(2, channel, b, 1, 0);
      rank.copy(2, a, b);
    } else {
      rank.recv(1, channel, b, 0, 0);
      rank.group(1, channel, 1);
      rank.send(1, channel, b, 0, 0);
    }
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  expectOnly(spec, {"race"});
}

TEST(Races, CollectiveInputOverwritten) {
  ProgramSpec spec = gathered(2);
  RankSpec &rank = spec.ranks[1];
  // y is reduced in place on stream 1 while stream 0 writes a row of it.
  uint32_t y = command(spec, 1, Kind::collective, 1).operands[0];
  rank.copy(0, rank.view(rank.views[y].buffer(), DType::F32, {4}),
            command(spec, 1, Kind::collective, 0).operands[1]);
  swapCommands(spec, 1, rank.commands.size() - 1, rank.commands.size() - 2);
  expectOnly(spec, {"race"});
}

TEST(Races, MatmulAccumulatesOnTwoStreams) {
  TwoStreams spec(4);
  uint32_t y = spec.rank.views[spec.y[0]].buffer();
  uint32_t out = spec.rank.view(y, DType::F32, {2, 2});
  uint32_t a = spec.rank.view(spec.rank.views[spec.x[0]].buffer(), DType::F32, {2, 2});
  for (uint16_t stream : {1, 2})
    spec.rank.add(Kind::matmul, stream, {out, a, a}).flags =
        static_cast<uint8_t>(sp::CommandFlags::accumulate);
  expectOnly(spec.joined(), {"race"});
}

TEST(Races, AccumulateReadsItsTarget) {
  TwoStreams spec;
  spec.rank.add(Kind::accumulate, 1, {spec.row[0][0], spec.x[0]});
  spec.rank.copy(2, spec.row[0][1], spec.row[0][0]);
  expectOnly(spec.joined(), {"race"});
}

TEST(Races, LaunchWritesItsOutputs) {
  TwoStreams spec;
  auto code = [](sp::ExprOp op, uint32_t a, uint32_t b) { return test::Instr(op, a, b, 0, 0); };
  test::KernelSpec kernel;
  kernel.code =
      test::encodeExpression(1, 1, {code(sp::ExprOp::load, 0, 0), code(sp::ExprOp::store, 0, 0)});
  spec.rank.kernels.push_back(kernel);
  spec.rank.launch(1, 0, {spec.row[0][0], spec.x[0]});
  spec.rank.copy(2, spec.row[0][1], spec.row[0][0]);
  expectOnly(spec.joined(), {"race"});
}

TEST(Races, SaysBothAndTheBytes) {
  TwoStreams spec;
  spec.rank.copy(1, spec.row[0][1], spec.x[0]);
  spec.rank.copy(2, spec.row[0][1], spec.x[0]);
  Report report = run(spec.joined());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].message,
            "rank 0: stream 2 writes bytes [16, 32) of arg1 \"y\", unordered with "
            "stream 1, which writes it");
  EXPECT_EQ(report.findings[0].commands.size(), 2u);
}
