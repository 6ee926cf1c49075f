//===- KernelsTest.cpp - which code of a program's kernels runs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

using namespace tandem;
using namespace tandem::test;

#ifdef TANDEM_CUDA_KERNELS
extern "C" const char tandemCudaKernels[], tandemCudaKernelsEnd[];
#endif
#ifdef TANDEM_HIP_KERNELS
extern "C" const char tandemHipKernels[], tandemHipKernelsEnd[];
#endif

namespace {

/// PTX whose entries declare these parameters.
std::string ptx(const std::string &rows, const std::string &strided) {
  return ".visible .entry rows(" + rows + ")\n{ ret; }\n.visible .entry strided(" + strided +
         ")\n{ ret; }\n";
}

std::string numbers(unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ",\n\t.param .u64 p" : "\n\t.param .u64 p") + std::to_string(i);
  return text;
}

/// y = -x by one kernel, with PTX for `target` if that is not empty.
ProgramSpec negation(const std::string &target,
                     const std::string &text = ptx(numbers(8), numbers(14))) {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {64});
  uint32_t y = spec.stacked("y", true, DType::F32, {64});
  RankSpec &rank = spec.ranks[0];
  uint32_t from = rank.view(rank.argument(x, 256), DType::F32, {64});
  uint32_t to = rank.view(rank.argument(y, 256), DType::F32, {64});
  KernelSpec kernel;
  kernel.code = encodeExpression(1, 1,
                                 {{sp::ExprOp::load, 0, 0, 0, 0.f},
                                  {sp::ExprOp::neg, 0, 0, 0, 0.f},
                                  {sp::ExprOp::store, 1, 0, 0, 0.f}});
  kernel.operandTypes.assign(2, static_cast<uint8_t>(sp::DType::f32));
  kernel.outputs = 1;
  if (!target.empty())
    kernel.native.push_back({sp::KernelFormat::ptx, target, {text.begin(), text.end()}});
  rank.kernels.push_back(kernel);
  rank.launch(0, 0, {to, from});
  return spec;
}

/// The status of one run, and what the first element then was.
std::pair<Status, float> runOnce(const ProgramSpec &spec) {
  float first = 0;
  Status status = runRanks(spec, "local", [&](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    TANDEM_RETURN_IF_ERROR(instance.run());
    return context.device().download(&first, memory[1]->data(), sizeof first);
  })[0];
  return {status, first};
}

TEST(GpuKernels, PtxOfThisGpuOrAnOlderOneRuns) {
  auto [status, first] = runOnce(negation("sm_80"));
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(first, 42.0f); // only the stand-in's PTX writes that
}

/// `rows` runs it, which the stand-in knows; it refuses `strided`.
TEST(GpuKernels, PtxRunsByRowsIfAllColumnsHaveOneElement) {
  for (const std::vector<int64_t> &strides : {std::vector<int64_t>{1, 0}, {0, 0}, {0, 1}}) {
    ProgramSpec spec(1);
    uint32_t x = spec.stacked("x", false, DType::F32, {8, 12});
    uint32_t y = spec.stacked("y", true, DType::F32, {8, 12});
    RankSpec &rank = spec.ranks[0];
    uint32_t from = rank.view(rank.argument(x, 384), DType::F32, {8, 12}, strides, 0);
    uint32_t to = rank.view(rank.argument(y, 384), DType::F32, {8, 12});
    KernelSpec kernel = negation("sm_90").ranks[0].kernels[0];
    rank.kernels.push_back(kernel);
    rank.launch(0, 0, {to, from});
    auto [status, first] = runOnce(spec);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(first, 42.0f);
  }
}

TEST(GpuKernels, PtxOfOtherParametersIsRejected) {
  std::string rows = numbers(8), strided = numbers(14);
  std::string fewer = numbers(7) + ", .param .u32 p7";
  std::string block = numbers(7) + ", .param .align 8 .b8 p7[16]";
  struct {
    std::string text, expected;
  } cases[] = {
      {ptx(numbers(7), strided),
       "entry \"rows\": expected 8 parameters of 8 bytes, found 7 of 8, "},
      {ptx(numbers(9), strided),
       "entry \"rows\": expected 8 parameters of 8 bytes, found 9 of 8, "},
      {ptx(rows, numbers(13)), "entry \"strided\": expected 14 parameters of 8 bytes, found 13 of"},
      {ptx(fewer, strided), "entry \"rows\": expected 8 parameters of 8 bytes, found 8 of 8, 8, 8, "
                            "8, 8, 8, 8, 4 bytes"},
      {ptx(block, strided), "found 8 of 8, 8, 8, 8, 8, 8, 8, 16 bytes"},
      {ptx(rows, ""), "a kernel's arguments are not known"},
  };
  for (const auto &c : cases) {
    Status status = runOnce(negation("sm_90", c.text)).first;
    EXPECT_FALSE(status.ok()) << c.text;
    EXPECT_NE(status.message().find("kernel \"kernel\": "), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(c.expected), std::string::npos) << status.message();
  }
}

TEST(GpuKernels, WithoutCodeForThisGpuTheProgramIsRejected) {
  std::string expected =
      testsHip() ? "the program has no code for hip:0 (gfx942); compile it for a hip target that "
                   "names this GPU, like hip-rccl:gfx942"
                 : "the program has no code for cuda:0 (sm_90); compile it for a cuda target";
  for (const char *target : {"", "sm_120", "gfx90a"}) {
    Status status = runOnce(negation(target)).first;
    EXPECT_EQ(status.code(), Code::Unsupported) << target;
    EXPECT_NE(status.message().find("kernel \"kernel\": " + expected), std::string::npos)
        << status.message();
  }
}

// ccache can return an object with old kernels.
TEST(GpuKernels, AreThoseOfTheBuild) {
  auto expectContent = [](const char *path, const char *begin, const char *end) {
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    std::string content{std::istreambuf_iterator<char>(file), {}};
    std::string_view embedded(begin, static_cast<size_t>(end - begin));
    EXPECT_TRUE(embedded == content)
        << path << ": " << embedded.size() << " bytes of " << content.size();
  };
#ifdef TANDEM_CUDA_KERNELS
  expectContent(TANDEM_CUDA_KERNELS, tandemCudaKernels, tandemCudaKernelsEnd);
#endif
#ifdef TANDEM_HIP_KERNELS
  expectContent(TANDEM_HIP_KERNELS, tandemHipKernels, tandemHipKernelsEnd);
#endif
}

} // namespace
