//===- FusedExchangeTest.cpp - fused exchanges in stream programs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ExchangeSpec.h"

#include "tandem/Program/FusedExchange.h"
#include "tandem/Program/Program.h"

#include <functional>
#include <gtest/gtest.h>
#include <utility>

namespace tandem::test {
namespace {

using program::describeExchange;
using program::ExchangePart;
using program::ExchangeStep;
using Kind = sp::CommandKind;

std::string errorOf(const ProgramSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  if (!file)
    return file.status().message();
  auto program = (*file)->rankProgram(0);
  return program ? "" : program.status().message();
}

/// Expects that rank 0's program is refused after a change, with this text in the message.
void expectError(const std::string &text, const std::function<void(ExchangeSpec &)> &edit,
                 bool twoShots = false) {
  ExchangeSpec spec(4, twoShots);
  edit(spec);
  std::string error = errorOf(spec);
  EXPECT_NE(error.find(text), std::string::npos) << "expected " << text << "\nfound " << error;
}

std::vector<ExchangeStep> stepsOf(const ExchangeSpec &spec) {
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto loaded = (*file)->rankProgram(1);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  auto steps = describeExchange(program::exchangeParts(**loaded, spec.head));
  EXPECT_TRUE(steps.ok()) << steps.status().message();
  return *steps;
}

TEST(FusedExchange, StepsOfOneShot) {
  std::vector<ExchangeStep> steps = stepsOf(ExchangeSpec(4));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].waits.size(), 0u);
  ASSERT_EQ(steps[0].move.stores.size(), 4u); // to all
  EXPECT_FALSE(steps[0].move.reduces);
  EXPECT_EQ(steps[0].signals, (std::vector<uint32_t>{4, 5, 6}));
  EXPECT_EQ(steps[1].waits, (std::vector<uint32_t>{7, 8, 9}));
  EXPECT_TRUE(steps[1].move.reduces);
  EXPECT_EQ(steps[1].move.terms, 4);
  EXPECT_EQ(steps[1].move.termStride, 16);
  ASSERT_EQ(steps[1].move.stores.size(), 1u);
  EXPECT_EQ(steps[1].move.stores[0].target, 10u);
  EXPECT_TRUE(steps[1].signals.empty());
}

TEST(FusedExchange, StepsOfTwoShots) {
  std::vector<ExchangeStep> steps = stepsOf(ExchangeSpec(4, /*twoShots=*/true));
  ASSERT_EQ(steps.size(), 3u);
  // The sum is read once and stored to all: from the reduction, part 10.
  ASSERT_EQ(steps[1].move.stores.size(), 4u);
  for (uint32_t k = 0; k < 4; ++k) {
    EXPECT_EQ(steps[1].move.stores[k].source, 10u);
    EXPECT_EQ(steps[1].move.stores[k].target, 10 + k);
  }
  EXPECT_EQ(steps[1].signals.size(), 3u);
  EXPECT_EQ(steps[2].waits.size(), 3u);
  EXPECT_TRUE(steps[2].move.stores.empty());
}

TEST(FusedExchange, Dump) {
  auto file = ProgramFile::fromMemory(ExchangeSpec(2).encode());
  ASSERT_TRUE(file.ok());
  auto loaded = (*file)->rankProgram(0);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::string text = dumpProgram(**loaded);
  EXPECT_NE(text.find("s0 fused_exchange 5 parts by 2 blocks \"fused_exchange #0\"\n"
                      "    1 s0   copy "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("    4 s0   wait_signal c0 slot 1 value 1"), std::string::npos) << text;
}

TEST(FusedExchange, DumpOfSignals) {
  for (auto [signals, word] : {std::pair(1, "block"), std::pair(2, "word")}) {
    auto file = ProgramFile::fromMemory(
        ExchangeSpec(2, false, 16, 2, static_cast<uint8_t>(signals)).encode());
    ASSERT_TRUE(file.ok());
    auto loaded = (*file)->rankProgram(0);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_NE(dumpProgram(**loaded).find(std::string("5 parts by 2 blocks signals ") + word),
              std::string::npos);
  }
}

TEST(FusedExchange, PartsAreThoseThatFollow) {
  EXPECT_EQ(errorOf(ExchangeSpec(4)), "");
  EXPECT_EQ(errorOf(ExchangeSpec(4, true)), "");
  expectError("command 0 (fused_exchange \"fused_exchange #0\"): field aux: 99 parts, only 11",
              [](ExchangeSpec &s) { s.ranks[0].commands[s.head].aux = 99; });
  expectError("is on stream 1, its fused exchange (command 0) on 0", [](ExchangeSpec &s) {
    s.ranks[0].numStreams = 2;
    s.part(0, 0).stream = 1;
  });
  expectError("field value: expected 1 to 1024 thread blocks, found 0",
              [](ExchangeSpec &s) { s.ranks[0].commands[s.head].value = 0; });
  expectError("field op: expected a way to signal below 3, found 3",
              [](ExchangeSpec &s) { s.ranks[0].commands[s.head].op = 3; });
  expectError("is inside the fused exchange of command 0, which has 1 more parts",
              [](ExchangeSpec &s) { s.part(0, Kind::reduce).kind = Kind::accumulate; });
}

TEST(FusedExchange, OneChannel) {
  expectError("part 6: expected channel 0, as before, found 1", [](ExchangeSpec &s) {
    s.part(0, Kind::signal, 2).channel = s.ranks[0].channel({0, 1, 2, 3}, 2, "other");
  });
}

TEST(FusedExchange, ThreadsNeedNothingOfEachOther) {
  // The own partial sums are stored where the peer's belong, shifted by half a slot.
  expectError("reads what part 0 has written, as other elements", [](ExchangeSpec &s) {
    sp::View &view = s.ranks[0].views[s.part(0, 0).operands[0]];
    view = sp::View(view.buffer(), view.layout(), 32);
  });
  // Another buffer, with the bytes of the slots.
  expectError("reads what part 0 has written, as other elements", [](ExchangeSpec &s) {
    sp::View &view = s.ranks[0].views[s.part(0, 0).operands[0]];
    sp::Buffer buffer = s.ranks[0].buffers[view.buffer()];
    s.ranks[0].buffers.push_back(buffer);
    view = sp::View(static_cast<uint32_t>(s.ranks[0].buffers.size() - 1), view.layout(), 32);
  });
  // The sum overwrites what is sent.
  ExchangePart copy, reduce;
  copy.in = {0, 0, Layout::dense(DType::F32, {4})};
  copy.out = {1, 0, Layout::dense(DType::F32, {4})};
  reduce.kind = ExchangePart::Kind::Reduce;
  reduce.dims = 1;
  reduce.in = {1, 0, Layout::dense(DType::F32, {2, 4})};
  reduce.out = copy.in;
  ExchangePart wait;
  wait.kind = ExchangePart::Kind::WaitSignal;
  EXPECT_EQ(describeExchange({copy, wait, reduce}).status().message(),
            "part 2: writes what part 0 reads");
  reduce.out.buffer = 2;
  EXPECT_TRUE(describeExchange({copy, wait, reduce}).ok());
  EXPECT_EQ(describeExchange({copy, wait, copy}).status().message(),
            "part 2: writes what part 0 has written");
  // Without a wait between them they are one step, and of two kinds.
  EXPECT_EQ(describeExchange({copy, reduce}).status().message(),
            "part 1: expected shape, strides and kind of part 0, as no wait or signal is between "
            "them");
  // Copies of another value are a step of their own.
  ExchangePart longer = copy;
  longer.in = {5, 0, Layout::dense(DType::I8, {7})};
  longer.out = {6, 0, Layout::dense(DType::I8, {7})};
  EXPECT_EQ(describeExchange({copy, longer, wait, reduce})->size(), 3u);
  // A sum is stored further from where it is, not from where a peer has it.
  ExchangePart put = copy, other = copy;
  put.kind = ExchangePart::Kind::Put;
  put.in = reduce.out;
  put.out = {3, 0, Layout::dense(DType::F32, {4})};
  other.in = put.out;
  other.out.buffer = 4;
  EXPECT_EQ(describeExchange({reduce, put})->at(0).move.stores.size(), 2u);
  EXPECT_EQ(describeExchange({reduce, put, other}).status().message(),
            "part 2: expected shape, strides and kind of part 0, as no wait or signal is between "
            "them");
  // Two puts to one peer: at one place by the same threads, or apart.
  ExchangePart again = put;
  EXPECT_TRUE(describeExchange({reduce, put, again}).ok());
  again.out.address = 4;
  EXPECT_EQ(describeExchange({reduce, put, again}).status().message(),
            "part 2: writes what part 1 has written");
  // Columns 0 and 1, then column 2, of rows of 6: of other widths, and apart.
  ExchangePart two, one, signal;
  two.kind = one.kind = ExchangePart::Kind::Put;
  signal.kind = ExchangePart::Kind::Signal;
  auto columns = [](int64_t width, uint64_t address) {
    Layout layout = Layout::dense(DType::F32, {4, width});
    layout.strides[0] = 6;
    return program::PlacedView{3, address, layout};
  };
  two.in = {0, 0, Layout::dense(DType::F32, {4, 2})};
  one.in = {1, 0, Layout::dense(DType::F32, {4, 1})};
  two.out = columns(2, 0);
  one.out = columns(1, 8);
  EXPECT_TRUE(describeExchange({two, signal, one, signal}).ok());
  EXPECT_TRUE(describeExchange({one, signal, two, signal}).ok());
  one.out = columns(1, 4);
  for (auto parts : {std::vector{two, signal, one}, std::vector{one, signal, two}})
    EXPECT_EQ(describeExchange(parts).status().message(), "part 2: writes what part 0 has written");
  one.out = columns(1, 72 + 8); // below the last row
  EXPECT_TRUE(describeExchange({two, signal, one}).ok());
  again.peer = 1;
  EXPECT_TRUE(describeExchange({reduce, put, again}).ok());
  again.toSelf = true;
  EXPECT_EQ(describeExchange({reduce, put, again}).status().message(),
            "part 2: peer: is this rank, which a put of a fused exchange cannot store to");
  // Terms that overlap: element 1 of the first is element 0 of the second.
  ExchangePart overlapping = reduce;
  overlapping.in.layout.strides[0] = 1;
  EXPECT_EQ(describeExchange({copy, wait, overlapping}).status().message(),
            "part 2: reads what part 0 has written, as other elements");
  reduce.dims = 2;
  EXPECT_EQ(describeExchange({copy, wait, reduce}).status().message(),
            "part 2: expected a reduction of dimension 0 alone, found the dimensions 0x2");
}

} // namespace
} // namespace tandem::test
