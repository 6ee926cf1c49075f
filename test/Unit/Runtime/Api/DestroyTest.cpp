//===- DestroyTest.cpp - destroying is local --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Channel.h"

#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int64_t kCount = 16;
constexpr uint64_t kBytes = kCount * sizeof(float);

/// Ranks 0 and 1 of `ranks` put x to each other and copy what has arrived to y. The others take no
/// part. Then rank 1 says so to rank 0, which does not wait for it.
std::string exchange(uint32_t ranks) {
  ProgramSpec spec(ranks);
  spec.name = "exchange";
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount}),
           y = spec.stacked("y", true, DType::F32, {kCount});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.argument(x, kBytes), DType::F32, {kCount}),
             to = rank.view(rank.argument(y, kBytes), DType::F32, {kCount}),
             space = rank.view(rank.symmetric(kBytes), DType::F32, {kCount});
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots = {1, 1};
    rank.put(0, channel, space, from, 1 - r);
    rank.signal(0, channel, 1 - r, 0, 1);
    rank.waitSignal(0, channel, 0, 1);
    rank.copy(0, to, space);
    if (r == 1) {
      for (int i = 0; i < 20000; ++i) // rank 0 has ended its run before
        rank.copy(0, to, space);
      rank.signal(0, channel, 0, 1, 1);
    }
  }
  for (uint32_t r = 2; r < ranks; ++r) {
    ChannelSpec none;
    none.name = "ch";
    none.capabilities = OneSided;
    spec.ranks[r].channels.push_back(none);
    spec.ranks[r].slots = {1, 1};
    for (uint32_t i : {x, y})
      spec.ranks[r].shards[i].present = false;
  }
  return spec.encode();
}

/// One rank's handles; destroys what is left of them.
struct Rank {
  Rank(const std::string &channel, tandem_local_world *world, uint32_t rank,
       uint32_t timeoutMs = 20000)
      : rank(rank) {
    tandem_context_options options{};
    options.struct_size = sizeof options;
    options.channels = channel.c_str();
    options.local_world = world;
    options.local_world_rank = rank;
    options.timeout_ms = timeoutMs;
    check(tandem_context_create(&options, &context));
  }
  ~Rank() {
    destroyInstance();
    tandem_context_destroy(context);
  }
  bool check(tandem_code code) {
    EXPECT_EQ(code, TANDEM_OK) << "rank " << rank << ": " << tandem_last_error(context);
    return code == TANDEM_OK;
  }
  bool prepare(const std::string &file) {
    tandem_program *program = nullptr;
    bool ok = check(tandem_program_load_memory(context, file.data(), file.size(), &program)) &&
              check(tandem_prepare(context, program, &instance));
    tandem_program_destroy(program);
    return ok;
  }
  bool enqueue() {
    void *data[] = {x.data(), y.data()};
    tandem_run_options run{sizeof run, nullptr, data, nullptr, nullptr, nullptr};
    return check(tandem_enqueue(instance, &run));
  }
  bool run() { return enqueue() && check(tandem_wait(instance)); }
  void destroyInstance() {
    tandem_instance_destroy(instance);
    instance = nullptr;
  }

  const uint32_t rank;
  tandem_context *context = nullptr;
  tandem_instance *instance = nullptr;
  std::vector<float> x = std::vector<float>(kCount, static_cast<float>(rank + 1)),
                     y = std::vector<float>(kCount);
};

/// By channel.
class CDestroy : public testing::TestWithParam<const char *> {
public:
  template <typename Body> void onRanks(uint32_t ranks, Body body) {
    tandem_local_world *world = nullptr;
    ASSERT_EQ(tandem_local_world_create(ranks, 5000, &world), TANDEM_OK);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] { body(world, r); });
    for (std::thread &thread : threads)
      thread.join();
    tandem_local_world_destroy(world);
  }
};

TEST_P(CDestroy, ARankOutsideOfTheMesh) {
  std::string file = exchange(3);
  onRanks(3, [&](tandem_local_world *world, uint32_t r) {
    Rank rank(GetParam(), world, r);
    for (int program = 0; program < 2; ++program) {
      if (!rank.prepare(file))
        return;
      for (int run = 0; run < 3; ++run)
        if (!rank.run())
          return;
      if (r < 2) {
        EXPECT_EQ(rank.y.back(), static_cast<float>(2 - r));
      }
      rank.destroyInstance();
    }
  });
}

TEST_P(CDestroy, RanksDestroyAtDifferentTimes) {
  std::string file = exchange(2);
  std::promise<void> destroyed;
  onRanks(2, [&](tandem_local_world *world, uint32_t r) {
    Rank rank(GetParam(), world, r);
    if (!rank.prepare(file))
      return;
    rank.run();
    // Rank 1 keeps its instance until rank 0 has destroyed its own, and even runs on with another.
    if (r == 1)
      destroyed.get_future().wait();
    tandem_instance *first = rank.instance;
    rank.instance = nullptr;
    if (r == 0) {
      tandem_instance_destroy(first);
      destroyed.set_value();
    }
    for (int program = 0; program < 2 && rank.prepare(file); ++program) {
      EXPECT_TRUE(rank.run());
      EXPECT_EQ(rank.y.back(), static_cast<float>(2 - r));
      rank.destroyInstance();
    }
    if (r == 1)
      tandem_instance_destroy(first);
  });
}

TEST_P(CDestroy, WithARunInFlight) {
  std::string file = exchange(2);
  std::promise<void> destroyed;
  onRanks(2, [&](tandem_local_world *world, uint32_t r) {
    Rank rank(GetParam(), world, r);
    if (!rank.prepare(file))
      return;
    if (r == 1)
      destroyed.get_future().wait();
    if (!rank.enqueue())
      return;
    auto start = Clock::now();
    rank.destroyInstance(); // rank 0's run waits for rank 1's, which has not begun
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
    if (r == 0)
      destroyed.set_value();
    // The next program's prepare lets the runs end.
    if (!rank.prepare(file))
      return;
    EXPECT_EQ(rank.y.back(), static_cast<float>(2 - r));
    rank.run();
  });
}

TEST_P(CDestroy, AContextThatEndsFirst) {
  std::string file = exchange(2);
  onRanks(2, [&](tandem_local_world *world, uint32_t r) {
    Rank rank(GetParam(), world, r);
    // Rank 0 leaves at once; rank 1 still signals to it.
    if (rank.prepare(file))
      rank.run();
  });
}

TEST_P(CDestroy, APoisonedRank) {
  std::string file = exchange(2);
  onRanks(2, [&](tandem_local_world *world, uint32_t r) {
    Rank rank(GetParam(), world, r, 300);
    if (!rank.prepare(file))
      return;
    auto start = Clock::now();
    if (r == 0) { // rank 1 does not run
      void *data[] = {rank.x.data(), rank.y.data()};
      tandem_run_options run{sizeof run, nullptr, data, nullptr, nullptr, nullptr};
      tandem_code code = tandem_enqueue(rank.instance, &run); // tells it if rank 1 has left by now
      if (code == TANDEM_OK)
        code = tandem_wait(rank.instance);
      EXPECT_NE(code, TANDEM_OK); // a timeout, or rank 1 has left
    }
    rank.destroyInstance();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(3));
  });
}

/// Rank 2 takes no part in the run that fails. All handles go in another order on each rank.
TEST_P(CDestroy, APoisonedRankWithOneOutsideOfTheMesh) {
  std::string file = exchange(3);
  onRanks(3, [&](tandem_local_world *world, uint32_t r) {
    Rank rank(GetParam(), world, r, 300);
    tandem_program *program = nullptr;
    tandem_instance *second = nullptr;
    if (!rank.prepare(file) ||
        !rank.check(tandem_program_load_memory(rank.context, file.data(), file.size(), &program)))
      return;
    rank.check(tandem_prepare(rank.context, program, &second));
    auto start = Clock::now();
    void *data[] = {rank.x.data(), rank.y.data()};
    tandem_run_options run{sizeof run, nullptr, data, nullptr, nullptr, nullptr};
    tandem_code code =
        r == 1 ? TANDEM_OK : tandem_enqueue(rank.instance, &run); // rank 1 does not run
    if (code == TANDEM_OK && r != 1)
      code = tandem_wait(rank.instance);
    EXPECT_TRUE(r != 0 || code != TANDEM_OK); // a timeout, or rank 1 has left
    constexpr int kOrders[3][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
    for (int step : kOrders[r])
      switch (step) {
      case 0:
        rank.destroyInstance();
        break;
      case 1:
        tandem_program_destroy(program);
        break;
      case 2:
        tandem_instance_destroy(second);
        break;
      default:
        tandem_context_destroy(rank.context);
        rank.context = nullptr;
      }
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10)) << "rank " << r;
  });
}

TEST_P(CDestroy, TheNextCallsReportAFailedRun) {
  std::string file = exchange(2);
  std::promise<void> done;
  onRanks(2, [&](tandem_local_world *world, uint32_t r) {
    Rank rank(GetParam(), world, r, 300);
    bool prepared = rank.prepare(file);
    if (r == 1)
      return done.get_future().wait(); // it does not run
    if (prepared && rank.enqueue()) {
      int ended = -1;
      EXPECT_EQ(tandem_query(rank.instance, &ended), TANDEM_OK);
      EXPECT_EQ(ended, 0);
      auto giveUp = Clock::now() + std::chrono::seconds(10);
      tandem_code code = TANDEM_OK;
      while (code == TANDEM_OK && Clock::now() < giveUp)
        code = tandem_query(rank.instance, &ended);
      EXPECT_EQ(code, TANDEM_TIMEOUT) << tandem_last_error(rank.context);
      EXPECT_NE(std::string(tandem_last_error(rank.context)).find("wait_signal"), std::string::npos)
          << tandem_last_error(rank.context);
      EXPECT_EQ(tandem_enqueue(rank.instance, nullptr), TANDEM_TIMEOUT);
      EXPECT_EQ(tandem_wait(rank.instance), TANDEM_TIMEOUT);
      EXPECT_EQ(tandem_context_health(rank.context), TANDEM_TIMEOUT);
    }
    done.set_value();
  });
}

INSTANTIATE_TEST_SUITE_P(, CDestroy, testing::Values("local", "ucx"),
                         [](const auto &test) { return std::string(test.param); });

} // namespace
