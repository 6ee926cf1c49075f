//===- InstanceTest.cpp - binding, running and failing ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExchangeMatmul.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace tandem;
using namespace tandem::test;

namespace {

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
      options.bootstrap = world->bootstrap(r);
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

TEST(Instance, TracesWhenCommandsRan) {
  onRanks(exchangeMatmul(), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    std::vector<float> x(15), w(20), out(24);
    Layout layouts[] = {Layout::dense(DType::F32, {3, 5}), Layout::dense(DType::F32, {5, 4}),
                        Layout::dense(DType::F32, {2, 3, 4})};
    std::vector<float> *data[] = {&x, &w, &out};
    for (uint32_t i = 0; i < 3; ++i) {
      ASSERT_TRUE((*instance)->bind(i, {data[i]->data(), layouts[i]}, data[i]->size() * 4).ok());
    }
    ASSERT_TRUE((*instance)->run().ok());
    EXPECT_TRUE((*instance)->times().empty());
    ASSERT_TRUE((*instance)->trace(true).ok());
    int64_t last = 0;
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE((*instance)->run().ok());
      const std::vector<CommandTime> &times = (*instance)->times();
      // record, wait, group, recv, send, matmul, matmul, record, wait.
      ASSERT_EQ(times.size(), 9u);
      for (size_t noted : {0u, 1u, 2u, 5u, 6u, 7u, 8u}) {
        EXPECT_GT(times[noted].begin, last) << noted;
        EXPECT_GE(times[noted].end, times[noted].begin) << noted;
      }
      for (size_t message : {3u, 4u})
        EXPECT_EQ(times[message].end, 0) << message;
      EXPECT_GE(times[6].begin, times[2].end); // one stream
      // A wait is over after the record that it waits for has begun.
      EXPECT_GE(times[1].end, times[0].begin);
      EXPECT_GE(times[8].end, times[7].begin);
      EXPECT_GE(times[7].begin, times[6].end);
      last = std::max(times[7].end, times[8].end);
    }
    ASSERT_TRUE((*instance)->trace(false).ok());
    ASSERT_TRUE((*instance)->run().ok());
    EXPECT_TRUE((*instance)->times().empty());
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

/// y = x on one rank.
ProgramSpec identity(uint32_t ranks, int64_t count) {
  ProgramSpec spec(ranks);
  spec.name = "identity";
  uint32_t x = spec.stacked("x", false, DType::I32, {count}),
           y = spec.stacked("y", true, DType::I32, {count});
  auto bytes = static_cast<uint64_t>(count) * 4;
  for (RankSpec &rank : spec.ranks) {
    uint32_t to = rank.view(rank.argument(y, bytes), DType::I32, {count}); // view 0
    rank.copy(0, to, rank.view(rank.argument(x, bytes), DType::I32, {count}));
  }
  return spec;
}

TEST(Instance, OnTheCallersStream) {
  onRanks(identity(1, 100), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok());
    std::vector<int32_t> x(100, 5), y(100);
    Layout layout = Layout::dense(DType::I32, {100});
    ASSERT_TRUE((*instance)->bind(0, {x.data(), layout}, 400).ok());
    ASSERT_TRUE((*instance)->bind(1, {y.data(), layout}, 400).ok());
    auto created = context.device().createStream(StreamPriority::Normal);
    ASSERT_TRUE(created.ok());
    std::shared_ptr<Stream> stream = std::move(*created);
    // Behind what the stream holds: the run sees what an earlier copy on the same stream wrote.
    std::vector<int32_t> source(100, 9);
    void *pointers[] = {x.data(), source.data()};
    auto copy = context.device().prepareCopy({0, layout}, {1, layout});
    Frame frame;
    frame.pointers = pointers;
    ASSERT_TRUE((*copy)->enqueue(*stream, frame).ok());
    ASSERT_TRUE((*instance)->enqueue(stream).ok());
    ASSERT_TRUE(stream->synchronize().ok());
    EXPECT_EQ(y[50], 9);
    ASSERT_TRUE((*instance)->wait().ok());
  });
}

TEST(Instance, RebindingTakesEffectInTheNextRun) {
  onRanks(identity(1, 10), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    std::vector<int32_t> x(10, 1), other(10, 2), y(10);
    Layout layout = Layout::dense(DType::I32, {10});
    ASSERT_TRUE((*instance)->bind(1, {y.data(), layout}, 40).ok());
    for (int run = 0; run < 6; ++run) {
      auto &in = run % 3 == 0 ? other : x;
      ASSERT_TRUE((*instance)->bind(0, {in.data(), layout}, 40).ok());
      ASSERT_TRUE((*instance)->run().ok());
      EXPECT_EQ(y[3], in[0]);
    }
  });
}

TEST(Instance, TwoOfOneContext) {
  onRanks(exchangeMatmul(), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto first = Instance::create(context, program), second = Instance::create(context, program);
    ASSERT_TRUE(first.ok() && second.ok());
    std::vector<float> x(15, 1), w(20, 1), out(24), out2(24);
    for (auto *instance : {&first, &second}) {
      auto &result = instance == &first ? out : out2;
      ASSERT_TRUE((**instance)->bind(0, {x.data(), Layout::dense(DType::F32, {3, 5})}, 60).ok());
      ASSERT_TRUE((**instance)->bind(1, {w.data(), Layout::dense(DType::F32, {5, 4})}, 80).ok());
      ASSERT_TRUE(
          (**instance)->bind(2, {result.data(), Layout::dense(DType::F32, {2, 3, 4})}, 96).ok());
    }
    for (int run = 0; run < 10; ++run) {
      ASSERT_TRUE((*first)->enqueue().ok());
      ASSERT_TRUE((*second)->enqueue().ok());
    }
    ASSERT_TRUE((*second)->wait().ok());
    ASSERT_TRUE((*first)->wait().ok());
    EXPECT_EQ(out, std::vector<float>(24, 5));
    EXPECT_EQ(out2, out);
  });
}

class SlowOperation final : public HostOperation {
public:
  Status execute(const Frame &) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    return Status();
  }
};

TEST(Instance, TheTimeLimitStartsBehindTheCallersWork) {
  onRanks(identity(1, 100), std::chrono::milliseconds(300),
          [](Context &context, const auto &program) {
            auto instance = Instance::create(context, program);
            ASSERT_TRUE(instance.ok());
            std::vector<int32_t> x(100, 5), y(100);
            Layout layout = Layout::dense(DType::I32, {100});
            ASSERT_TRUE((*instance)->bind(0, {x.data(), layout}, 400).ok());
            ASSERT_TRUE((*instance)->bind(1, {y.data(), layout}, 400).ok());
            std::shared_ptr<Stream> stream =
                std::move(*context.device().createStream(StreamPriority::Normal));
            SlowOperation slow;
            Frame frame;
            ASSERT_TRUE(slow.enqueue(*stream, frame).ok());
            ASSERT_TRUE((*instance)->enqueue(stream).ok());
            Status status = (*instance)->wait();
            EXPECT_TRUE(status.ok()) << status.message();
            EXPECT_EQ(y[50], 5);
          });
}

TEST(Instance, TheTimeLimitStartsBehindRunsOfOtherInstances) {
  onRanks(identity(1, 100), std::chrono::milliseconds(300),
          [](Context &context, const auto &program) {
            auto first = Instance::create(context, program),
                 second = Instance::create(context, program);
            ASSERT_TRUE(first.ok() && second.ok());
            std::vector<int32_t> x(100, 5), y(100), z(100);
            void *one[] = {x.data(), y.data()}, *two[] = {y.data(), z.data()};
            ASSERT_TRUE((*first)->bindAll(one, nullptr).ok());
            ASSERT_TRUE((*second)->bindAll(two, nullptr).ok());
            std::shared_ptr<Stream> stream =
                std::move(*context.device().createStream(StreamPriority::Normal));
            SlowOperation slow;
            Frame frame;
            ASSERT_TRUE(slow.enqueue(*stream, frame).ok());
            ASSERT_TRUE((*first)->enqueue(stream).ok());
            ASSERT_TRUE((*second)->enqueue().ok()); // on the context's stream
            Status status = (*second)->wait();
            EXPECT_TRUE(status.ok()) << status.message();
            EXPECT_EQ(z[50], 5);
            EXPECT_TRUE((*first)->wait().ok());
          });
}

/// Opened by open(); then all who wait for it go on.
class GateOperation final : public HostOperation {
public:
  Status execute(const Frame &) override {
    opened.wait();
    return Status();
  }
  void open() { promise.set_value(); }

private:
  std::promise<void> promise;
  std::shared_future<void> opened{promise.get_future()};
};

/// Enqueues `runs` runs on rank 0 before rank 1 has enqueued its first one. Each run has arguments
/// of its own.
void enqueueFarAhead(int runs, bool traces) {
  std::promise<void> enqueued;
  std::shared_future<void> rank0 = enqueued.get_future();
  onRanks(exchangeMatmul(), std::chrono::seconds(20), [&](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    ASSERT_TRUE((*instance)->trace(traces).ok());
    std::vector<std::vector<float>> x, out;
    std::vector<float> w(20, 1);
    for (int run = 0; run < runs; ++run) {
      x.emplace_back(15, static_cast<float>(2 * run + static_cast<int>(context.rank())));
      out.emplace_back(24, -1.f);
    }
    if (context.rank() == 1)
      rank0.wait();
    for (auto run = size_t(0); run < x.size(); ++run) {
      void *data[] = {x[run].data(), w.data(), out[run].data()};
      ASSERT_TRUE((*instance)->bindAll(data, nullptr).ok());
      Status status = (*instance)->enqueue();
      ASSERT_TRUE(status.ok()) << status.message();
    }
    if (context.rank() == 0) {
      EXPECT_FALSE(*(*instance)->query());
      enqueued.set_value();
    }
    Status status = (*instance)->wait();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(*(*instance)->query());
    for (size_t run = 0; run < out.size(); ++run)
      for (size_t i = 0; i < 24; ++i)
        ASSERT_EQ(out[run][i], 5 * static_cast<float>(2 * run + i / 12)) << run << ", " << i;
  });
}

TEST(Instance, TheThirdRunInFlightDoesNotBlockTheHost) { enqueueFarAhead(16, false); }
TEST(Instance, TheThirdTracedRunInFlightDoesNotBlockTheHost) { enqueueFarAhead(16, true); }

/// A peer puts into the half of the run before last only when that run has ended.
TEST(Instance, RunsInFlightShareTwoHalves) {
  constexpr int64_t n = 4;
  constexpr size_t runs = 16;
  ProgramSpec spec(2);
  uint32_t x = spec.stacked("x", false, DType::I32, {n}),
           y = spec.stacked("y", true, DType::I32, {n});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    auto vector = [&](uint32_t buffer) { return rank.view(buffer, DType::I32, {n}); };
    uint32_t from = vector(rank.argument(x, n * 4)), to = vector(rank.argument(y, n * 4));
    uint32_t space = vector(rank.symmetric(n * 4));
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots = {1};
    rank.put(0, channel, space, from, 1 - r);
    rank.signal(0, channel, 1 - r, 0, 1);
    rank.waitSignal(0, channel, 0, 1);
    rank.copy(0, to, space);
  }
  std::promise<void> enqueued;
  std::shared_future<void> rank0 = enqueued.get_future();
  onRanks(spec, std::chrono::seconds(20), [&](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    std::vector<std::vector<int32_t>> x, y;
    for (size_t run = 0; run < runs; ++run) {
      x.emplace_back(n, static_cast<int32_t>(2 * run + context.rank()));
      y.emplace_back(n, -1);
    }
    if (context.rank() == 1)
      rank0.wait();
    for (size_t run = 0; run < runs; ++run) {
      void *data[] = {x[run].data(), y[run].data()};
      ASSERT_TRUE((*instance)->bindAll(data, nullptr).ok());
      Status status = (*instance)->enqueue();
      ASSERT_TRUE(status.ok()) << status.message();
    }
    if (context.rank() == 0)
      enqueued.set_value();
    Status status = (*instance)->wait();
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t run = 0; run < runs; ++run)
      EXPECT_EQ(y[run],
                std::vector<int32_t>(n, static_cast<int32_t>(2 * run + 1 - context.rank())));
  });
}

/// More runs than may be in flight: some wait, and all are right. Several streams, which change.
TEST(Instance, ManyRunsInFlightOnStreamsOfTheCaller) {
  onRanks(exchangeMatmul(), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok());
    std::shared_ptr<Stream> streams[3];
    for (auto &stream : streams)
      stream = std::move(*context.device().createStream(StreamPriority::Normal));
    std::vector<std::vector<float>> x, out;
    std::vector<float> w(20, 1);
    for (size_t run = 0; run < 60; ++run) {
      x.emplace_back(15, static_cast<float>(2 * run + context.rank()));
      out.emplace_back(24, -1.f);
      void *data[] = {x[run].data(), w.data(), out[run].data()};
      ASSERT_TRUE((*instance)->bindAll(data, nullptr).ok());
      Status status = (*instance)->enqueue(streams[run % 3]);
      ASSERT_TRUE(status.ok()) << status.message();
      if (run == 31) {
        ASSERT_TRUE((*instance)->wait().ok());
      }
    }
    ASSERT_TRUE((*instance)->wait().ok());
    for (size_t run = 0; run < out.size(); ++run)
      for (size_t i = 0; i < 24; ++i)
        ASSERT_EQ(out[run][i], 5 * static_cast<float>(2 * run + i / 12)) << run << ", " << i;
  });
}

/// A run of many commands may take longer than the limit, which is for one of them.
TEST(Instance, CommandsThatBeginAreProgress) {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {1}),
           y = spec.stacked("y", true, DType::F32, {1});
  RankSpec &rank = spec.ranks[0];
  rank.kernels.push_back(
      KernelSpec{"sleep", sp::KernelFormat::external, "", {}, {0, 0}, {}, 1, {{0, 0}}});
  uint32_t in = rank.view(rank.argument(x, 4), DType::F32, {1});
  uint32_t out = rank.view(rank.argument(y, 4), DType::F32, {1});
  for (int i = 0; i < 8; ++i)
    rank.call(0, 0, {out, in}, {{0, 1}});
  onRanks(spec, std::chrono::milliseconds(1000), [](Context &context, const auto &program) {
    tandem_kernel kernel{};
    kernel.struct_size = sizeof kernel;
    kernel.name = "sleep";
    kernel.cpu_function = [](void *, const tandem_kernel_call *) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return 0;
    };
    ASSERT_TRUE(context.registerKernel(kernel).ok());
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    float values[2] = {};
    void *addresses[] = {&values[0], &values[1]};
    ASSERT_TRUE((*instance)->bindAll(addresses, nullptr).ok());
    Status status = (*instance)->run();
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

/// Each rank prepares a file that lacks one field: an error on all ranks, or on none.
TEST(Instance, ProgramsWithoutAField) {
  ProgramSpec spec = exchangeMatmul();
  for (const Dropped &dropped : withoutEachField(spec.encode())) {
    auto file = ProgramFile::fromMemory(dropped.bytes);
    if (!file.ok() || (*file)->numRanks() != 2 || !(*file)->rankProgram(0).ok() ||
        !(*file)->rankProgram(1).ok())
      continue;
    std::atomic<int> good{0};
    onRanks(spec, std::chrono::seconds(20), [&](Context &context, const auto &) {
      good += Instance::create(context, *(*file)->rankProgram(context.rank())).ok();
    });
    EXPECT_TRUE(good == 0 || good == 2) << dropped.field;
  }
}

TEST(Instance, ProgramsMustAgree) {
  // Only a constant differs.
  ProgramSpec one = identity(2, 4), two = identity(2, 4);
  for (ProgramSpec *spec : {&one, &two})
    for (RankSpec &rank : spec->ranks)
      rank.kernels.push_back(
          {"add", sp::KernelFormat::expression, "cpu",
           encodeExpression(1, 1,
                            {{sp::ExprOp::load},
                             {sp::ExprOp::constant, 0, 0, 0, spec == &one ? 1.0 : 2.0},
                             {sp::ExprOp::add, 0, 1},
                             {sp::ExprOp::store, 2, 0}})});
  auto files =
      std::vector{ProgramFile::fromMemory(one.encode()), ProgramFile::fromMemory(two.encode())};
  onRanks(one, std::chrono::seconds(20), [&](Context &context, const auto &) {
    auto program = (*files[context.rank()])->rankProgram(context.rank());
    auto instance = Instance::create(context, *program);
    ASSERT_FALSE(instance.ok());
    EXPECT_NE(instance.status().message().find("loaded another program"), std::string::npos)
        << instance.status().message();
  });
}

TEST(Instance, WhatOneRankCannotDoAllHear) {
  // Rank 1 has a kernel that no CPU runs.
  ProgramSpec spec = identity(2, 4);
  RankSpec &rank = spec.ranks[1];
  rank.kernels.push_back({"native", sp::KernelFormat::ptx, "sm_90", {1, 2, 3}});
  rank.kernels.back().outputs = 1;
  rank.launch(0, 0, {0});
  onRanks(spec, std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_FALSE(instance.ok());
    std::string expected =
        context.rank() == 1
            ? "rank 1: @identity: command 1 (launch \"launch #1\"): kernel \"native\""
            : "rank 0: @identity: rank 1 could not prepare the program: command 1 (launch";
    EXPECT_NE(instance.status().message().find(expected), std::string::npos)
        << instance.status().message();
    // Nothing ran: the context is as good as before.
    EXPECT_TRUE(context.health().ok());
  });
}

TEST(Instance, NoChannelForIt) {
  ProgramSpec spec(1);
  spec.name = "needs";
  spec.ranks[0].channel({0}, Collectives);
  auto file = ProgramFile::fromMemory(spec.encode());
  ContextOptions options;
  options.device = createCpuDevice();
  options.bootstrap = createSelfBootstrap();
  auto context = Context::create(std::move(options));
  auto instance = Instance::create(**context, *(*file)->rankProgram(0));
  EXPECT_EQ(instance.status().message(),
            "rank 0: @needs: channel c0 \"ch\": needs collectives, this context has no channels");
}

/// A rank of a host of two ranks.
class TwoPerHost final : public Bootstrap {
public:
  explicit TwoPerHost(std::unique_ptr<Bootstrap> inner) : inner(std::move(inner)) {}
  uint32_t rank() const override { return inner->rank(); }
  uint32_t worldSize() const override { return inner->worldSize(); }
  std::string host() const override { return "host " + std::to_string(rank() / 2); }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    return inner->allGather(mine, bytes, all);
  }
  Status barrier() override { return inner->barrier(); }

private:
  std::unique_ptr<Bootstrap> inner;
};

/// Channels of `inner` that do not leave a host.
class NearTransport final : public Transport {
public:
  NearTransport(std::unique_ptr<Transport> inner, std::vector<std::string> &made,
                Reach reached = Reach::Host)
      : inner(std::move(inner)), made(made), reached(reached) {}
  std::string_view name() const override { return "near"; }
  uint32_t capabilities() const override { return inner->capabilities(); }
  Reach reach() const override { return reached; }
  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                   Bootstrap &bootstrap) override {
    made.push_back(desc.name);
    return inner->createChannel(desc, device, bootstrap);
  }

private:
  std::unique_ptr<Transport> inner;
  std::vector<std::string> &made;
  Reach reached;
};

/// Prepares channels of the groups {0, 1}, {2, 3} and of {0, 2}, {1, 3} on two hosts. Returns the
/// channels that the near transport made, by rank, and the status of rank 3.
std::pair<std::vector<std::vector<std::string>>, Status> prepareOnTwoHosts(bool alsoFar) {
  ProgramSpec spec(4);
  spec.name = "pod";
  for (uint32_t r = 0; r < 4; ++r) {
    spec.ranks[r].channel({r / 2 * 2, r / 2 * 2 + 1}, TwoSided, "inside");
    spec.ranks[r].channel({r % 2, r % 2 + 2}, TwoSided, "across");
  }
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto world = LocalWorld::create(4, std::chrono::seconds(20)),
       nearWorld = LocalWorld::create(4, std::chrono::seconds(20));
  std::pair<std::vector<std::vector<std::string>>, Status> result;
  result.first.resize(4);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {
      ContextOptions options;
      options.device = createCpuDevice();
      options.transports.push_back(
          std::make_unique<NearTransport>(nearWorld->transport(r), result.first[r]));
      if (alsoFar)
        options.transports.push_back(world->transport(r));
      options.bootstrap = std::make_unique<TwoPerHost>(world->bootstrap(r));
      auto context = Context::create(std::move(options));
      auto instance = Instance::create(**context, *(*file)->rankProgram(r));
      if (r == 3)
        result.second = instance.status();
    });
  for (std::thread &thread : threads)
    thread.join();
  return result;
}

TEST(Instance, ChannelsBetweenHostsGetATransportThatReachesThem) {
  auto [made, status] = prepareOnTwoHosts(/*alsoFar=*/true);
  EXPECT_TRUE(status.ok()) << status.message();
  for (const std::vector<std::string> &channels : made)
    EXPECT_EQ(channels, std::vector<std::string>{"inside"});
}

/// As above, with two transports of the given link classes that reach all ranks. Returns the
/// channels that each of them made on rank 0. `linkClass`: that the program gives to channel
/// "inside".
std::pair<std::vector<std::string>, std::vector<std::string>>
prepareByClass(const std::vector<std::string> &classes, Transport::Reach firstReaches,
               const std::string &linkClass = "") {
  ProgramSpec spec(4);
  for (uint32_t r = 0; r < 4; ++r) {
    spec.ranks[r].channel({r / 2 * 2, r / 2 * 2 + 1}, TwoSided, "inside");
    spec.ranks[r].channels.back().linkClass = linkClass;
    spec.ranks[r].channel({r % 2, r % 2 + 2}, TwoSided, "across");
  }
  auto file = ProgramFile::fromMemory(spec.encode());
  EXPECT_TRUE(file.ok()) << file.status().message();
  auto world = LocalWorld::create(4, std::chrono::seconds(20)),
       other = LocalWorld::create(4, std::chrono::seconds(20));
  std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> made(4);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {
      ContextOptions options;
      options.device = createCpuDevice();
      options.transports.push_back(
          std::make_unique<NearTransport>(world->transport(r), made[r].first, firstReaches));
      options.transports.push_back(std::make_unique<NearTransport>(
          other->transport(r), made[r].second, Transport::Reach::World));
      options.linkClasses = classes;
      options.bootstrap = std::make_unique<TwoPerHost>(world->bootstrap(r));
      auto context = Context::create(std::move(options));
      auto instance = Instance::create(**context, *(*file)->rankProgram(r));
      EXPECT_TRUE(instance.ok()) << instance.status().message();
    });
  for (std::thread &thread : threads)
    thread.join();
  return made[0];
}

TEST(Instance, ChannelsGetTheTransportOfTheirLinkClass) {
  using Names = std::vector<std::string>;
  constexpr auto kWorld = Transport::Reach::World, kHost = Transport::Reach::Host;
  using Made = std::pair<Names, Names>;
  EXPECT_EQ(prepareByClass({}, kWorld), Made(Names{"inside", "across"}, Names{}));
  EXPECT_EQ(prepareByClass({"network", "node"}, kWorld), Made(Names{"across"}, Names{"inside"}));
  EXPECT_EQ(prepareByClass({"node", "network"}, kWorld), Made(Names{"inside"}, Names{"across"}));
  // The next best one: that for all, then that of the other class.
  EXPECT_EQ(prepareByClass({"network", ""}, kWorld), Made(Names{"across"}, Names{"inside"}));
  EXPECT_EQ(prepareByClass({"", "node"}, kWorld), Made(Names{"across"}, Names{"inside"}));
  EXPECT_EQ(prepareByClass({"node", "node"}, kWorld), Made(Names{"inside", "across"}, Names{}));
  // The first one is for the class, but does not reach its ranks.
  EXPECT_EQ(prepareByClass({"network", "node"}, kHost), Made(Names{}, Names{"inside", "across"}));
  // The program knows better.
  EXPECT_EQ(prepareByClass({"network", "node"}, kWorld, "network"),
            Made(Names{"inside", "across"}, Names{}));
}

TEST(Instance, LinkClassesAreKnown) {
  ContextOptions options;
  options.device = createCpuDevice();
  options.bootstrap = createSelfBootstrap();
  options.linkClasses = {"", "rack"};
  EXPECT_EQ(Context::create(std::move(options)).status().message(),
            "link class: expected \"node\" or \"network\", found \"rack\"");
}

TEST(Instance, NoTransportBetweenHosts) {
  auto [made, status] = prepareOnTwoHosts(/*alsoFar=*/false);
  EXPECT_EQ(status.message(),
            "rank 3: @pod: channel c1 \"across\": needs two_sided between hosts (ranks 0 and 2), "
            "this context has near (two_sided|one_sided|collectives, one host)");
}

/// One rank: y = x and m = mask, for up to four rows of three; `varies`: of fewer, too.
ProgramSpec copyRows(bool varies) {
  ProgramSpec spec(1);
  auto add = [&](const char *name, bool isResult, DType dtype, const Shape &shape, bool isMask) {
    spec.arguments.push_back({name, isResult ? sp::ArgumentRole::result : sp::ArgumentRole::input,
                              static_cast<sp::DType>(dtype), shape});
    if (varies)
      spec.arguments.back().varying = {0};
    spec.arguments.back().mask = isMask && varies;
    spec.ranks[0].shards.push_back({true, 0, shape, denseStrides(shape), shape});
  };
  add("x", false, DType::F32, {4, 3}, false);
  add("mask", false, DType::I1, {4}, true);
  add("y", true, DType::F32, {4, 3}, false);
  add("m", true, DType::I1, {4}, false);
  spec.arguments[3].varying.clear(); // shows the whole mask
  RankSpec &rank = spec.ranks[0];
  auto view = [&](uint32_t i, DType dtype, const Shape &shape, uint64_t bytes) {
    return rank.view(rank.argument(i, bytes), dtype, shape);
  };
  rank.copy(0, view(2, DType::F32, {4, 3}, 48), view(0, DType::F32, {4, 3}, 48));
  rank.copy(0, view(3, DType::I1, {4}, 4), view(1, DType::I1, {4}, 4));
  return spec;
}

TEST(Instance, VaryingExtent) {
  onRanks(copyRows(true), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    std::vector<uint8_t> mask(4);
    auto bindRows = [&](std::vector<float> &data, uint32_t i, int64_t rows) {
      Shape shape{rows, 3};
      Status status =
          (*instance)->bind(i, {data.data(), Layout::dense(DType::F32, shape.data(), 2)},
                            static_cast<uint64_t>(rows) * 12);
      EXPECT_TRUE(status.ok()) << status.message();
    };
    Shape four{4};
    ASSERT_TRUE(
        (*instance)->bind(3, {mask.data(), Layout::dense(DType::I1, four.data(), 1)}, 4).ok());
    // More and fewer rows, twice each: both slots are prepared anew.
    for (int64_t rows : {4, 2, 2, 0, 3, 1, 4, 4}) {
      ASSERT_TRUE((*instance)->setExtent(rows).ok());
      std::vector<float> x(12, -1), y(12, -2);
      for (int64_t i = 0; i < rows * 3; ++i)
        x[static_cast<size_t>(i)] = static_cast<float>(i + 1);
      bindRows(x, 0, rows);
      bindRows(y, 2, rows);
      for (int run = 0; run < 3; ++run)
        ASSERT_TRUE((*instance)->enqueue().ok());
      ASSERT_TRUE((*instance)->wait().ok());
      for (int64_t i = 0; i < 12; ++i)
        EXPECT_EQ(y[static_cast<size_t>(i)], i < rows * 3 ? static_cast<float>(i + 1) : -2.f)
            << rows << " rows, element " << i;
      for (int64_t i = 0; i < 4; ++i)
        EXPECT_EQ(mask[static_cast<size_t>(i)], i < rows) << rows << " rows, element " << i;
    }
  });
}

/// Runs of several extents are enqueued before the first one begins.
TEST(Instance, RunsOfOtherExtentsInFlight) {
  onRanks(copyRows(true), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    std::shared_ptr<Stream> stream =
        std::move(*context.device().createStream(StreamPriority::Normal));
    GateOperation gate;
    Frame frame;
    ASSERT_TRUE(gate.enqueue(*stream, frame).ok());
    const std::vector<int64_t> rows = {4, 2, 0, 3, 3, 1, 4, 2};
    std::vector<std::vector<float>> x, y;
    std::vector<std::vector<uint8_t>> masks(rows.size(), std::vector<uint8_t>(4, 7));
    for (size_t run = 0; run < rows.size(); ++run) {
      x.emplace_back(12, static_cast<float>(run + 1));
      y.emplace_back(12, -2.f);
      ASSERT_TRUE((*instance)->setExtent(rows[run]).ok());
      void *data[] = {x[run].data(), nullptr, y[run].data(), masks[run].data()};
      Status status = (*instance)->bindAll(data, nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE((*instance)->enqueue(stream).ok());
    }
    EXPECT_FALSE(*(*instance)->query());
    gate.open();
    ASSERT_TRUE((*instance)->wait().ok());
    for (size_t run = 0; run < rows.size(); ++run)
      for (size_t i = 0; i < 12; ++i) {
        bool inside = static_cast<int64_t>(i / 3) < rows[run];
        EXPECT_EQ(y[run][i], inside ? static_cast<float>(run + 1) : -2.f) << run << ", " << i;
        EXPECT_EQ(masks[run][i / 3], inside ? 1 : 0) << run << ", " << i;
      }
  });
}

TEST(Instance, VaryingExtentErrors) {
  onRanks(copyRows(true), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    auto message = [](const Status &status) { return std::string(status.message()); };
    EXPECT_NE(message((*instance)->setExtent(5)).find("expected an extent of 0 to 4, found 5"),
              std::string::npos);
    EXPECT_FALSE((*instance)->setExtent(-1).ok());
    std::vector<float> x(12), y(12);
    std::vector<uint8_t> mask(4);
    Shape rows{4, 3}, four{4};
    Layout layout = Layout::dense(DType::F32, rows.data(), 2);
    Layout flags = Layout::dense(DType::I1, four.data(), 1);
    EXPECT_NE(message((*instance)->bind(1, {mask.data(), flags}, 4)).find("the runtime binds it"),
              std::string::npos);
    ASSERT_TRUE((*instance)->bind(0, {x.data(), layout}, 48).ok());
    ASSERT_TRUE((*instance)->bind(2, {y.data(), layout}, 48).ok());
    ASSERT_TRUE((*instance)->bind(3, {mask.data(), flags}, 4).ok());
    ASSERT_TRUE((*instance)->run().ok());
    // Another extent: other shapes, so nothing that varies is bound.
    ASSERT_TRUE((*instance)->setExtent(2).ok());
    EXPECT_NE(message((*instance)->run()).find("argument 0 \"x\": not bound"), std::string::npos);
    EXPECT_NE(message((*instance)->bind(0, {x.data(), layout}, 48)).find("expected f32[2,3]"),
              std::string::npos);
  });
  onRanks(copyRows(false), std::chrono::seconds(20), [](Context &context, const auto &program) {
    auto instance = Instance::create(context, program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    EXPECT_NE(
        std::string((*instance)->setExtent(4).message()).find("no extent of the program varies"),
        std::string::npos);
  });
}

} // namespace
