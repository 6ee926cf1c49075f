//===- AllocationTest.cpp - a steady run allocates nothing on the host ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/CountAllocations.h"
#include "Support/ProgramSpec.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"

#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr uint32_t kRanks = 4;
constexpr int64_t kSize = 8;
constexpr uint64_t kBytes = kSize * kSize * 4;

/// One of each kind of command, on two streams.
ProgramSpec everything() {
  ProgramSpec spec(kRanks);
  spec.name = "everything";
  uint32_t in = spec.stacked("in", false, DType::F32, {kSize, kSize});
  uint32_t out = spec.stacked("out", true, DType::F32, {kSize, kSize});
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < kRanks; ++r)
    all.push_back(r);
  for (uint32_t r = 0; r < kRanks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t next = (r + 1) % kRanks, previous = (r + kRanks - 1) % kRanks;
    auto matrix = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {kSize, kSize}); };
    uint32_t x = matrix(rank.argument(in, kBytes)), y = matrix(rank.argument(out, kBytes));
    uint32_t a = matrix(rank.arena(kBytes)), b = matrix(rank.arena(kBytes));
    uint32_t space = matrix(rank.symmetric(kBytes));
    uint32_t wideBuffer = rank.arena(kRanks * kBytes);
    uint32_t wide = rank.view(wideBuffer, DType::F32, {kRanks, kSize, kSize});
    uint16_t messages = rank.channel(all, TwoSided, "messages");
    uint16_t signals = rank.channel(all, OneSided, "signals");
    uint16_t collectives = rank.channel(all, Collectives, "collectives");
    rank.slots = {1, 1};
    rank.sync(1, 0);
    rank.group(1, messages, 2);
    rank.recv(1, messages, a, previous, 0);
    rank.send(1, messages, x, next, 0);
    rank.sync(0, 1);
    rank.put(0, signals, space, x, next);
    rank.signal(0, signals, next, 0, 1);
    rank.waitSignal(0, signals, 0, 1);
    rank.copy(0, b, space);
    rank.signal(0, signals, previous, 1, 1);
    rank.waitSignal(0, signals, 1, 1);
    rank.collective(0, collectives, CollectiveKind::AllGather, wide, b);
    rank.collective(0, collectives, CollectiveKind::ReduceScatter, b, wide);
    rank.collective(0, collectives, CollectiveKind::AllReduce, b, b);
    rank.add(sp::CommandKind::matmul, 0, {y, a, x});
    rank.add(sp::CommandKind::accumulate, 0, {b, y});
    CommandSpec &reduce = rank.add(sp::CommandKind::reduce, 0, {a, wide});
    reduce.value = 1; // over the first dimension
    rank.kernels.push_back(
        {"twice", sp::KernelFormat::expression, "cpu",
         encodeExpression(
             1, 1, {{sp::ExprOp::load, 0}, {sp::ExprOp::add, 0, 0}, {sp::ExprOp::store, 1, 0}})});
    rank.kernels.back().outputs = 1;
    rank.launch(0, 0, {a, b});
  }
  return spec;
}

Status bindBoth(Instance &instance, std::vector<float> &x, std::vector<float> &y) {
  Layout layout = Layout::dense(DType::F32, {kSize, kSize});
  TANDEM_RETURN_IF_ERROR(instance.bind(0, {x.data(), layout}, kBytes));
  return instance.bind(1, {y.data(), layout}, kBytes);
}

/// Runs with two sets of addresses in turn. Counts what all ranks allocate after a few runs.
Status runRank(Instance &instance, std::atomic<uint32_t> &arrived) {
  std::vector<float> x(kSize * kSize, 1), y(kSize * kSize), otherX(x), otherY(y);
  return countRuns(
      kRanks, arrived,
      [&](unsigned run) -> Status {
        TANDEM_RETURN_IF_ERROR(run % 4 < 2 ? bindBoth(instance, x, y)
                                           : bindBoth(instance, otherX, otherY));
        return instance.enqueue();
      },
      [&] { return instance.wait(); });
}

TEST(Allocations, OperatorNewIsCounted) {
  uint64_t before = allocations;
  counting = true;
  // A compiler may remove a pair of new and delete, but not a call of the function.
  ::operator delete(::operator new(1));
  counting = false;
  EXPECT_EQ(allocations - before, 1u);
}

TEST(Allocations, ASteadyRunHasNone) {
  auto file = ProgramFile::fromMemory(everything().encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto world = LocalWorld::create(kRanks, std::chrono::seconds(20));
  std::vector<Status> ended(kRanks);
  std::atomic<uint32_t> arrived{0};
  auto rank = [&](uint32_t r) -> Status {
    ContextOptions options;
    options.device = createCpuDevice();
    options.transports.push_back(world->transport(r));
    options.bootstrap = world->bootstrap(r);
    TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
    TANDEM_ASSIGN_OR_RETURN(auto program, (*file)->rankProgram(r));
    TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, program));
    return runRank(*instance, arrived);
  };
  uint64_t before = allocations;
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] { ended[r] = rank(r); });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : ended)
    EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(allocations - before, 0u);
}

} // namespace
