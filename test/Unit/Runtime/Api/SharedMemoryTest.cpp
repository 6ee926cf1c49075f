//===- SharedMemoryTest.cpp - programs that use the same memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Channel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr size_t kLayers = 32;
constexpr uint64_t kSignalBytes = uint64_t(32) << 10;

/// Bytes that are allocated now, and a limit.
class Counter {
public:
  tandem_allocator hooks() { return {sizeof(tandem_allocator), allocate, deallocate, this, 0}; }
  uint64_t bytes(tandem_memory_kind kind) {
    std::lock_guard<std::mutex> lock(mutex);
    return live[kind];
  }

  uint64_t most = ~uint64_t(0); ///< bytes of a block

private:
  static void *allocate(void *user, uint64_t bytes, tandem_memory_kind kind) {
    auto &counter = *static_cast<Counter *>(user);
    std::lock_guard<std::mutex> lock(counter.mutex);
    if (bytes > counter.most)
      return nullptr;
    counter.live[kind] += bytes;
    return std::aligned_alloc(64, bytes);
  }
  static void deallocate(void *user, void *memory, uint64_t bytes, tandem_memory_kind kind) {
    auto &counter = *static_cast<Counter *>(user);
    std::lock_guard<std::mutex> lock(counter.mutex);
    counter.live[kind] -= bytes;
    std::free(memory);
  }

  std::mutex mutex;
  std::map<tandem_memory_kind, uint64_t> live;
};

/// y of a rank is x of the rank before it. The values go through the arena and symmetric memory.
std::string layer(uint32_t ranks, int64_t count) {
  ProgramSpec spec(ranks);
  spec.name = "layer";
  uint64_t bytes = static_cast<uint64_t>(count) * sizeof(float);
  uint32_t x = spec.stacked("x", false, DType::F32, {count}),
           y = spec.stacked("y", true, DType::F32, {count});
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    auto view = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {count}); };
    uint32_t from = view(rank.argument(x, bytes)), to = view(rank.argument(y, bytes)),
             between = view(rank.arena(bytes)), space = view(rank.symmetric(bytes));
    uint16_t channel = rank.channel(all, OneSided);
    uint32_t next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
    rank.slots = {1, 1};
    rank.copy(0, between, from);
    rank.put(0, channel, space, between, next);
    rank.signal(0, channel, next, 0, 1);
    rank.waitSignal(0, channel, 0, 1);
    rank.copy(0, between, space);
    // The rank before may write again.
    rank.signal(0, channel, previous, 1, 1);
    rank.copy(0, to, between);
    rank.waitSignal(0, channel, 1, 1);
  }
  return spec.encode();
}

/// Rank `to` of three gets x of rank `from`, reads it slowly, and writes y. In a run, `from` hears
/// that `to` has begun; no other rank hears of another.
std::string move(uint32_t from, uint32_t to) {
  constexpr int64_t kCount = 16;
  constexpr uint64_t kBytes = kCount * sizeof(float);
  ProgramSpec spec(3);
  spec.name = "move";
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount}),
           y = spec.stacked("y", true, DType::F32, {kCount});
  for (uint32_t r = 0; r < 3; ++r) {
    RankSpec &rank = spec.ranks[r];
    auto view = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {kCount}); };
    uint32_t in = view(rank.argument(x, kBytes)), out = view(rank.argument(y, kBytes)),
             space = view(rank.symmetric(kBytes));
    uint16_t channel = rank.channel({0, 1, 2}, OneSided);
    rank.slots = {1, 1};
    if (r == from) {
      rank.put(0, channel, space, in, to);
      rank.signal(0, channel, to, 0, 1);
      rank.waitSignal(0, channel, 1, 1);
    }
    if (r == to) {
      rank.signal(0, channel, from, 1, 1);
      rank.waitSignal(0, channel, 0, 1);
      for (int i = 0; i < 20000; ++i)
        rank.copy(0, out, in);
      rank.copy(0, out, space);
    }
  }
  return spec.encode();
}

/// One rank with a chain of layers: the result of each one is the input of the next one.
class Stack {
public:
  Stack(const char *channels, tandem_local_world *world, uint32_t rank, bool separate,
        uint32_t timeoutMs = 20000)
      : rank(rank) {
    tandem_allocator allocator = counter.hooks();
    tandem_context_options options{};
    options.struct_size = sizeof options;
    options.channels = channels;
    options.local_world = world;
    options.local_world_rank = rank;
    options.timeout_ms = timeoutMs;
    options.allocator = &allocator;
    options.separate_memory = separate;
    check(tandem_context_create(&options, &context));
    check(tandem_stream_create(context, &second));
  }
  ~Stack() {
    while (!layers.empty())
      destroy(layers.size() / 2);
    tandem_stream_destroy(second);
    tandem_context_destroy(context);
    for (tandem_memory_kind kind : {TANDEM_MEMORY_ARENA, TANDEM_MEMORY_SYMMETRIC})
      EXPECT_EQ(counter.bytes(kind), 0u);
  }
  bool check(tandem_code code) {
    EXPECT_EQ(code, TANDEM_OK) << "rank " << rank << ": " << tandem_last_error(context);
    return code == TANDEM_OK;
  }

  /// `count`: elements that the program needs; it moves the first ones.
  bool add(const std::string &file) {
    tandem_program *program = nullptr;
    tandem_instance *instance = nullptr;
    if (!check(tandem_program_load_memory(context, file.data(), file.size(), &program)))
      return false;
    tandem_memory_needs needs{};
    needs.struct_size = sizeof needs;
    tandem_argument argument{};
    argument.struct_size = sizeof argument;
    bool ok = check(tandem_program_memory(program, &needs)) &&
              check(tandem_program_argument(program, 0, &argument)) &&
              check(tandem_prepare(context, program, &instance));
    largest.arena_bytes = std::max(largest.arena_bytes, needs.arena_bytes);
    largest.symmetric_bytes = std::max(largest.symmetric_bytes, needs.symmetric_bytes);
    sum.arena_bytes += needs.arena_bytes;
    sum.symmetric_bytes += needs.symmetric_bytes;
    tandem_program_destroy(program);
    if (ok)
      layers.push_back(instance);
    elements = std::max(elements, argument.local_bytes / sizeof(float));
    return ok;
  }
  void destroy(size_t i) {
    tandem_instance_destroy(layers[i]);
    layers.erase(layers.begin() + static_cast<std::ptrdiff_t>(i));
  }

  /// Runs all layers `rounds` times in a row, waits once, and checks every value. `streams`: on two
  /// streams in turn.
  void pass(uint32_t ranks, size_t rounds, bool streams) {
    size_t steps = rounds * layers.size();
    std::vector<std::vector<float>> values(steps + 1, std::vector<float>(elements));
    for (float &value : values[0])
      value = static_cast<float>(rank + 1);
    for (size_t i = 0; i < steps; ++i) {
      void *data[] = {values[i].data(), values[i + 1].data()};
      tandem_run_options run{};
      run.struct_size = sizeof run;
      run.data = data;
      run.stream = streams && i % 3 != 0 ? second : nullptr;
      if (!check(tandem_enqueue(layers[i % layers.size()], &run)))
        return;
    }
    for (tandem_instance *instance : layers)
      if (!check(tandem_wait(instance)))
        return;
    for (size_t i = 1; i <= steps; ++i)
      ASSERT_EQ(values[i][0], static_cast<float>((rank + i * (ranks - 1)) % ranks + 1))
          << "rank " << rank << ", step " << i;
  }

  const uint32_t rank;
  Counter counter;
  tandem_context *context = nullptr;
  tandem_stream *second = nullptr;
  std::vector<tandem_instance *> layers;
  tandem_memory_needs largest{}, sum{};
  uint64_t elements = 0;
};

class CSharedMemory : public testing::TestWithParam<const char *> {
public:
  template <typename Body> void onRanks(uint32_t ranks, Body body, bool separate = false) {
    tandem_local_world *world = nullptr;
    ASSERT_EQ(tandem_local_world_create(ranks, 5000, &world), TANDEM_OK);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Stack stack(GetParam(), world, r, separate);
        body(stack);
      });
    for (std::thread &thread : threads)
      thread.join();
    tandem_local_world_destroy(world);
  }
};

/// Of different sizes, the largest one in the middle.
std::vector<std::string> layersOf(uint32_t ranks) {
  std::vector<std::string> files;
  for (size_t i = 0; i < kLayers; ++i)
    files.push_back(layer(ranks, static_cast<int64_t>(256 * (1 + (i + kLayers / 2) % kLayers))));
  return files;
}

TEST_P(CSharedMemory, LayersNeedTheMemoryOfTheLargest) {
  std::vector<std::string> files = layersOf(2);
  // The largest one first: it has space for all.
  std::rotate(files.begin(), files.begin() + kLayers / 2 - 1, files.end());
  onRanks(2, [&](Stack &stack) {
    for (const std::string &file : files)
      if (!stack.add(file))
        return;
    EXPECT_EQ(stack.counter.bytes(TANDEM_MEMORY_ARENA), stack.largest.arena_bytes);
    // And space for the signals of all.
    EXPECT_LE(stack.counter.bytes(TANDEM_MEMORY_SYMMETRIC),
              stack.largest.symmetric_bytes + kSignalBytes);
    EXPECT_GT(stack.sum.symmetric_bytes, 4 * (stack.largest.symmetric_bytes + kSignalBytes));
    for (bool streams : {false, true})
      stack.pass(2, 2, streams);
  });
}

TEST_P(CSharedMemory, TheArenaGrowsBetweenRuns) {
  std::vector<std::string> files = layersOf(2);
  onRanks(2, [&](Stack &stack) {
    for (const std::string &file : files) {
      if (!stack.add(file))
        return;
      stack.pass(2, 1, true);
      EXPECT_EQ(stack.counter.bytes(TANDEM_MEMORY_ARENA), stack.largest.arena_bytes);
    }
  });
}

// A larger program gets another block, and the earlier ones keep theirs.
TEST_P(CSharedMemory, SymmetricMemoryGrowsBetweenRuns) {
  onRanks(2, [&](Stack &stack) {
    for (size_t i = 0; i < kLayers; ++i) {
      if (!stack.add(layer(2, static_cast<int64_t>(256 * (i + 1)))))
        return;
      if (i < 2) {
        EXPECT_LE(stack.counter.bytes(TANDEM_MEMORY_SYMMETRIC),
                  stack.sum.symmetric_bytes + (i + 1) * kSignalBytes);
      }
      stack.pass(2, 1, i % 2 == 1);
    }
    EXPECT_LE(stack.counter.bytes(TANDEM_MEMORY_SYMMETRIC),
              4 * stack.largest.symmetric_bytes + 8 * kSignalBytes);
    EXPECT_LT(2 * stack.counter.bytes(TANDEM_MEMORY_SYMMETRIC), stack.sum.symmetric_bytes);
    stack.pass(2, 2, true);
  });
}

// One rank has no memory for a block of twice the size: all take what is needed, so that later
// programs find the same blocks everywhere.
TEST_P(CSharedMemory, SymmetricMemoryThatCannotDoubleGrowsByTheNeed) {
  auto needs = [](uint64_t elements) { return 2 * elements * sizeof(float) + kSignalBytes; };
  onRanks(3, [&](Stack &stack) {
    if (stack.rank == 1)
      stack.counter.most = needs(36000);
    uint64_t expected = 0;
    for (int64_t elements : {10000, 20000, 30000, 25000, 36000}) {
      if (!stack.add(layer(3, elements)))
        return;
      if (elements != 25000) // it fits into the block of 30000
        expected += needs(static_cast<uint64_t>(elements));
      EXPECT_EQ(stack.counter.bytes(TANDEM_MEMORY_SYMMETRIC), expected) << elements;
      stack.pass(3, 2, true);
    }
    // More than rank 1 has: an error on all ranks, which states the sizes, and nothing is lost.
    tandem_program *program = nullptr;
    tandem_instance *instance = nullptr;
    std::string file = layer(3, 50000);
    stack.check(tandem_program_load_memory(stack.context, file.data(), file.size(), &program));
    EXPECT_EQ(tandem_prepare(stack.context, program, &instance),
              stack.rank == 1 ? TANDEM_OUT_OF_MEMORY : TANDEM_ABORTED);
    std::string message = tandem_last_error(stack.context);
    EXPECT_NE(message.find("symmetric memory of 2 x 200000 bytes and 4096 signals, next to " +
                           std::to_string(expected) + " bytes in 4 earlier blocks: "),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("cannot allocate 432768 bytes"), std::string::npos) << message;
    tandem_program_destroy(program);
    stack.pass(3, 1, true);
  });
}

// The message of a run that waits for the others to begin names the barrier, and for whom it waits.
TEST_P(CSharedMemory, AStalledMeetingIsNamed) {
  tandem_local_world *world = nullptr;
  ASSERT_EQ(tandem_local_world_create(3, 5000, &world), TANDEM_OK);
  std::vector<std::string> messages(3);
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      Stack stack(GetParam(), world, r, false, /*timeoutMs=*/2000);
      if (!stack.add(move(0, 1)) || !stack.add(move(1, 2)))
        return;
      std::vector<float> x(stack.elements), y(stack.elements);
      void *data[] = {x.data(), y.data()};
      tandem_run_options run{};
      run.struct_size = sizeof run;
      run.data = data;
      tandem_code code = tandem_enqueue(stack.layers[0], &run);
      if (code == TANDEM_OK && r != 2) // rank 2 does not begin the second run
        code = tandem_enqueue(stack.layers[1], &run);
      for (tandem_instance *instance : stack.layers)
        if (code == TANDEM_OK)
          code = tandem_wait(instance);
      if (r != 2) {
        EXPECT_NE(code, TANDEM_OK);
        messages[r] = tandem_last_error(stack.context);
        ++ended;
      }
      // Rank 2 is there, and does nothing.
      for (int i = 0; i < 4000 && ended < 2; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
  for (std::thread &thread : threads)
    thread.join();
  tandem_local_world_destroy(world);
  EXPECT_NE(
      (messages[0] + messages[1]).find("the barrier of ranks before the run (a wait for rank 2)"),
      std::string::npos)
      << messages[0] << "\n"
      << messages[1];
}

TEST_P(CSharedMemory, InstancesEndInAnyOrder) {
  std::vector<std::string> files = layersOf(3);
  onRanks(3, [&](Stack &stack) {
    for (const std::string &file : files)
      if (!stack.add(file))
        return;
    for (size_t i = 0; stack.layers.size() > 2; ++i) {
      stack.pass(3, 1, true);
      stack.destroy(i * 5 % stack.layers.size());
      if (i % 4 == 0 && !stack.add(files[i % files.size()]))
        return;
      stack.destroy(i * 3 % stack.layers.size());
    }
  });
}

TEST_P(CSharedMemory, RanksMeetBetweenProgramsThatDoNotOrderThem) {
  std::vector<std::string> files = {move(0, 1), move(1, 2), move(0, 1)};
  onRanks(3, [&](Stack &stack) {
    for (const std::string &file : files)
      if (!stack.add(file))
        return;
    EXPECT_LT(stack.counter.bytes(TANDEM_MEMORY_SYMMETRIC), 2 * kSignalBytes);
    std::vector<std::vector<float>> x, y;
    for (size_t step = 0; step < 9; ++step) {
      x.emplace_back(stack.elements, static_cast<float>(100 * stack.rank + step));
      y.emplace_back(stack.elements);
      void *data[] = {x.back().data(), y.back().data()};
      tandem_run_options run{};
      run.struct_size = sizeof run;
      run.data = data;
      if (!stack.check(tandem_enqueue(stack.layers[step % 3], &run)))
        return;
    }
    for (tandem_instance *instance : stack.layers)
      stack.check(tandem_wait(instance));
    for (size_t step = 0; step < 9; ++step) {
      bool isMiddle = step % 3 == 1;
      if (stack.rank == (isMiddle ? 2u : 1u)) {
        EXPECT_EQ(y[step][0], static_cast<float>((isMiddle ? 100 : 0) + step)) << "step " << step;
      }
    }
  });
}

TEST_P(CSharedMemory, SeparateMemory) {
  std::vector<std::string> files = layersOf(2);
  onRanks(
      2,
      [&](Stack &stack) {
        for (const std::string &file : files)
          if (!stack.add(file))
            return;
        EXPECT_EQ(stack.counter.bytes(TANDEM_MEMORY_ARENA), stack.sum.arena_bytes);
        EXPECT_EQ(stack.counter.bytes(TANDEM_MEMORY_SYMMETRIC), stack.sum.symmetric_bytes);
        stack.pass(2, 2, false);
      },
      /*separate=*/true);
}

INSTANTIATE_TEST_SUITE_P(, CSharedMemory, testing::Values("local", "ucx"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
