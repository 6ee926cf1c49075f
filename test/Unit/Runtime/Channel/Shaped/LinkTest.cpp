//===- LinkTest.cpp - channels with the delays of a link --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lower bounds of times only: a busy machine makes everything later.
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Link.h"
#include "tandem-c/Context.h"
#include "tandem/Runtime/Device.h"
#include "tandem/Runtime/Local.h"

#include <array>
#include <atomic>
#include <ctime>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int64_t kElements = 5000; // i32

/// One rank, with a channel over all ranks: numbers in slot 0, room for those of a peer in slot 1.
struct Rank {
  std::unique_ptr<Device> device = createCpuDevice();
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<Transport> transport;
  std::vector<int32_t> mine = std::vector<int32_t>(kElements, 3);
  std::vector<int32_t> theirs = std::vector<int32_t>(4 * kElements, 0);
  std::vector<uint64_t> symmetric = std::vector<uint64_t>(8192);
  std::unique_ptr<Channel> channel;
  std::array<void *, 2> pointers{};

  void open(LocalWorld &world, uint32_t rank, uint32_t size, std::shared_ptr<Link> link) {
    bootstrap = world.bootstrap(rank);
    transport = shapeTransport(world.transport(rank), std::move(link));
    ChannelDesc desc;
    desc.name = "c";
    desc.id = 1 << 16;
    desc.capabilities = TwoSided | OneSided | Collectives;
    for (uint32_t r = 0; r < size; ++r)
      desc.group.push_back(r);
    desc.self = rank;
    // Two halves of 24 KiB, then signals.
    desc.symmetric = {symmetric.data(), symmetric.size() * 8, 24576, 49152, 8};
    auto opened = transport->createChannel(desc, *device, *bootstrap);
    ASSERT_TRUE(opened) << opened.status().message();
    channel = std::move(*opened);
    pointers = {mine.data(), theirs.data()};
  }

  Status run(Operation &operation) const {
    Frame frame;
    frame.pointers = pointers.data();
    return static_cast<HostOperation &>(operation).execute(frame);
  }
  Status run(Expected<std::unique_ptr<Operation>> operation) const {
    return operation ? run(**operation) : operation.status();
  }
};

Operand numbers(uint32_t slot, int64_t count = kElements) {
  return {slot, Layout::dense(DType::I32, {count})};
}

/// `f` on each rank, in a thread of its own.
template <typename F> void onRanks(uint32_t size, const LinkShape &shape, F &&f) {
  auto world = LocalWorld::create(size, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      Rank rank;
      rank.open(*world, r, size, makeLink(shape));
      if (rank.channel)
        f(rank, r);
    });
  for (std::thread &thread : threads)
    thread.join();
}

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// 20,000 bytes take 20 ms, after 5 ms.
constexpr LinkShape kShape{1e6, 5e-3};
constexpr double kTransfer = 25e-3;

} // namespace

TEST(LinkShape, IsParsed) {
  auto shape = LinkShape::parse("2GB/s,20us");
  ASSERT_TRUE(shape) << shape.status().message();
  EXPECT_DOUBLE_EQ(shape->bytesPerSecond, 2e9);
  EXPECT_DOUBLE_EQ(shape->latency, 20e-6);
  EXPECT_DOUBLE_EQ(LinkShape::parse("1.5kB/s,0s")->bytesPerSecond, 1500);
  EXPECT_DOUBLE_EQ(LinkShape::parse("100MB/s")->latency, 0);
  EXPECT_DOUBLE_EQ(LinkShape::parse("100B/s,3ms")->latency, 3e-3);
  EXPECT_DOUBLE_EQ(LinkShape::parse("1GB/s,0us,stop=64kB")->stopsAfter, 64e3);
}

TEST(LinkShape, MistakesAreNamed) {
  for (const char *text :
       {"", "2GB/s,", "2GB,20us", "GB/s,20us", "0GB/s,20us", "-1GB/s,2us", "2GB/s,-1us", "2GB/s,20",
        "2GB/s,20us,3", "2GB/s,20us,", "2GB/s,20us,stop=", "2GB/s,stop=1MB", "2GB/s,1us,stop=1MB/s",
        "nanGB/s", "infGB/s,1us", "2GB/s 20us", "2GB/s,9999s"}) {
    auto shape = LinkShape::parse(text);
    ASSERT_FALSE(shape) << text;
    EXPECT_THAT(shape.status().message(), HasSubstr(std::string("found \"") + text + '"'));
  }
}

TEST(Link, AMessageArrivesAfterLatencyAndBytes) {
  Clock::time_point begin;
  onRanks(2, kShape, [&](Rank &rank, uint32_t r) {
    if (r == 0)
      begin = Clock::now();
    ASSERT_TRUE(rank.bootstrap->barrier().ok());
    Status status = rank.run(
        rank.channel->prepareGroup({{true, 1 - r, 0, numbers(0)}, {false, 1 - r, 0, numbers(1)}}));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_GE(since(begin), kTransfer);
    EXPECT_EQ(rank.theirs[kElements - 1], 3);
  });
}

// What was sent before a link fails arrives, and nothing after it, until someone gives up.
TEST(Link, OneThatFails) {
  LinkShape shape{1e9, 0};
  shape.stopsAfter = 4 * kElements + 1;
  onRanks(2, shape, [&](Rank &rank, uint32_t r) {
    auto exchange = [&] {
      return rank.run(rank.channel->prepareGroup(
          {{true, 1 - r, 0, numbers(0)}, {false, 1 - r, 0, numbers(1)}}));
    };
    Status first = exchange();
    EXPECT_TRUE(first.ok()) << first.message();
    EXPECT_EQ(rank.theirs[kElements - 1], 3);
    ASSERT_TRUE(rank.bootstrap->barrier().ok());
    std::atomic<bool> ended{false};
    Status second;
    std::thread sender([&] {
      second = exchange();
      ended = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ended);
    rank.channel->abort(Status(Code::Timeout, "no more"));
    sender.join();
    EXPECT_EQ(second.message(), "no more");
  });
}

TEST(Link, AReceiverSeesNothingEarlier) {
  onRanks(2, kShape, [&](Rank &rank, uint32_t r) {
    // The receiver looks at the clock after it has come, so what the sender waits is not less.
    static Clock::time_point sent;
    if (r == 0) {
      sent = Clock::now();
      EXPECT_TRUE(rank.bootstrap->barrier().ok());
      EXPECT_TRUE(rank.run(rank.channel->prepareGroup({{true, 1, 0, numbers(0)}})).ok());
      return;
    }
    EXPECT_TRUE(rank.bootstrap->barrier().ok());
    EXPECT_TRUE(rank.run(rank.channel->prepareGroup({{false, 0, 0, numbers(1)}})).ok());
    EXPECT_GE(since(sent), kTransfer);
  });
}

TEST(Link, ASignalTellsOfAPutThatHasArrived) {
  onRanks(2, kShape, [&](Rank &rank, uint32_t r) {
    static Clock::time_point sent;
    Layout layout = Layout::dense(DType::I32, {kElements});
    if (r == 0)
      sent = Clock::now();
    EXPECT_TRUE(rank.bootstrap->barrier().ok());
    if (r == 0) {
      EXPECT_TRUE(rank.run(rank.channel->preparePut({1, 0, layout, numbers(0)})).ok());
      EXPECT_TRUE(rank.run(rank.channel->prepareSignal({1, 2, 1, 1})).ok());
    } else {
      EXPECT_TRUE(rank.run(rank.channel->prepareWaitSignal({2, 1, 1})).ok());
      // The signal is a message, too.
      EXPECT_GE(since(sent), kTransfer + kShape.latency);
      EXPECT_EQ(reinterpret_cast<int32_t *>(rank.symmetric.data())[kElements - 1], 3);
    }
    EXPECT_TRUE(rank.bootstrap->barrier().ok());
  });
}

TEST(Link, APutMovesItsDataAtOnce) {
  /// Channels whose puts only call `moved`.
  struct Puts final : Transport {
    struct Move final : HostOperation {
      explicit Move(std::function<void()> &moved) : moved(moved) {}
      Status execute(const Frame &) override {
        moved();
        return Status();
      }
      std::function<void()> &moved;
    };
    struct Only final : Channel {
      explicit Only(std::function<void()> &moved) : moved(moved) {}
      Expected<std::unique_ptr<Operation>> preparePut(const Put &) override {
        return std::make_unique<Move>(moved);
      }
      void abort(const Status &) override {}
      std::function<void()> &moved;
    };
    explicit Puts(std::function<void()> &moved) : moved(moved) {}
    std::string_view name() const override { return "puts"; }
    uint32_t capabilities() const override { return OneSided; }
    Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &, Device &,
                                                     Bootstrap &) override {
      return std::make_unique<Only>(moved);
    }
    std::function<void()> &moved;
  };
  std::function<void()> moved;
  auto world = LocalWorld::create(1, std::chrono::seconds(60));
  auto bootstrap = world->bootstrap(0);
  auto device = createCpuDevice();
  // The link takes 20 s, so an abort that comes with the data ends the put.
  auto transport = shapeTransport(std::make_unique<Puts>(moved), makeLink({1e3, 0}));
  auto channel = transport->createChannel({}, *device, *bootstrap);
  ASSERT_TRUE(channel) << channel.status().message();
  moved = [&] { (*channel)->abort(Status(Code::Aborted, "has moved")); };
  auto put = (*channel)->preparePut({1, 0, Layout::dense(DType::I32, {kElements}), numbers(0)});
  ASSERT_TRUE(put) << put.status().message();
  Status status = static_cast<HostOperation &>(**put).execute(Frame());
  EXPECT_THAT(status.message(), HasSubstr("has moved"));
}

TEST(Link, TransfersOfTwoStreamsShareThePort) {
  onRanks(3, kShape, [&](Rank &rank, uint32_t r) {
    Layout layout = Layout::dense(DType::I32, {kElements});
    EXPECT_TRUE(rank.bootstrap->barrier().ok());
    if (r == 0) {
      auto first = rank.channel->preparePut({1, 0, layout, numbers(0)});
      auto second = rank.channel->preparePut({2, 0, layout, numbers(0)});
      ASSERT_TRUE(first && second);
      Clock::time_point begin = Clock::now();
      std::thread other([&] { EXPECT_TRUE(rank.run(**first).ok()); });
      EXPECT_TRUE(rank.run(**second).ok());
      other.join();
      EXPECT_GE(since(begin), kShape.latency + 40e-3);
    }
    EXPECT_TRUE(rank.bootstrap->barrier().ok());
  });
}

TEST(Link, ACollectiveTakesItsStepsAndBytes) {
  onRanks(3, kShape, [&](Rank &rank, uint32_t) {
    Collective gather;
    gather.kind = CollectiveKind::AllGather;
    gather.in = numbers(0);
    gather.out = {1, Layout::dense(DType::I32, {3, kElements})};
    auto operation = rank.channel->prepareCollective(gather);
    ASSERT_TRUE(operation) << operation.status().message();
    Clock::time_point begin = Clock::now();
    EXPECT_TRUE(rank.run(**operation).ok());
    EXPECT_GE(since(begin), 2 * kTransfer);
    EXPECT_EQ(rank.theirs[3 * kElements - 1], 3);
  });
}

TEST(Link, MessagesToItselfAreNotDelayed) {
  // 10,000 seconds would end the test.
  onRanks(1, {1, 3600}, [&](Rank &rank, uint32_t) {
    Status status =
        rank.run(rank.channel->prepareGroup({{true, 0, 0, numbers(0)}, {false, 0, 0, numbers(1)}}));
    // The channel itself may not take them; it says so at once.
    if (status.ok()) {
      EXPECT_EQ(rank.theirs[0], 3);
    }
    Layout layout = Layout::dense(DType::I32, {kElements});
    EXPECT_TRUE(rank.run(rank.channel->preparePut({0, 0, layout, numbers(0)})).ok());
    EXPECT_TRUE(rank.run(rank.channel->prepareSignal({0, 0, 1, 1})).ok());
    EXPECT_TRUE(rank.run(rank.channel->prepareWaitSignal({0, 1, 1})).ok());
  });
}

TEST(Link, AnAbortEndsTheDelay) {
  onRanks(2, {1, 0}, [&](Rank &rank, uint32_t r) {
    Layout layout = Layout::dense(DType::I32, {kElements});
    if (r == 0) {
      auto put = rank.channel->preparePut({1, 0, layout, numbers(0)});
      ASSERT_TRUE(put);
      std::thread other([&] { rank.channel->abort(Status(Code::Aborted, "enough")); });
      Status status = rank.run(**put);
      other.join();
      EXPECT_THAT(status.message(), HasSubstr("enough"));
    }
    EXPECT_TRUE(rank.bootstrap->barrier().ok());
  });
}

TEST(Link, AWaitingRankDoesNotCompute) {
  onRanks(2, {1e5, 0}, [&](Rank &rank, uint32_t r) {
    Layout layout = Layout::dense(DType::I32, {kElements});
    if (r == 0) {
      auto put = rank.channel->preparePut({1, 0, layout, numbers(0)});
      ASSERT_TRUE(put);
      auto used = [] {
        timespec time{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
      };
      double before = used();
      EXPECT_TRUE(rank.run(**put).ok()); // 200 ms
      EXPECT_LT(used() - before, 50e-3);
    }
    EXPECT_TRUE(rank.bootstrap->barrier().ok());
  });
}

TEST(Link, OtherChannelsAreRefused) {
  tandem_context_options options{};
  options.struct_size = sizeof(options);
  for (auto [channels, link, expected] :
       {std::array<const char *, 3>{"peer", "2GB/s,20us",
                                    "expected channel local or ucx, found "
                                    "\"peer\""},
        {"ucx", "fast", "expected RATE,LATENCY[,stop=BYTES] such as 2GB/s,20us, found \"fast\""}}) {
    options.channels = channels;
    options.link = link;
    tandem_context *context = nullptr;
    EXPECT_NE(tandem_context_create(&options, &context), TANDEM_OK);
    EXPECT_THAT(tandem_last_error(context), HasSubstr(expected));
    tandem_context_destroy(context);
  }
}
