//===- GroupedTest.cpp - grouped matmuls on a GPU ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {
namespace grouped {

constexpr int64_t kRows = 6, kDepth = 8, kColumns = 16, kGroups = 3;

struct Types {
  DType x, w, y;
  Types(DType all) : x(all), w(all), y(all) {}
  Types(DType x, DType w, DType y) : x(x), w(w), y(y) {}
};

/// y = x times the matrix of each row's group. `offset`: x is not the argument, but so many bytes
/// into a buffer.
ProgramSpec groupedSpec(const Types &types, bool transposeB, uint64_t offset = 0) {
  ProgramSpec spec(1);
  std::vector<int64_t> ofW{kGroups, kDepth, kColumns};
  if (transposeB)
    std::swap(ofW[1], ofW[2]);
  struct Tensor {
    const char *name;
    DType type;
    std::vector<int64_t> shape;
    uint64_t bytes() const {
      uint64_t size = sizeOf(type);
      for (int64_t extent : shape)
        size *= static_cast<uint64_t>(extent);
      return size;
    }
  } tensors[] = {{"x", types.x, {kRows, kDepth}},
                 {"w", types.w, ofW},
                 {"ends", DType::I32, {kGroups}},
                 {"y", types.y, {kRows, kColumns}}};
  RankSpec &rank = spec.ranks[0];
  std::vector<uint32_t> operands;
  KernelSpec kernel;
  kernel.name = "tandem.grouped_matmul";
  kernel.format = sp::KernelFormat::external;
  kernel.target = "";
  kernel.outputs = 1;
  kernel.config = transposeB ? "transpose_b" : "";
  kernel.dims.emplace();
  for (const Tensor &tensor : tensors) {
    uint32_t argument = spec.stacked(tensor.name, tensor.name[0] == 'y', tensor.type, tensor.shape);
    operands.push_back(
        rank.view(rank.argument(argument, tensor.bytes()), tensor.type, tensor.shape));
  }
  if (offset > 0)
    operands[0] =
        rank.view(rank.arena(tensors[0].bytes() + offset), types.x, tensors[0].shape, offset);
  std::rotate(operands.begin(), operands.end() - 1, operands.end()); // the result is the first one
  for (unsigned k = 0; k < operands.size(); ++k) {
    const Tensor &tensor = tensors[(k + 3) % 4];
    kernel.operandTypes.push_back(static_cast<uint8_t>(tensor.type));
    kernel.dims->insert(kernel.dims->end(), tensor.shape.size(), -1);
  }
  rank.kernels.push_back(kernel);
  rank.call(0, 0, operands, {});
  return spec;
}

/// The bytes of numbers, which all types have.
std::vector<std::byte> bytesOf(DType type, const std::vector<float> &numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeOf(type));
  storeFromF32(type, numbers.data(), bytes.data(), 1, static_cast<int64_t>(numbers.size()));
  return bytes;
}

std::unique_ptr<Context> makeContext() {
  ContextOptions options;
  options.device = fakeDevice();
  options.bootstrap = createSelfBootstrap();
  return std::move(*Context::create(std::move(options)));
}

Expected<InstancePtr> makeInstance(Context &context, const ProgramSpec &spec) {
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(spec.encode()));
  TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(0));
  return Instance::create(context, program);
}

/// Row r of x is 1 at r modulo kDepth, so row r of y is that row of its group's matrix. Five runs,
/// each with other groups.
void runGroups(const Types &types, bool transposeB) {
  auto context = makeContext();
  auto instance = makeInstance(*context, groupedSpec(types, transposeB));
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  auto memory = std::move(*bindAll(*context, **instance)); // x, w, ends, y
  Device &device = context->device();
  std::vector<float> x(kRows * kDepth), w(kGroups * kDepth * kColumns), y(kRows * kColumns);
  for (int64_t row = 0; row < kRows; ++row)
    x[static_cast<size_t>(row * kDepth + row % kDepth)] = 1;
  // 4 bits of mantissa, so f8E4M3FN has them.
  auto value = [](int64_t group, int64_t k, int64_t column) {
    auto least = static_cast<float>((8 + column % 8) << (k / 2));
    return (group == 1 ? -least : least) / static_cast<float>(1 << (group + 3 * (k % 2)));
  };
  for (int64_t g = 0; g < kGroups; ++g)
    for (int64_t k = 0; k < kDepth; ++k)
      for (int64_t n = 0; n < kColumns; ++n)
        w[static_cast<size_t>(g * kDepth * kColumns +
                              (transposeB ? n * kDepth + k : k * kColumns + n))] = value(g, k, n);
  std::vector<std::byte> ofX = bytesOf(types.x, x), ofW = bytesOf(types.w, w),
                         ofY(y.size() * sizeOf(types.y));
  ASSERT_TRUE(device.upload(memory[0]->data(), ofX.data(), ofX.size()).ok());
  ASSERT_TRUE(device.upload(memory[1]->data(), ofW.data(), ofW.size()).ok());
  // The second has an empty group and rows of none, the third one ends that go down and too far.
  for (auto ends : {std::array<int32_t, 3>{2, 3, 6}, {1, 1, 4}, {4, 2, 9}, {0, 0, 6}, {0, 0, 0}}) {
    ASSERT_TRUE(device.upload(memory[2]->data(), ends.data(), sizeof ends).ok());
    Status ran = (*instance)->run();
    ASSERT_TRUE(ran.ok()) << ran.message();
    ASSERT_TRUE(device.download(ofY.data(), memory[3]->data(), ofY.size()).ok());
    loadAsF32(types.y, ofY.data(), 1, static_cast<int64_t>(y.size()), y.data());
    for (int64_t row = 0; row < kRows; ++row) {
      int64_t group = 0, end = 0;
      while (group < kGroups && row >= (end = std::max<int64_t>(end, ends[group])))
        ++group;
      for (int64_t n = 0; n < kColumns; ++n)
        EXPECT_EQ(y[static_cast<size_t>(row * kColumns + n)],
                  group < kGroups ? value(group, row % kDepth, n) : 0)
            << "row " << row << ", column " << n;
    }
  }
}

class GpuGrouped : public ::testing::Test {
protected:
  void SetUp() override {
    if (testsHip())
      GTEST_SKIP() << "only CUDA has the kernels";
  }
  Variable library{"TANDEM_GATED_LIBRARY", TANDEM_FAKE_LIBRARY};
};

TEST_F(GpuGrouped, EachRowWithTheMatrixOfItsGroup) {
  const DType e4m3 = DType::F8E4M3FN, e5m2 = DType::F8E5M2;
  for (const char *graph : {"1", "0"}) {
    Variable variable("TANDEM_GRAPH", graph);
    auto run = [&](const Types &types, bool transposeB) {
      int64_t runs = fakeNumber("grouped-runs");
      runGroups(types, transposeB);
      // It is captured on trial and for each half of the runs, whatever the groups are.
      EXPECT_EQ(fakeNumber("grouped-runs") - runs, *graph == '1' ? 3 : 5);
    };
    for (DType type : {DType::F16, DType::BF16})
      for (bool transposeB : {false, true})
        for (DType result : {type, DType::F32})
          run({type, type, result}, transposeB);
    for (DType type : {e4m3, e5m2})
      for (DType result : {DType::F32, DType::F16, DType::BF16})
        run({type, e4m3, result}, true);
  }
}

TEST_F(GpuGrouped, TheKernelIsLoadedWhenTheProgramIsPrepared) {
  Variable graph("TANDEM_GRAPH", "0"); // nothing is captured on trial
  auto context = makeContext();
  int64_t loads = fakeNumber("grouped-loads"), runs = fakeNumber("grouped-runs");
  auto instance = makeInstance(*context, groupedSpec(DType::BF16, false));
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  EXPECT_EQ(fakeNumber("grouped-loads") - loads, 1);
  EXPECT_EQ(fakeNumber("grouped-runs") - runs, 0);
}

TEST_F(GpuGrouped, MisalignedArgumentsAreRefusedWhenTheyAreBound) {
  auto context = makeContext();
  auto instance = makeInstance(*context, groupedSpec(DType::BF16, false));
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  auto memory = std::move(*bindAll(*context, **instance));
  std::vector<void *> data;
  for (const auto &each : memory)
    data.push_back(each->data());
  for (uint32_t i : {0u, 1u, 3u}) {
    std::vector<void *> odd(data);
    odd[i] = static_cast<std::byte *>(data[i]) + 8;
    Status status = (*instance)->bindAll(odd.data(), nullptr);
    EXPECT_EQ(status.code(), Code::InvalidArgument);
    EXPECT_NE(status.message().find("address is not a multiple of 16"), std::string::npos)
        << status.message();
  }
  data[2] = static_cast<std::byte *>(data[2]) + 4; // of i32
  EXPECT_TRUE((*instance)->bindAll(data.data(), nullptr).ok());
}

TEST_F(GpuGrouped, WhatNoKernelComputes) {
  auto context = makeContext();
  auto expect = [&](const ProgramSpec &spec, const char *text) {
    Status status = makeInstance(*context, spec).status();
    EXPECT_EQ(status.code(), Code::Unsupported);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  const DType e4m3 = DType::F8E4M3FN, e5m2 = DType::F8E5M2;
  expect(groupedSpec(DType::F32, false), "found x f32, w f32, y f32");
  for (DType x : {e4m3, e5m2})
    expect(groupedSpec({x, e5m2, DType::F32}, true),
           "w of f8E4M3FN and y of f32, f16 or bf16; found");
  expect(groupedSpec({e4m3, e4m3, DType::BF16}, false),
         "expected w stored [G, N, K] (transpose_b) of factors of 8 bits, found [G, K, N]");
  ProgramSpec deterministic = groupedSpec(DType::BF16, false);
  deterministic.deterministic = sp::Determinism::bitwise;
  expect(deterministic, "expected a program that is not deterministic on a GPU");
  expect(groupedSpec(DType::BF16, false, 8),
         "expected an operand at a multiple of 16 bytes, found one 8 bytes into its buffer");
  Knob refused("grouped-refused", 1);
  expect(groupedSpec(DType::BF16, false), "tandem.grouped_matmul: N and K must be multiples of 8");
}

} // namespace grouped
} // namespace
