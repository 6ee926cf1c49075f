//===- MemoryTest.cpp - instances that use the same memory ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Program/stream_program_generated.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <mutex>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kMatrix = 4;
constexpr uint64_t kBytes = 4 * kMatrix * kMatrix;
constexpr uint64_t kWorkspace = uint64_t(32) << 20;

/// Bytes that are allocated now, by kind. (GPUs of the stand-in driver use memory of the host.)
struct Counter {
  std::mutex mutex;
  std::map<MemoryKind, uint64_t> live;

  std::shared_ptr<const Allocator> allocator() {
    auto made = std::make_shared<Allocator>();
    made->allocate = [this](uint64_t bytes, MemoryKind kind) {
      std::lock_guard<std::mutex> lock(mutex);
      live[kind] += bytes;
      return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    };
    made->free = [this](void *memory, uint64_t bytes, MemoryKind kind) {
      std::lock_guard<std::mutex> lock(mutex);
      live[kind] -= bytes;
      std::free(memory);
    };
    return made;
  }
};

/// y = x * w, through `arenaBytes` of arena; on streams 1 and 2 of four.
ProgramSpec product(uint64_t arenaBytes) {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {kMatrix, kMatrix});
  uint32_t w = spec.stacked("w", false, DType::F32, {kMatrix, kMatrix});
  uint32_t y = spec.stacked("y", true, DType::F32, {kMatrix, kMatrix});
  RankSpec &rank = spec.ranks[0];
  auto matrix = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {kMatrix, kMatrix}); };
  uint32_t xv = matrix(rank.argument(x, kBytes)), wv = matrix(rank.argument(w, kBytes)),
           yv = matrix(rank.argument(y, kBytes)), first = matrix(rank.arena(arenaBytes)),
           second = matrix(rank.arena(kBytes));
  rank.sync(1, 0);
  rank.add(sp::CommandKind::matmul, 1, {first, xv, wv});
  rank.sync(2, 1);
  rank.add(sp::CommandKind::matmul, 2, {second, xv, wv});
  rank.sync(3, 2);
  rank.copy(3, yv, second);
  rank.copy(3, yv, first);
  rank.sync(0, 3);
  return spec;
}

/// A chain of instances: each one doubles the result of the one before.
class Chain {
public:
  Status open(std::shared_ptr<const Allocator> allocator, bool shareMemory) {
    ContextOptions options;
    options.device = fakeDevice();
    options.bootstrap = createSelfBootstrap();
    options.allocator = std::move(allocator);
    options.shareMemory = shareMemory;
    TANDEM_ASSIGN_OR_RETURN(context, Context::create(std::move(options)));
    for (int s = 0; s < 2; ++s) {
      TANDEM_ASSIGN_OR_RETURN(auto stream, context->device().createStream(StreamPriority::Normal));
      streams.push_back(std::move(stream));
    }
    std::vector<float> twice(kMatrix * kMatrix);
    for (size_t i = 0; i < twice.size(); i += kMatrix + 1)
      twice[i] = 2;
    TANDEM_ASSIGN_OR_RETURN(w, context->device().allocate(kBytes, MemoryKind::Plain));
    return context->device().upload(w->data(), twice.data(), kBytes);
  }

  Status add(uint64_t arenaBytes) {
    TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(product(arenaBytes).encode()));
    TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(0));
    needs = memoryNeeds(*program);
    TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, program));
    instances.push_back(std::move(instance));
    return Status();
  }

  /// `streams`: on the context's and two others in turn.
  Status pass(bool onStreams) {
    std::vector<std::unique_ptr<Memory>> values;
    std::vector<float> number(kMatrix * kMatrix, 1);
    for (size_t i = 0; i <= instances.size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(auto value, context->device().allocate(kBytes, MemoryKind::Plain));
      values.push_back(std::move(value));
    }
    TANDEM_RETURN_IF_ERROR(context->device().upload(values[0]->data(), number.data(), kBytes));
    for (size_t i = 0; i < instances.size(); ++i) {
      void *data[] = {values[i]->data(), w->data(), values[i + 1]->data()};
      TANDEM_RETURN_IF_ERROR(instances[i]->bindAll(data, nullptr));
      TANDEM_RETURN_IF_ERROR(
          instances[i]->enqueue(onStreams && i % 3 != 0 ? streams[i % 3 - 1] : nullptr));
    }
    for (auto &instance : instances)
      TANDEM_RETURN_IF_ERROR(instance->wait());
    float expected = 1;
    for (const auto &value : values) {
      TANDEM_RETURN_IF_ERROR(context->device().download(number.data(), value->data(), kBytes));
      if (number[0] != expected || number.back() != expected)
        return Status(Code::Internal, "found " + std::to_string(number[0]) + ", expected " +
                                          std::to_string(expected));
      expected *= 2;
    }
    return Status();
  }

  std::unique_ptr<Context> context;
  std::vector<std::shared_ptr<Stream>> streams;
  std::unique_ptr<Memory> w;
  std::vector<InstancePtr> instances;
  MemoryNeeds needs;
};

void expectOk(const Status &status) { EXPECT_TRUE(status.ok()) << status.message(); }

class GpuMemory : public testing::TestWithParam<bool> {};

TEST_P(GpuMemory, InstancesShareWorkspacesAndTheArena) {
  Variable graphs("TANDEM_GRAPH", GetParam() ? "1" : "0");
  Counter counter;
  {
    Chain chain;
    expectOk(chain.open(counter.allocator(), true));
    uint64_t plain = counter.live[MemoryKind::Plain];
    for (uint64_t i = 0; i < 8; ++i)
      expectOk(chain.add(kBytes << i));
    EXPECT_EQ(chain.needs.workspaces, 2u);
    EXPECT_EQ(counter.live[MemoryKind::Plain] - plain, chain.needs.arena);
    for (bool onStreams : {false, true, true})
      expectOk(chain.pass(onStreams));
    // And some bytes for each stream.
    EXPECT_GE(counter.live[MemoryKind::Workspace], 2 * kWorkspace);
    EXPECT_LT(counter.live[MemoryKind::Workspace], 3 * kWorkspace);
    while (chain.instances.size() > 2) {
      chain.instances.erase(chain.instances.begin() + 1);
      expectOk(chain.pass(true));
    }
  }
  for (const auto &[kind, bytes] : counter.live)
    EXPECT_EQ(bytes, 0u);
}

TEST_P(GpuMemory, InstancesHaveTheirOwn) {
  Variable graphs("TANDEM_GRAPH", GetParam() ? "1" : "0");
  Counter counter;
  Chain chain;
  expectOk(chain.open(counter.allocator(), false));
  uint64_t plain = counter.live[MemoryKind::Plain];
  for (uint64_t i = 0; i < 3; ++i)
    expectOk(chain.add(kBytes));
  EXPECT_EQ(counter.live[MemoryKind::Plain] - plain, 3 * chain.needs.arena);
  expectOk(chain.pass(false));
  // The context's streams, and those of each graph.
  EXPECT_GE(counter.live[MemoryKind::Workspace], (GetParam() ? 8 : 2) * kWorkspace);
}

INSTANTIATE_TEST_SUITE_P(, GpuMemory, testing::Bool(),
                         [](const auto &test) { return test.param ? "Graphs" : "Direct"; });

} // namespace
