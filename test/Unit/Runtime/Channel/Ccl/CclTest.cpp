//===- CclTest.cpp - communicators, and how they are aborted ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Over an NCCL that stands in, whose ranks are threads: who waits, who may abort whom. What NCCL
// does is tested by the conformance suite, on GPUs.
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"
#include "Device/Gpu/FakeGpu.h"

#include "tandem/Runtime/Gpu.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using ccl::Communicator;
using ccl::CommunicatorRef;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AnyOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

namespace {

const bool named = [] {
  ::setenv("TANDEM_NCCL_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  ::setenv("TANDEM_FAKE_GPUS", "3", 1);
  return true;
}();

const ccl::Api &api() {
  auto api = ccl::Api::get(gpu::kCuda);
  EXPECT_TRUE(named && api.ok()) << api.status().message();
  return **api;
}

ncclUniqueId newId() {
  ncclUniqueId id{};
  EXPECT_EQ(api().ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

/// Two ranks, each with a GPU.
class Ccl : public testing::Test {
protected:
  void SetUp() override {
    api();
    for (unsigned r = 0; r < 2; ++r) {
      devices.push_back(fakeDevice(r));
      ASSERT_TRUE(devices.back());
      states.push_back(dynamic_cast<gpu::GpuAccess &>(*devices.back()).shared());
    }
    misuse = fakeNumber("nccl-misuse");
    orphans = fakeNumber("nccl-orphans");
  }
  /// Everything has been given back, and nobody was in it.
  void TearDown() override {
    made.clear();
    waitFor([] { return fakeNumber("nccl-live") == 0; });
    EXPECT_EQ(fakeNumber("nccl-live"), 0);
    EXPECT_EQ(fakeNumber("nccl-misuse"), misuse);
    EXPECT_EQ(fakeNumber("nccl-orphans"), orphans);
  }

  static bool waitFor(const std::function<bool()> &until) {
    for (auto giveUp = Clock::now() + seconds(20); !until() && Clock::now() < giveUp;)
      std::this_thread::sleep_for(milliseconds(1));
    return until();
  }
  static void bothRanks(const std::function<void(unsigned)> &body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  }
  std::vector<Status> create(const core::WaitLimit &limit = {seconds(20)}) {
    std::vector<Status> results(2);
    ncclUniqueId id = newId();
    made.resize(2);
    bothRanks([&](unsigned r) {
      auto one = Communicator::create(states[r], id, {3, 7}, r, limit);
      results[r] = one.status();
      if (one.ok())
        made[r] = *one;
    });
    return results;
  }
  void createAndWarmUp() {
    for (const Status &status : create())
      ASSERT_TRUE(status.ok()) << status.message();
    bothRanks([&](unsigned r) {
      Status status = made[r]->warmUp({seconds(20)});
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }
  /// A sum over both, in place.
  Status sum(unsigned r, gpu::StreamHandle stream, float *at) {
    return made[r]->call("ncclAllReduce", [&](const ccl::Api &nccl, ncclComm_t comm) {
      return nccl.ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, comm,
                                static_cast<cudaStream_t>(stream));
    });
  }

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::shared_ptr<gpu::DeviceState>> states;
  std::vector<CommunicatorRef> made;
  int64_t misuse = 0, orphans = 0;
};

/// Of a communicator that has a child. Not for the run in which nothing is split.
class CclSplit : public Ccl {
protected:
  void SetUp() override {
    Ccl::SetUp();
    ASSERT_TRUE(api().splits);
  }
};

TEST_F(Ccl, CommandsNeedNoThread) {
  createAndWarmUp();
  int64_t before = fakeNumber("nccl-threads");
  bothRanks([&](unsigned r) {
    gpu::StreamHandle stream = nullptr;
    ASSERT_TRUE(states[r]->driver->createStream(&stream, StreamPriority::Normal).ok());
    float value = static_cast<float>(r) + 1;
    for (int i = 0; i < 3; ++i) {
      Status status = sum(r, stream, &value);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    EXPECT_TRUE(states[r]->driver->destroyStream(stream).ok()); // waits
    EXPECT_EQ(value, 12);
  });
  // Where there is no child the root does it all, as before.
  EXPECT_EQ(fakeNumber("nccl-threads") - before, api().splits ? 0 : 6);
}

TEST_F(Ccl, APeerThatDoesNotComeEndsTheCreation) {
  auto start = Clock::now();
  Status status = Communicator::create(states[0], newId(), {3, 7}, 0, {milliseconds(200)}).status();
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_EQ(status.message(), "ncclCommInitRankConfig: not all of ranks 3, 7 came within 200 ms");
  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_F(CclSplit, APeerThatDoesNotComeEndsTheSplit) {
  Knob stays("nccl-no-split-on", 2);
  auto start = Clock::now();
  for (const Status &status : create({milliseconds(200)})) {
    EXPECT_EQ(status.code(), Code::Timeout);
    EXPECT_EQ(status.message(), "ncclCommSplit: not all of ranks 3, 7 came within 200 ms");
  }
  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_F(CclSplit, AnAbortOfTheDeviceEndsTheCreation) {
  Knob stays("nccl-no-split-on", 2);
  std::thread aborts([&] {
    std::this_thread::sleep_for(milliseconds(50));
    for (const auto &state : states)
      state->abort(Status(Code::Io, "the cable"));
  });
  auto start = Clock::now();
  for (const Status &status : create({seconds(60)}))
    EXPECT_EQ(status.message(), "the cable");
  EXPECT_LT(Clock::now() - start, seconds(10));
  aborts.join();
}

TEST_F(Ccl, APeerThatDoesNotWarmUpEndsTheWarmUp) {
  for (const Status &status : create())
    ASSERT_TRUE(status.ok()) << status.message();
  auto start = Clock::now();
  Status status = made[0]->warmUp({milliseconds(200)});
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_THAT(status.message(), HasSubstr("ranks 3, 7 did not arrive within 200 ms"));
  EXPECT_LT(Clock::now() - start, seconds(5));
  EXPECT_EQ(sum(0, nullptr, nullptr).message(), status.message()); // and nobody comes in any more
}

/// Ranks wait for as long as a minute, and after a while the bootstrap loses rank 7.
core::WaitLimit losing7() {
  return {seconds(60), [since = Clock::now()] {
            return Clock::now() - since < milliseconds(100)
                       ? Status()
                       : Status(Code::Timeout, "lost rank 7: it has sent no heartbeat for 10 s");
          }};
}

/// The steps in which a channel is made, one rank late in each: a lost rank ends them at once.
TEST_F(Ccl, ALostRankEndsTheCreation) {
  auto start = Clock::now();
  Status status = Communicator::create(states[0], newId(), {3, 7}, 0, losing7()).status();
  EXPECT_EQ(status.message(),
            "ncclCommInitRankConfig: lost rank 7: it has sent no heartbeat for 10 s");
  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_F(CclSplit, ALostRankEndsTheSplit) {
  Knob stays("nccl-no-split-on", 2);
  auto start = Clock::now();
  for (const Status &status : create(losing7()))
    EXPECT_EQ(status.message(), "ncclCommSplit: lost rank 7: it has sent no heartbeat for 10 s");
  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_F(Ccl, ALostRankEndsTheWarmUp) {
  for (const Status &status : create())
    ASSERT_TRUE(status.ok()) << status.message();
  auto start = Clock::now();
  EXPECT_EQ(made[0]->warmUp(losing7()).message(), "the first messages between ranks 3, 7: lost "
                                                  "rank 7: it has sent no heartbeat for 10 s");
  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_F(Ccl, AnAbortLetsGoOfWhoeverIsInACall) {
  createAndWarmUp();
  gpu::StreamHandle stream = nullptr;
  ASSERT_TRUE(states[0]->driver->createStream(&stream, StreamPriority::Normal).ok());
  Knob hold("nccl-hold", 1);
  float value = 1;
  Status ended;
  std::thread inside([&] { ended = sum(0, stream, &value); });
  ASSERT_TRUE(waitFor([] { return fakeNumber("nccl-held") == 1; }));
  EXPECT_TRUE(made[0]->poll().ok());
  auto start = Clock::now();
  made[0]->abort(Status(Code::Timeout, "the watchdog's words"));
  made[0]->abort(Status(Code::Aborted, "of no interest any more"));
  inside.join();
  EXPECT_LT(Clock::now() - start, seconds(5));
  EXPECT_EQ(ended.message(), "the watchdog's words");
  EXPECT_TRUE(made[0]->poll().ok());
  // NCCL's thread, which has the stream, ends by the abort, not by the end of `hold`.
  EXPECT_TRUE(waitFor([] { return fakeNumber("nccl-held") == 0; }));
  EXPECT_TRUE(states[0]->driver->destroyStream(stream).ok());
}

TEST_F(Ccl, AnAbortEndsKernelsThatWait) {
  createAndWarmUp();
  gpu::StreamHandle stream = nullptr;
  ASSERT_TRUE(states[0]->driver->createStream(&stream, StreamPriority::Normal).ok());
  float value = 1;
  ASSERT_TRUE(sum(0, stream, &value).ok());
  made[0]->abort(Status(Code::Aborted, "alone"));
  EXPECT_TRUE(states[0]->driver->destroyStream(stream).ok()); // waits
  EXPECT_EQ(value, 1);
}

TEST_F(Ccl, APollSeesAnError) {
  createAndWarmUp();
  Knob error("nccl-error-on", 1);
  EXPECT_THAT(made[0]->poll().message(), HasSubstr("NCCL: the fake NCCL refuses"));
  EXPECT_TRUE(made[1]->poll().ok());
}

// Without a child, whoever is in a call asks for errors itself.
TEST_F(CclSplit, APollSeesAnErrorWhileAThreadIsInACall) {
  createAndWarmUp();
  gpu::StreamHandle stream = nullptr;
  ASSERT_TRUE(states[0]->driver->createStream(&stream, StreamPriority::Normal).ok());
  Knob hold("nccl-hold", 1);
  float value = 1;
  std::thread inside([&] { sum(0, stream, &value).ignore(); });
  ASSERT_TRUE(waitFor([] { return fakeNumber("nccl-held") == 1; }));
  Status seen;
  {
    Knob error("nccl-error-on", 1);
    seen = made[0]->poll();
  }
  EXPECT_EQ(seen.code(), Code::Io);
  made[0]->abort(seen);
  inside.join();
  EXPECT_TRUE(states[0]->driver->destroyStream(stream).ok());
}

TEST_F(Ccl, LeavingAnAbortedDeviceAborts) {
  createAndWarmUp();
  states[0]->abort(Status(Code::Io, "the cable"));
  auto start = Clock::now();
  made[0].reset();
  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_F(Ccl, AChildThatCannotLeaveIsAborted) {
  createAndWarmUp();
  Knob fails("nccl-no-finalize-on", 1);
  made[0].reset();
  EXPECT_TRUE(waitFor([] { return fakeNumber("nccl-live") == (api().splits ? 2 : 1); }));
}

/// A rank leaves in time, whatever NCCL does where it destroys a communicator, and says so.
TEST_F(Ccl, DestroyingThatHangsOrFails) {
  for (const char *fault : {"hang-root", "fail-root", "hang-child", "fail-child"}) {
    SCOPED_TRACE(fault);
    createAndWarmUp();
    std::string said;
    made[0]->patience = milliseconds(300);
    made[0]->warn = [&](const std::string &text) { said += text + "\n"; };
    auto start = Clock::now();
    {
      Knob has(fault, 1);
      made[0].reset();
      EXPECT_LT(Clock::now() - start, seconds(5));
    }
    bool hasChild = api().splits;
    if (hasChild || std::string(fault).find("child") == std::string::npos) {
      EXPECT_THAT(said, HasSubstr("channel ccl: rank 3: ncclCommDestroy: "));
    }
    made.clear();
  }
}

TEST_F(Ccl, AnAbortThatHangs) {
  createAndWarmUp();
  made[0]->patience = milliseconds(300);
  auto start = Clock::now();
  Knob hangs("hang-abort", 1);
  made[0]->abort(Status(Code::Io, "the cable"));
  made[0].reset();
  EXPECT_GE(Clock::now() - start, milliseconds(300)); // it hung
  EXPECT_LT(Clock::now() - start, seconds(5));
}

TEST_F(Ccl, AGroupOfOne) {
  auto one = Communicator::create(states[0], newId(), {5}, 0, {seconds(20)});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_TRUE((*one)->warmUp({seconds(20)}).ok());
}

/// One all-reduce among two.
ProgramSpec allReduce() {
  ProgramSpec spec(2);
  uint32_t in = spec.stacked("in", false, DType::F32, {16});
  uint32_t out = spec.stacked("out", true, DType::F32, {16});
  for (RankSpec &rank : spec.ranks) {
    uint32_t from = rank.view(rank.argument(in, 64), DType::F32, {16});
    uint32_t to = rank.view(rank.argument(out, 64), DType::F32, {16});
    rank.collective(0, rank.channel({0, 1}, Collectives), CollectiveKind::AllReduce, to, from);
  }
  return spec;
}

/// The number of communicators of three instances of a program, which run in turn.
uint64_t communicatorsOf(const ProgramSpec &spec) {
  Knob ids("nccl-ids", 0);
  auto runThree = [&](Context &context, Instance &first) -> Status {
    std::vector<std::unique_ptr<Instance, InstanceDeleter>> others;
    std::vector<Instance *> all{&first};
    for (int i = 0; i < 2; ++i) {
      TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(spec.encode()));
      TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(context.rank()));
      TANDEM_ASSIGN_OR_RETURN(auto other, Instance::create(context, program));
      all.push_back(others.emplace_back(std::move(other)).get());
    }
    std::vector<std::vector<std::unique_ptr<Memory>>> memory;
    for (Instance *instance : all) {
      TANDEM_ASSIGN_OR_RETURN(auto bound, bindAll(context, *instance));
      memory.push_back(std::move(bound));
    }
    for (int turn = 0; turn < 4; ++turn)
      for (Instance *instance : all)
        TANDEM_RETURN_IF_ERROR(instance->run());
    return Status();
  };
  for (const Status &status : runRanks(spec, "ccl", runThree))
    EXPECT_TRUE(status.ok()) << status.message();
  return fakeNumber("nccl-ids");
}

TEST_F(Ccl, ProgramsShareCommunicators) {
  for (const char *graphs : {"0", "1"}) {
    Variable mode("TANDEM_GRAPH", graphs);
    EXPECT_EQ(communicatorsOf(allReduce()), 1u);
    // Two channels may be busy at the same time.
    ProgramSpec both = allReduce();
    for (RankSpec &rank : both.ranks) {
      uint32_t view = rank.view(rank.arena(64), DType::F32, {16});
      rank.collective(0, rank.channel({0, 1}, Collectives), CollectiveKind::AllReduce, view, view);
    }
    EXPECT_EQ(communicatorsOf(both), 2u);
  }
}

/// A rank that stays in NCCL, on the host, while it enqueues a run or captures it: the run ends on
/// both, and says where it was.
void expectHeldRunsEnd(const char *graphs) {
  Variable mode("TANDEM_GRAPH", graphs);
  ProgramSpec spec = allReduce();
  auto start = Clock::now();
  std::unique_ptr<Knob> hold;
  auto ended = runRanks(spec, "ccl",
                        [&](Context &context, Instance &instance) -> Status {
                          TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
                          if (context.rank() == 0)
                            hold = std::make_unique<Knob>("nccl-hold", 1);
                          return instance.run();
                        },
                        {milliseconds(2000)});
  hold.reset();
  EXPECT_LT(Clock::now() - start, seconds(20));
  for (const Status &status : ended) {
    EXPECT_TRUE(status.code() == Code::Timeout || // or heard of the other's
                status.message().find("aborted, and data") != std::string::npos)
        << status.message();
    EXPECT_THAT(status.message(), HasSubstr("no end after 2000 ms"));
  }
  // The one that is in a call knows so, other than a graph that runs.
  EXPECT_THAT(ended[0].message(), HasSubstr("command 0 (collective all_reduce"));
}

TEST_F(Ccl, ARunThatIsHeldWhileItIsEnqueuedEnds) { expectHeldRunsEnd("0"); }
TEST_F(Ccl, ARunThatIsHeldWhileItIsCapturedEnds) { expectHeldRunsEnd("1"); }

TEST_F(Ccl, ATrialCaptureThatIsHeldEnds) {
  Variable mode("TANDEM_GRAPH", "1");
  Knob calls("nccl-calls", 0);
  auto prepared = [](Context &, Instance &) { return Status(); };
  for (const Status &status : runRanks(allReduce(), "ccl", prepared))
    EXPECT_TRUE(status.ok()) << status.message();
  // The last call of preparing is that of the capture.
  Knob from("nccl-hold-from", fakeNumber("nccl-calls"));
  fakeNumber("nccl-calls") = 0;
  Knob hold("nccl-hold", 1);
  auto start = Clock::now();
  auto ended = runRanks(allReduce(), "ccl", prepared, {milliseconds(2000)});
  EXPECT_LT(Clock::now() - start, seconds(20));
  EXPECT_THAT(ended[0].message(), HasSubstr("no end after 2000 ms"));
  EXPECT_THAT(ended[0].message(), HasSubstr("command 0 (collective all_reduce"));
  EXPECT_FALSE(ended[1].ok());
}

/// Rank 1 hands on to rank 2 what it has of rank 0, which has given up and is in no group of rank
/// 2's. Rank 1 itself has not looked yet.
std::vector<Status> handOn(bool apart) {
  Variable mode("TANDEM_GRAPH", "0");
  ProgramSpec spec(3);
  for (uint32_t r = 0; r < 3; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t view = rank.view(rank.arena(64), DType::F32, {16});
    using Group = std::vector<uint32_t>;
    uint16_t first = rank.channel(r == 2 ? Group{} : Group{0, 1}, Collectives);
    uint16_t second = rank.channel(r == 0 ? Group{} : Group{1, 2}, Collectives);
    if (r != 2)
      rank.collective(0, first, CollectiveKind::AllReduce, view, view);
    if (r != 0)
      rank.collective(0, second, CollectiveKind::AllReduce, view, view);
  }
  auto waitFor = [](const std::atomic<bool> &until) {
    for (auto giveUp = Clock::now() + seconds(20); !until && Clock::now() < giveUp;)
      std::this_thread::sleep_for(milliseconds(1));
    return until.load();
  };
  std::atomic<bool> ended[3] = {};
  auto ofRank = [&](Context &context, Instance &instance) -> Status {
    uint32_t r = context.bootstrap().rank();
    if (r > 0 && !waitFor(ended[0]))
      return Status(Code::Internal, "rank 0 has no end");
    if (r == 1) {
      TANDEM_RETURN_IF_ERROR(instance.enqueue(nullptr));
      waitFor(ended[2]);
      return instance.wait();
    }
    Status status = instance.run();
    ended[r] = true;
    return status;
  };
  return runRanks(spec, "ccl", ofRank, {milliseconds(2000), apart});
}

/// Ranks 1 and 2 find it on rank 0's board, or the bootstrap tells them, whichever comes first.
void expectNotBelieved(bool apart) {
  auto results = handOn(apart);
  EXPECT_EQ(results[0].code(), Code::Timeout) << results[0].message();
  for (int r : {1, 2}) {
    EXPECT_FALSE(results[r].ok());
    EXPECT_THAT(results[r].message(),
                AnyOf(HasSubstr("rank 0 aborted, and data received from it since may be wrong: "),
                      HasSubstr("rank 0: no end after")));
    EXPECT_THAT(results[r].message(), HasSubstr("no end after 2000 ms"));
  }
}

TEST_F(Ccl, WhatComesThroughAnotherIsNotBelieved) { expectNotBelieved(false); }
/// The same, where the ranks share no memory: only the bootstrap says so.
TEST_F(Ccl, WhatComesFromAnotherHostIsNotBelieved) { expectNotBelieved(true); }

/// A rank that is through with its runs gives nothing up, even if NCCL does not let it leave.
TEST_F(Ccl, WhoLeavesEarlySaysNothing) {
  Knob fails("nccl-no-finalize-on", 2);
  auto ofRank = [&](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    if (context.bootstrap().rank() == 1)
      return instance.run();
    TANDEM_RETURN_IF_ERROR(instance.enqueue(nullptr));
    EXPECT_TRUE(waitFor([] { return fakeNumber("nccl-live") == (api().splits ? 2 : 1); }));
    return instance.wait();
  };
  for (const Status &status : runRanks(allReduce(), "ccl", ofRank))
    EXPECT_TRUE(status.ok()) << status.message();
}

} // namespace
