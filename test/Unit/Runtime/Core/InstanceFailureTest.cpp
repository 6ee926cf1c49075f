//===- InstanceFailureTest.cpp - ranks that fail, and aborts ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExchangeMatmul.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Rendezvous.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace tandem;
using namespace tandem::test;

namespace {

/// A bootstrap whose rank 1 speaks another version of the protocol.
class OtherVersionBootstrap final : public Bootstrap {
public:
  explicit OtherVersionBootstrap(std::unique_ptr<Bootstrap> other) : other(std::move(other)) {}
  uint32_t rank() const override { return other->rank(); }
  uint32_t worldSize() const override { return other->worldSize(); }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    std::vector<uint64_t> given(bytes / sizeof(uint64_t));
    bool says = rank() == 1 && bytes == 16; // its version, and the program's id
    if (says) {
      std::memcpy(given.data(), mine, bytes);
      says = given[0] == kProtocolVersion;
      said |= says;
      given[0] = 99;
    }
    return other->allGather(says ? given.data() : mine, bytes, all);
  }
  Status barrier() override { return other->barrier(); }
  ~OtherVersionBootstrap() override { EXPECT_TRUE(said || rank() != 1); }

private:
  std::unique_ptr<Bootstrap> other;
  bool said = false;
};

TEST(Instance, PeerOfAnotherVersionIsAnErrorOnAllRanks) {
  ProgramSpec spec = exchangeMatmul();
  auto file = ProgramFile::fromMemory(spec.encode());
  auto world = LocalWorld::create(2, std::chrono::seconds(20));
  auto rank = [&](uint32_t r) {
    ContextOptions options;
    options.device = createCpuDevice();
    options.transports.push_back(world->transport(r));
    options.bootstrap = std::make_unique<OtherVersionBootstrap>(world->bootstrap(r));
    auto context = Context::create(std::move(options));
    auto instance = Instance::create(**context, *(*file)->rankProgram(r));
    ASSERT_FALSE(instance.ok());
    // The rank itself does not know that its version was changed on the way.
    EXPECT_NE(instance.status().message().find(
                  "rank 1 speaks version 99 of the protocol, this rank version " +
                  std::to_string(kProtocolVersion)),
              std::string::npos)
        << instance.status().message();
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
}

/// A rank that begins a run late is no failure, however long the others wait in it. One that has
/// begun it, and does not send, is.
TEST(Instance, LateBeginIsNoStall) {
  ProgramSpec spec = exchangeMatmul();
  auto file = ProgramFile::fromMemory(spec.encode());
  for (bool begins : {false, true}) {
    auto world = LocalWorld::create(2, std::chrono::seconds(60));
    auto listener = ListenSocket::open(0, "127.0.0.1");
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    std::atomic<bool> waits{false};
    auto rank = [&](uint32_t r) {
      BootstrapEnvironment env;
      env.rank = env.localRank = r;
      env.worldSize = env.localSize = 2;
      env.addresses = {"127.0.0.1"};
      env.port = listener->port();
      env.secret = "of the test";
      env.timeout = env.exchangeTimeout.emplace(std::chrono::seconds(60));
      if (r == 0)
        env.listenFd = listener->fd();
      auto bootstrap = createTcpBootstrap(env);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().message();
      ContextOptions options;
      options.device = createCpuDevice();
      options.transports.push_back(world->transport(r));
      options.bootstrap = std::move(*bootstrap);
      options.timeout = std::chrono::seconds(4);
      auto context = Context::create(std::move(options));
      auto instance = Instance::create(**context, *(*file)->rankProgram(r));
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      std::vector<float> x(15), w(20), out(24);
      void *addresses[] = {x.data(), w.data(), out.data()};
      ASSERT_TRUE((*instance)->bindAll(addresses, nullptr).ok());
      if (r == 1) {
        for (int i = 0; i < 4000 && !waits; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (begins)
          (*context)->bootstrap().noteBegun(1);
        std::this_thread::sleep_for(std::chrono::seconds(9));
      }
      Status status = (*instance)->enqueue();
      waits = true;
      if (status.ok())
        status = (*instance)->wait();
      EXPECT_EQ(status.ok(), !begins) << status.message();
      if (begins) {
        for (const char *part : {"rank 0: no end after 4000 ms: run of @", "recv from rank 1"})
          EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
        EXPECT_EQ(status.message().find("has not begun"), std::string::npos) << status.message();
      }
    };
    std::thread other([&] { rank(1); });
    rank(0);
    other.join();
  }
}

/// A bootstrap that learns that a rank has ended.
class TellingBootstrap final : public Bootstrap {
public:
  TellingBootstrap(std::unique_ptr<Bootstrap> other, std::atomic<bool> &ended,
                   std::atomic<int> &givenUp)
      : other(std::move(other)), ended(ended), givenUp(givenUp) {}
  uint32_t rank() const override { return other->rank(); }
  uint32_t worldSize() const override { return other->worldSize(); }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    return other->allGather(mine, bytes, all);
  }
  Status barrier() override { return other->barrier(); }
  Status health() override { return ended ? Status(Code::Aborted, "lost rank 1: gone") : Status(); }
  void giveUp(const Status &) override { ++givenUp; }

private:
  std::unique_ptr<Bootstrap> other;
  std::atomic<bool> &ended;
  std::atomic<int> &givenUp;
};

TEST(Instance, LostRankEndsRunsThatWaitForIt) {
  ProgramSpec spec = exchangeMatmul();
  auto file = ProgramFile::fromMemory(spec.encode());
  auto world = LocalWorld::create(2, std::chrono::seconds(20));
  std::atomic<bool> ended{false};
  std::atomic<int> givenUp{0};
  auto waitForGivingUp = [&] { // at most 20 s
    for (int i = 0; i < 4000 && givenUp == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  auto rank = [&](uint32_t r) {
    ContextOptions options;
    options.device = createCpuDevice();
    options.transports.push_back(world->transport(r));
    options.bootstrap = std::make_unique<TellingBootstrap>(world->bootstrap(r), ended, givenUp);
    options.timeout = std::chrono::seconds(60);
    auto context = Context::create(std::move(options));
    auto instance = Instance::create(**context, *(*file)->rankProgram(r));
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    if (r == 1) { // never runs
      waitForGivingUp();
      return;
    }
    std::vector<float> x(15), w(20), out(24);
    void *addresses[] = {x.data(), w.data(), out.data()};
    ASSERT_TRUE((*instance)->bindAll(addresses, nullptr).ok());
    ASSERT_TRUE((*instance)->enqueue().ok());
    auto waits = [&] { // it is in the group, and the other stream's matmul has ended
      bool receives = false, multiplies = false;
      for (const CommandInFlight &command : (*context)->inFlight()) {
        receives |= command.command == 2;
        multiplies |= command.command == 5;
      }
      return receives && !multiplies;
    };
    for (int i = 0; i < 4000 && !waits(); ++i) // at most 20 s
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ended = true;
    Status status = (*instance)->wait();
    EXPECT_FALSE(status.ok());
    for (const char *part : {"rank 0: ", "(group: recv from rank 1", "lost rank 1: gone"})
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    waitForGivingUp();
    EXPECT_EQ(givenUp, 1); // the others hear of it
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
}

class FailingOperation final : public HostOperation {
public:
  Status execute(const Frame &) override { return Status(Code::Internal, "does not work"); }
};

/// Messages fail; what is aborted is written down.
class NotedChannel final : public Channel {
public:
  NotedChannel(std::string name, std::vector<std::string> &aborts)
      : name(std::move(name)), aborts(aborts) {}
  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &) override {
    return std::unique_ptr<Operation>(std::make_unique<FailingOperation>());
  }
  void abort(const Status &) override { aborts.push_back(name); }

private:
  const std::string name;
  std::vector<std::string> &aborts;
};

class NotedTransport final : public Transport {
public:
  NotedTransport(uint32_t can, std::vector<std::string> &aborts) : can(can), aborts(aborts) {}
  std::string_view name() const override { return "noted"; }
  uint32_t capabilities() const override { return can; }
  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &,
                                                   Bootstrap &) override {
    std::string made = std::to_string(desc.id >> 16) + (can == OneSided ? " signals" : " messages");
    return std::unique_ptr<Channel>(std::make_unique<NotedChannel>(made, aborts));
  }

private:
  const uint32_t can;
  std::vector<std::string> &aborts;
};

// What a rank that gives up still signals must not stand behind a message that has been ended.
TEST(Instance, OneSidedChannelsOfAllInstancesAreAbortedFirst) {
  ProgramSpec spec(1);
  spec.name = "mixed";
  uint16_t messages = spec.ranks[0].channel({0}, TwoSided);
  spec.ranks[0].channel({0}, OneSided);
  spec.ranks[0].group(0, messages, 0);
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<std::string> aborts;
  ContextOptions options;
  options.device = createCpuDevice();
  options.transports.push_back(std::make_unique<NotedTransport>(TwoSided | Collectives, aborts));
  options.transports.push_back(std::make_unique<NotedTransport>(OneSided, aborts));
  options.bootstrap = createSelfBootstrap();
  auto context = Context::create(std::move(options));
  auto program = (*file)->rankProgram(0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto first = Instance::create(**context, *program),
       second = Instance::create(**context, *program);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(second.ok()) << second.status().message();
  Status status = (*second)->run();
  EXPECT_NE(status.message().find("does not work"), std::string::npos) << status.message();
  first->reset();
  second->reset();
  context->reset(); // waits for the abort
  EXPECT_EQ(aborts,
            (std::vector<std::string>{"1 signals", "2 signals", "1 messages", "2 messages"}));
}

/// Messages of channel "hangs" end only when it is aborted, or at `release`; those of others move
/// data and end soon.
class MovingChannel final : public Channel {
public:
  MovingChannel(bool hangs, std::atomic<uint64_t> &total, std::shared_future<void> release)
      : hangs(hangs), total(total), release(std::move(release)) {}
  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &) override {
    return std::unique_ptr<Operation>(std::make_unique<Transfer>(*this));
  }
  uint64_t progress() const override { return moved; }
  void abort(const Status &) override { isAborted = true; }

private:
  class Transfer final : public HostOperation {
  public:
    explicit Transfer(MovingChannel &channel) : channel(channel) {}
    Status execute(const Frame &) override {
      do
        channel.release.wait_for(std::chrono::milliseconds(2));
      while (channel.hangs && !channel.isAborted &&
             channel.release.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready);
      ++channel.moved;
      ++channel.total;
      return channel.isAborted ? Status(Code::Aborted, "ended") : Status();
    }

  private:
    MovingChannel &channel;
  };
  const bool hangs;
  std::atomic<uint64_t> &total, moved{0};
  std::shared_future<void> release;
  std::atomic<bool> isAborted{false};
};

/// Notes how long its channels may take to be made, and fails.
class FailingTransport final : public Transport {
public:
  FailingTransport(std::chrono::milliseconds &timeout, std::function<void()> meanwhile)
      : timeout(timeout), meanwhile(std::move(meanwhile)) {}
  std::string_view name() const override { return "failing"; }
  uint32_t capabilities() const override { return TwoSided; }
  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &,
                                                   Bootstrap &) override {
    timeout = desc.timeout;
    meanwhile();
    return Status(Code::Io, "the library refuses");
  }

private:
  std::chrono::milliseconds &timeout;
  std::function<void()> meanwhile;
};

/// The timeout of channels in a context with `timeout`, and the error. The bootstrap loses a rank
/// meanwhile if `loses`.
static std::pair<std::chrono::milliseconds, std::string>
makeFailingChannel(std::chrono::milliseconds timeout, bool loses) {
  ProgramSpec spec(1);
  spec.name = "f";
  spec.ranks[0].channel({0}, TwoSided, "wire");
  auto file = ProgramFile::fromMemory(spec.encode());
  auto world = LocalWorld::create(1, std::chrono::seconds(20));
  std::chrono::milliseconds given{0};
  ContextOptions options;
  options.device = createCpuDevice();
  options.bootstrap = world->bootstrap(0);
  options.timeout = timeout;
  options.transports.push_back(std::make_unique<FailingTransport>(given, [&] {
    if (loses)
      world->bootstrap(0)->giveUp(Status(Code::Aborted, "lost rank 1: its process has ended"));
  }));
  auto context = Context::create(std::move(options));
  Status status = Instance::create(**context, *(*file)->rankProgram(0)).status();
  return {given, status.message()};
}

// A short timeout is meant for runs: the first use of a communication library takes longer.
TEST(Instance, ChannelsHaveAtLeastAMinute) {
  using std::chrono::seconds;
  EXPECT_EQ(makeFailingChannel(seconds(2), false).first, seconds(60));
  EXPECT_EQ(makeFailingChannel(seconds(300), false).first, seconds(300));
}

TEST(Instance, AChannelThatFailsByALostRankSaysSo) {
  std::string refused = "rank 0: @f: channel c0 \"wire\": the library refuses";
  EXPECT_EQ(makeFailingChannel(std::chrono::seconds(2), false).second, refused);
  EXPECT_EQ(makeFailingChannel(std::chrono::seconds(2), true).second,
            refused + "; lost rank 1: its process has ended");
}

class MovingTransport final : public Transport {
public:
  explicit MovingTransport(std::shared_future<void> release) : release(std::move(release)) {}
  std::string_view name() const override { return "moving"; }
  uint32_t capabilities() const override { return TwoSided; }
  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &,
                                                   Bootstrap &) override {
    return std::unique_ptr<Channel>(
        std::make_unique<MovingChannel>(desc.name == "hangs", total, release));
  }
  uint64_t progress() const override { return total; }

private:
  std::atomic<uint64_t> total{0};
  std::shared_future<void> release;
};

static Expected<InstancePtr> prepareMessages(Context &context, const std::string &channel,
                                             uint16_t stream) {
  ProgramSpec spec(1);
  spec.name = channel;
  RankSpec &rank = spec.ranks[0];
  if (stream != 0)
    rank.sync(stream, 0);
  uint16_t number = rank.channel({0}, TwoSided, channel);
  for (int i = 0; i < 10; ++i)
    rank.group(stream, number, 0);
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(spec.encode()));
  TANDEM_ASSIGN_OR_RETURN(auto program, file->rankProgram(0));
  return Instance::create(context, program);
}

/// A run that hangs ends after the timeout, although another instance's runs move data, and begin
/// commands on a stream that the hanging run has passed.
TEST(Instance, ProgressOfOtherRunsDoesNotCount) {
  std::promise<void> release;
  ContextOptions options;
  options.device = createCpuDevice();
  options.transports.push_back(std::make_unique<MovingTransport>(release.get_future().share()));
  options.bootstrap = createSelfBootstrap();
  options.timeout = std::chrono::seconds(1);
  options.shareMemory = false; // else the other runs begin when this one has ended
  auto context = Context::create(std::move(options));
  auto hung = prepareMessages(**context, "hangs", 1),
       other = prepareMessages(**context, "moves", 0);
  ASSERT_TRUE(hung.ok()) << hung.status().message();
  ASSERT_TRUE(other.ok()) << other.status().message();
  ASSERT_TRUE((*hung)->enqueue().ok());
  Status status;
  auto begin = std::chrono::steady_clock::now();
  uint64_t runs = 0;
  for (; status.ok() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20); ++runs)
    status = (*other)->run();
  release.set_value();
  EXPECT_NE(status.message().find("no end after 1000 ms: run of @hangs: stream 1 in command"),
            std::string::npos)
      << status.message();
  EXPECT_GT(runs, 1u);
}

/// Messages do not end before the channel is aborted, and the abort waits for `gate`.
class SlowChannel final : public Channel {
public:
  SlowChannel(std::shared_future<void> gate, std::atomic<int> &aborts)
      : gate(std::move(gate)), aborts(aborts) {}
  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &) override {
    return std::unique_ptr<Operation>(std::make_unique<Transfer>(ended.get_future().share()));
  }
  void abort(const Status &) override {
    ++aborts;
    gate.wait();
    if (!wasAborted.exchange(true))
      ended.set_value();
  }

private:
  class Transfer final : public HostOperation {
  public:
    explicit Transfer(std::shared_future<void> ended) : ended(std::move(ended)) {}
    Status execute(const Frame &) override {
      ended.wait();
      return Status(Code::Aborted, "ended");
    }

  private:
    std::shared_future<void> ended;
  };
  std::shared_future<void> gate;
  std::atomic<int> &aborts; ///< that have begun
  std::promise<void> ended;
  std::atomic<bool> wasAborted{false};
};

class SlowTransport final : public Transport {
public:
  SlowTransport(std::shared_future<void> gate, std::atomic<int> &aborts)
      : gate(std::move(gate)), aborts(aborts) {}
  std::string_view name() const override { return "slow"; }
  uint32_t capabilities() const override { return TwoSided; }
  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &, Device &,
                                                   Bootstrap &) override {
    return std::unique_ptr<Channel>(std::make_unique<SlowChannel>(gate, aborts));
  }

private:
  std::shared_future<void> gate;
  std::atomic<int> &aborts;
};

/// Of two instances, number `busy` is in a run, and the channel of number 0 is aborted first.
static void destroyDuringAbort(size_t busy) {
  ProgramSpec spec(1);
  spec.ranks[0].group(0, spec.ranks[0].channel({0}, TwoSided), 0);
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::promise<void> gate;
  std::atomic<int> aborts{0};
  ContextOptions options;
  options.device = createCpuDevice();
  options.transports.push_back(std::make_unique<SlowTransport>(gate.get_future().share(), aborts));
  options.bootstrap = createSelfBootstrap();
  options.timeout = std::chrono::milliseconds(100);
  auto context = Context::create(std::move(options));
  auto program = (*file)->rankProgram(0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  std::vector<InstancePtr> instances;
  for (int i = 0; i < 2; ++i) {
    auto instance = Instance::create(**context, *program);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    instances.push_back(std::move(*instance));
  }
  ASSERT_TRUE(instances[busy]->enqueue().ok());
  std::promise<void> calls;
  std::thread opener([&, done = calls.get_future()] { // at the latest after 10 s
    done.wait_for(std::chrono::seconds(10));
    gate.set_value();
  });
  auto start = std::chrono::steady_clock::now();
  while (aborts == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ((*context)->health().code(), Code::Timeout);
  EXPECT_EQ(instances[1 - busy]->enqueue().code(), Code::Timeout);
  EXPECT_EQ(instances[1 - busy]->query().status().code(), Code::Timeout);
  instances[1 - busy].reset();
  instances[busy].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  calls.set_value();
  context->reset(); // waits for the abort
  opener.join();
}

TEST(Instance, AnAbortThatBlocksHoldsNothingElseUp) { destroyDuringAbort(0); }

/// An instance without a run frees at once what is its own.
TEST(Instance, AnAbortThatBlocksDoesNotHoldItsIdleInstanceUp) { destroyDuringAbort(1); }

} // namespace
