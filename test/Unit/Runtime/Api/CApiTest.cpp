//===- CApiTest.cpp - the C API and its errors ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"
#include "tandem/Program/Certificate.h"

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <system_error>
#include <thread>

extern "C" int capiDouble(const void *file, size_t size, int64_t count, float *x, float *y,
                          char *message, size_t messageSize);

using namespace tandem;
using namespace tandem::test;

namespace {

/// y = x + x, on each of `ranks` ranks by itself.
std::string doubling(uint32_t ranks, int64_t count) {
  ProgramSpec spec(ranks);
  spec.name = "doubling";
  uint32_t x = spec.stacked("x", false, DType::F32, {count}),
           y = spec.stacked("y", true, DType::F32, {count});
  for (RankSpec &rank : spec.ranks) {
    uint64_t bytes = static_cast<uint64_t>(count) * 4;
    uint32_t xv = rank.view(rank.argument(x, bytes), DType::F32, {count});
    uint32_t yv = rank.view(rank.argument(y, bytes), DType::F32, {count});
    rank.copy(0, yv, xv);
    rank.add(sp::CommandKind::accumulate, 0, {yv, xv});
  }
  return spec.encode();
}

/// y = -x by one kernel, with PTX.
std::string negation() {
  ProgramSpec spec(1);
  spec.name = "negation";
  uint32_t x = spec.stacked("x", false, DType::F32, {4});
  uint32_t y = spec.stacked("y", true, DType::F32, {4});
  RankSpec &rank = spec.ranks[0];
  uint32_t from = rank.view(rank.argument(x, 16), DType::F32, {4});
  uint32_t to = rank.view(rank.argument(y, 16), DType::F32, {4});
  KernelSpec kernel;
  kernel.code = encodeExpression(1, 1,
                                 {{sp::ExprOp::load, 0, 0, 0, 0.f},
                                  {sp::ExprOp::neg, 0, 0, 0, 0.f},
                                  {sp::ExprOp::store, 1, 0, 0, 0.f}});
  kernel.operandTypes.assign(2, static_cast<uint8_t>(sp::DType::f32));
  kernel.outputs = 1;
  kernel.native.push_back({sp::KernelFormat::ptx, "sm_90", {'p', 't', 'x'}});
  rank.kernels.push_back(kernel);
  rank.launch(0, 0, {to, from});
  return spec.encode();
}

TEST(CApi, FromC) {
  constexpr int64_t count = 1000;
  std::string file = doubling(1, count);
  std::vector<float> x(count), y(count, -1);
  for (int64_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(i);
  char message[512] = "";
  EXPECT_EQ(
      capiDouble(file.data(), file.size(), count, x.data(), y.data(), message, sizeof message), 0)
      << message;
  for (int64_t i = 0; i < count; ++i)
    ASSERT_EQ(y[i], static_cast<float>(2 * i));
}

TEST(CApi, RequiresProof) {
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.require_proof = 1;
  tandem_context *context = nullptr;
  ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK);
  std::string plain = doubling(1, 4);
  tandem_program *program = nullptr;
  EXPECT_EQ(tandem_program_load_memory(context, plain.data(), plain.size(), &program),
            TANDEM_UNSUPPORTED);
  EXPECT_STREQ(tandem_last_error(context),
               "doubling: has no certificate of its content (tandem-compile writes one)");
  Certificate certificate;
  certificate.producer = "tandem 0";
  certificate.properties = {"deadlock"};
  std::string proven = *withCertificate(plain, certificate);
  EXPECT_EQ(tandem_program_load_memory(context, proven.data(), proven.size(), &program), TANDEM_OK)
      << tandem_last_error(context);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
}

TEST(CApi, NoNative) {
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.no_native = 1;
  tandem_context *context = nullptr, *trusting = nullptr;
  ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK);
  options.no_native = 0;
  ASSERT_EQ(tandem_context_create(&options, &trusting), TANDEM_OK);
  std::string file = negation();
  tandem_program *program = nullptr;
  EXPECT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program),
            TANDEM_UNSUPPORTED);
  EXPECT_EQ(program, nullptr);
  EXPECT_STREQ(tandem_last_error(context),
               "@negation: kernel \"kernel\" has native code (ptx), which this job refuses");
  EXPECT_EQ(tandem_program_load_memory(trusting, file.data(), file.size(), &program), TANDEM_OK)
      << tandem_last_error(trusting);
  tandem_program_destroy(program);
  std::string plain = doubling(1, 4);
  EXPECT_EQ(tandem_program_load_memory(context, plain.data(), plain.size(), &program), TANDEM_OK)
      << tandem_last_error(context);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
  tandem_context_destroy(trusting);
}

class CApiErrors : public testing::Test {
public:
  void SetUp() override {
    tandem_context_options options{};
    options.struct_size = sizeof options;
    ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
    EXPECT_STREQ(tandem_last_error(context), "");
  }
  void TearDown() override {
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  }
  void load(const std::string &file) {
    ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK)
        << tandem_last_error(context);
    ASSERT_EQ(tandem_prepare(context, program, &instance), TANDEM_OK) << tandem_last_error(context);
  }
  void expect(tandem_code code, tandem_code expected, const std::string &text) {
    EXPECT_EQ(code, expected);
    EXPECT_NE(std::string(tandem_last_error(context)).find(text), std::string::npos)
        << "expected \"" << text << "\" in: " << tandem_last_error(context);
  }
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
};

TEST_F(CApiErrors, Loading) {
  expect(tandem_program_load_file(context, "/nowhere.tsp", &program), TANDEM_IO,
         "/nowhere.tsp: cannot open");
  expect(tandem_program_load_memory(context, "abc", 3, &program), TANDEM_INVALID_PROGRAM,
         "not a stream program");
  expect(tandem_program_load_file(context, nullptr, &program), TANDEM_INVALID_ARGUMENT,
         "null pointer");
  EXPECT_EQ(program, nullptr);
}

TEST_F(CApiErrors, RankCount) {
  std::string file = doubling(3, 4);
  ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK);
  expect(tandem_prepare(context, program, &instance), TANDEM_INVALID_ARGUMENT,
         "rank 0: @doubling: the program is for 3 ranks, this job has 1");
}

TEST_F(CApiErrors, Binding) {
  load(doubling(1, 8));
  std::vector<float> memory(64);
  int64_t good = 8, bad = 9;
  int64_t two[] = {2, 4};
  auto bind = [&](uint32_t i, void *data, uint64_t bytes, tandem_dtype dtype, uint32_t rank,
                  const int64_t *shape) {
    return tandem_bind(instance, i, data, bytes, dtype, rank, shape);
  };
  expect(tandem_run(instance), TANDEM_INVALID_ARGUMENT, "argument 0 \"x\": not bound");
  expect(bind(2, memory.data(), 32, TANDEM_F32, 1, &good), TANDEM_INVALID_ARGUMENT,
         "no argument 2: the program has 2");
  expect(bind(0, memory.data(), 36, TANDEM_F32, 1, &bad), TANDEM_INVALID_ARGUMENT,
         "argument 0 \"x\": expected f32[8], found f32[9]");
  expect(bind(0, memory.data(), 32, TANDEM_F32, 2, two), TANDEM_INVALID_ARGUMENT,
         "expected f32[8], found f32[2,4]");
  expect(bind(0, memory.data(), 32, TANDEM_I32, 1, &good), TANDEM_INVALID_ARGUMENT,
         "expected f32[8], found i32[8]");
  expect(bind(0, memory.data(), 31, TANDEM_F32, 1, &good), TANDEM_INVALID_ARGUMENT,
         "expected at least 32 bytes, found 31");
  expect(bind(0, nullptr, 32, TANDEM_F32, 1, &good), TANDEM_INVALID_ARGUMENT, "null pointer");
  expect(bind(0, reinterpret_cast<char *>(memory.data()) + 1, 32, TANDEM_F32, 1, &good),
         TANDEM_INVALID_ARGUMENT, "address is not a multiple of 4");
  expect(bind(0, memory.data(), 32, 11, 1, &good), TANDEM_INVALID_ARGUMENT, "unknown dtype 11");
  expect(bind(0, memory.data(), 32, TANDEM_F32, 99, &good), TANDEM_INVALID_ARGUMENT,
         "expected at most 16 dimensions, found 99");
  int64_t negative = -8;
  expect(bind(0, memory.data(), 32, TANDEM_F32, 1, &negative), TANDEM_INVALID_ARGUMENT,
         "negative extent -8");
  EXPECT_EQ(bind(0, memory.data(), 32, TANDEM_F32, 1, &good), TANDEM_OK);
  expect(tandem_run(instance), TANDEM_INVALID_ARGUMENT, "argument 1 \"y\": not bound");
  EXPECT_EQ(bind(1, memory.data() + 7, 32, TANDEM_F32, 1, &good), TANDEM_OK);
  expect(tandem_run(instance), TANDEM_INVALID_ARGUMENT,
         "argument 1 \"y\": overlaps argument 0 \"x\"");
  EXPECT_EQ(bind(1, memory.data() + 8, 32, TANDEM_F32, 1, &good), TANDEM_OK);
  EXPECT_EQ(tandem_run(instance), TANDEM_OK) << tandem_last_error(context);
  // None of these errors has poisoned the context.
  EXPECT_EQ(tandem_context_health(context), TANDEM_OK);
  EXPECT_STREQ(tandem_context_device(context), "cpu");
  EXPECT_EQ(tandem_context_has_gated_kernels(context), 0);
}

TEST(CApi, ContextErrors) {
  auto expect = [](const tandem_context_options *options, tandem_code code,
                   const std::string &text) {
    tandem_context *context = nullptr;
    EXPECT_EQ(tandem_context_create(options, &context), code);
    ASSERT_NE(context, nullptr);
    EXPECT_NE(std::string(tandem_last_error(context)).find(text), std::string::npos)
        << tandem_last_error(context);
    tandem_program *program = nullptr;
    EXPECT_EQ(tandem_program_load_memory(context, "x", 1, &program), TANDEM_INVALID_ARGUMENT);
    // Later calls do not hide why.
    EXPECT_STREQ(tandem_context_description(context), "");
    EXPECT_STREQ(tandem_context_device(context), "");
    EXPECT_EQ(tandem_context_has_gated_kernels(context), 0);
    EXPECT_NE(std::string(tandem_last_error(context)).find(text), std::string::npos)
        << tandem_last_error(context);
    tandem_context_destroy(context);
  };
  expect(nullptr, TANDEM_INVALID_ARGUMENT, "options: null pointer");
  tandem_context_options options{};
  expect(&options, TANDEM_INVALID_ARGUMENT, "struct_size");
  options.struct_size = sizeof options;
  options.device = "abacus";
  expect(&options, TANDEM_UNSUPPORTED,
         "unknown device \"abacus\", expected cpu, null, cuda or hip");
  options.device = nullptr;
  options.channels = "pigeon";
  expect(&options, TANDEM_UNSUPPORTED, "unknown channel \"pigeon\"");
  options.channels = "rack:local";
  expect(&options, TANDEM_INVALID_ARGUMENT,
         "channel \"rack:local\": expected node: or network:, found \"rack:\"");
  options.channels = "local";
  expect(&options, TANDEM_INVALID_ARGUMENT, "channel local needs a local world");
  options.channels = nullptr;
  tandem_launch launch{};
  launch.struct_size = sizeof launch;
  launch.rank = 3;
  launch.world_size = 2;
  launch.local_size = 1;
  options.launch = &launch;
  expect(&options, TANDEM_INVALID_ARGUMENT, "rank 3 of a world of 2");
  launch.rank = 0;
  expect(&options, TANDEM_INVALID_ARGUMENT, "needs an all-gather and a barrier callback");
  EXPECT_EQ(tandem_context_create(&options, nullptr), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_code_name(TANDEM_TIMEOUT), "timeout");
  EXPECT_EQ(tandem_runtime_version(), uint32_t(TANDEM_VERSION));
  EXPECT_STREQ(tandem_runtime_version_string(), TANDEM_VERSION_STRING);
}

TEST(CApi, BadSettings) {
  ::setenv("TANDEM_GRAPH", "banana", 1);
  tandem_context *context = nullptr;
  tandem_context_options options{};
  options.struct_size = sizeof options;
  EXPECT_EQ(tandem_context_create(&options, &context), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context),
               "environment variable TANDEM_GRAPH: expected 0 or 1, found \"banana\"");
  ::unsetenv("TANDEM_GRAPH");
  tandem_context_destroy(context);
}

TEST(CApi, ExceptionsOfABootstrapAreNamed) {
  static std::function<void()> raise;
  std::string file = doubling(2, 8);
  tandem_launch launch{};
  launch.struct_size = sizeof launch;
  launch.rank = 1;
  launch.world_size = 2;
  launch.local_rank = 1;
  launch.local_size = 2;
  launch.all_gather = [](void *, const void *, size_t, void *) {
    raise();
    return 1;
  };
  launch.barrier = [](void *) { return 1; };
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.launch = &launch;
  auto expect = [&](std::function<void()> thrown, tandem_code code, const char *message) {
    raise = std::move(thrown);
    tandem_context *context = nullptr;
    tandem_program *program = nullptr;
    tandem_instance *instance = nullptr;
    ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
    ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK);
    EXPECT_EQ(tandem_prepare(context, program, &instance), code);
    EXPECT_STREQ(tandem_last_error(context), message);
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  };
  expect([] { throw std::system_error(EAGAIN, std::generic_category()); }, TANDEM_IO,
         "the all-gather callback returned 1: tandem_launch.all_gather has thrown "
         "Resource temporarily unavailable");
  expect(
      [] { throw 42; }, TANDEM_IO,
      "the all-gather callback returned 1: tandem_launch.all_gather has thrown an object that is "
      "no std::exception");
}

TEST(CApi, NullHandles) {
  EXPECT_EQ(tandem_run(nullptr), TANDEM_INVALID_ARGUMENT);
  EXPECT_EQ(tandem_enqueue(nullptr, nullptr), TANDEM_INVALID_ARGUMENT);
  EXPECT_EQ(tandem_wait(nullptr), TANDEM_INVALID_ARGUMENT);
  EXPECT_EQ(tandem_bind(nullptr, 0, nullptr, 0, TANDEM_F32, 0, nullptr), TANDEM_INVALID_ARGUMENT);
  EXPECT_EQ(tandem_stream_synchronize(nullptr), TANDEM_INVALID_ARGUMENT);
  EXPECT_EQ(tandem_context_health(nullptr), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_context_device(nullptr), "");
  EXPECT_EQ(tandem_context_has_gated_kernels(nullptr), 0);
  EXPECT_EQ(tandem_program_num_arguments(nullptr), 0u);
  EXPECT_STREQ(tandem_program_name(nullptr), "");
  EXPECT_STREQ(tandem_last_error(nullptr), "no context");
  EXPECT_EQ(tandem_local_world_create(0, 0, nullptr), TANDEM_INVALID_ARGUMENT);
}

TEST(CApi, LocalWorld) {
  tandem_local_world *world = nullptr;
  ASSERT_EQ(tandem_local_world_create(2, 5000, &world), TANDEM_OK);
  std::string file = doubling(2, 8);
  auto rank = [&](uint32_t r) {
    tandem_context_options options{};
    options.struct_size = sizeof options;
    options.channels = "node:local";
    options.local_world = world;
    options.local_world_rank = r;
    tandem_context *context = nullptr;
    tandem_program *program = nullptr;
    tandem_instance *instance = nullptr;
    ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
    ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK);
    ASSERT_EQ(tandem_prepare(context, program, &instance), TANDEM_OK) << tandem_last_error(context);
    std::vector<float> x(8, static_cast<float>(r + 1)), y(8);
    int64_t shape = 8;
    ASSERT_EQ(tandem_bind(instance, 0, x.data(), 32, TANDEM_F32, 1, &shape), TANDEM_OK);
    ASSERT_EQ(tandem_bind(instance, 1, y.data(), 32, TANDEM_F32, 1, &shape), TANDEM_OK);
    ASSERT_EQ(tandem_run(instance), TANDEM_OK) << tandem_last_error(context);
    EXPECT_EQ(y[7], static_cast<float>(2 * (r + 1)));
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.local_world = world;
  options.local_world_rank = 2;
  tandem_context *context = nullptr;
  EXPECT_EQ(tandem_context_create(&options, &context), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context), "no rank 2 in a world of 2");
  tandem_context_destroy(context);
  tandem_local_world_destroy(world);
}

} // namespace
