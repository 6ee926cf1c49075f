//===- LostPeersTest.cpp - ranks that end while channels are made ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// While a channel is made, ranks also wait for each other outside of the bootstrap: in NCCL, and
// for handles of memory. No run is in flight, so the watchdog has nothing to end.
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "TwoRanks.h"

#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Registry.h"
#include "tandem/Runtime/Rendezvous.h"

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

namespace {

/// A program of two ranks with a channel and nothing to do.
ProgramSpec idleOver(uint32_t capability) {
  ProgramSpec spec(2);
  spec.name = "idle";
  for (RankSpec &rank : spec.ranks) {
    if (capability == OneSided) {
      rank.symmetric(64);
      rank.slots = {1};
    }
    rank.channel({0, 1}, capability, "wire");
  }
  return spec;
}

Status prepare(std::unique_ptr<Bootstrap> bootstrap, const std::string &channel,
               uint32_t capability) {
  uint32_t rank = bootstrap->rank();
  std::string file = idleOver(capability).encode();
  ContextOptions options;
  options.device = fakeDevice(rank);
  options.bootstrap = std::move(bootstrap);
  TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport(channel));
  options.transports.push_back(std::move(transport));
  TANDEM_ASSIGN_OR_RETURN(auto opened, ProgramFile::fromMemory(file));
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(auto program, opened->rankProgram(rank));
  return Instance::create(*context, program).status();
}

/// Prepares over channel ccl while `knob` keeps rank 1 from a step. The bootstrap loses a rank once
/// both are in it.
void expectLossEnds(const char *knob, const std::string &step) {
  if (testsHip())
    GTEST_SKIP() << "RCCL's stand-in is the same";
  Knob stays(knob, 2);
  auto world = LocalWorld::create(2, seconds(20));
  Status found[2];
  std::vector<std::thread> ranks;
  for (uint32_t r = 0; r < 2; ++r)
    ranks.emplace_back([&, r, bootstrap = world->bootstrap(r)]() mutable {
      found[r] = prepare(std::move(bootstrap), "ccl", Collectives);
    });
  for (auto giveUp = Clock::now() + seconds(20);
       fakeNumber("nccl-live") < 2 && Clock::now() < giveUp;)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(fakeNumber("nccl-live"), 2);
  std::this_thread::sleep_for(milliseconds(100)); // they stay
  auto start = Clock::now();
  world->bootstrap(1)->giveUp(Status(Code::Aborted, "lost rank 1: its process has ended"));
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_LT(Clock::now() - start, seconds(5));
  for (uint32_t r = 0; r < 2; ++r)
    EXPECT_EQ(found[r].message(), "rank " + std::to_string(r) + ": @idle: channel c0 \"wire\": " +
                                      step + ": lost rank 1: its process has ended");
}

TEST(LostPeers, EndACommunicatorThatIsMade) {
  expectLossEnds("nccl-no-init-on", "ncclCommInitRankConfig");
}

/// Raises a signal behind the exchange in which all ranks say that they have asked for handles.
class DyingBootstrap final : public Bootstrap {
public:
  DyingBootstrap(std::unique_ptr<Bootstrap> inner, int signal)
      : inner(std::move(inner)), signal(signal) {}
  uint32_t rank() const override { return inner->rank(); }
  uint32_t worldSize() const override { return inner->worldSize(); }
  std::string host() const override { return inner->host(); }
  Status barrier() override { return inner->barrier(); }
  Status health() override { return inner->health(); }
  void giveUp(const Status &reason) override { inner->giveUp(reason); }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    std::string said(static_cast<const char *>(mine), mine ? bytes : 0);
    Status status = inner->allGather(mine, bytes, all);
    // A card names the socket. Two exchanges follow: all have checked the cards, all have asked.
    if (said.find("tandem-peer-") != std::string::npos)
      left = 2;
    else if (left > 0 && --left == 0)
      ::raise(signal);
    return status;
  }

private:
  std::unique_ptr<Bootstrap> inner;
  const int signal;
  int left = 0;
};

/// One of two ranks that are processes; rank 1 meets `signal` where rank 0 waits for its handle.
void prepareAsRank(int signal) {
  auto environment = readBootstrapEnvironment();
  ASSERT_TRUE(environment.ok()) << environment.status().message();
  environment->exchangeTimeout = seconds(1);
  auto joined = joinJob(*environment);
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  std::unique_ptr<Bootstrap> bootstrap = std::move(*joined);
  if (bootstrap->rank() == 1)
    bootstrap = std::make_unique<DyingBootstrap>(std::move(bootstrap), signal);
  auto start = Clock::now();
  Status status = prepare(std::move(bootstrap), "peer", OneSided);
  EXPECT_LT(Clock::now() - start, signal == SIGKILL ? seconds(5) : seconds(20));
  EXPECT_THAT(
      status.message(),
      HasSubstr("rank 0: @idle: channel c0 \"wire\": channel peer: the memory of rank 1: "));
  EXPECT_THAT(status.message(), HasSubstr(signal == SIGKILL ? "rank 1" : "has sent no heartbeat"));
}

void expectHandleIsNotAwaited(int signal) {
  if (testsHip())
    GTEST_SKIP() << "HIP's handles travel with the cards";
  asTwoRanks([signal] { prepareAsRank(signal); }, seconds(signal == SIGSTOP ? 1 : 20));
}

TEST(LostPeers, ThatAreKilledOweNoHandle) { expectHandleIsNotAwaited(SIGKILL); }
TEST(LostPeers, ThatAreStoppedOweNoHandle) { expectHandleIsNotAwaited(SIGSTOP); }

} // namespace
