//===- OneSidedTest.cpp - puts and signals by NCCL --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Over an NCCL that stands in: it has one counter for each pair of ranks, reads only what it knows,
// and takes nothing but index 0 of signals and contexts.
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"
#include "Device/Gpu/FakeGpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;
using testing::HasSubstr;

namespace {

const bool namedLibrary = [] {
  ::setenv("TANDEM_NCCL_LIBRARY", TANDEM_FAKE_LIBRARY, 1);
  ::setenv("TANDEM_FAKE_GPUS", "3", 1);
  return true;
}();

/// Without them there is another test, of the same name with "No".
class CclOneSided : public testing::Test {
protected:
  void SetUp() override {
    auto api = ccl::Api::get(gpu::kCuda);
    ASSERT_TRUE(namedLibrary && api.ok()) << api.status().message();
    if (!(*api)->oneSided.complete())
      GTEST_SKIP() << "TANDEM_NCCL_ONE_SIDED=0";
    misuse = fakeNumber("nccl-misuse");
  }
  void TearDown() override { EXPECT_EQ(fakeNumber("nccl-misuse"), misuse); }

  int64_t misuse = 0;
};

/// Each rank puts its rows of `in` into the next rank, which copies them to `out`.
/// `strided`: rows of 4 of the 8 columns that the memory has; `stream`: of the second signal.
ProgramSpec ring(uint32_t ranks, bool strided = false, uint16_t stream = 1) {
  ProgramSpec spec(ranks);
  uint32_t in = spec.stacked("in", false, DType::F32, {4, 4});
  uint32_t out = spec.stacked("out", true, DType::F32, {4, 4});
  std::vector<uint32_t> everybody;
  for (uint32_t r = 0; r < ranks; ++r)
    everybody.push_back(r);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    rank.numStreams = 3;
    uint32_t next = (r + 1) % ranks;
    uint32_t from = rank.view(rank.argument(in, 64), DType::F32, {4, 4});
    uint32_t to = rank.view(rank.argument(out, 64), DType::F32, {4, 4});
    uint32_t buffer = rank.symmetric(128);
    uint32_t space = strided ? rank.view(buffer, DType::F32, {4, 4}, {8, 1}, 0)
                             : rank.view(buffer, DType::F32, {4, 4});
    uint16_t channel = rank.channel(everybody, OneSided);
    rank.slots = {2};
    rank.sync(1, 0);
    rank.sync(2, 0);
    rank.put(1, channel, space, from, next);
    rank.signal(1, channel, next, 0, 1);
    rank.signal(stream, channel, next, 0, 2);
    rank.waitSignal(0, channel, 0, 1);
    rank.waitSignal(0, channel, 0, 2);
    rank.copy(0, to, space);
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  return spec;
}

/// Runs on what is bound, each with other values; whether results are the neighbour's. The ranks
/// meet after each run: none tells the one before it that it has read, so with three ranks that one
/// could be two runs ahead, and put into the same half again.
Status check(const std::vector<std::unique_ptr<Memory>> &memory, Context &context,
             Instance &instance, int run) {
  uint32_t previous = (context.rank() + context.worldSize() - 1) % context.worldSize();
  float values[16], found[16] = {};
  for (int i = 0; i < 16; ++i)
    values[i] = static_cast<float>(1000 * run + 100 * static_cast<int>(context.rank()) + i);
  TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), values, sizeof values));
  TANDEM_RETURN_IF_ERROR(instance.run());
  TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
  TANDEM_RETURN_IF_ERROR(context.device().download(found, memory[1]->data(), sizeof found));
  for (int i = 0; i < 16; ++i)
    if (found[i] != static_cast<float>(1000 * run + 100 * static_cast<int>(previous) + i))
      return Status(Code::Internal, "run " + std::to_string(run) + ", element " +
                                        std::to_string(i) + ": found " + std::to_string(found[i]));
  return Status();
}

Status fiveRuns(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  for (int run = 0; run < 5; ++run)
    TANDEM_RETURN_IF_ERROR(check(memory, context, instance, run));
  return Status();
}

/// All ranks refuse the program, for the same reason.
void expectAll(const ProgramSpec &spec, const std::string &reason) {
  auto nothing = [](Context &, Instance &) { return Status(); };
  for (const Status &status : runRanks(spec, "ccl", nothing)) {
    EXPECT_EQ(status.code(), Code::Unsupported) << status.message();
    EXPECT_THAT(status.message(),
                HasSubstr("NCCL has one counter for each pair of ranks: " + reason));
  }
}

} // namespace

TEST_F(CclOneSided, Ring) {
  for (uint32_t ranks : {2u, 3u}) {
    int64_t before = fakeNumber("nccl-puts");
    expectAllOk(runRanks(ring(ranks), "ccl", fiveRuns));
    EXPECT_EQ(fakeNumber("nccl-puts") - before, 5 * ranks);
  }
}

TEST_F(CclOneSided, RowsArePutOneByOne) {
  int64_t before = fakeNumber("nccl-puts");
  expectAllOk(runRanks(ring(2, /*strided=*/true), "ccl", fiveRuns));
  EXPECT_EQ(fakeNumber("nccl-puts") - before, 5 * 2 * 4);
}

TEST_F(CclOneSided, InstancesThatShareMemoryMeet) {
  ProgramSpec spec = ring(3);
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  expectAllOk(runRanks(spec, "ccl", [&](Context &context, Instance &first) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto second,
                            Instance::create(context, *(*file)->rankProgram(context.rank())));
    TANDEM_ASSIGN_OR_RETURN(auto firsts, bindAll(context, first));
    TANDEM_ASSIGN_OR_RETURN(auto seconds, bindAll(context, *second));
    int run = 0;
    for (int times : {1, 1, 2, 1, 3})
      for (int i = 0; i < times; ++i) {
        TANDEM_RETURN_IF_ERROR(check(firsts, context, first, run++));
        if (i == 0)
          TANDEM_RETURN_IF_ERROR(check(seconds, context, *second, run++));
      }
    return Status();
  }));
}

TEST_F(CclOneSided, OneStreamForEachPair) {
  expectAll(ring(2, false, 2), "rank 1 raises that of rank 0 in streams 1 and 2");
}

TEST_F(CclOneSided, OneRankForEachSlot) {
  ProgramSpec spec = ring(3);
  // Rank 2 raises the slot of rank 1, too.
  spec.ranks[2].signal(1, 0, 1, 0, 1);
  expectAll(spec, "ranks 0 and 2 raise slot 0 of rank 1");
}

TEST_F(CclOneSided, WhatIsSentIsAwaited) {
  ProgramSpec spec = ring(2);
  spec.ranks[0].slots = spec.ranks[1].slots = {2, 1};
  spec.ranks[0].signal(1, 0, 1, 1, 1);
  expectAll(spec, "rank 1 does not wait for all that rank 0 sends in a run");
}

TEST_F(CclOneSided, ASignalThatDoesNotComeIsATimeout) {
  auto ended =
      runRanks(ring(2), "ccl",
               [](Context &context, Instance &instance) -> Status {
                 TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
                 return context.rank() == 0 ? instance.run() : context.bootstrap().barrier();
               },
               {std::chrono::milliseconds(1000)});
  EXPECT_THAT(ended[0].message(), HasSubstr("no end after 1000 ms"));
  EXPECT_THAT(ended[0].message(), HasSubstr("wait_signal"));
}

TEST(CclNoOneSided, ProgramsNeedAnotherChannel) {
  auto api = ccl::Api::get(gpu::kCuda);
  ASSERT_TRUE(api.ok()) << api.status().message();
  if ((*api)->oneSided.complete())
    GTEST_SKIP() << "NCCL has them: see the run with TANDEM_NCCL_ONE_SIDED=0";
  auto nothing = [](Context &, Instance &) { return Status(); };
  for (const Status &status : runRanks(ring(2), "ccl", nothing))
    EXPECT_THAT(status.message(), HasSubstr("needs one_sided, this context has ccl"));
}
