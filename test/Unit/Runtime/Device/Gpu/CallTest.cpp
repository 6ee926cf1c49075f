//===- CallTest.cpp - kernels of the embedder on a GPU ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include <cuda.h>
#include <dlfcn.h>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kRows = 3, kColumns = 4;

/// y = f(x), as rows 5 ... 7 of 16. `results`: y is the last one of so many.
ProgramSpec calling(uint32_t results) {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {kRows, kColumns});
  uint32_t y = spec.stacked("y", true, DType::F32, {kRows, kColumns});
  RankSpec &rank = spec.ranks[0];
  KernelSpec kernel;
  kernel.name = "f";
  kernel.format = sp::KernelFormat::external;
  kernel.target = "";
  kernel.outputs = results;
  kernel.config = "plain";
  kernel.dims.emplace();
  std::vector<uint32_t> operands;
  for (uint32_t k = 0; k <= results; ++k) {
    kernel.operandTypes.push_back(0);
    kernel.dims->insert(kernel.dims->end(), {0, -1});
    uint32_t buffer = k < results - 1    ? rank.arena(48)
                      : k == results - 1 ? rank.argument(y, 48)
                                         : rank.argument(x, 48);
    operands.push_back(rank.view(buffer, DType::F32, {kRows, kColumns}));
  }
  rank.kernels.push_back(kernel);
  rank.call(0, 0, operands, {{5, 16}});
  return spec;
}

/// A context with the stand-in's GPU, where `kernel` is registered, and an instance of calling().
struct Prepared {
  explicit Prepared(const tandem_kernel *kernel, const ProgramSpec &spec = calling(1)) {
    ContextOptions options;
    options.device = fakeDevice();
    options.bootstrap = createSelfBootstrap();
    auto made = Context::create(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().message();
    context = std::move(*made);
    if (kernel) {
      EXPECT_TRUE(context->registerKernel(*kernel).ok());
    }
    auto file = ProgramFile::fromMemory(spec.encode());
    EXPECT_TRUE(file.ok()) << file.status().message();
    auto program = (*file)->rankProgram(0);
    EXPECT_TRUE(program.ok()) << program.status().message();
    auto prepared = Instance::create(*context, *program);
    status = prepared.status();
    if (prepared)
      instance = std::move(*prepared);
  }

  /// Three runs of numbers 0 to 11; the last element of y.
  float lastOf(int runs) {
    auto memory = bindAll(*context, *instance);
    EXPECT_TRUE(memory.ok());
    float values[kRows * kColumns], found[kRows * kColumns] = {};
    for (int i = 0; i < kRows * kColumns; ++i)
      values[i] = static_cast<float>(i);
    EXPECT_TRUE(context->device().upload((*memory)[0]->data(), values, sizeof values).ok());
    for (int run = 0; run < runs; ++run) {
      Status ran = instance->run();
      EXPECT_TRUE(ran.ok()) << ran.message();
    }
    EXPECT_TRUE(context->device().download(found, (*memory)[1]->data(), sizeof found).ok());
    for (auto &each : *memory)
      used.push_back(std::move(each));
    return found[kRows * kColumns - 1];
  }

  std::unique_ptr<Context> context;
  InstancePtr instance;
  std::vector<std::unique_ptr<Memory>> used; ///< so that the next memory is elsewhere
  Status status;
};

tandem_kernel named(const char *name) {
  tandem_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = name;
  return kernel;
}

/// The stand-in's kernel multiplies each row by its place in the whole tensor: 7 in the last one.
tandem_kernel multiplyByRow() {
  static const char image[] = "any";
  tandem_kernel kernel = named("f");
  kernel.image = image;
  kernel.image_size = sizeof image - 1;
  kernel.entry = "multiply_by_row";
  kernel.threads = 32;
  kernel.indices_per_block = 2;
  return kernel;
}

TEST(GpuCall, Image) {
  tandem_kernel kernel = multiplyByRow();
  Prepared prepared(&kernel);
  ASSERT_TRUE(prepared.status.ok()) << prepared.status.message();
  EXPECT_EQ(prepared.lastOf(3), 77);
  EXPECT_GT(fakeNumber("launches.multiply_by_row"), 0);
}

/// y = f(x), for any number of rows up to kRows.
ProgramSpec callingAnyRows() {
  ProgramSpec spec = calling(1);
  for (ArgumentSpec &argument : spec.arguments) {
    argument.shape = {kRows, kColumns};
    argument.varying = {0};
  }
  spec.ranks[0].callPlaces = {{0, kRows}};
  spec.ranks[0].kernels[0].varying = {0};
  return spec;
}

/// Runs it with many numbers of rows, each with other memory or with memory that was used before.
/// y[i, j] is x[i, j] * factor(i, rows).
void runAnyRows(Prepared &prepared, const std::function<int64_t(int64_t, int64_t)> &factor) {
  ASSERT_TRUE(prepared.status.ok()) << prepared.status.message();
  takeLog();
  std::vector<float> x(kRows * kColumns);
  std::iota(x.begin(), x.end(), 1.0F);
  const uint64_t bytes = sizeof(float) * x.size();
  void *data[2] = {};
  int number = 0;
  for (int64_t rows : {3, 1, 2, 0, 3, 2, 1, 1, 2, 3, 0, 2, 3, 1, 2, 2, 3, 2, 3, 1}) {
    ASSERT_TRUE(prepared.instance->setExtent(rows).ok());
    std::vector<float> y(x.size(), -1);
    Device &device = prepared.context->device();
    for (void *&address : data) {
      if (++number > 20 && address)
        continue;
      auto memory = device.allocate(bytes, MemoryKind::Plain);
      ASSERT_TRUE(memory.ok());
      address = (*memory)->data();
      prepared.used.push_back(std::move(*memory));
    }
    for (float &value : x)
      value += 100; // what an earlier run has left is wrong
    ASSERT_TRUE(device.upload(data[0], x.data(), bytes).ok());
    ASSERT_TRUE(device.upload(data[1], y.data(), bytes).ok());
    ASSERT_TRUE(prepared.instance->bindAll(data, nullptr).ok());
    Status ran = prepared.instance->run();
    ASSERT_TRUE(ran.ok()) << ran.message();
    ASSERT_TRUE(device.download(y.data(), data[1], bytes).ok());
    for (size_t i = 0; i < y.size(); ++i) {
      auto row = static_cast<int64_t>(i) / kColumns;
      EXPECT_EQ(y[i], row < rows ? x[i] * static_cast<float>(factor(row, rows)) : -1)
          << rows << ", " << i;
    }
  }
  EXPECT_EQ(takeLog(), ""); // runs are graphs
}

// The grid is that of the bound in every run. Rows of the caller behind the extent are not written.
TEST(GpuCall, ImageOfAnExtentThatVaries) {
  tandem_kernel kernel = multiplyByRow();
  Prepared prepared(&kernel, callingAnyRows());
  runAnyRows(prepared, [](int64_t row, int64_t) { return row; });
}

// The extent that the kernel sees is that of the run, not of the run that the graph was made for.
TEST(GpuCall, ImageSeesTheExtentOfTheRun) {
  tandem_kernel kernel = multiplyByRow();
  kernel.entry = "multiply_from_end";
  Prepared prepared(&kernel, callingAnyRows());
  runAnyRows(prepared, [](int64_t row, int64_t rows) { return rows - row; });
}

/// Enqueues a copy of the kernel's operand on the stream that it is given.
int enqueueCopy(const tandem_kernel_call *call, size_t bytes) {
  static void *library = ::dlopen(TANDEM_FAKE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  static auto copy = reinterpret_cast<decltype(&cuMemcpyAsync)>(::dlsym(library, "cuMemcpyAsync"));
  static auto hipCopy = reinterpret_cast<int (*)(void *, const void *, size_t, int, void *)>(
      ::dlsym(library, "hipMemcpyAsync"));
  void *to = call->operands[0].data, *from = call->operands[1].data;
  constexpr int kDefault = 4; // hipMemcpyDefault
  if (testsHip())
    return hipCopy ? hipCopy(to, from, bytes, kDefault, call->stream) : 3;
  return copy ? copy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                     static_cast<CUstream>(call->stream))
              : 3;
}

/// Copies, and counts calls.
int copyOnStream(void *user, const tandem_kernel_call *call) {
  ++*static_cast<int *>(user);
  const tandem_kernel_operand &y = call->operands[0], &x = call->operands[1];
  bool right = call->num_operands == 2 && std::string(call->config) == "plain" &&
               std::string(call->name) == "f" && y.rank == 2 && y.shape[0] == kRows &&
               y.strides[0] == kColumns && y.offset[0] == 5 && y.extent[0] == 16 &&
               x.offset[1] == 0 && x.extent[1] == kColumns && call->stream;
  return right ? enqueueCopy(call, 48) : 3;
}

/// Copies no more than the rows of the extent.
int copyExtent(void *, const tandem_kernel_call *call) {
  return enqueueCopy(call, static_cast<size_t>(call->operands[0].extent[0] * kColumns) * 4);
}

// Replays do not call the function. So it is called again for another extent, also with addresses
// that it has seen.
TEST(GpuCall, FunctionSeesTheExtentOfTheRun) {
  tandem_kernel kernel = named("f");
  kernel.gpu_function = copyExtent;
  Prepared prepared(&kernel, callingAnyRows());
  runAnyRows(prepared, [](int64_t, int64_t) { return 1; });
}

// A function is called for the capture and then replayed with the graph.
TEST(GpuCall, Function) {
  tandem_kernel kernel = named("f");
  int calls = 0;
  kernel.user = &calls;
  kernel.gpu_function = copyOnStream;
  Prepared prepared(&kernel);
  ASSERT_TRUE(prepared.status.ok()) << prepared.status.message();
  // Each time in other memory.
  EXPECT_EQ(prepared.lastOf(20), 11);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(prepared.lastOf(5), 11) << i;
  EXPECT_GT(calls, 0);
  EXPECT_LT(calls, 30);
}

/// Copies the operand to both results.
int copyTwice(void *user, const tandem_kernel_call *call) {
  if (call->num_results != 2 || call->num_operands != 3)
    return 4;
  for (int k : {0, 1}) {
    tandem_kernel_operand operands[] = {call->operands[k], call->operands[2]};
    tandem_kernel_call one = *call;
    one.num_operands = 2;
    one.num_results = 1;
    one.operands = operands;
    if (int code = copyOnStream(user, &one))
      return code;
  }
  return 0;
}

TEST(GpuCall, SeveralResults) {
  tandem_kernel kernel = named("f");
  int calls = 0;
  kernel.user = &calls;
  kernel.gpu_function = copyTwice;
  Prepared prepared(&kernel, calling(2));
  ASSERT_TRUE(prepared.status.ok()) << prepared.status.message();
  EXPECT_EQ(prepared.lastOf(5), 11);
  EXPECT_GT(calls, 0);
}

TEST(GpuCall, FailingFunction) {
  tandem_kernel kernel = named("f");
  kernel.gpu_function = [](void *, const tandem_kernel_call *) { return 3; };
  Prepared prepared(&kernel);
  EXPECT_NE(prepared.status.message().find("kernel \"f\" returned 3"), std::string::npos)
      << prepared.status.message();
}

TEST(GpuCall, Refused) {
  auto expect = [](const tandem_kernel *kernel, const char *text) {
    Prepared prepared(kernel);
    EXPECT_EQ(prepared.status.code(), Code::Unsupported);
    EXPECT_NE(prepared.status.message().find(text), std::string::npos) << prepared.status.message();
  };
  expect(nullptr, "kernel \"f\": expected it to be registered with this context");
  tandem_kernel kernel = named("f");
  kernel.cpu_function = copyOnStream;
  expect(&kernel, "kernel \"f\": expected a function or an image for GPUs, found none");
}

} // namespace
