//===- CaptureTest.cpp - runs in graphs of the caller -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CallersGraph.h"

#include "tandem/Program/stream_program_generated.h"
#include "tandem/Runtime/Registry.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

/// y is the sum of all ranks' x.
ProgramSpec sum(uint32_t ranks) {
  ProgramSpec spec(ranks);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount});
  uint32_t y = spec.stacked("y", true, DType::F32, {kCount});
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < ranks; ++r)
    all.push_back(r);
  for (RankSpec &rank : spec.ranks) {
    uint32_t from = rank.view(rank.argument(x, kCount * 4), DType::F32, {kCount});
    uint32_t to = rank.view(rank.argument(y, kCount * 4), DType::F32, {kCount});
    rank.sync(1, 0);
    rank.collective(1, rank.channel(all, Collectives), CollectiveKind::AllReduce, to, from);
    rank.sync(0, 1);
  }
  return spec;
}

Status setInput(Context &context, const Memory &x, int run) {
  std::vector<float> values(kCount,
                            static_cast<float>(100 * run) + static_cast<float>(context.rank()));
  return context.device().upload(x.data(), values.data(), kCount * 4);
}

Status checkResult(Context &context, const Memory &y, int run, bool isSum) {
  std::vector<float> found(kCount);
  TANDEM_RETURN_IF_ERROR(context.device().download(found.data(), y.data(), kCount * 4));
  // Of two ranks: the other one's number, or the sum.
  float value = static_cast<float>(100 * run) + static_cast<float>(1 - context.rank());
  if (isSum)
    value = static_cast<float>(2 * 100 * run + 1);
  std::vector<float> expected(kCount, value);
  return found == expected ? Status()
                           : Status(Code::Internal, "run " + std::to_string(run) + ": found " +
                                                        std::to_string(found[0]) + ", expected " +
                                                        std::to_string(expected[0]));
}

/// Runs as usual before, between and after; captures once, replays many times.
Status captureAndReplay(Context &context, Instance &instance) {
  bool isSum = instance.program().data().signal_slots()->size() == 0;
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  TANDEM_ASSIGN_OR_RETURN(auto caller, Caller::make(context.rank() % 2));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Stream> main,
                          context.device().wrapStream(caller->stream));
  int run = 0;
  auto usual = [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(setInput(context, *memory[0], ++run));
    TANDEM_RETURN_IF_ERROR(instance.enqueue(main));
    TANDEM_RETURN_IF_ERROR(instance.wait());
    return checkResult(context, *memory[1], run, isSum);
  };
  for (int i = 0; i < 3; ++i)
    TANDEM_RETURN_IF_ERROR(usual());
  // The watchdog asks for this run's end during the capture.
  TANDEM_RETURN_IF_ERROR(instance.enqueue());
  TANDEM_RETURN_IF_ERROR(caller->capture([&] { return instance.enqueue(main); }));
  TANDEM_RETURN_IF_ERROR(instance.wait());
  for (int i = 0; i < 10; ++i) {
    if (i % 4 == 3)
      TANDEM_RETURN_IF_ERROR(usual());
    TANDEM_RETURN_IF_ERROR(setInput(context, *memory[0], ++run));
    if ((context.rank() + static_cast<uint32_t>(i)) % 3 == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    TANDEM_RETURN_IF_ERROR(caller->replay());
    TANDEM_RETURN_IF_ERROR(caller->finish());
    TANDEM_RETURN_IF_ERROR(checkResult(context, *memory[1], run, isSum));
  }
  // Replays in a row, without a wait of the host.
  TANDEM_RETURN_IF_ERROR(setInput(context, *memory[0], ++run));
  for (int i = 0; i < 5; ++i)
    TANDEM_RETURN_IF_ERROR(caller->replay());
  TANDEM_RETURN_IF_ERROR(caller->finish());
  TANDEM_RETURN_IF_ERROR(checkResult(context, *memory[1], run, isSum));
  return usual();
}

TEST(GpuCapture, RunsBecomePartOfTheCallersGraph) {
  for (const Status &status : runRanks(capturedRing(2), "peer", captureAndReplay))
    EXPECT_TRUE(status.ok()) << status.message();
}

/// The ranks meet by one kernel, which counts the run.
TEST(GpuCapture, RanksMeetByOneKernel) {
  std::vector<int64_t> met, counted;
  for (int captures : {1, 2}) {
    int64_t exchanges = fakeNumber("launches.exchange_i8_1"),
            counts = fakeNumber("launches.run_words");
    auto capture = [&](Context &context, Instance &instance) -> Status {
      TANDEM_RETURN_IF_ERROR(bindAll(context, instance).status());
      TANDEM_ASSIGN_OR_RETURN(auto caller, Caller::make(context.rank() % 2));
      TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Stream> main,
                              context.device().wrapStream(caller->stream));
      return caller->capture([&]() -> Status {
        for (int i = 0; i < captures; ++i)
          TANDEM_RETURN_IF_ERROR(instance.enqueue(main));
        return Status();
      });
    };
    for (const Status &status : runRanks(capturedRing(2), "peer", capture))
      EXPECT_TRUE(status.ok()) << status.message();
    met.push_back(fakeNumber("launches.exchange_i8_1") - exchanges);
    counted.push_back(fakeNumber("launches.run_words") - counts);
  }
  bool isOneKernel = !testsHip();         // which sees no signals while it runs
  EXPECT_EQ(met[0], isOneKernel ? 2 : 0); // one of each rank
  EXPECT_EQ(met[1], 2 * met[0]);
  EXPECT_EQ(counted[1] - counted[0], isOneKernel ? 0 : 2); // what prepare captures does not matter
}

/// Rank 0 copies x to y, and puts it to rank 1, which copies it to y. Nothing goes back. `isMesh`:
/// there are 2 x 2 ranks, with channels of columns and, for the put, of rows.
ProgramSpec oneWay(bool isMesh) {
  uint32_t ranks = isMesh ? 4 : 2;
  ProgramSpec spec(ranks);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount});
  uint32_t y = spec.stacked("y", true, DType::F32, {kCount});
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.argument(x, kCount * 4), DType::F32, {kCount});
    uint32_t to = rank.view(rank.argument(y, kCount * 4), DType::F32, {kCount});
    uint32_t space = rank.view(rank.symmetric(kCount * 4), DType::F32, {kCount});
    rank.slots = {1};
    if (isMesh)
      rank.channel({r % 2, r % 2 + 2}, OneSided);
    uint16_t channel = rank.channel({r - r % 2, r - r % 2 + 1}, OneSided);
    if (r == 1) {
      rank.waitSignal(0, channel, 0, 1);
      rank.copy(0, to, space);
      continue;
    }
    rank.copy(0, to, from);
    if (r == 0) {
      rank.put(0, channel, space, from, 1);
      rank.signal(0, channel, 1, 0, 1, true);
    }
  }
  return spec;
}

/// What a test of oneWay() does on each rank.
struct OneWay {
  Context &context;
  Instance &instance;
  std::vector<std::unique_ptr<Memory>> memory;
  std::unique_ptr<Caller> caller;
  std::shared_ptr<Stream> main;

  Status prepare() {
    TANDEM_ASSIGN_OR_RETURN(memory, bindAll(context, instance));
    TANDEM_ASSIGN_OR_RETURN(caller, Caller::make(context.rank()));
    TANDEM_ASSIGN_OR_RETURN(main, context.device().wrapStream(caller->stream));
    return caller->capture([&] { return instance.enqueue(main); });
  }
  /// Ranks 0 and 1 get rank 0's x of that run.
  Status check(int run) {
    if (context.rank() > 1)
      return Status();
    std::vector<float> found(kCount), expected(kCount, static_cast<float>(100 * run));
    TANDEM_RETURN_IF_ERROR(context.device().download(found.data(), memory[1]->data(), kCount * 4));
    return found == expected ? Status()
                             : Status(Code::Internal, "run " + std::to_string(run) + ": found " +
                                                          std::to_string(found[0]));
  }
};

/// Rank 0 has ended a replay, and begins a run in the same half. Rank 1 has not read yet.
Status runAhead(Context &context, Instance &instance, bool replays) {
  OneWay test{context, instance, {}, nullptr, nullptr};
  TANDEM_RETURN_IF_ERROR(test.prepare());
  TANDEM_RETURN_IF_ERROR(setInput(context, *test.memory[0], 1));
  TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
  std::optional<Knob> hold;
  if (context.rank() == 1)
    hold.emplace("hold-copies-on", 2);
  TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
  TANDEM_RETURN_IF_ERROR(test.caller->replay());
  auto second = [&] { return replays ? test.caller->replay() : test.instance.enqueue(test.main); };
  if (context.rank() == 0) {
    TANDEM_RETURN_IF_ERROR(test.caller->finish());
    TANDEM_RETURN_IF_ERROR(test.check(1));
    TANDEM_RETURN_IF_ERROR(setInput(context, *test.memory[0], 2));
    TANDEM_RETURN_IF_ERROR(second());
    // For a put that does not wait. If this is too short, the test passes without a reason.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
  hold.reset();
  if (context.rank() != 0) {
    TANDEM_RETURN_IF_ERROR(test.caller->finish());
    TANDEM_RETURN_IF_ERROR(test.check(1));
    TANDEM_RETURN_IF_ERROR(second());
  }
  TANDEM_RETURN_IF_ERROR(test.caller->finish());
  TANDEM_RETURN_IF_ERROR(instance.wait());
  return test.check(2);
}

TEST(GpuCapture, NoRankIsAheadOfAReplay) {
  Variable gpus("TANDEM_FAKE_GPUS", "4");
  // In memory that instances share, in memory of their own, and of channels with other members.
  for (bool shareMemory : {true, false})
    for (bool isMesh : {false, true})
      for (bool replays : {true, false}) {
        auto part = [&](Context &context, Instance &instance) {
          return runAhead(context, instance, replays);
        };
        RankOptions with;
        with.shareMemory = shareMemory;
        with.gpus = 4;
        for (const Status &status : runRanks(oneWay(isMesh), "peer", part, with))
          EXPECT_TRUE(status.ok()) << status.message() << ", shared: " << shareMemory
                                   << ", mesh: " << isMesh << ", replays: " << replays;
      }
}

/// Local commands do not wait for other ranks, and puts do.
Status localFirst(Context &context, Instance &instance) {
  OneWay test{context, instance, {}, nullptr, nullptr};
  TANDEM_RETURN_IF_ERROR(test.prepare());
  TANDEM_RETURN_IF_ERROR(setInput(context, *test.memory[0], 3));
  Status copied;
  if (context.rank() == 0) {
    TANDEM_RETURN_IF_ERROR(test.caller->replay());
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    do
      copied = test.check(3);
    while (!copied.ok() && std::chrono::steady_clock::now() < end);
    bool done = true;
    TANDEM_RETURN_IF_ERROR(test.caller->driver->queryStream(test.caller->stream, &done));
    if (done && copied.ok())
      copied = Status(Code::Internal, "the put has not waited for rank 1");
  }
  TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
  if (context.rank() == 1)
    TANDEM_RETURN_IF_ERROR(test.caller->replay());
  TANDEM_RETURN_IF_ERROR(test.caller->finish());
  TANDEM_RETURN_IF_ERROR(copied);
  return test.check(3);
}

TEST(GpuCapture, LocalCommandsDoNotWaitForOtherRanks) {
  for (const Status &status : runRanks(oneWay(false), "peer", localFirst))
    EXPECT_TRUE(status.ok()) << status.message();
}

/// Replays of one instance between runs of another one, which shares all memory with it.
Status replayBetweenOthers(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(capturedRing(2).encode()));
  TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(context.rank()));
  TANDEM_ASSIGN_OR_RETURN(auto other, Instance::create(context, program));
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  TANDEM_ASSIGN_OR_RETURN(auto others, bindAll(context, *other));
  TANDEM_ASSIGN_OR_RETURN(auto caller, Caller::make(context.rank() % 2));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Stream> main,
                          context.device().wrapStream(caller->stream));
  TANDEM_RETURN_IF_ERROR(caller->capture([&] { return instance.enqueue(main); }));
  for (int run = 1; run < 20; ++run) {
    TANDEM_RETURN_IF_ERROR(setInput(context, *memory[0], 2 * run));
    TANDEM_RETURN_IF_ERROR(setInput(context, *others[0], 2 * run + 1));
    if ((context.rank() + static_cast<uint32_t>(run)) % 3 == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // Nothing waits between these.
    if (run % 2)
      TANDEM_RETURN_IF_ERROR(other->enqueue(main));
    TANDEM_RETURN_IF_ERROR(caller->replay());
    TANDEM_RETURN_IF_ERROR(other->enqueue(main));
    if (run % 3 == 0)
      TANDEM_RETURN_IF_ERROR(instance.enqueue(main));
    TANDEM_RETURN_IF_ERROR(caller->replay());
    TANDEM_RETURN_IF_ERROR(caller->finish());
    TANDEM_RETURN_IF_ERROR(other->wait());
    TANDEM_RETURN_IF_ERROR(instance.wait());
    TANDEM_RETURN_IF_ERROR(checkResult(context, *memory[1], 2 * run, false));
    TANDEM_RETURN_IF_ERROR(checkResult(context, *others[1], 2 * run + 1, false));
  }
  return Status();
}

TEST(GpuCapture, ReplaysBetweenRunsOfInstancesThatShareTheirMemory) {
  for (const Status &status : runRanks(capturedRing(2), "peer", replayBetweenOthers))
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GpuCapture, CollectivesToo) {
  if (auto transport = createTransport("ccl"); !transport)
    GTEST_SKIP() << transport.status().message();
  for (const Status &status : runRanks(sum(2), "ccl", captureAndReplay))
    EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GpuCapture, AProgramWithoutAGraphSaysSo) {
  Variable mode("TANDEM_GRAPH", "0");
  for (const Status &status :
       runRanks(capturedRing(2), "peer", [](Context &context, Instance &instance) {
         auto memory = bindAll(context, instance);
         auto caller = Caller::make(context.rank() % 2);
         std::shared_ptr<Stream> main = std::move(*context.device().wrapStream((*caller)->stream));
         Status status = (*caller)->capture([&] { return instance.enqueue(main); });
         EXPECT_TRUE(context.health().ok());
         // What was given with the refused run is not bound.
         std::vector<std::unique_ptr<Memory>> other;
         std::vector<void *> data;
         for (int i = 0; i < 2; ++i) {
           other.push_back(std::move(*context.device().allocate(kCount * 4, MemoryKind::Plain)));
           data.push_back(other.back()->data());
         }
         auto again = Caller::make(context.rank() % 2);
         main = std::move(*context.device().wrapStream((*again)->stream));
         Status second =
             (*again)->capture([&] { return instance.enqueue(main, data.data(), nullptr); });
         EXPECT_EQ(second.code(), Code::Unsupported) << second.message();
         EXPECT_TRUE(setInput(context, *(*memory)[0], 7).ok());
         EXPECT_TRUE(instance.run().ok());
         EXPECT_TRUE(checkResult(context, *(*memory)[1], 7, false).ok());
         return status;
       }))
    EXPECT_NE(status.message().find("this program runs without a graph"), std::string::npos)
        << status.message();
}

} // namespace
