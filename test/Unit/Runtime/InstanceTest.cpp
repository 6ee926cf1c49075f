//===- InstanceTest.cpp - binding, running and failing ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"

#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Two ranks exchange their slices and multiply: out = [x0; x1] * w.
ProgramSpec exchangeMatmul() {
  constexpr int64_t m = 3, k = 5, n = 4;
  ProgramSpec spec(2);
  spec.name = "exchange";
  spec.stacked("x", false, DType::F32, {m, k});
  spec.stacked("w", false, DType::F32, {k, n});
  spec.stacked("out", true, DType::F32, {2, m, n});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.argument(0, m * k * 4), w = rank.argument(1, k * n * 4);
    uint32_t out = rank.argument(2, 2 * m * n * 4), slots = rank.arena(m * k * 4);
    uint16_t ch = rank.channel({0, 1}, TwoSided);
    uint32_t xv = rank.view(x, DType::F32, {m, k}), wv = rank.view(w, DType::F32, {k, n});
    uint32_t other = rank.view(slots, DType::F32, {m, k});
    auto slice = [&](uint32_t i) { return rank.view(out, DType::F32, {m, n}, i * m * n * 4); };
    rank.sync(1, 0);
    rank.group(1, ch, 2);
    rank.recv(1, ch, other, 1 - r, 0);
    rank.send(1, ch, xv, 1 - r, 0);
    rank.add(sp::CommandKind::matmul, 0, {slice(r), xv, wv});
    rank.add(sp::CommandKind::matmul, 1, {slice(1 - r), other, wv});
    rank.sync(0, 1);
  }
  return spec;
}

/// Runs `body(context, program)` on every rank, each a thread.
template <typename Body>
void onRanks(const ProgramSpec &spec, std::chrono::milliseconds timeout, Body body) {
  auto size = static_cast<uint32_t>(spec.ranks.size());
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto world = LocalWorld::create(size, std::chrono::seconds(20));
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      ContextOptions options;
      options.device = createCpuDevice();
      options.transports.push_back(world->transport(r));
      options.launch = world->launch(r);
      options.timeout = timeout;
      auto context = Context::create(std::move(options));
      ASSERT_TRUE(context.ok()) << context.status().message();
      auto program = (*file)->rankProgram(r);
      ASSERT_TRUE(program.ok()) << program.status().message();
      body(**context, *program);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Instance, ExchangeMatmulManyRuns) {
  onRanks(exchangeMatmul(), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    std::vector<float> x(15), w(20), out(24);
    auto bind = [&](uint32_t i, std::vector<float> &data, std::initializer_list<int64_t> shape) {
      Status status = (*instance)->bind(i, {data.data(), Layout::dense(DType::F32, shape)},
                                        data.size() * sizeof(float));
      ASSERT_TRUE(status.ok()) << status.message();
    };
    bind(0, x, {3, 5});
    bind(1, w, {5, 4});
    bind(2, out, {2, 3, 4});
    for (int i = 0; i < 20; ++i)
      w[i] = static_cast<float>(i % 7);
    for (int run = 0; run < 50; ++run) {
      for (int i = 0; i < 15; ++i)
        x[i] = static_cast<float>(i + run + 100 * context.rank());
      Status status = (*instance)->run();
      ASSERT_TRUE(status.ok()) << status.message();
      for (int s = 0; s < 2; ++s)
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 4; ++j) {
            float sum = 0;
            for (int k = 0; k < 5; ++k)
              sum += static_cast<float>(i * 5 + k + run + 100 * s) * w[k * 4 + j];
            ASSERT_EQ(out[s * 12 + i * 4 + j], sum) << "run " << run;
          }
    }
  });
}

TEST(Instance, UnmatchedReceiveTimesOut) {
  ProgramSpec spec = exchangeMatmul();
  spec.ranks[1].commands[3].aux = 9; // nobody sends with tag 9
  onRanks(spec, std::chrono::milliseconds(300), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    std::vector<float> memory(24 * 3);
    auto bind = [&](uint32_t i, std::initializer_list<int64_t> shape) {
      ASSERT_TRUE((*instance)
                      ->bind(i, {memory.data() + 24 * i, Layout::dense(DType::F32, shape)}, 96)
                      .ok());
    };
    bind(0, {3, 5});
    bind(1, {5, 4});
    bind(2, {2, 3, 4});
    Status status = (*instance)->run();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("rank " + std::to_string(context.rank())), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("command 2 (group"), std::string::npos) << status.message();
    // Poisoned: the same error again, at once.
    EXPECT_EQ((*instance)->run().message(), status.message());
    EXPECT_EQ(context.health().message(), status.message());
  });
}

} // namespace
