//===- MemoryTest.cpp - instances that use the same memory ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem/Program/stream_program_generated.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Registry.h"

#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <thread>

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

  std::shared_ptr<const Allocator> allocator(bool leavesSymmetric = false) {
    auto made = std::make_shared<Allocator>();
    made->leavesSymmetric = leavesSymmetric;
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
    needs = memoryNeeds(*program, *context);
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

/// Two ranks put x to each other and copy what has arrived to y. `hears`: each one waits for what
/// the other puts in a run, else only rank 0 puts and hears that rank 1 has begun.
ProgramSpec exchange(int64_t count, bool hears) {
  ProgramSpec spec(2);
  uint32_t x = spec.stacked("x", false, DType::F32, {count});
  uint32_t y = spec.stacked("y", true, DType::F32, {count});
  auto bytes = static_cast<uint64_t>(count) * 4;
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    auto view = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {count}); };
    uint32_t from = view(rank.argument(x, bytes)), to = view(rank.argument(y, bytes)),
             space = view(rank.symmetric(bytes)), between = view(rank.arena(bytes));
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots = {1, 1};
    rank.copy(0, between, from);
    if (hears || r == 0) {
      rank.sync(1, 0);
      rank.put(1, channel, space, between, 1 - r);
      rank.signal(1, channel, 1 - r, 0, 1, true);
      rank.sync(0, 1);
    }
    if (hears || r == 1) {
      if (!hears)
        rank.signal(0, channel, 0, 1, 1, true);
      rank.waitSignal(0, channel, 0, 1);
      rank.copy(0, to, space);
    } else {
      rank.waitSignal(0, channel, 1, 1);
      rank.copy(0, to, between);
    }
  }
  return spec;
}

/// exchange(count, true), then the ranks also send x to each other and receive z.
ProgramSpec exchangeBoth(int64_t count) {
  ProgramSpec spec = exchange(count, true);
  uint32_t z = spec.stacked("z", true, DType::F32, {count});
  auto bytes = static_cast<uint64_t>(count) * 4;
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    auto view = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {count}); };
    uint32_t from = view(rank.argument(0, bytes)), to = view(rank.argument(z, bytes));
    uint16_t channel = rank.channel({0, 1}, TwoSided, "messages");
    rank.group(0, channel, 2);
    rank.send(0, channel, from, 1 - r, 0);
    rank.recv(0, channel, to, 1 - r, 0);
  }
  return spec;
}

/// Both ranks of a world of threads, on GPUs of the stand-in driver.
void onBothRanks(const std::function<Status(Context &, LocalWorld &)> &body) {
  auto world = LocalWorld::create(2, std::chrono::seconds(20));
  auto rank = [&](uint32_t r) -> Status {
    ContextOptions options;
    options.device = fakeDevice(r);
    options.bootstrap = world->bootstrap(r);
    TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport("peer"));
    options.transports.push_back(std::move(transport));
    options.transports.push_back(world->transport(r));
    TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
    return body(*context, *world);
  };
  Status other;
  std::thread second([&] { other = rank(1); });
  Status mine = rank(0);
  second.join();
  EXPECT_TRUE(mine.ok()) << mine.message();
  EXPECT_TRUE(other.ok()) << other.message();
}

Expected<InstancePtr> prepare(Context &context, const ProgramSpec &spec) {
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(spec.encode()));
  TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(context.rank()));
  return Instance::create(context, program);
}

/// Enqueues instances one after another on the context's own stream, each time with other memory,
/// and checks what each has got: the numbers of the other rank, or of rank 0 from an instance whose
/// ranks do not hear of each other. Rank 1 is late, so that several runs of rank 0 wait at once.
Status runLate(Context &context, const std::vector<Instance *> &instances,
               const Instance *silent = nullptr) {
  std::vector<std::vector<std::unique_ptr<Memory>>> memory;
  auto numberOf = [](size_t step, uint32_t rank) { return static_cast<float>(10 * step + rank); };
  for (size_t i = 0; i < instances.size(); ++i) {
    memory.emplace_back();
    for (const ArgumentInfo &argument : instances[i]->program().arguments()) {
      TANDEM_ASSIGN_OR_RETURN(auto one,
                              context.device().allocate(argument.localBytes(), MemoryKind::Plain));
      memory[i].push_back(std::move(one));
    }
    std::vector<float> x(memory[i][0]->size() / 4, numberOf(i, context.rank()));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[i][0]->data(), x.data(), x.size() * 4));
  }
  for (size_t i = 0; i < instances.size(); ++i) {
    if (context.rank() == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    std::vector<void *> data;
    for (const auto &one : memory[i])
      data.push_back(one->data());
    TANDEM_RETURN_IF_ERROR(instances[i]->bindAll(data.data(), nullptr));
    TANDEM_RETURN_IF_ERROR(instances[i]->enqueue(nullptr));
  }
  for (Instance *instance : instances)
    TANDEM_RETURN_IF_ERROR(instance->wait());
  for (size_t i = 0; i < instances.size(); ++i)
    for (size_t k = 1; k < memory[i].size(); ++k) {
      std::vector<float> found(memory[i][k]->size() / 4);
      TANDEM_RETURN_IF_ERROR(
          context.device().download(found.data(), memory[i][k]->data(), found.size() * 4));
      if (float expected = numberOf(i, instances[i] == silent ? 0 : 1 - context.rank());
          found != std::vector<float>(found.size(), expected))
        return Status(Code::Internal, "run " + std::to_string(i) + ", result " + std::to_string(k) +
                                          ": found " + std::to_string(found[0]) + ", expected " +
                                          std::to_string(expected));
    }
  return Status();
}

/// Runs instances in turn, without a wait, each with numbers of its own, and checks all results.
Status runInTurn(Context &context, const std::vector<InstancePtr> &instances,
                 const std::vector<bool> &hears,
                 const std::vector<std::shared_ptr<Stream>> &streams, size_t steps) {
  std::vector<std::unique_ptr<Memory>> x, y;
  auto numberOf = [](size_t step, uint32_t rank) { return static_cast<float>(10 * step + rank); };
  for (size_t i = 0; i < steps; ++i) {
    const InstancePtr &instance = instances[i % instances.size()];
    uint64_t bytes = instance->program().arguments()[0].localBytes();
    std::vector<float> numbers(bytes / 4, numberOf(i, context.rank()));
    for (auto *list : {&x, &y}) {
      TANDEM_ASSIGN_OR_RETURN(auto memory, context.device().allocate(bytes, MemoryKind::Plain));
      list->push_back(std::move(memory));
    }
    TANDEM_RETURN_IF_ERROR(context.device().upload(x[i]->data(), numbers.data(), bytes));
  }
  for (size_t i = 0; i < steps; ++i) {
    const InstancePtr &instance = instances[i % instances.size()];
    void *data[] = {x[i]->data(), y[i]->data()};
    TANDEM_RETURN_IF_ERROR(instance->bindAll(data, nullptr));
    TANDEM_RETURN_IF_ERROR(instance->enqueue(streams[i % streams.size()]));
  }
  for (const InstancePtr &instance : instances)
    TANDEM_RETURN_IF_ERROR(instance->wait());
  for (size_t i = 0; i < steps; ++i) {
    std::vector<float> found(y[i]->size() / 4);
    TANDEM_RETURN_IF_ERROR(context.device().download(found.data(), y[i]->data(), found.size() * 4));
    uint32_t from = hears[i % hears.size()] ? 1 - context.rank() : 0;
    if (found != std::vector<float>(found.size(), numberOf(i, from)))
      return Status(Code::Internal, "step " + std::to_string(i) + ": found " +
                                        std::to_string(found[0]) + ", expected " +
                                        std::to_string(numberOf(i, from)));
  }
  return Status();
}

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

TEST_P(GpuMemory, InstancesOfTwoRanksShareSymmetricMemory) {
  Variable graphs("TANDEM_GRAPH", GetParam() ? "1" : "0");
  // Programs in which ranks hear of each other need no barrier; one in which they do not does.
  for (const std::vector<bool> &hears :
       {std::vector<bool>{true, true, true}, {true, false, true, false, false}}) {
    auto world = LocalWorld::create(2, std::chrono::seconds(20));
    Counter counters[2]; // ranks of a process share ownership of symmetric memory
    const bool leaves = !hears[1];
    auto rank = [&](uint32_t r) -> Status {
      Counter &counter = counters[r];
      ContextOptions options;
      options.device = fakeDevice(r);
      options.bootstrap = world->bootstrap(r);
      options.allocator = counter.allocator(leaves);
      TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport("peer"));
      options.transports.push_back(std::move(transport));
      TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
      std::vector<InstancePtr> instances;
      std::vector<std::shared_ptr<Stream>> streams(2); // the context's own, and another one
      TANDEM_ASSIGN_OR_RETURN(streams[1], context->device().createStream(StreamPriority::Normal));
      for (size_t i = 0; i < hears.size(); ++i) {
        // The first one is the largest.
        auto count = static_cast<int64_t>(4096 - 64 * i);
        TANDEM_ASSIGN_OR_RETURN(auto file,
                                ProgramFile::fromMemory(exchange(count, hears[i]).encode()));
        TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(r));
        TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, program));
        instances.push_back(std::move(instance));
      }
      EXPECT_LE(counter.live[MemoryKind::Symmetric], uint64_t(2 * 4096 * 4 + (32 << 10)));
      EXPECT_EQ(counter.live[MemoryKind::Symmetric] == 0, leaves);
      TANDEM_RETURN_IF_ERROR(runInTurn(*context, instances, hears, streams, 40));
      streams.pop_back();
      TANDEM_RETURN_IF_ERROR(runInTurn(*context, instances, hears, streams, 41));
      instances.erase(instances.begin());
      return runInTurn(*context, instances, {hears.begin() + 1, hears.end()}, streams, 20);
    };
    Status other;
    std::thread second([&] { other = rank(1); });
    expectOk(rank(0));
    second.join();
    expectOk(other);
  }
}

// With another instance between them, two runs of an instance use the same half. Host threads move
// the messages of both, each by its own addresses.
TEST_P(GpuMemory, StagedRunsOfOneHalfKeepTheirAddresses) {
  Variable graphs("TANDEM_GRAPH", GetParam() ? "1" : "0");
  onBothRanks([](Context &context, LocalWorld &) -> Status {
    TANDEM_ASSIGN_OR_RETURN(InstancePtr a, prepare(context, exchangeBoth(256)));
    TANDEM_ASSIGN_OR_RETURN(InstancePtr b, prepare(context, exchange(256, true)));
    for (int i = 0; i < 3; ++i)
      TANDEM_RETURN_IF_ERROR(runLate(context, {a.get(), b.get(), a.get()}));
    return Status();
  });
}

// The graph of a run is made before the ranks meet: making it may wait for the device, whose stream
// would wait for a rank that is late.
TEST_P(GpuMemory, GraphsAreMadeBeforeRanksMeet) {
  Variable graphs("TANDEM_GRAPH", GetParam() ? "1" : "0");
  onBothRanks([](Context &context, LocalWorld &) -> Status {
    // Programs in which each rank hears of the other need no meeting.
    TANDEM_ASSIGN_OR_RETURN(InstancePtr a, prepare(context, exchange(256, true)));
    TANDEM_ASSIGN_OR_RETURN(InstancePtr b, prepare(context, exchange(256, false)));
    for (int i = 0; i < 3; ++i)
      TANDEM_RETURN_IF_ERROR(runLate(context, {a.get(), b.get(), a.get(), b.get()}, b.get()));
    return Status();
  });
}

// A larger program gets a new block of symmetric memory; the earlier ones keep theirs.
TEST_P(GpuMemory, SymmetricMemoryGrows) {
  Variable graphs("TANDEM_GRAPH", GetParam() ? "1" : "0");
  onBothRanks([](Context &context, LocalWorld &) -> Status {
    std::vector<InstancePtr> instances;
    for (int64_t count : {64, 4096, 256, 16384}) {
      TANDEM_ASSIGN_OR_RETURN(InstancePtr made, prepare(context, exchange(count, true)));
      instances.push_back(std::move(made));
      std::vector<Instance *> all;
      for (int round = 0; round < 2; ++round)
        for (const InstancePtr &one : instances)
          all.push_back(one.get());
      TANDEM_RETURN_IF_ERROR(runLate(context, all));
    }
    return Status();
  });
}

class NoOperation final : public HostOperation {
public:
  Status execute(const Frame &) override { return Status(); }
};

/// A transport whose channels access dense operands in memory of a GPU, and move nothing.
class DenseTransport final : public Transport {
public:
  std::string_view name() const override { return "dense"; }
  uint32_t capabilities() const override { return TwoSided; }
  bool movesDense(const Device &) const override { return true; }
  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &, Device &,
                                                   Bootstrap &) override {
    class Made final : public Channel {
      Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &) override {
        return std::make_unique<NoOperation>();
      }
      void abort(const Status &) override {}
    };
    return std::make_unique<Made>();
  }
};

// Of an operand with gaps there is a copy. A transport that comes first and has no messages, or
// moves all memory, makes no difference.
TEST(GpuMemoryNeeds, CopiesOfSlicesForUcxCount) {
  ProgramSpec spec(1);
  RankSpec &rank = spec.ranks[0];
  uint32_t matrix = rank.arena(4096);
  uint16_t channel = rank.channel({0}, TwoSided);
  rank.group(0, channel, 2);
  rank.send(0, channel, rank.view(matrix, DType::F32, {4, 16}, {32, 1}, 0), 0, 0);
  rank.recv(0, channel, rank.view(matrix, DType::F32, {4, 16}, 2048), 0, 0);
  for (bool isNear : {true, false}) {
    Counter counter;
    ContextOptions options;
    options.device = fakeDevice();
    options.bootstrap = createSelfBootstrap();
    options.allocator = counter.allocator();
    auto peer = createTransport("peer");
    ASSERT_TRUE(peer.ok()) << peer.status().message();
    options.transports.push_back(std::move(*peer));
    auto world = LocalWorld::create(1, std::chrono::seconds(20));
    options.transports.push_back(isNear ? std::make_unique<DenseTransport>() : world->transport(0));
    auto context = Context::create(std::move(options));
    ASSERT_TRUE(context.ok()) << context.status().message();
    auto file = ProgramFile::fromMemory(spec.encode());
    ASSERT_TRUE(file.ok()) << file.status().message();
    auto program = (*file)->rankProgram(0);
    MemoryNeeds needs = memoryNeeds(**program, **context);
    EXPECT_EQ(needs.own, isNear ? 256u : 0u);
    uint64_t before = counter.live[MemoryKind::Plain];
    auto instance = Instance::create(**context, *program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    EXPECT_EQ(counter.live[MemoryKind::Plain] - before, needs.arena + needs.own);
  }
}

INSTANTIATE_TEST_SUITE_P(, GpuMemory, testing::Bool(),
                         [](const auto &test) { return test.param ? "Graphs" : "Direct"; });

} // namespace
