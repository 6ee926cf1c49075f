//===- CallbacksTest.cpp - what callbacks may do ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A callback that uses its own context, or that throws, is an error: no deadlock and no abort.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <new>
#include <stdexcept>
#include <thread>

using namespace tandem;
using namespace tandem::test;
using testing::HasSubstr;

namespace {

constexpr int64_t kCount = 6;

/// y = kernel(x), and a value in between, for which the allocator is asked.
std::string program() {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount});
  uint32_t y = spec.stacked("y", true, DType::F32, {kCount});
  RankSpec &rank = spec.ranks[0];
  KernelSpec kernel{"kernel", sp::KernelFormat::external, "", {}, {0, 0}, {}, 1, {{0, 0}}};
  rank.kernels.push_back(kernel);
  uint32_t in = rank.view(rank.argument(x, kCount * 4), DType::F32, {kCount});
  uint32_t out = rank.view(rank.argument(y, kCount * 4), DType::F32, {kCount});
  uint32_t between = rank.view(rank.arena(kCount * 4), DType::F32, {kCount});
  rank.copy(0, between, in);
  rank.call(0, 0, {out, between}, {{0, kCount}});
  return spec.encode();
}

/// A context whose callbacks all call `callback` with their name.
struct Callbacks {
  std::function<void(const std::string &)> callback = [](const std::string &) {};
  tandem_launch launch{};
  tandem_allocator allocator{};
  tandem_kernel kernel{};
  tandem_context_options options{};
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  float x[kCount] = {1, 2, 3, 4, 5, 6}, y[kCount] = {};

  static void call(void *user, const char *name) { static_cast<Callbacks *>(user)->callback(name); }

  Callbacks() {
    launch.struct_size = sizeof launch;
    launch.world_size = 1;
    launch.user = this;
    launch.all_gather = [](void *user, const void *mine, size_t bytes, void *all) {
      call(user, "all_gather");
      std::memcpy(all, mine, bytes);
      return 0;
    };
    launch.barrier = [](void *user) {
      call(user, "barrier");
      return 0;
    };
    launch.note_begun = [](void *user, uint64_t) { call(user, "note_begun"); };
    launch.begun_by_all = [](void *user) {
      call(user, "begun_by_all");
      return uint64_t(1) << 32;
    };
    launch.health = [](void *user, char *, size_t) {
      call(user, "health");
      return 0;
    };
    launch.give_up = [](void *user, const char *) { call(user, "give_up"); };
    allocator.struct_size = sizeof allocator;
    allocator.user = this;
    allocator.allocate = [](void *user, uint64_t bytes, tandem_memory_kind) {
      call(user, "allocate");
      return ::operator new(bytes, std::align_val_t(64));
    };
    allocator.deallocate = [](void *user, void *memory, uint64_t, tandem_memory_kind) {
      ::operator delete(memory, std::align_val_t(64));
      call(user, "deallocate");
    };
    kernel.struct_size = sizeof kernel;
    kernel.name = "kernel";
    kernel.user = this;
    kernel.cpu_function = [](void *user, const tandem_kernel_call *) {
      call(user, "kernel");
      return 0;
    };
    options.struct_size = sizeof options;
    options.launch = &launch;
    options.allocator = &allocator;
    options.log = [](void *user, tandem_log_level, const char *) { call(user, "log"); };
    options.log_user = this;
  }
  ~Callbacks() {
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  }

  /// The first code that is not OK.
  tandem_code run() {
    std::string file = ::program();
    tandem_code code = tandem_context_create(&options, &context);
    if (code == TANDEM_OK)
      code = tandem_register_kernel(context, &kernel);
    if (code == TANDEM_OK)
      code = tandem_program_load_memory(context, file.data(), file.size(), &program);
    if (code == TANDEM_OK)
      code = tandem_prepare(context, program, &instance);
    void *data[] = {x, y};
    tandem_run_options run{sizeof run, nullptr, data, nullptr, nullptr, nullptr};
    if (code == TANDEM_OK)
      code = tandem_enqueue(instance, &run);
    return code == TANDEM_OK ? tandem_wait(instance) : code;
  }
  std::string error() const { return tandem_last_error(context); }
};

class Throwing : public testing::TestWithParam<const char *> {};

TEST_P(Throwing, IsAnError) {
  for (bool isException : {false, true}) {
    Callbacks callbacks;
    bool isCalled = false;
    callbacks.callback = [&](const std::string &name) {
      if (name != GetParam())
        return;
      isCalled = true;
      if (isException)
        throw std::runtime_error("no more tea");
      throw 42;
    };
    tandem_code code = callbacks.run();
    if (code == TANDEM_OK) // only when memory is given back
      tandem_instance_destroy(std::exchange(callbacks.instance, nullptr));
    ASSERT_TRUE(isCalled);
    if (code == TANDEM_OK)
      continue;
    EXPECT_THAT(callbacks.error(), HasSubstr(GetParam()));
    EXPECT_THAT(callbacks.error(),
                HasSubstr(isException ? "has thrown no more tea"
                                      : "has thrown an object that is no std::exception"));
  }
}

INSTANTIATE_TEST_SUITE_P(Callbacks, Throwing,
                         testing::Values("all_gather", "note_begun", "health", "allocate",
                                         "kernel"),
                         [](const auto &info) { return std::string(info.param); });

TEST(CallbacksTest, ThrowingForCommandsInFlight) {
  Callbacks callbacks;
  callbacks.callback = [&](const std::string &name) {
    if (name != "kernel")
      return;
    auto each = [](void *, const tandem_command_in_flight *) { throw 42; };
    EXPECT_EQ(tandem_commands_in_flight(callbacks.context, each, nullptr), TANDEM_INTERNAL);
    EXPECT_EQ(callbacks.error(), "each has thrown an object that is no std::exception");
  };
  EXPECT_EQ(callbacks.run(), TANDEM_OK) << callbacks.error();
}

TEST(CallbacksTest, UseOfTheirOwnContext) {
  int called = 0;
  for (const char *where : {"all_gather", "allocate", "note_begun", "kernel"}) {
    Callbacks callbacks;
    std::string file = program();
    callbacks.callback = [&](const std::string &name) {
      if (name != where || !callbacks.context)
        return;
      ++called;
      tandem_instance *made = nullptr;
      tandem_program *loaded = nullptr;
      EXPECT_EQ(tandem_prepare(callbacks.context, callbacks.program, &made),
                TANDEM_INVALID_ARGUMENT);
      EXPECT_EQ(callbacks.error(),
                "tandem_prepare: expected no call from a callback of the same context");
      EXPECT_EQ(tandem_program_load_memory(callbacks.context, file.data(), file.size(), &loaded),
                TANDEM_INVALID_ARGUMENT);
      EXPECT_EQ(made, nullptr);
      EXPECT_EQ(tandem_context_health(callbacks.context), TANDEM_OK); // asks, and waits for nothing
      if (callbacks.instance) {
        EXPECT_EQ(tandem_run(callbacks.instance), TANDEM_INVALID_ARGUMENT);
        EXPECT_EQ(tandem_wait(callbacks.instance), TANDEM_INVALID_ARGUMENT);
      }
    };
    EXPECT_EQ(callbacks.run(), TANDEM_OK) << where << ": " << callbacks.error();
  }
  EXPECT_GE(called, 3);
}

TEST(CallbacksTest, UseOfAnotherContext) {
  Callbacks inner, outer;
  outer.callback = [&](const std::string &name) {
    if (name == "kernel") {
      EXPECT_EQ(inner.run(), TANDEM_OK) << inner.error();
    }
  };
  EXPECT_EQ(outer.run(), TANDEM_OK) << outer.error();
}

/// What callbacks of a context use that ends on a thread of its own: that thread may be in one of
/// them when the test has seen the end, so these live as long as the process.
struct EndingContext : Callbacks {
  std::atomic<int> allocated{0};
  std::atomic<bool> isCalled{false}, hasReturned{false};
  std::thread::id caller = std::this_thread::get_id();
  tandem_memory *memory = nullptr;
  tandem_stream *stream = nullptr;

  static EndingContext &make() {
    static auto *all = new std::vector<EndingContext *>;
    return *all->emplace_back(new EndingContext);
  }
  void destroyAll() {
    // As everywhere, nothing is destroyed while another thread is in a call with it.
    while (std::this_thread::get_id() != caller && !hasReturned)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tandem_memory_destroy(memory);
    tandem_stream_destroy(stream);
    tandem_instance_destroy(std::exchange(instance, nullptr));
    tandem_program_destroy(std::exchange(program, nullptr));
    tandem_context_destroy(std::exchange(context, nullptr));
    isCalled = true;
  }
};

/// Destroys all handles in a callback, and waits until the context has ended.
void expectEndIn(const std::string &where) {
  EndingContext &ending = EndingContext::make();
  ending.callback = [&ending, where](const std::string &name) {
    bool ends = name == where && !ending.isCalled && ending.memory;
    ending.allocated += (name == "allocate") - (name == "deallocate");
    if (ends)
      ending.destroyAll();
  };
  ASSERT_EQ(ending.run(), TANDEM_OK) << ending.error();
  ASSERT_EQ(tandem_stream_create(ending.context, &ending.stream), TANDEM_OK);
  ASSERT_EQ(tandem_memory_create(ending.context, 64, &ending.memory), TANDEM_OK);
  ASSERT_GT(ending.allocated, 0);
  EXPECT_EQ(tandem_enqueue(ending.instance, nullptr), TANDEM_OK);
  ending.hasReturned = true;
  for (auto giveUp = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       (!ending.isCalled || ending.allocated > 0) && std::chrono::steady_clock::now() < giveUp;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(ending.isCalled);
  EXPECT_EQ(ending.allocated, 0); // the context gives its arena back when it ends
}

TEST(CallbacksTest, HandlesEndBehindTheCallThatLedToTheCallback) { expectEndIn("note_begun"); }
TEST(CallbacksTest, HandlesEndInACallbackOfAThreadOfTheContext) { expectEndIn("kernel"); }

TEST(CallbacksTest, WhatAThreadOfTheContextThrowsIsNoErrorOfAQuery) {
  Callbacks callbacks;
  std::atomic<int> thrown{0};
  callbacks.callback = [&, caller = std::this_thread::get_id()](const std::string &name) {
    if (name != "health" || std::this_thread::get_id() == caller || thrown)
      return;
    ++thrown;
    throw std::runtime_error("no more tea");
  };
  ASSERT_EQ(callbacks.run(), TANDEM_OK) << callbacks.error();
  for (auto giveUp = std::chrono::steady_clock::now() + std::chrono::seconds(20);
       !thrown && std::chrono::steady_clock::now() < giveUp;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(thrown, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50)); // it is caught
  tandem_memory_needs needs{};
  needs.struct_size = sizeof needs;
  EXPECT_EQ(tandem_program_memory(callbacks.program, &needs), TANDEM_OK) << callbacks.error();
  EXPECT_EQ(tandem_context_health(callbacks.context), TANDEM_OK) << callbacks.error();
  // Of the next call that is none, which then makes nothing.
  tandem_memory *memory = nullptr;
  EXPECT_EQ(tandem_memory_create(callbacks.context, 64, &memory), TANDEM_INTERNAL);
  EXPECT_EQ(callbacks.error(), "tandem_launch.health has thrown no more tea");
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(tandem_memory_create(callbacks.context, 64, &memory), TANDEM_OK);
  tandem_memory_destroy(memory);
}

} // namespace
