//===- LifetimesTest.cpp - handles that go in any order ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// y = x, `times` times, on one rank: with many copies a run takes a while.
std::string copies(int64_t count, unsigned times) {
  ProgramSpec spec(1);
  spec.name = "copies";
  uint32_t x = spec.stacked("x", false, DType::F32, {count}),
           y = spec.stacked("y", true, DType::F32, {count});
  RankSpec &rank = spec.ranks[0];
  auto bytes = static_cast<uint64_t>(count) * 4;
  uint32_t from = rank.view(rank.argument(x, bytes), DType::F32, {count}),
           to = rank.view(rank.argument(y, bytes), DType::F32, {count});
  for (unsigned i = 0; i < times; ++i)
    rank.copy(0, to, from);
  return spec.encode();
}

class CLifetimes : public testing::Test {
public:
  void SetUp() override {
    context = makeContext();
    std::string file = copies(kCount, 100);
    ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK);
    ASSERT_EQ(tandem_prepare(context, program, &instance), TANDEM_OK) << tandem_last_error(context);
  }
  void TearDown() override {
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  }
  static tandem_context *makeContext() {
    tandem_context_options options{};
    options.struct_size = sizeof options;
    tandem_context *made = nullptr;
    EXPECT_EQ(tandem_context_create(&options, &made), TANDEM_OK);
    return made;
  }
  tandem_code enqueue(std::vector<float> &from, std::vector<float> &to,
                      tandem_stream *stream = nullptr) {
    void *data[] = {from.data(), to.data()};
    uint64_t bytes[] = {from.size() * sizeof(float), to.size() * sizeof(float)};
    tandem_run_options run{sizeof run, stream, data, bytes, nullptr, nullptr};
    return tandem_enqueue(instance, &run);
  }

  static constexpr int64_t kCount = 50000;
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  std::vector<float> x = std::vector<float>(kCount, 1), y = std::vector<float>(kCount);
};

TEST_F(CLifetimes, AStreamDestroyedWhileItsRunIsInFlight) {
  tandem_stream *stream = nullptr;
  ASSERT_EQ(tandem_stream_create(context, &stream), TANDEM_OK);
  ASSERT_EQ(enqueue(x, y, stream), TANDEM_OK) << tandem_last_error(context);
  tandem_stream_destroy(stream);
  EXPECT_EQ(tandem_wait(instance), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(y.back(), 1);
  // Runs on other streams follow, after it.
  x.back() = 2;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(tandem_stream_create(context, &stream), TANDEM_OK);
    ASSERT_EQ(enqueue(x, y, stream), TANDEM_OK);
    tandem_stream_destroy(stream);
  }
  EXPECT_EQ(tandem_wait(instance), TANDEM_OK);
  EXPECT_EQ(y.back(), 2);
}

TEST_F(CLifetimes, AStreamOfAnotherContext) {
  tandem_context *other = makeContext();
  tandem_stream *stream = nullptr;
  ASSERT_EQ(tandem_stream_create(other, &stream), TANDEM_OK);
  EXPECT_EQ(enqueue(x, y, stream), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "the stream is of another context than the instance");
  EXPECT_EQ(tandem_context_health(context), TANDEM_OK);
  tandem_stream_destroy(stream);
  tandem_context_destroy(other);
}

TEST_F(CLifetimes, HandlesInTheWrongOrder) {
  tandem_memory *memory = nullptr;
  tandem_stream *stream = nullptr;
  ASSERT_EQ(tandem_memory_create(context, kCount * 4, &memory), TANDEM_OK);
  ASSERT_EQ(tandem_stream_create(context, &stream), TANDEM_OK);
  tandem_context_destroy(context);
  tandem_program_destroy(program);
  context = nullptr;
  program = nullptr;
  void *data[] = {x.data(), tandem_memory_data(memory)};
  tandem_run_options run{sizeof run, stream, data, nullptr, nullptr, nullptr};
  EXPECT_EQ(tandem_enqueue(instance, &run), TANDEM_OK);
  EXPECT_EQ(tandem_stream_synchronize(stream), TANDEM_OK);
  float last = 0;
  EXPECT_EQ(tandem_memory_read(memory, (kCount - 1) * 4, &last, 4), TANDEM_OK);
  EXPECT_EQ(last, 1);
  tandem_instance_destroy(instance);
  instance = nullptr;
  tandem_memory_destroy(memory);
  EXPECT_EQ(tandem_stream_synchronize(stream), TANDEM_OK);
  tandem_stream_destroy(stream);
}

TEST_F(CLifetimes, SwappedBuffers) {
  ASSERT_EQ(enqueue(x, y), TANDEM_OK);
  ASSERT_EQ(tandem_wait(instance), TANDEM_OK);
  x.assign(kCount, 3);
  ASSERT_EQ(enqueue(y, x), TANDEM_OK) << tandem_last_error(context); // x is the result now
  ASSERT_EQ(tandem_wait(instance), TANDEM_OK);
  EXPECT_EQ(x.back(), 1);
  // Also one at a time: they may overlap until the run.
  int64_t shape = kCount;
  ASSERT_EQ(tandem_bind(instance, 0, x.data(), kCount * 4, TANDEM_F32, 1, &shape), TANDEM_OK);
  EXPECT_EQ(tandem_run(instance), TANDEM_INVALID_ARGUMENT);
  ASSERT_EQ(tandem_bind(instance, 1, y.data(), kCount * 4, TANDEM_F32, 1, &shape), TANDEM_OK);
  EXPECT_EQ(tandem_run(instance), TANDEM_OK) << tandem_last_error(context);
}

TEST_F(CLifetimes, AFailedBindingChangesNothing) {
  ASSERT_EQ(enqueue(x, y), TANDEM_OK);
  ASSERT_EQ(tandem_wait(instance), TANDEM_OK);
  std::vector<float> z(kCount, 7), small(kCount - 1);
  EXPECT_EQ(enqueue(z, z), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context),
               "rank 0: @copies: argument 1 \"y\": overlaps argument 0 \"x\"");
  EXPECT_EQ(enqueue(z, small), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context),
               "rank 0: @copies: argument 1 \"y\": expected at least 200000 bytes, found 199996");
  void *null[] = {z.data(), nullptr};
  tandem_run_options run{sizeof run, nullptr, null, nullptr, nullptr, nullptr};
  EXPECT_EQ(tandem_enqueue(instance, &run), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "rank 0: @copies: argument 1 \"y\": null pointer");
  ASSERT_EQ(tandem_run(instance), TANDEM_OK);
  EXPECT_EQ(y.back(), 1);
}

// Its threads are not in the child, which would wait for them.
TEST_F(CLifetimes, AForkedChildIsToldSo) {
  tandem_memory *memory = nullptr;
  tandem_stream *stream = nullptr;
  ASSERT_EQ(tandem_memory_create(context, 16, &memory), TANDEM_OK);
  ASSERT_EQ(tandem_stream_create(context, &stream), TANDEM_OK);
  ASSERT_EQ(enqueue(x, y, stream), TANDEM_OK) << tandem_last_error(context);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(10);
    int failed = 0;
    auto expect = [&](int number, bool is) {
      if (!is && !failed)
        failed = number;
    };
    expect(1, enqueue(x, y) == TANDEM_INVALID_ARGUMENT);
    expect(2, std::strstr(tandem_last_error(context), "which made the context, found one from its "
                                                      "fork") != nullptr);
    expect(3, tandem_wait(instance) == TANDEM_INVALID_ARGUMENT);
    expect(4, tandem_run(instance) == TANDEM_INVALID_ARGUMENT);
    expect(5, tandem_context_health(context) == TANDEM_INVALID_ARGUMENT);
    expect(6, tandem_stream_synchronize(stream) == TANDEM_INVALID_ARGUMENT);
    tandem_instance *second = nullptr;
    expect(7, tandem_prepare(context, program, &second) == TANDEM_INVALID_ARGUMENT);
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
    tandem_memory_destroy(memory);
    tandem_stream_destroy(stream);
    tandem_context_destroy(context);
    tandem_context_options options{};
    options.struct_size = sizeof options;
    expect(8, tandem_context_create(&options, &context) == TANDEM_OK);
    expect(9, tandem_context_health(context) == TANDEM_OK);
    tandem_context_destroy(context);
    _exit(failed);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "signal " << WTERMSIG(status) << ", check " << WEXITSTATUS(status);
  EXPECT_EQ(tandem_wait(instance), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(tandem_run(instance), TANDEM_OK) << tandem_last_error(context);
  tandem_memory_destroy(memory);
  tandem_stream_destroy(stream);
}

TEST_F(CLifetimes, MemoryIsCopiedToAndFromSomewhere) {
  tandem_memory *memory = nullptr;
  ASSERT_EQ(tandem_memory_create(context, 16, &memory), TANDEM_OK);
  EXPECT_EQ(tandem_memory_write(memory, 0, nullptr, 16), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "from: null pointer");
  EXPECT_EQ(tandem_memory_read(memory, 0, nullptr, 16), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "to: null pointer");
  EXPECT_EQ(tandem_memory_write(memory, 16, nullptr, 0), TANDEM_OK);
  EXPECT_EQ(tandem_memory_read(memory, 16, nullptr, 0), TANDEM_OK);
  tandem_memory_destroy(memory);
}

TEST_F(CLifetimes, WrappedStreamsNeedAGpu) {
  tandem_stream *stream = nullptr;
  EXPECT_EQ(tandem_stream_wrap(context, nullptr, &stream), TANDEM_UNSUPPORTED);
  EXPECT_STREQ(tandem_last_error(context),
               "device cpu has no streams of the caller: expected a GPU");
  EXPECT_EQ(stream, nullptr);
}

} // namespace
