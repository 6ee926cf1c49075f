//===- KernelTest.cpp - kernels of the embedder in the C API ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"

#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kCount = 6;

/// y = scale(x), on each of `ranks` ranks.
std::string scaling(uint32_t ranks) {
  ProgramSpec spec(ranks);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount});
  uint32_t y = spec.stacked("y", true, DType::F32, {kCount});
  for (RankSpec &rank : spec.ranks) {
    KernelSpec kernel{"scale", sp::KernelFormat::external, "", {}, {0, 0}, {}, 1, {{0, 0}}};
    rank.kernels.push_back(kernel);
    uint32_t in = rank.view(rank.argument(x, kCount * 4), DType::F32, {kCount});
    uint32_t out = rank.view(rank.argument(y, kCount * 4), DType::F32, {kCount});
    rank.call(0, 0, {out, in}, {{rank.rank * kCount, ranks * kCount}});
  }
  return spec.encode();
}

// [docs: kernel]
/// y = factor * x; both dense.
int scale(void *user, const tandem_kernel_call *call) {
  const tandem_kernel_operand &y = call->operands[0], &x = call->operands[1];
  for (int64_t i = 0; i < y.shape[0]; ++i)
    static_cast<float *>(y.data)[i] = *static_cast<float *>(user) * static_cast<float *>(x.data)[i];
  return 0;
}

tandem_kernel makeKernel(float *factor) {
  tandem_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "scale";
  kernel.user = factor;
  kernel.cpu_function = scale;
  return kernel;
}
// [docs: end]

/// One rank of a local world, or the only one.
struct Rank {
  explicit Rank(tandem_local_world *world = nullptr, uint32_t number = 0) {
    tandem_context_options options{};
    options.struct_size = sizeof options;
    options.local_world = world;
    options.local_world_rank = number;
    options.channels = world ? "local" : nullptr;
    EXPECT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
  }
  ~Rank() {
    tandem_instance_destroy(instance);
    tandem_program_destroy(program);
    tandem_context_destroy(context);
  }

  tandem_code prepare(const std::string &file) {
    EXPECT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK)
        << tandem_last_error(context);
    return tandem_prepare(context, program, &instance);
  }

  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
};

TEST(CApiKernel, Runs) {
  float factor = 3, x[kCount] = {1, 2, 3, 4, 5, 6}, y[kCount] = {};
  Rank rank;
  // The second kernel of a name replaces the first one.
  float other = 5;
  for (float *each : {&other, &factor}) {
    tandem_kernel kernel = makeKernel(each);
    ASSERT_EQ(tandem_register_kernel(rank.context, &kernel), TANDEM_OK);
  }
  ASSERT_EQ(rank.prepare(scaling(1)), TANDEM_OK) << tandem_last_error(rank.context);
  for (uint32_t i : {0, 1})
    ASSERT_EQ(tandem_bind(rank.instance, i, i ? y : x, sizeof x, TANDEM_F32, 1, &kCount),
              TANDEM_OK);
  for (int run = 0; run < 3; ++run)
    ASSERT_EQ(tandem_run(rank.instance), TANDEM_OK) << tandem_last_error(rank.context);
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(y[i], 3 * x[i]);
}

/// y = x * w by groups, with 2 batch indices of 6 rows, 3 groups, on one rank.
std::string grouped(const char *name = "tandem.grouped_matmul", int64_t groupsOfEnds = 3,
                    DType ofX = DType::F32) {
  ProgramSpec spec(1);
  auto argument = [&](const char *name, bool isResult, DType type, std::vector<int64_t> shape) {
    uint64_t count = 1;
    for (int64_t extent : shape)
      count *= static_cast<uint64_t>(extent);
    uint32_t number = spec.stacked(name, isResult, type, shape);
    RankSpec &rank = spec.ranks[0];
    return rank.view(rank.argument(number, count * sizeOf(type)), type, shape);
  };
  uint32_t x = argument("x", false, ofX, {2, 6, 1}),
           w = argument("w", false, DType::F32, {3, 1, 2}),
           ends = argument("ends", false, DType::I32, {2, groupsOfEnds}),
           y = argument("y", true, DType::F32, {2, 6, 2});
  KernelSpec kernel{
      name, sp::KernelFormat::external, "", {}, {0, static_cast<uint8_t>(ofX), 0, 3}, {}, 1};
  kernel.dims = {{0, -1, 1, 0, -1, -1, -1, -1, 1, 0, -1}};
  kernel.strided = true;
  spec.ranks[0].kernels.push_back(kernel);
  spec.ranks[0].call(0, 0, {y, x, w, ends}, {{0, 2}, {0, 2}});
  return spec.encode();
}

TEST(CApiKernel, GroupedMatmulClampsEnds) {
  // The factor of a row's group is 1, 10 or 100; 0: it has none.
  const struct {
    int32_t ends[6];
    float factors[12];
  } cases[] = {
      {{2, 2, 5, 0, 6, 6}, {1, 1, 100, 100, 100, 0, 10, 10, 10, 10, 10, 10}},
      {{-7, 4, 1, 3, 2, -2147483647}, {10, 10, 10, 10, 0, 0, 1, 1, 1, 0, 0, 0}},
      {{1, 2147483647, 3, 0, 0, 0}, {1, 10, 10, 10, 10, 10, 0, 0, 0, 0, 0, 0}},
      {{5, 3, 7, -1, -1, 100}, {1, 1, 1, 1, 1, 100, 100, 100, 100, 100, 100, 100}},
  };
  Rank rank;
  ASSERT_EQ(rank.prepare(grouped()), TANDEM_OK) << tandem_last_error(rank.context);
  float x[12], w[6] = {1, 2, 10, 20, 100, 200}, y[24];
  for (int i = 0; i < 12; ++i)
    x[i] = static_cast<float>(i + 1);
  const int64_t ofX[] = {2, 6, 1}, ofW[] = {3, 1, 2}, ofEnds[] = {2, 3}, ofY[] = {2, 6, 2};
  for (const auto &each : cases) {
    int32_t ends[6];
    std::copy(std::begin(each.ends), std::end(each.ends), ends);
    std::fill(std::begin(y), std::end(y), -1.0f);
    ASSERT_EQ(tandem_bind(rank.instance, 0, x, sizeof x, TANDEM_F32, 3, ofX), TANDEM_OK);
    ASSERT_EQ(tandem_bind(rank.instance, 1, w, sizeof w, TANDEM_F32, 3, ofW), TANDEM_OK);
    ASSERT_EQ(tandem_bind(rank.instance, 2, ends, sizeof ends, TANDEM_I32, 2, ofEnds), TANDEM_OK);
    ASSERT_EQ(tandem_bind(rank.instance, 3, y, sizeof y, TANDEM_F32, 3, ofY), TANDEM_OK);
    ASSERT_EQ(tandem_run(rank.instance), TANDEM_OK) << tandem_last_error(rank.context);
    for (int i = 0; i < 24; ++i)
      EXPECT_EQ(y[i], x[i / 2] * each.factors[i / 2] * static_cast<float>(1 + i % 2)) << i;
  }
}

TEST(CApiKernel, BuiltInNamesAreReserved) {
  float factor = 3;
  Rank rank;
  tandem_kernel kernel = makeKernel(&factor);
  kernel.name = "tandem.grouped_matmul";
  EXPECT_EQ(tandem_register_kernel(rank.context, &kernel), TANDEM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tandem_last_error(rank.context)).find("does not begin with \"tandem.\""),
            std::string::npos)
      << tandem_last_error(rank.context);
}

TEST(CApiKernel, RefusesWrongBuiltInCalls) {
  for (auto [file, error] :
       {std::pair(grouped("tandem.other"), "expected a kernel that the runtime has"),
        std::pair(grouped("tandem.grouped_matmul", 2),
                  "expected equal extents of equal dimensions"),
        std::pair(grouped("tandem.grouped_matmul", 3, DType::F8E5M2),
                  "of 8 bits and a result of f32, f16 or bf16, and ends of i32; found f8E5M2, f32, "
                  "f32 and i32")}) {
    Rank rank;
    EXPECT_EQ(tandem_program_load_memory(rank.context, file.data(), file.size(), &rank.program),
              TANDEM_INVALID_PROGRAM);
    EXPECT_NE(std::string(tandem_last_error(rank.context)).find(error), std::string::npos)
        << tandem_last_error(rank.context);
  }
}

/// A kernel that asks what is in flight: its own command, with a struct of the library's size.
struct Seen {
  tandem_context *context = nullptr;
  size_t struct_size = 0;
  std::vector<std::string> texts;
};

int look(void *user, const tandem_kernel_call *) {
  auto each = [](void *user, const tandem_command_in_flight *command) {
    auto *seen = static_cast<Seen *>(user);
    seen->struct_size = command->struct_size;
    seen->texts.push_back(std::string(command->program) + " " + std::to_string(command->run) +
                          ": " + command->text);
  };
  return tandem_commands_in_flight(static_cast<Seen *>(user)->context, each, user);
}

TEST(CApiKernel, SeesItsCommandInFlight) {
  float x[kCount] = {}, y[kCount] = {};
  Rank rank;
  Seen seen;
  seen.context = rank.context;
  tandem_kernel kernel = makeKernel(nullptr);
  kernel.user = &seen;
  kernel.cpu_function = look;
  ASSERT_EQ(tandem_register_kernel(rank.context, &kernel), TANDEM_OK);
  ASSERT_EQ(rank.prepare(scaling(1)), TANDEM_OK) << tandem_last_error(rank.context);
  for (uint32_t i : {0, 1})
    ASSERT_EQ(tandem_bind(rank.instance, i, i ? y : x, sizeof x, TANDEM_F32, 1, &kCount),
              TANDEM_OK);
  for (uint64_t run = 0; run < 2; ++run) {
    seen.texts.clear();
    ASSERT_EQ(tandem_run(rank.instance), TANDEM_OK) << tandem_last_error(rank.context);
    EXPECT_EQ(seen.struct_size, sizeof(tandem_command_in_flight));
    ASSERT_EQ(seen.texts.size(), 1u);
    EXPECT_NE(seen.texts[0].find(std::to_string(run) + ": command 0 (call"), std::string::npos)
        << seen.texts[0];
  }
  EXPECT_EQ(tandem_commands_in_flight(rank.context, nullptr, nullptr), TANDEM_INVALID_ARGUMENT);
}

/// y = x + 1, z = 2 x.
int twoResults(void *, const tandem_kernel_call *call) {
  if (call->num_results != 2 || call->num_operands != 3)
    return 1;
  const tandem_kernel_operand *all = call->operands;
  for (int64_t i = 0; i < all[2].shape[0]; ++i) {
    float x = static_cast<float *>(all[2].data)[i];
    static_cast<float *>(all[0].data)[i] = x + 1;
    static_cast<float *>(all[1].data)[i] = 2 * x;
  }
  return 0;
}

TEST(CApiKernel, SeveralResults) {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount}),
           y = spec.stacked("y", true, DType::F32, {kCount}),
           z = spec.stacked("z", true, DType::F32, {kCount});
  RankSpec &only = spec.ranks[0];
  only.kernels.push_back(
      {"two", sp::KernelFormat::external, "", {}, {0, 0, 0}, {}, 2, {{0, 0, 0}}});
  auto view = [&](uint32_t argument) {
    return only.view(only.argument(argument, kCount * 4), DType::F32, {kCount});
  };
  uint32_t in = view(x), first = view(y), second = view(z);
  only.call(0, 0, {first, second, in}, {{0, kCount}});

  Rank rank;
  tandem_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "two";
  kernel.cpu_function = twoResults;
  ASSERT_EQ(tandem_register_kernel(rank.context, &kernel), TANDEM_OK);
  ASSERT_EQ(rank.prepare(spec.encode()), TANDEM_OK) << tandem_last_error(rank.context);
  float values[3][kCount] = {{1, 2, 3, 4, 5, 6}};
  for (uint32_t i = 0; i < 3; ++i)
    ASSERT_EQ(tandem_bind(rank.instance, i, values[i], sizeof values[i], TANDEM_F32, 1, &kCount),
              TANDEM_OK);
  ASSERT_EQ(tandem_run(rank.instance), TANDEM_OK) << tandem_last_error(rank.context);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(values[1][i], values[0][i] + 1);
    EXPECT_EQ(values[2][i], values[0][i] * 2);
  }
}

// A kernel that one rank lacks is an error on all ranks.
TEST(CApiKernel, MissingOnOneRank) {
  tandem_local_world *world = nullptr;
  ASSERT_EQ(tandem_local_world_create(2, 10000, &world), TANDEM_OK);
  std::string file = scaling(2), errors[2];
  tandem_code codes[2] = {};
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      Rank rank(world, r);
      float factor = 3;
      tandem_kernel kernel = makeKernel(&factor);
      if (r == 0) {
        EXPECT_EQ(tandem_register_kernel(rank.context, &kernel), TANDEM_OK);
      }
      codes[r] = rank.prepare(file);
      errors[r] = tandem_last_error(rank.context);
    });
  for (std::thread &thread : threads)
    thread.join();
  tandem_local_world_destroy(world);
  EXPECT_EQ(codes[0], TANDEM_ABORTED);
  EXPECT_EQ(codes[1], TANDEM_UNSUPPORTED);
  for (const std::string &error : errors)
    EXPECT_NE(error.find("kernel \"scale\": expected it to be registered with this context"),
              std::string::npos)
        << error;
}

TEST(CApiKernel, Errors) {
  Rank rank;
  auto expect = [&](const tandem_kernel *kernel, const std::string &text) {
    EXPECT_EQ(tandem_register_kernel(rank.context, kernel), TANDEM_INVALID_ARGUMENT);
    EXPECT_EQ(tandem_last_error(rank.context), text);
  };
  float factor = 1;
  expect(nullptr, "kernel: null pointer");
  tandem_kernel kernel = makeKernel(&factor);
  kernel.struct_size = 0;
  expect(&kernel, "tandem_kernel: struct_size: expected 72, found 0");
  kernel = makeKernel(&factor);
  kernel.name = "";
  expect(&kernel, "tandem_kernel: expected a name, found none");
  kernel = makeKernel(&factor);
  kernel.cpu_function = nullptr;
  expect(&kernel, "kernel \"scale\": expected a function or an image, found none");
  kernel.image = "ptx";
  kernel.gpu_function = scale;
  expect(&kernel, "kernel \"scale\": expected a GPU function or an image, found both");
  kernel.gpu_function = nullptr;
  expect(&kernel,
         "kernel \"scale\": an image needs image_size, entry, threads and indices_per_block");
}

} // namespace
