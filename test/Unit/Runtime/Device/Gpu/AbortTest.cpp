//===- AbortTest.cpp - what ends waits when a rank is lost ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CallersGraph.h"
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

constexpr seconds kTimeout{5};

/// A rank of capturedRing(2) over channel peer, and a graph of the caller that has a run.
struct CapturedRank {
  std::unique_ptr<Context> context;
  InstancePtr instance;
  std::vector<std::unique_ptr<Memory>> memory;
  std::unique_ptr<Caller> caller;
  std::shared_ptr<Stream> main;

  Status open(std::unique_ptr<Bootstrap> bootstrap) {
    uint32_t rank = bootstrap->rank();
    ContextOptions options;
    options.device = fakeDevice(rank);
    options.bootstrap = std::move(bootstrap);
    options.timeout = kTimeout;
    TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport("peer"));
    options.transports.push_back(std::move(transport));
    TANDEM_ASSIGN_OR_RETURN(context, Context::create(std::move(options)));
    TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(capturedRing(2).encode()));
    TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(rank));
    TANDEM_ASSIGN_OR_RETURN(instance, Instance::create(*context, program));
    TANDEM_ASSIGN_OR_RETURN(memory, bindAll(*context, *instance));
    TANDEM_ASSIGN_OR_RETURN(caller, Caller::make(rank));
    TANDEM_ASSIGN_OR_RETURN(main, context->device().wrapStream(caller->stream));
    return caller->capture([&] { return instance->enqueue(main); });
  }
  /// False if the stream is not idle by then.
  bool ends(Clock::duration limit) const {
    bool done = false;
    for (auto giveUp = Clock::now() + limit; !done && Clock::now() < giveUp;
         std::this_thread::sleep_for(milliseconds(1)))
      if (!caller->driver->queryStream(caller->stream, &done).ok())
        return false;
    return done;
  }
};

bool comesTrue(const std::function<bool()> &what, Clock::duration limit = seconds(20)) {
  for (auto giveUp = Clock::now() + limit; Clock::now() < giveUp;
       std::this_thread::sleep_for(milliseconds(1)))
    if (what())
      return true;
  return what();
}

//===----------------------------------------------------------------------===//
// Processes
//===----------------------------------------------------------------------===//

enum class Death { BeforeAWait, InAWait, AfterAWait };

/// Rank 1 is killed. Rank 0 is told of it, whatever it does.
void replayAsRank(Death death) {
  auto joined = createBootstrapFromEnvironment();
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  bool dies = (*joined)->rank() == 1;
  CapturedRank rank;
  Status opened = rank.open(std::move(*joined));
  ASSERT_TRUE(opened.ok()) << opened.message();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rank.caller->replay().ok());
    ASSERT_TRUE(rank.ends(seconds(20)));
  }
  if (dies) {
    if (death == Death::InAWait) { // rank 0 gets past the barrier, and waits for the put
      Knob hold("hold-copies-on", 2);
      ASSERT_TRUE(rank.caller->replay().ok());
      std::this_thread::sleep_for(milliseconds(300));
      ::raise(SIGKILL);
    }
    if (death == Death::BeforeAWait)
      ::raise(SIGKILL);
    std::this_thread::sleep_for(milliseconds(300)); // rank 0 waits
    ::raise(SIGKILL);
  }
  auto start = Clock::now();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rank.caller->replay().ok());
    ASSERT_TRUE(rank.ends(kTimeout)) << "replay " << i;
  }
  EXPECT_LT(Clock::now() - start, kTimeout);
  EXPECT_TRUE(comesTrue([&] { return !rank.context->health().ok(); }, kTimeout));
  EXPECT_THAT(rank.context->health().message(), HasSubstr("lost rank 1"));
  EXPECT_THAT(rank.instance->enqueue(rank.main).message(), HasSubstr("lost rank 1"));
}

void expectReplaysEnd(Death death) {
  asTwoRanks([death] { replayAsRank(death); }, seconds(30));
}

TEST(GpuAbort, AReplayEndsWhenAPeerDiesBeforeAWait) { expectReplaysEnd(Death::BeforeAWait); }
TEST(GpuAbort, AReplayEndsWhenAPeerDiesInAWait) { expectReplaysEnd(Death::InAWait); }
TEST(GpuAbort, AReplayEndsWhenAPeerDiesAfterAWait) { expectReplaysEnd(Death::AfterAWait); }

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// Rank 0 replays and waits for rank 1, which `lose` loses. `meanwhile` runs on rank 0 before that.
void loseInAReplay(const std::function<void(CapturedRank &)> &meanwhile,
                   const std::function<void(CapturedRank &)> &afterwards) {
  auto world = LocalWorld::create(2, seconds(20));
  CapturedRank ranks[2];
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      Status opened = ranks[r].open(world->bootstrap(r));
      EXPECT_TRUE(opened.ok()) << opened.message();
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_TRUE(ranks[0].main && ranks[1].main);
  ASSERT_TRUE(ranks[0].caller->replay().ok());
  ASSERT_TRUE(comesTrue([] { return fakeNumber("waits") > 0; }));
  EXPECT_TRUE(ranks[0].context->health().ok());
  meanwhile(ranks[0]);
  world->bootstrap(1)->giveUp(Status(Code::Aborted, "lost rank 1: its process has ended"));
  EXPECT_THAT(ranks[0].context->health().message(), HasSubstr("lost rank 1"));
  afterwards(ranks[0]);
  EXPECT_TRUE(ranks[0].ends(kTimeout));
  EXPECT_TRUE(comesTrue([&] { return !ranks[0].instance->query().ok(); }));
  EXPECT_THAT(ranks[0].instance->query().status().message(), HasSubstr("rank 0: replay of @"));
}

TEST(GpuAbort, NeedsNoCopyEngine) {
  std::unique_ptr<Knob> hold;
  loseInAReplay([&](CapturedRank &) { hold = std::make_unique<Knob>("hold-copies-on", 1); },
                [&](CapturedRank &) {
                  EXPECT_TRUE(comesTrue([] { return fakeNumber("waits") == 0; }, kTimeout));
                  hold.reset(); // the rest of the graph
                });
}

/// Another thread frees memory: the driver answers nobody until the GPU is idle.
TEST(GpuAbort, NeedsNoDriver) {
  Knob queries("queries-lock", 1);
  std::thread frees;
  std::atomic<bool> isFreed{false};
  loseInAReplay(
      [&](CapturedRank &rank) {
        void *memory = nullptr;
        ASSERT_TRUE(rank.caller->driver->allocate(64, &memory).ok());
        frees = std::thread([&, memory] {
          EXPECT_TRUE(rank.caller->driver->freeNow(memory).ok());
          isFreed = true;
        });
        std::this_thread::sleep_for(milliseconds(200)); // the watchdog asks the driver
        EXPECT_FALSE(isFreed);
        auto start = Clock::now();
        EXPECT_TRUE(rank.context->health().ok());
        EXPECT_LT(Clock::now() - start, seconds(1));
      },
      [&](CapturedRank &) { EXPECT_TRUE(comesTrue([&] { return isFreed.load(); }, kTimeout)); });
  if (frees.joinable())
    frees.join();
}

} // namespace
