//===- RendezvousTest.cpp - ranks find each other ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Rendezvous.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <numeric>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using std::chrono::milliseconds;
using testing::HasSubstr;

namespace {

/// A job whose ranks are threads of this test, with sockets between them.
class Job {
public:
  explicit Job(uint32_t size, milliseconds timeout = milliseconds(10000)) {
    auto opened = ListenSocket::open(0);
    EXPECT_TRUE(opened) << opened.status().message();
    listener.emplace(std::move(*opened));
    env.launcher = Launcher::Tandem;
    env.worldSize = env.localSize = size;
    env.addresses = {"127.0.0.1"};
    env.port = listener->port();
    env.token = 42;
    env.timeout = timeout;
  }

  BootstrapEnvironment of(uint32_t rank) const {
    BootstrapEnvironment result = env;
    result.rank = result.localRank = rank;
    if (rank == 0)
      result.listenFd = listener->fd();
    return result;
  }
  void close() { listener.reset(); }

  BootstrapEnvironment env;

private:
  std::optional<ListenSocket> listener;
};

/// Runs f(rank) on a thread each.
template <typename F> void onRanks(uint32_t size, F &&f) {
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { f(rank); });
  for (std::thread &thread : threads)
    thread.join();
}

int connectTo(uint16_t port) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
  return fd;
}

} // namespace

TEST(Rendezvous, AllGatherAndBarrier) {
  for (uint32_t size : {1u, 2u, 5u}) {
    Job job(size);
    onRanks(size, [&](uint32_t rank) {
      auto bootstrap = createTcpBootstrap(job.of(rank));
      ASSERT_TRUE(bootstrap) << bootstrap.status().message();
      EXPECT_EQ((*bootstrap)->rank(), rank);
      EXPECT_EQ((*bootstrap)->worldSize(), size);
      for (size_t bytes : {size_t(0), size_t(1), size_t(1000), size_t(3) << 20}) {
        std::vector<unsigned char> mine(bytes, static_cast<unsigned char>(rank + bytes));
        std::vector<unsigned char> all(bytes * size + 1, 0xee);
        Status status = (*bootstrap)->allGather(mine.data(), bytes, all.data());
        ASSERT_TRUE(status.ok()) << status.message();
        for (uint32_t from = 0; from < size; ++from)
          for (size_t i = 0; i < bytes; i += 997)
            ASSERT_EQ(all[from * bytes + i], static_cast<unsigned char>(from + bytes));
        EXPECT_EQ(all.back(), 0xee);
        EXPECT_TRUE((*bootstrap)->barrier().ok());
      }
      auto strings = allGatherStrings(**bootstrap, std::string(rank, 'x'));
      ASSERT_TRUE(strings) << strings.status().message();
      for (uint32_t from = 0; from < size; ++from)
        EXPECT_EQ((*strings)[from], std::string(from, 'x'));
    });
  }
}

TEST(Rendezvous, StrangersAreTurnedAway) {
  Job job(2);
  // One says nothing, one talks another protocol, one belongs to another job, one hangs up.
  std::vector<int> strangers;
  strangers.push_back(connectTo(job.env.port));
  strangers.push_back(connectTo(job.env.port));
  std::string http = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n";
  EXPECT_EQ(::send(strangers.back(), http.data(), http.size(), 0), ssize_t(http.size()));
  ::close(connectTo(job.env.port));
  std::thread foreign([&] {
    BootstrapEnvironment env = job.of(1);
    env.token = 43;
    env.timeout = milliseconds(300);
    auto bootstrap = createTcpBootstrap(env);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::Timeout);
    EXPECT_THAT(bootstrap.status().message(), HasSubstr("rank 1, to rank 0 at 127.0.0.1:"));
  });
  std::thread root([&] {
    auto bootstrap = createTcpBootstrap(job.of(0));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    EXPECT_TRUE((*bootstrap)->barrier().ok());
  });
  foreign.join();
  auto bootstrap = createTcpBootstrap(job.of(1));
  ASSERT_TRUE(bootstrap) << bootstrap.status().message();
  EXPECT_TRUE((*bootstrap)->barrier().ok());
  root.join();
  for (int fd : strangers)
    ::close(fd);
}

TEST(Rendezvous, MissingRankIsNamed) {
  Job job(3, milliseconds(400));
  onRanks(2, [&](uint32_t rank) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    ASSERT_FALSE(bootstrap);
    EXPECT_THAT(bootstrap.status().message(), HasSubstr("rank 2 to connect"));
  });
}

TEST(Rendezvous, NobodyListens) {
  Job job(2, milliseconds(300));
  job.close();
  auto bootstrap = createTcpBootstrap(job.of(1));
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::Timeout);
  EXPECT_THAT(bootstrap.status().message(), HasSubstr("Connection refused"));
}

TEST(Rendezvous, DisagreementEndsBothSides) {
  struct Case {
    uint32_t rank, size;
    const char *message;
  } cases[] = {{1, 3, "expects 3 ranks, rank 0 expects 2"}, {7, 2, "is not a rank from 1 to 1"}};
  for (const Case &c : cases) {
    Job job(2);
    std::thread root([&] {
      auto bootstrap = createTcpBootstrap(job.of(0));
      ASSERT_FALSE(bootstrap);
      EXPECT_THAT(bootstrap.status().message(), HasSubstr(c.message));
    });
    BootstrapEnvironment env = job.of(c.rank);
    env.worldSize = c.size;
    auto bootstrap = createTcpBootstrap(env);
    ASSERT_FALSE(bootstrap);
    EXPECT_THAT(bootstrap.status().message(), HasSubstr(c.message));
    root.join();
  }
}

TEST(Rendezvous, RankThatEndsIsNoticedByAll) {
  for (uint32_t victim : {0u, 2u}) {
    Job job(3);
    onRanks(3, [&](uint32_t rank) {
      auto bootstrap = createTcpBootstrap(job.of(rank));
      ASSERT_TRUE(bootstrap) << bootstrap.status().message();
      ASSERT_TRUE((*bootstrap)->barrier().ok());
      if (rank == victim)
        return;
      auto begin = std::chrono::steady_clock::now();
      Status status = (*bootstrap)->barrier();
      ASSERT_FALSE(status.ok());
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(victim) + " ("));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
      // It stays broken, and says the same.
      EXPECT_EQ((*bootstrap)->barrier().message(), status.message());
    });
  }
}

TEST(Rendezvous, SilentRankIsATimeout) {
  Job job(2, milliseconds(500));
  onRanks(2, [&](uint32_t rank) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    if (rank == 1)
      return std::this_thread::sleep_for(milliseconds(900));
    Status status = (*bootstrap)->barrier();
    EXPECT_EQ(status.code(), Code::Timeout);
    EXPECT_THAT(status.message(), HasSubstr("waited 0.5 s for rank 1 (127.0.0.1:"));
  });
}

TEST(Rendezvous, DifferentSizesAreAnError) {
  Job job(2);
  onRanks(2, [&](uint32_t rank) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    std::vector<char> mine(16), all(64);
    Status status = (*bootstrap)->allGather(mine.data(), 8 + rank, all.data());
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("gave 9 bytes, expected 8"));
  });
}
