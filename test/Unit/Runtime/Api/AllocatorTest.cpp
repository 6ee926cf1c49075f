//===- AllocatorTest.cpp - memory of the embedder ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Channel.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>

using namespace tandem;
using namespace tandem::test;

namespace {

/// What is allocated now, and how often each kind was.
struct Pool {
  std::map<void *, std::pair<uint64_t, tandem_memory_kind>> live;
  std::map<tandem_memory_kind, int> allocations;
  bool empty = false; ///< refuses

  static void *allocate(void *user, uint64_t bytes, tandem_memory_kind kind) {
    auto &pool = *static_cast<Pool *>(user);
    if (pool.empty)
      return nullptr;
    void *memory = std::aligned_alloc(64, bytes);
    std::memset(memory, 0xff, bytes); // not zeroed
    pool.live[memory] = {bytes, kind};
    ++pool.allocations[kind];
    return memory;
  }
  static void deallocate(void *user, void *memory, uint64_t bytes, tandem_memory_kind kind) {
    auto &pool = *static_cast<Pool *>(user);
    EXPECT_EQ(pool.live[memory], std::pair(bytes, kind));
    pool.live.erase(memory);
    std::free(memory);
  }
};

/// The signal of a rank to itself starts at zero; y = x through the arena, which has `bytes`.
std::string program(uint64_t bytes) {
  ProgramSpec spec(1);
  spec.name = "arena";
  uint32_t x = spec.stacked("x", false, DType::F32, {16}),
           y = spec.stacked("y", true, DType::F32, {16});
  RankSpec &rank = spec.ranks[0];
  uint32_t from = rank.view(rank.argument(x, 64), DType::F32, {16}),
           between = rank.view(rank.arena(bytes), DType::F32, {16}),
           space = rank.view(rank.symmetric(64), DType::F32, {16}),
           to = rank.view(rank.argument(y, 64), DType::F32, {16});
  uint16_t channel = rank.channel({0}, OneSided);
  rank.slots = {1};
  rank.copy(0, between, from);
  rank.put(0, channel, space, between, 0);
  rank.signal(0, channel, 0, 0, 1);
  rank.waitSignal(0, channel, 0, 1);
  rank.copy(0, to, space);
  return spec.encode();
}

TEST(CAllocator, AllMemoryOfPrograms) {
  Pool pool;
  tandem_allocator allocator{sizeof allocator, Pool::allocate, Pool::deallocate, &pool, 0};
  tandem_local_world *world = nullptr;
  ASSERT_EQ(tandem_local_world_create(1, 5000, &world), TANDEM_OK);
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.local_world = world;
  options.channels = "local";
  options.allocator = &allocator;
  tandem_context *context = nullptr;
  ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
  std::string file = program(64), larger = program(128);
  tandem_program *loaded = nullptr, *other = nullptr;
  tandem_instance *instance = nullptr;
  ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &loaded), TANDEM_OK)
      << tandem_last_error(context);
  ASSERT_EQ(tandem_prepare(context, loaded, &instance), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(pool.allocations[TANDEM_MEMORY_ARENA], 1);
  EXPECT_EQ(pool.allocations[TANDEM_MEMORY_SYMMETRIC], 1);
  std::vector<float> x(16, 3), y(16);
  void *data[] = {x.data(), y.data()};
  tandem_run_options run{};
  run.struct_size = sizeof run;
  run.data = data;
  EXPECT_EQ(tandem_enqueue(instance, &run), TANDEM_OK);
  EXPECT_EQ(tandem_wait(instance), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(y, x);

  pool.empty = true;
  tandem_instance *second = nullptr;
  ASSERT_EQ(tandem_program_load_memory(context, larger.data(), larger.size(), &other), TANDEM_OK);
  EXPECT_EQ(tandem_prepare(context, other, &second), TANDEM_OUT_OF_MEMORY);
  EXPECT_NE(std::string(tandem_last_error(context)).find("cannot allocate 128 bytes"),
            std::string::npos)
      << tandem_last_error(context);
  EXPECT_EQ(tandem_run(instance), TANDEM_OK);

  tandem_instance_destroy(instance);
  tandem_program_destroy(loaded);
  tandem_program_destroy(other);
  tandem_context_destroy(context);
  tandem_local_world_destroy(world);
  EXPECT_TRUE(pool.live.empty());

  allocator.deallocate = nullptr;
  options.local_world = nullptr;
  options.channels = nullptr;
  EXPECT_EQ(tandem_context_create(&options, &context), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context),
               "tandem_allocator: expected functions to allocate and deallocate");
  tandem_context_destroy(context);
}

TEST(CAllocator, LeavesSymmetricMemoryToTheDevice) {
  Pool pool;
  tandem_allocator allocator{sizeof allocator, Pool::allocate, Pool::deallocate, &pool, 1};
  tandem_local_world *world = nullptr;
  ASSERT_EQ(tandem_local_world_create(1, 5000, &world), TANDEM_OK);
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.local_world = world;
  options.channels = "local";
  options.allocator = &allocator;
  tandem_context *context = nullptr;
  ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
  std::string file = program(64);
  tandem_program *loaded = nullptr;
  tandem_instance *instance = nullptr;
  ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &loaded), TANDEM_OK)
      << tandem_last_error(context);
  ASSERT_EQ(tandem_prepare(context, loaded, &instance), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(pool.allocations[TANDEM_MEMORY_ARENA], 1);
  EXPECT_EQ(pool.allocations[TANDEM_MEMORY_SYMMETRIC], 0);
  tandem_instance_destroy(instance);
  tandem_program_destroy(loaded);
  tandem_context_destroy(context);
  tandem_local_world_destroy(world);
  EXPECT_TRUE(pool.live.empty());
}

} // namespace
