//===- KernelsTest.cpp - which code of a program's kernels runs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Runtime/Gpu.h"

#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// y = -x by one kernel, as an expression and, where `target` is one, as PTX.
ProgramSpec negation(const std::string &target) {
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
  std::string text = "// any";
  if (!target.empty())
    kernel.native.push_back({sp::KernelFormat::ptx, target, {text.begin(), text.end()}});
  rank.kernels.push_back(kernel);
  rank.launch(0, 0, {to, from});
  return spec;
}

/// What has run after one run, and what the first element then was.
struct Found {
  Status status;
  gpu::LaunchCounts launches;
  float first = 0;
};
Found runOnce(const ProgramSpec &spec) {
  Found found;
  found.status = runRanks(spec, "local", [&](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    TANDEM_RETURN_IF_ERROR(instance.run());
    found.launches = dynamic_cast<gpu::GpuAccess &>(context.device()).launches();
    return context.device().download(&found.first, memory[1]->data(), sizeof found.first);
  })[0];
  return found;
}

TEST(GpuKernels, PtxRunsWhereThereIsSome) {
  Found found = runOnce(negation("sm_80"));
  ASSERT_TRUE(found.status.ok()) << found.status.message();
  EXPECT_EQ(found.first, 42.0f); // only the stand-in's PTX writes that
  EXPECT_GT(found.launches.ptx, 0u);
  EXPECT_EQ(found.launches.interpreted, 0u);
}

TEST(GpuKernels, ElseTheExpressionIsInterpreted) {
  for (const char *target : {"", "sm_120", "gfx942"}) {
    Found found = runOnce(negation(target));
    ASSERT_TRUE(found.status.ok()) << found.status.message();
    EXPECT_EQ(found.launches.ptx, 0u) << target;
    EXPECT_GT(found.launches.interpreted, 0u) << target;
  }
}

TEST(GpuKernels, AUserMayWantOneKindAlone) {
  {
    Variable only("TANDEM_KERNELS", "expression");
    Found found = runOnce(negation("sm_90"));
    ASSERT_TRUE(found.status.ok()) << found.status.message();
    EXPECT_EQ(found.launches.ptx, 0u);
  }
  Variable only("TANDEM_KERNELS", "ptx");
  EXPECT_TRUE(runOnce(negation("sm_90")).status.ok());
  Found none = runOnce(negation(""));
  EXPECT_EQ(none.status.code(), Code::Unsupported);
  EXPECT_NE(none.status.message().find("kernel \"kernel\": TANDEM_KERNELS=ptx"), std::string::npos)
      << none.status.message();
}

} // namespace
