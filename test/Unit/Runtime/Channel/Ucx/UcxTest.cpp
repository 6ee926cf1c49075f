//===- UcxTest.cpp - what the conformance suite does not see ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks are threads, each with a transport of its own, that meet over TCP.
//
//===----------------------------------------------------------------------===//

#include "UcxChannel.h"
#include "tandem/Runtime/Rendezvous.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using std::chrono::milliseconds;
using testing::HasSubstr;

namespace {

/// A device that only has host memory: channels ask for no more.
class HostOnly : public Device {
public:
  std::string_view name() const override { return "test"; }
  bool hostMemory() const override { return true; }
  Expected<std::unique_ptr<Stream>> createStream(StreamPriority) override { return none(); }
  Expected<std::unique_ptr<Event>> createEvent() override { return none(); }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t, MemoryKind) override { return none(); }
  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &, const Operand &) override {
    return none();
  }
  Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &) override { return none(); }
  Expected<std::unique_ptr<Operation>> prepareAccumulate(const Operand &, const Operand &,
                                                         ReduceOp) override {
    return none();
  }
  Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &, const Operand &, uint64_t,
                                                     ReduceOp, bool) override {
    return none();
  }
  Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &) override { return none(); }
  void abort(const Status &) override {}

private:
  static Status none() { return Status(Code::Unsupported, "not in this test"); }
};

/// One rank: bootstrap, transport, one channel over all ranks with a page of symmetric memory.
struct Rank {
  HostOnly device;
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<Transport> transport;
  uint64_t bufferBytes = 2048;
  std::vector<uint64_t> memory;
  std::shared_ptr<MappedMemory> mapped; ///< in place of `memory`, if it is set
  std::unique_ptr<Channel> channel;
  void *pointers[4] = {};

  /// `on`: the device, if it is another one than a HostOnly.
  void open(const BootstrapEnvironment &env, UcxOptions options = {}, const ucx::Api *api = nullptr,
            Device *on = nullptr) {
    auto made = createTcpBootstrap(env);
    ASSERT_TRUE(made) << made.status().message();
    bootstrap = std::move(*made);
    auto ucx = api ? ucx::createTransport(*api, options) : createUcxTransport(options);
    ASSERT_TRUE(ucx) << ucx.status().message();
    transport = std::move(*ucx);
    Status usable = transport->open(on ? *on : device);
    ASSERT_TRUE(usable.ok()) << usable.message();
    if (on && !transport->moves(*on))
      transport = stageThroughHost(std::move(transport));
    ChannelDesc desc;
    desc.name = "c";
    desc.id = 1 << 16;
    desc.capabilities = on ? TwoSided : TwoSided | OneSided;
    for (uint32_t rank = 0; rank < env.worldSize; ++rank)
      desc.group.push_back(rank);
    desc.self = env.rank;
    memory.resize(bufferBytes / 4 + 512);
    if (!on)
      desc.symmetric = {mapped ? mapped->base() : memory.data(), memory.size() * 8, bufferBytes,
                        2 * bufferBytes, 8};
    auto opened = transport->createChannel(desc, on ? *on : device, *bootstrap);
    ASSERT_TRUE(opened) << opened.status().message();
    channel = std::move(*opened);
  }

  Status run(Expected<std::unique_ptr<Operation>> operation, uint64_t epoch = 0) {
    if (!operation)
      return operation.status();
    Frame frame;
    frame.pointers = pointers;
    frame.epoch = epoch;
    frame.parity = epoch % 2;
    return static_cast<HostOperation &>(**operation).execute(frame);
  }
};

Message message(bool isSend, uint32_t peer, uint32_t slot, int64_t elements, uint32_t tag = 0) {
  return {isSend, peer, tag, {slot, Layout::dense(DType::I32, {elements})}};
}

class Job {
public:
  explicit Job(uint32_t size) : listener(ListenSocket::open(0)) {
    env.launcher = Launcher::Tandem;
    env.worldSize = env.localSize = size;
    env.addresses = {"127.0.0.1"};
    env.port = listener->port();
    env.secret = "7";
    env.timeout = milliseconds(20000);
  }
  BootstrapEnvironment of(uint32_t rank) {
    BootstrapEnvironment result = env;
    result.rank = result.localRank = rank;
    if (rank == 0)
      result.listenFd = listener->fd();
    return result;
  }
  template <typename F> void onRanks(F &&f) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < env.worldSize; ++rank)
      threads.emplace_back([&, rank] { f(rank); });
    for (std::thread &thread : threads)
      thread.join();
  }

private:
  Expected<ListenSocket> listener;
  BootstrapEnvironment env;
};

} // namespace

TEST(Ucx, TagsKeepTheirFieldsApart) {
  EXPECT_EQ(ucx::makeTag(0, 0, 0, 0xffffffffu), 0x00000000ffffffffull);
  EXPECT_EQ(ucx::makeTag(0, 0, 3, 0), 0x0000000300000000ull);
  EXPECT_EQ(ucx::makeTag(0, 0, 4, 0), 0u);
  EXPECT_EQ(ucx::makeTag(0, 0xffff, 0, 0), 0x0003fffc00000000ull);
  EXPECT_EQ(ucx::makeTag(0x3fff, 0, 0, 0), 0xfffc000000000000ull);
}

TEST(Ucx, AddressesOfPeersAreChecked) {
  ucx::PeerAddress address;
  address.pid = 12;
  address.host = "host";
  address.worker = std::string("a\0b", 3);
  auto same = ucx::PeerAddress::decode(address.encode());
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(same->pid, 12);
  EXPECT_EQ(same->host, address.host);
  EXPECT_EQ(same->worker, address.worker);
  for (const char *text : {"", "12 4 3", "12 4\nhosta.b", "12 4 4\nhosta.b", "12 8 0\nhosta.b",
                           // The sum is 7 modulo 2^64.
                           "12 9 18446744073709551614\nhosta.b",
                           "12 18446744073709551614 9\nhosta.b", "12 -2 9\nhosta.b"})
    EXPECT_FALSE(ucx::PeerAddress::decode(text).ok()) << text;
}

class UcxOverTls : public testing::TestWithParam<bool> {
protected:
  UcxOptions options() const {
    UcxOptions result;
    result.networkOnly = GetParam();
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(, UcxOverTls, testing::Values(false, true),
                         [](auto &info) { return info.param ? "network" : "any"; });

TEST_P(UcxOverTls, RingOfMessages) {
  Job job(3);
  job.onRanks([&](uint32_t r) {
    Rank rank;
    rank.open(job.of(r), options());
    ASSERT_TRUE(rank.channel);
    for (int64_t count : {0, 1, 100, 300000}) {
      std::vector<int32_t> out(count + 1, int32_t(r)), in(count + 1, -1);
      rank.pointers[0] = out.data();
      rank.pointers[1] = in.data();
      for (uint64_t epoch = 0; epoch < 5; ++epoch) {
        Status status =
            rank.run(rank.channel->prepareGroup({message(true, (r + 1) % 3, 0, count),
                                                 message(false, (r + 2) % 3, 1, count)}),
                     epoch);
        ASSERT_TRUE(status.ok()) << status.message();
        if (count) {
          EXPECT_EQ(in[0], int32_t((r + 2) % 3));
          EXPECT_EQ(in[count - 1], int32_t((r + 2) % 3));
        }
        EXPECT_EQ(in[count], -1);
      }
    }
  });
}

TEST_P(UcxOverTls, PutThenSignal) {
  Job job(2);
  job.onRanks([&](uint32_t r) {
    Rank rank;
    rank.open(job.of(r), options());
    ASSERT_TRUE(rank.channel);
    int32_t source[64];
    for (uint64_t epoch = 0; epoch < 6; ++epoch) {
      std::fill(source, source + 64, int32_t(100 * r + epoch));
      rank.pointers[0] = source;
      Layout dense = Layout::dense(DType::I32, {8, 8});
      Layout rows = dense;
      rows.strides[0] = 16;
      uint32_t peer = 1 - r;
      Status put = rank.run(rank.channel->preparePut({peer, 64, rows, {0, dense}}), epoch);
      ASSERT_TRUE(put.ok()) << put.message();
      ASSERT_TRUE(rank.run(rank.channel->prepareSignal({peer, 3, 2, 2}), epoch).ok());
      ASSERT_TRUE(rank.run(rank.channel->prepareWaitSignal({3, 2, 2}), epoch).ok());
      auto *buffer = reinterpret_cast<int32_t *>(rank.memory.data()) + epoch % 2 * 512 + 16;
      for (int row = 0; row < 8; ++row) {
        EXPECT_EQ(buffer[row * 16], int32_t(100 * peer + epoch));
        EXPECT_EQ(buffer[row * 16 + 7], int32_t(100 * peer + epoch));
        EXPECT_EQ(buffer[row * 16 + 8], 0);
      }
    }
  });
}

TEST(Ucx, SizesThatDifferAreAnErrorOnTheReceiver) {
  for (int64_t sent : {3, 5}) {
    Job job(2);
    job.onRanks([&](uint32_t r) {
      Rank rank;
      rank.open(job.of(r));
      ASSERT_TRUE(rank.channel);
      int32_t buffer[8] = {};
      rank.pointers[0] = buffer;
      Status status =
          rank.run(rank.channel->prepareGroup({message(r == 0, 1 - r, 0, r == 0 ? sent : 4, 9)}));
      if (r == 1) {
        ASSERT_FALSE(status.ok());
        EXPECT_THAT(status.message(),
                    HasSubstr("rank 1, channel \"c\": expected 16 bytes from rank 0 (tag 9)"));
      }
    });
  }
}

TEST(Ucx, BadReferencesAreRefused) {
  Job job(1);
  Rank rank;
  rank.open(job.of(0));
  ASSERT_TRUE(rank.channel);
  EXPECT_FALSE(rank.channel->prepareSignal({0, 8, 1, 1}));
  EXPECT_FALSE(rank.channel->prepareWaitSignal({8, 1, 1}));
  Layout layout = Layout::dense(DType::I32, {16});
  EXPECT_TRUE(rank.channel->preparePut({0, 2048 - 64, layout, {0, layout}}));
  EXPECT_FALSE(rank.channel->preparePut({0, 2048 - 60, layout, {0, layout}}));
  EXPECT_FALSE(rank.channel->prepareCollective({}));
}

TEST(Ucx, AbortEndsAllWaitsOnAllRanks) {
  Job job(3);
  job.onRanks([&](uint32_t r) {
    Rank rank;
    rank.open(job.of(r));
    ASSERT_TRUE(rank.channel);
    int32_t buffer[4] = {};
    rank.pointers[0] = buffer;
    std::thread watchdog([&] {
      if (r != 2)
        return;
      std::this_thread::sleep_for(milliseconds(100));
      rank.channel->abort(Status(Code::Timeout, "no progress in 0.1 s"));
    });
    // One waits for a message, one for a signal, one for both.
    Status first, second;
    std::thread other([&] {
      if (r != 1)
        second = rank.run(rank.channel->prepareWaitSignal({0, 1, 1}));
    });
    if (r != 0)
      first = rank.run(rank.channel->prepareGroup({message(false, 0, 0, 4)}));
    other.join();
    watchdog.join();
    const char *expected =
        r == 2 ? "no progress in 0.1 s" : "rank 2 ended the run: no progress in 0.1 s";
    if (r != 0) {
      EXPECT_THAT(first.message(), HasSubstr(expected));
    }
    if (r != 1) {
      EXPECT_THAT(second.message(), HasSubstr(expected));
    }
    // Later ones fail too.
    EXPECT_FALSE(rank.run(rank.channel->prepareGroup({message(true, 0, 0, 1)})).ok());
  });
}

// Real processes: the kernel (shared memory) or UCX (network) notices the death.
TEST_P(UcxOverTls, DeadPeerEndsAllWaits) {
  Job job(3);
  UcxOptions options = this->options();
  pid_t children[3];
  for (uint32_t r = 0; r < 3; ++r) {
    if ((children[r] = ::fork()))
      continue;
    Rank rank;
    rank.open(job.of(r), options);
    if (!rank.channel)
      ::_exit(10);
    if (r == 1)
      ::raise(SIGKILL);
    int32_t buffer[4] = {};
    rank.pointers[0] = buffer;
    Status signal, receive;
    std::thread other([&] { signal = rank.run(rank.channel->prepareWaitSignal({0, 1, 1})); });
    receive = rank.run(rank.channel->prepareGroup({message(false, 2 - r, 0, 4)}));
    other.join();
    auto named = [&](const Status &status) {
      // Either saw it itself, or was told by the one that did.
      return status.message().find("lost rank 1") != std::string::npos;
    };
    if (!named(signal) || !named(receive))
      fprintf(stderr, "rank %u: %s / %s\n", r, signal.message().c_str(), receive.message().c_str());
    bool good = named(signal) && named(receive);
    rank.channel.reset();
    rank.transport.reset();
    ::_exit(good ? 0 : 11);
  }
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int left = 3;
  while (left && std::chrono::steady_clock::now() < deadline) {
    int status = 0;
    pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      std::this_thread::sleep_for(milliseconds(20));
      continue;
    }
    --left;
    if (pid == children[1])
      EXPECT_TRUE(WIFSIGNALED(status));
    else
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(left, 0) << "a rank hangs";
  for (pid_t child : children)
    if (left)
      ::kill(child, SIGKILL);
}

/// A large message is cut into pieces, strided or not, and each counts as progress.
TEST_P(UcxOverTls, LargeMessages) {
  constexpr int64_t kRows = 5, kColumns = 1 << 20;
  Job job(2);
  job.onRanks([&](uint32_t r) {
    Rank rank;
    rank.open(job.of(r), options());
    ASSERT_TRUE(rank.channel);
    for (bool strided : {false, true}) {
      std::vector<int32_t> out(kRows * kColumns), in(2 * kRows * kColumns + 1, -1);
      std::iota(out.begin(), out.end(), int32_t(r << 28));
      rank.pointers[0] = out.data();
      rank.pointers[1] = in.data();
      Message send = message(true, 1 - r, 0, 0), receive = message(false, 1 - r, 1, 0);
      send.buffer.layout = receive.buffer.layout = Layout::dense(DType::I32, {kRows, kColumns});
      int64_t stride = strided ? 2 * kColumns : kColumns;
      receive.buffer.layout.strides[0] = stride;
      for (uint64_t epoch = 0; epoch < 2; ++epoch) {
        uint64_t before = rank.transport->progress();
        Status status = rank.run(rank.channel->prepareGroup({send, receive}), epoch);
        ASSERT_TRUE(status.ok()) << status.message();
        // 20 MiB each way, cut if they go to another host.
        EXPECT_GE(rank.transport->progress() - before, GetParam() ? 10u : 2u);
      }
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t column = 0; column < kColumns; ++column)
          ASSERT_EQ(in[row * stride + column], int32_t((1 - r) << 28) + row * kColumns + column);
      EXPECT_EQ(in[kRows * stride], -1);
    }
  });
}

/// A large put is made in turns; the peer sees that it proceeds before the signal comes.
TEST_P(UcxOverTls, LargePuts) {
  constexpr int64_t kRows = 5, kColumns = 3 << 18;
  Job job(2);
  job.onRanks([&](uint32_t r) {
    Rank rank;
    rank.bufferBytes = 2 * kRows * kColumns * 4;
    rank.open(job.of(r), options());
    ASSERT_TRUE(rank.channel);
    uint32_t peer = 1 - r;
    std::vector<int32_t> source(kRows * kColumns);
    rank.pointers[0] = source.data();
    Layout dense = Layout::dense(DType::I32, {kRows, kColumns}), rows = dense;
    rows.strides[0] = 2 * kColumns;
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      const Layout &to = epoch < 2 ? dense : rows;
      std::iota(source.begin(), source.end(), int32_t(r << 28 | epoch << 26));
      Status put = rank.run(rank.channel->preparePut({peer, 0, to, {0, dense}}), epoch);
      ASSERT_TRUE(put.ok()) << put.message();
      ASSERT_TRUE(rank.run(rank.channel->prepareSignal({peer, 3, 1, 1}), epoch).ok());
      ASSERT_TRUE(rank.run(rank.channel->prepareWaitSignal({3, 1, 1}), epoch).ok());
      auto *buffer =
          reinterpret_cast<int32_t *>(rank.memory.data()) + epoch % 2 * rank.bufferBytes / 4;
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t column = 0; column < kColumns; ++column)
          ASSERT_EQ(buffer[row * to.strides[0] + column],
                    int32_t(peer << 28 | epoch << 26) + row * kColumns + column);
    }
    // Turns and controls of all runs: those of a run may come in another one.
    EXPECT_GE(rank.transport->progress(), 4 * (GetParam() ? 3u + 4u : 1u + 1u));
  });
}

namespace {

/// Puts that end late: each call of progress ends one. The ranks are threads of this process.
struct LatePuts {
  ucp_send_nbx_callback_t ended;
  void *data;
  std::unique_ptr<char> request = std::make_unique<char>();
};
thread_local std::vector<LatePuts> latePuts; // of this rank's progress thread, oldest first
thread_local std::vector<std::unique_ptr<char>> lateRequests;
std::atomic<size_t> mostPuts, mostPutBytes;

ucx::Api withLatePuts(const ucx::Api &real) {
  static const ucx::Api &library = real;
  ucx::Api api = real;
  api.ucp_put_nbx = [](ucp_ep_h, const void *from, size_t bytes, uint64_t to, ucp_rkey_h,
                       const ucp_request_param_t *param) -> ucs_status_ptr_t {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    latePuts.push_back({param->cb.send, param->user_data});
    size_t now = latePuts.size(), most = mostPuts;
    while (most < now && !mostPuts.compare_exchange_weak(most, now)) {
    }
    mostPutBytes = std::max<size_t>(mostPutBytes, bytes);
    return latePuts.back().request.get();
  };
  api.ucp_worker_progress = [](ucp_worker_h worker) {
    unsigned moved = library.ucp_worker_progress(worker);
    if (latePuts.empty())
      return moved;
    LatePuts first = std::move(latePuts.front());
    latePuts.erase(latePuts.begin());
    void *request = first.request.get();
    lateRequests.push_back(std::move(first.request));
    first.ended(request, UCS_OK, first.data);
    return moved + 1;
  };
  api.ucp_request_free = [](void *request) {
    auto isLate = [&](const auto &late) { return late.get() == request; };
    auto late = std::find_if(lateRequests.begin(), lateRequests.end(), isLate);
    if (late == lateRequests.end())
      return library.ucp_request_free(request);
    lateRequests.erase(late);
  };
  return api;
}

} // namespace

/// Several turns of a large put are under way at once, so that a link with a long way stays busy.
TEST(Ucx, TurnsOfAPutOverlap) {
  constexpr int64_t kElements = (9 << 18) + 5; // 9 MiB, and a last short turn
  auto real = ucx::Api::get();
  ASSERT_TRUE(real) << real.status().message();
  const ucx::Api api = withLatePuts(**real);
  mostPuts = mostPutBytes = 0;
  Job job(2);
  job.onRanks([&](uint32_t r) {
    UcxOptions options;
    options.networkOnly = true;
    Rank rank;
    rank.bufferBytes = 4 * kElements + 12;
    rank.open(job.of(r), options, &api);
    ASSERT_TRUE(rank.channel);
    std::vector<int32_t> source(kElements);
    rank.pointers[0] = source.data();
    Layout layout = Layout::dense(DType::I32, {kElements});
    auto put = rank.channel->preparePut({1 - r, 0, layout, {0, layout}});
    ASSERT_TRUE(put) << put.status().message();
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      std::iota(source.begin(), source.end(), int32_t(r << 28 | epoch << 26));
      Frame frame;
      frame.pointers = rank.pointers;
      frame.epoch = epoch;
      frame.parity = epoch % 2;
      Status status = static_cast<HostOperation &>(**put).execute(frame);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(rank.run(rank.channel->prepareSignal({1 - r, 3, 1, 1}), epoch).ok());
      ASSERT_TRUE(rank.run(rank.channel->prepareWaitSignal({3, 1, 1}), epoch).ok());
      auto *buffer =
          reinterpret_cast<int32_t *>(rank.memory.data()) + epoch % 2 * rank.bufferBytes / 4;
      for (int64_t i = 0; i < kElements; ++i)
        ASSERT_EQ(buffer[i], int32_t((1 - r) << 28 | epoch << 26) + i);
    }
    // Of each run: own turns, and behind each but the last a message from the peer.
    EXPECT_GE(rank.transport->progress(), 4 * (10u + 10u));
  });
  EXPECT_EQ(mostPuts, 4u);
  EXPECT_EQ(mostPutBytes, 1u << 20);
}

/// Between ranks of a host, where the symmetric memory can be mapped, a put is a store: UCX is not
/// asked. It stays valid when the peer has gone.
TEST(Ucx, PutsWithinAHostAreStores) {
  auto real = ucx::Api::get();
  ASSERT_TRUE(real) << real.status().message();
  const ucx::Api api = withLatePuts(**real);
  for (bool networkOnly : {false, true}) {
    mostPuts = 0;
    Job job(2);
    std::atomic<bool> gone{false};
    job.onRanks([&](uint32_t r) {
      UcxOptions options;
      options.networkOnly = networkOnly;
      Rank rank;
      auto block = MappedMemory::allocate((rank.bufferBytes / 4 + 512) * 8);
      ASSERT_TRUE(block) << block.status().message();
      rank.mapped = *block;
      block->reset();
      rank.open(job.of(r), options, &api);
      ASSERT_TRUE(rank.channel);
      uint32_t peer = 1 - r;
      // Into every second row of three, from columns that lie two apart.
      std::vector<int32_t> source(24);
      rank.pointers[0] = source.data();
      Layout src = Layout::dense(DType::I32, {3, 4}), dst = src;
      src.strides[0] = 8, src.strides[1] = 2;
      dst.strides[0] = 8;
      auto put = rank.channel->preparePut({peer, 64, dst, {0, src}});
      ASSERT_TRUE(put) << put.status().message();
      Frame frame;
      frame.pointers = rank.pointers;
      for (uint64_t epoch = 0; epoch < 4; ++epoch) {
        std::iota(source.begin(), source.end(), int32_t(100 * r + 1000 * epoch));
        frame.epoch = epoch;
        frame.parity = epoch % 2;
        Status status = static_cast<HostOperation &>(**put).execute(frame);
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_TRUE(rank.run(rank.channel->prepareSignal({peer, 3, 1, 1}), epoch).ok());
        ASSERT_TRUE(rank.run(rank.channel->prepareWaitSignal({3, 1, 1}), epoch).ok());
        auto *buffer = static_cast<const int32_t *>(rank.mapped->base()) +
                       epoch % 2 * rank.bufferBytes / 4 + 16;
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 4; ++j)
            ASSERT_EQ(buffer[8 * i + j], int32_t(100 * peer + 1000 * epoch) + 8 * i + 2 * j);
      }
      if (r != 0) {
        rank.channel.reset();
        rank.transport.reset();
        rank.mapped.reset();
        gone = true;
      } else if (!networkOnly) {
        for (int ms = 0; !gone && ms < 20000; ++ms)
          std::this_thread::sleep_for(milliseconds(1));
        EXPECT_TRUE(gone);
        Status status = static_cast<HostOperation &>(**put).execute(frame);
        EXPECT_TRUE(status.ok()) << status.message();
      }
    });
    EXPECT_EQ(mostPuts > 0, networkOnly);
  }
}

namespace {

thread_local bool gpuIsCurrent = false;

/// A GPU whose memory the host can access, over a device `cpu`.
class NearGpu final : public HostOnly {
public:
  std::string_view name() const override { return "cuda:0"; }
  bool hostMemory() const override { return false; }
  void within(const std::function<void()> &body) override {
    gpuIsCurrent = true;
    body();
    gpuIsCurrent = false;
  }
  Expected<std::unique_ptr<Stream>> createStream(StreamPriority priority) override {
    return cpu->createStream(priority);
  }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind kind) override {
    allocated.push_back(kind);
    return cpu->allocate(bytes, kind);
  }
  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &to,
                                                   const Operand &from) override {
    return cpu->prepareCopy(to, from);
  }

  std::vector<MemoryKind> allocated;

private:
  std::unique_ptr<Device> cpu = createCpuDevice();
};

std::atomic<unsigned> gpuMessages, hostMessages;

/// A UCX that claims to be built for CUDA, and counts the memory types that messages name.
ucx::Api withCuda(const ucx::Api &real) {
  static const ucx::Api &library = real;
  static const auto onHost = [](const ucp_request_param_t *param) {
    EXPECT_TRUE(param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE);
    bool isGpu = param->memory_type == UCS_MEMORY_TYPE_CUDA;
    EXPECT_TRUE(isGpu || param->memory_type == UCS_MEMORY_TYPE_HOST);
    EXPECT_TRUE(gpuIsCurrent); // UCX asks for the context of the thread
    ++(isGpu ? gpuMessages : hostMessages);
    ucp_request_param_t other = *param;
    other.memory_type = UCS_MEMORY_TYPE_HOST;
    return other;
  };
  ucx::Api api = real;
  // What UCX makes without a GPU that is current does not move its memory.
  api.ucp_init_version = [](unsigned major, unsigned minor, const ucp_params_t *params,
                            const ucp_config_t *config, ucp_context_h *context) {
    EXPECT_TRUE(gpuIsCurrent);
    return library.ucp_init_version(major, minor, params, config, context);
  };
  api.ucp_worker_create = [](ucp_context_h context, const ucp_worker_params_t *params,
                             ucp_worker_h *worker) {
    EXPECT_TRUE(gpuIsCurrent);
    return library.ucp_worker_create(context, params, worker);
  };
  api.ucp_worker_destroy = [](ucp_worker_h worker) {
    EXPECT_TRUE(gpuIsCurrent);
    library.ucp_worker_destroy(worker);
  };
  api.ucp_cleanup = [](ucp_context_h context) {
    EXPECT_TRUE(gpuIsCurrent);
    library.ucp_cleanup(context);
  };
  api.ucp_context_query = [](ucp_context_h context, ucp_context_attr_t *attributes) {
    ucs_status_t status = library.ucp_context_query(context, attributes);
    EXPECT_TRUE(attributes->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES);
    attributes->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    return status;
  };
  api.ucp_tag_send_nbx = [](ucp_ep_h to, const void *data, size_t count, ucp_tag_t tag,
                            const ucp_request_param_t *param) {
    ucp_request_param_t other = onHost(param);
    return library.ucp_tag_send_nbx(to, data, count, tag, &other);
  };
  api.ucp_tag_recv_nbx = [](ucp_worker_h worker, void *data, size_t count, ucp_tag_t tag,
                            ucp_tag_t mask, const ucp_request_param_t *param) {
    ucp_request_param_t other = onHost(param);
    return library.ucp_tag_recv_nbx(worker, data, count, tag, mask, &other);
  };
  return api;
}

} // namespace

/// Memory of a GPU goes through the host only if UCX was not built for it, or is not to do it. Then
/// peers need not do the same.
TEST(Ucx, MemoryOfGpus) {
  auto real = ucx::Api::get();
  ASSERT_TRUE(real) << real.status().message();
  const ucx::Api cuda = withCuda(**real);
  for (bool isAllowed : {true, false}) {
    gpuMessages = hostMessages = 0;
    Job job(2);
    job.onRanks([&](uint32_t r) {
      UcxOptions options;
      options.gpuDirect = isAllowed;
      bool isDirect = r == 0 && isAllowed;
      {
        NearGpu gpu;
        auto transport = ucx::createTransport(r == 0 ? cuda : **real, options);
        ASSERT_TRUE(transport) << transport.status().message();
        ASSERT_TRUE((*transport)->open(gpu).ok());
        EXPECT_EQ((*transport)->movesDense(gpu), isDirect);
        EXPECT_FALSE((*transport)->movesDense(HostOnly()));
      }
      NearGpu gpu;
      Rank rank;
      rank.open(job.of(r), options, r == 0 ? &cuda : &**real, &gpu);
      ASSERT_TRUE(rank.channel);
      // Rank 0 sends rows with gaps, and receives dense rows.
      constexpr int64_t kRows = 3, kColumns = 4;
      Message send = message(true, 1 - r, 0, 0), receive = message(false, 1 - r, 1, 0);
      send.buffer.layout = receive.buffer.layout = Layout::dense(DType::I32, {kRows, kColumns});
      send.buffer.layout.strides[0] = 2 * kColumns;
      auto group = rank.channel->prepareGroup({send, receive});
      ASSERT_TRUE(group) << group.status().message();
      EXPECT_EQ(gpu.allocated, isDirect ? std::vector<MemoryKind>{MemoryKind::Plain}
                                        : std::vector<MemoryKind>(2, MemoryKind::Host));
      auto stream = gpu.createStream(StreamPriority::Normal);
      ASSERT_TRUE(stream) << stream.status().message();
      std::vector<int32_t> out(2 * kRows * kColumns), in(kRows * kColumns);
      rank.pointers[0] = out.data();
      rank.pointers[1] = in.data();
      for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        std::iota(out.begin(), out.end(), int32_t(1000 * r + 100 * epoch));
        Frame frame;
        frame.pointers = rank.pointers;
        frame.epoch = epoch;
        ASSERT_TRUE((*group)->enqueue(**stream, frame).ok());
        ASSERT_TRUE((*stream)->synchronize().ok());
        for (int64_t i = 0; i < kRows * kColumns; ++i)
          EXPECT_EQ(in[i], int64_t(1000 * (1 - r) + 100 * epoch) + i + i / kColumns * kColumns);
      }
    });
    EXPECT_EQ(gpuMessages, isAllowed ? 6u : 0u);
    EXPECT_EQ(hostMessages, isAllowed ? 0u : 6u);
  }
}

namespace {

/// What a thread that was left behind may use until the process ends: nothing of it is destroyed.
struct Hang {
  std::mutex mutex;
  std::condition_variable changed;
  bool hangs = false;              ///< guarded by mutex
  unsigned hanging = 0, ended = 0; ///< likewise: calls now, and the last calls of UCX
  std::atomic<const ucx::Api *> real{nullptr};
  std::map<std::string, ucx::Api> apis; ///< by the call that hangs

  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    ++hanging;
    changed.wait(lock, [this] { return !hangs; });
    --hanging;
  }
  void noteEnd() {
    std::lock_guard<std::mutex> lock(mutex);
    ++ended;
    changed.notify_all();
  }
};
Hang &hang = *new Hang;

/// A UCX that does not return from one of the calls that end it, until the test lets it.
const ucx::Api &hangingIn(const ucx::Api &real, const std::string &call) {
  hang.real = &real;
  ucx::Api &api = hang.apis[call] = real;
  if (call == "ucp_worker_destroy")
    api.ucp_worker_destroy = [](ucp_worker_h worker) {
      hang.wait();
      hang.real.load()->ucp_worker_destroy(worker);
    };
  if (call == "ucp_worker_destroy")
    api.ucp_cleanup = [](ucp_context_h context) {
      hang.real.load()->ucp_cleanup(context);
      hang.noteEnd();
    };
  if (call == "ucp_mem_unmap")
    api.ucp_mem_unmap = [](ucp_context_h context, ucp_mem_h memory) {
      hang.wait();
      ucs_status_t status = hang.real.load()->ucp_mem_unmap(context, memory);
      hang.noteEnd();
      return status;
    };
  return api;
}

} // namespace

class UcxEnd : public testing::TestWithParam<std::string> {};

/// The rank goes on with a warning, and its peer ends without one.
TEST_P(UcxEnd, DoesNotWaitForALibraryThatHangs) {
  auto real = ucx::Api::get();
  ASSERT_TRUE(real) << real.status().message();
  const ucx::Api &api = hangingIn(**real, GetParam());
  {
    std::lock_guard<std::mutex> lock(hang.mutex);
    hang.hangs = true;
    hang.ended = 0;
  }
  Job job(2);
  std::vector<std::string> warnings[2];
  job.onRanks([&](uint32_t r) {
    Rank rank;
    rank.device.log = Log([&](LogLevel, const std::string &text) { warnings[r].push_back(text); });
    UcxOptions options;
    options.closeTimeout = milliseconds(100); // the other rank's thread may not answer
    if (r == 1)
      options.patience = milliseconds(1000);
    rank.open(job.of(r), options, r == 1 ? &api : nullptr);
    ASSERT_TRUE(rank.channel);
    Message send = message(true, 1 - r, 0, 4), receive = message(false, 1 - r, 1, 4);
    int32_t out[4] = {1, 2, 3, 4}, in[4] = {};
    rank.pointers[0] = out;
    rank.pointers[1] = in;
    EXPECT_TRUE(rank.run(rank.channel->prepareGroup({send, receive})).ok());
    EXPECT_EQ(in[3], 4);
    rank.channel.reset();
    rank.transport.reset();
  });
  EXPECT_THAT(warnings[0], testing::IsEmpty());
  EXPECT_THAT(warnings[1], testing::ElementsAre(
                               HasSubstr("rank 1: a call of UCX has not returned after 1000 ms")));
  // What the call finds when it returns after all. (Not if the thread was too slow to reach it.)
  std::unique_lock<std::mutex> lock(hang.mutex);
  const bool isThere = hang.hanging == 1;
  hang.hangs = false;
  hang.changed.notify_all();
  hang.changed.wait(lock, [&] { return hang.ended == 1 || !isThere; });
}

INSTANTIATE_TEST_SUITE_P(Calls, UcxEnd, testing::Values("ucp_worker_destroy", "ucp_mem_unmap"),
                         [](const auto &test) { return test.param.substr(4); });
