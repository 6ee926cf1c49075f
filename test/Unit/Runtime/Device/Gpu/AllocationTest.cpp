//===- AllocationTest.cpp - a steady run on a GPU allocates nothing on the host -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "Support/CountAllocations.h"

#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr uint32_t kRanks = 2;
constexpr int64_t kSize = 8;
constexpr uint64_t kBytes = kSize * kSize * 4;

std::string parameters(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
  return text;
}

/// A kernel with PTX.
KernelSpec negation() {
  KernelSpec kernel;
  kernel.code = encodeExpression(1, 1,
                                 {{sp::ExprOp::load, 0, 0, 0, 0.f},
                                  {sp::ExprOp::neg, 0, 0, 0, 0.f},
                                  {sp::ExprOp::store, 1, 0, 0, 0.f}});
  kernel.operandTypes.assign(2, static_cast<uint8_t>(sp::DType::f32));
  kernel.outputs = 1;
  std::string text = ".visible .entry rows(" + parameters(8) +
                     ")\n{ ret; }\n.visible .entry strided(" + parameters(14) + ")\n{ ret; }\n";
  kernel.native.push_back({sp::KernelFormat::ptx, "sm_80", {text.begin(), text.end()}});
  return kernel;
}

/// A put, a copy, a copy of columns, a matmul, a sum and a kernel of the program, on two streams.
ProgramSpec everything() {
  ProgramSpec spec(kRanks);
  spec.name = "everything";
  uint32_t in = spec.stacked("in", false, DType::F32, {kSize, kSize});
  uint32_t out = spec.stacked("out", true, DType::F32, {kSize, kSize});
  for (uint32_t r = 0; r < kRanks; ++r) {
    RankSpec &rank = spec.ranks[r];
    auto matrix = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {kSize, kSize}); };
    uint32_t x = matrix(rank.argument(in, kBytes)), y = matrix(rank.argument(out, kBytes));
    uint32_t buffer = rank.arena(kBytes), a = matrix(buffer), b = matrix(rank.arena(kBytes));
    uint32_t space = matrix(rank.symmetric(kBytes));
    uint16_t signals = rank.channel({0, 1}, OneSided);
    rank.slots = {1, 1};
    rank.sync(1, 0);
    rank.put(0, signals, space, x, 1 - r);
    rank.signal(0, signals, 1 - r, 0, 1);
    rank.add(sp::CommandKind::matmul, 1, {b, x, x});
    rank.waitSignal(0, signals, 0, 1);
    rank.copy(0, a, space);
    rank.signal(0, signals, 1 - r, 1, 1);
    rank.waitSignal(0, signals, 1, 1);
    rank.sync(0, 1);
    rank.copy(0, rank.view(buffer, DType::F32, {kSize, kSize / 2}, {kSize, 1}, 0),
              rank.view(buffer, DType::F32, {kSize, kSize / 2}, {kSize, 1}, 4 * kSize / 2));
    rank.add(sp::CommandKind::accumulate, 0, {b, a});
    rank.kernels.push_back(negation());
    rank.launch(0, 0, {y, b});
  }
  return spec;
}

/// Runs with two sets of addresses in turn. Counts what all ranks allocate after a few runs.
Status runRank(Context &context, Instance &instance, std::atomic<uint32_t> &arrived) {
  std::vector<std::unique_ptr<Memory>> memory;
  for (int i = 0; i < 4; ++i) {
    TANDEM_ASSIGN_OR_RETURN(auto made, context.device().allocate(kBytes, MemoryKind::Plain));
    std::vector<float> ones(kSize * kSize, 1);
    TANDEM_RETURN_IF_ERROR(context.device().upload(made->data(), ones.data(), kBytes));
    memory.push_back(std::move(made));
  }
  return countRuns(
      kRanks, arrived,
      [&](unsigned run) -> Status {
        size_t set = run % 4 / 2 * 2;
        void *data[] = {memory[set]->data(), memory[set + 1]->data()};
        TANDEM_RETURN_IF_ERROR(instance.bindAll(data, nullptr));
        return instance.enqueue();
      },
      [&] { return instance.wait(); });
}

/// Of 24 runs of two ranks.
uint64_t count(bool graphs) {
  std::atomic<uint32_t> arrived{0};
  uint64_t before = allocations;
  RankOptions with;
  with.graphs = graphs;
  takeLog();
  expectAllOk(runRanks(
      everything(), "peer",
      [&](Context &context, Instance &instance) { return runRank(context, instance, arrived); },
      with));
  counting = false;
  EXPECT_EQ(takeLog(), "");
  return allocations - before;
}

TEST(GpuAllocations, AReplayedRunHasNone) { EXPECT_EQ(count(true), 0u); }

// Lists of what is in flight may still grow.
TEST(GpuAllocations, ARunWithoutAGraphHasNone) { EXPECT_LT(count(false), 8u); }

} // namespace
