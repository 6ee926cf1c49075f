//===- FusedExchangeTest.cpp - fused exchanges: order, data, SMs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"
#include "Support/ExchangeSpec.h"

using namespace tandem;
using namespace tandem::check;
using test::ExchangeSpec;

namespace {

/// Two fused exchanges of two ranks, one after the other or at the same time; then rank 1 has each
/// on the other one's stream.
ProgramSpec two(uint64_t blocks, bool atOnce) {
  ProgramSpec spec(2);
  uint32_t x = spec.stacked("x", false, DType::F32, {4});
  uint32_t y = spec.stacked("y", true, DType::F32, {2, 4});
  for (RankSpec &rank : spec.ranks) {
    uint32_t own = rank.view(rank.argument(x, 16), DType::F32, {4}), result = rank.argument(y, 32);
    uint16_t channel = rank.channel({0, 1}, 2);
    rank.slots.assign(4, 1);
    rank.sync(1, 0);
    for (uint32_t turn = 0; turn < 2; ++turn) {
      uint32_t number = atOnce ? turn ^ rank.rank : turn; // of the exchange
      uint16_t stream = atOnce ? static_cast<uint16_t>(turn) : 0;
      uint32_t slots = rank.symmetric(64);
      // The same places on both ranks, whichever is issued first.
      rank.buffers[slots] = sp::Buffer(sp::Space::symmetric, 0, uint64_t(64) * number, 64, 0);
      CommandSpec &head = rank.add(Kind::fused_exchange, stream);
      head.peer = turn;
      head.value = blocks;
      sp::ExchangeT &exchange = rank.exchanges.emplace_back();
      exchange.kind = sp::ExchangeKind::one_shot_all_reduce;
      exchange.channel = channel;
      exchange.slot = 2 * number;
      exchange.in = {own};
      exchange.out = {rank.view(result, DType::F32, {4}, 16 * number)};
      exchange.copy = {sp::kNoView};
      exchange.scratch = rank.view(slots, DType::F32, {2, 4});
    }
    rank.sync(0, 1);
  }
  return spec;
}

} // namespace

TEST(FusedExchange, CorrectPrograms) {
  for (uint32_t ranks : {2, 4, 8})
    for (bool twoShots : {false, true}) {
      expectClean(ExchangeSpec(ranks, twoShots));
      expectClean(ExchangeSpec(ranks, twoShots), onGpu());
    }
}

TEST(FusedExchange, AWaitThatIsMissing) {
  ExchangeSpec spec(4);
  spec.makePlain();
  spec.drop(0, Kind::wait_signal);
  std::set<std::string> found = diagnoses(run(spec));
  EXPECT_TRUE(found.count("race")) << (found.empty() ? "none" : *found.begin());
  ExchangeSpec two(4, /*twoShots=*/true);
  two.makePlain();
  two.drop(1, Kind::wait_signal, 4);
  found = diagnoses(run(two));
  EXPECT_TRUE(found.count("race")) << (found.empty() ? "none" : *found.begin());
}

TEST(FusedExchange, ASignalThatIsMissing) {
  ExchangeSpec spec(2);
  spec.makePlain();
  spec.drop(1, Kind::signal);
  expectOnly(spec, {"signal-missing"});
}

TEST(FusedExchange, ASignalBeforeItsPut) {
  ExchangeSpec spec(2);
  spec.makePlain();
  std::swap(spec.part(0, Kind::put), spec.part(0, Kind::signal));
  EXPECT_FALSE(run(spec).findings.empty());
}

TEST(FusedExchange, ItsBlocksAreSMs) {
  // Proven, as there is no limit.
  Report report = run(ExchangeSpec(4), onGpu());
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(report.limits.empty()) << report.limits.front();
  // More blocks than SMs are as many as all, which suffice where nothing else is needed.
  EXPECT_TRUE(run(ExchangeSpec(4, false, 16, 1000), onGpu()).findings.empty());
  EXPECT_TRUE(run(two(70, /*atOnce=*/false), onGpu()).limits.empty());
  EXPECT_TRUE(run(two(16, /*atOnce=*/true), onGpu()).limits.empty());
  // Each rank begins with another one, holds 70 of 132 SMs and waits for the other rank's.
  expectClean(two(70, /*atOnce=*/true));
  expectOnly(two(70, /*atOnce=*/true), {"sm-deadlock"}, onGpu());
}
