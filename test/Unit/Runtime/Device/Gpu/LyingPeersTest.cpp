//===- LyingPeersTest.cpp - ranks whose messages are wrong ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every exchange of preparing a program, over every channel, with each lie in its place: the ranks
// end with an error or prepare all the same. Sizes in messages are what goes wrong most easily.
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "Support/LyingBootstrap.h"

#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Registry.h"

#include <gtest/gtest.h>
#include <string_view>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

/// y of each rank is the other rank's x.
ProgramSpec swap(bool oneSided) {
  constexpr uint64_t kBytes = 64;
  ProgramSpec spec(2);
  spec.name = "swap";
  uint32_t x = spec.stacked("x", false, DType::F32, {16});
  uint32_t y = spec.stacked("y", true, DType::F32, {16});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.argument(x, kBytes), DType::F32, {16});
    uint32_t to = rank.view(rank.argument(y, kBytes), DType::F32, {16});
    uint16_t channel = rank.channel({0, 1}, oneSided ? OneSided : TwoSided);
    if (oneSided) {
      uint32_t slot = rank.view(rank.symmetric(kBytes), DType::F32, {16});
      rank.slots = {1};
      rank.put(0, channel, slot, from, 1 - r);
      rank.signal(0, channel, 1 - r, 0, 1);
      rank.waitSignal(0, channel, 0, 1);
      rank.copy(0, to, slot);
    } else {
      rank.group(0, channel, 2);
      rank.recv(0, channel, to, 1 - r, 0);
      rank.send(0, channel, from, 1 - r, 0);
    }
  }
  return spec;
}

/// What rank 0 found when rank 1 lied in exchange `at`; `exchanges`: how many there were.
Status prepare(const std::string &file, const std::string &channel, unsigned at, Lie lie,
               unsigned *exchanges = nullptr) {
  auto world = LocalWorld::create(2, std::chrono::seconds(20));
  Status found[2];
  auto rank = [&](uint32_t r) -> Status {
    ContextOptions options;
    options.bootstrap = world->bootstrap(r);
    if (r == 1)
      options.bootstrap =
          std::make_unique<LyingBootstrap>(std::move(options.bootstrap), at, lie, exchanges);
    bool gpu = channel == "peer" || channel == "ccl";
    if (gpu) {
      options.device = fakeDevice(r);
    } else {
      TANDEM_ASSIGN_OR_RETURN(options.device, createDevice("cpu", {}, r));
    }
    if (channel == "local") {
      options.transports.push_back(world->transport(r));
    } else {
      TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport(channel));
      options.transports.push_back(std::move(transport));
    }
    TANDEM_ASSIGN_OR_RETURN(auto opened, ProgramFile::fromMemory(file));
    TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
    TANDEM_ASSIGN_OR_RETURN(auto program, opened->rankProgram(r));
    return Instance::create(*context, program).status();
  };
  std::thread other([&] { found[1] = rank(1); });
  found[0] = rank(0);
  other.join();
  return found[0];
}

class LyingPeers : public testing::TestWithParam<std::pair<const char *, bool>> {};

TEST_P(LyingPeers, EndPreparation) {
  auto [channel, oneSided] = GetParam();
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
  if (channel == std::string_view("ucx"))
    GTEST_SKIP() << "GCC's leak checker crashes on the thread-local memory of UCX's threads";
#endif
  std::string file = swap(oneSided).encode();
  unsigned exchanges = 0;
  Status truth = prepare(file, channel, ~0u, Lie::Zeros, &exchanges);
  if (truth.code() == Code::Unsupported)
    GTEST_SKIP() << truth.message();
  ASSERT_TRUE(truth.ok()) << truth.message();
  ASSERT_GT(exchanges, 6u);
  unsigned refused = 0;
  for (unsigned at = 0; at < exchanges; ++at)
    for (int lie = 0; lie < static_cast<int>(Lie::Last); ++lie) {
      SCOPED_TRACE(testing::Message() << "exchange " << at << ", lie " << lie);
      refused += prepare(file, channel, at, static_cast<Lie>(lie)).ok() ? 0 : 1;
    }
  // Most lies are found. Those that are none remain: digits where there are none, say.
  EXPECT_GT(refused, exchanges);
}

INSTANTIATE_TEST_SUITE_P(, LyingPeers,
                         testing::Values(std::make_pair("local", false),
                                         std::make_pair("local", true),
                                         std::make_pair("peer", true), std::make_pair("ccl", false),
                                         std::make_pair("ucx", false), std::make_pair("ucx", true)),
                         [](const auto &info) {
                           return std::string(info.param.first) +
                                  (info.param.second ? "OneSided" : "TwoSided");
                         });

} // namespace
