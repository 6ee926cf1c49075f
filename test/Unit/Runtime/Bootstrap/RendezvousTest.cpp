//===- RendezvousTest.cpp - ranks find each other ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Job.h"
#include "Wire.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <numeric>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;
using testing::HasSubstr;

namespace {

/// Joins the job and waits in a barrier.
void joinAndMeet(const BootstrapEnvironment &env) {
  auto bootstrap = createTcpBootstrap(env);
  ASSERT_TRUE(bootstrap) << bootstrap.status().message();
  EXPECT_TRUE((*bootstrap)->barrier().ok());
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

TEST(Rendezvous, PlacesThatTheLauncherDoesNotSay) {
  Job job(5);
  const char *nodes[] = {"a", "b", "a", "a", "b"};
  const uint32_t places[] = {0, 0, 1, 2, 1};
  onRanks(5, [&](uint32_t rank) {
    BootstrapEnvironment env = job.of(rank);
    env.node = nodes[rank];
    auto bootstrap = joinJob(env);
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    EXPECT_EQ((*bootstrap)->host(), hostOf(nodes[rank]));
    EXPECT_EQ((*bootstrap)->localRank(), places[rank]);
    EXPECT_EQ((*bootstrap)->localSize(), rank == 1 || rank == 4 ? 2u : 3u);
  });
  Job said(2);
  onRanks(2, [&](uint32_t rank) {
    BootstrapEnvironment env = said.of(rank);
    env.localRank = 7 + rank;
    env.localSize = 9;
    env.localRankKnown = env.localSizeKnown = true;
    auto bootstrap = joinJob(env);
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    EXPECT_EQ((*bootstrap)->localRank(), 7 + rank);
    EXPECT_EQ((*bootstrap)->localSize(), 9u);
  });
}

/// Two ranks on each of two nodes, started by hand with one local variable.
TEST(Rendezvous, WhatTheLauncherSaysOfAPlaceStays) {
  const uint32_t given[] = {1, 0, 0, 1};
  for (bool isRank : {true, false}) {
    Job job(4);
    onRanks(4, [&](uint32_t rank) {
      std::map<std::string, std::string> variables = {
          {"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "4"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(job.env.port)},
          {"TANDEM_NODE", rank < 2 ? "a" : "b"},
          {isRank ? "LOCAL_RANK" : "LOCAL_WORLD_SIZE", isRank ? std::to_string(given[rank]) : "3"}};
      auto env = readBootstrapEnvironment([&](const char *name) -> const char * {
        auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      });
      ASSERT_TRUE(env) << env.status().message();
      env->listenFd = job.of(rank).listenFd;
      auto bootstrap = joinJob(*env);
      ASSERT_TRUE(bootstrap) << bootstrap.status().message();
      EXPECT_EQ((*bootstrap)->localRank(), isRank ? given[rank] : rank % 2);
      EXPECT_EQ((*bootstrap)->localSize(), isRank ? 2u : 3u);
    });
  }
}

/// As with GPUs 2 and 3 of a node: both places exist, and the smaller ones are taken by nobody.
TEST(Rendezvous, PlacesBeyondTheRanksOfANode) {
  Job job(4);
  onRanks(4, [&](uint32_t rank) {
    BootstrapEnvironment env = job.of(rank);
    env.node = rank < 2 ? "a" : "b";
    env.localRank = 2 + rank % 2;
    env.localRankKnown = true;
    auto bootstrap = joinJob(env);
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    EXPECT_EQ((*bootstrap)->localRank(), 2 + rank % 2);
    EXPECT_GT((*bootstrap)->localSize(), (*bootstrap)->localRank());
  });
}

TEST(Rendezvous, FewerPlacesThanRanksOfANode) {
  Job job(2);
  onRanks(2, [&](uint32_t rank) {
    BootstrapEnvironment env = job.of(rank);
    env.localSize = 1;
    env.localSizeKnown = true;
    auto bootstrap = joinJob(env);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().message(),
              fmt::format("rank {}: expected at most 1 ranks on its node, as the launcher says, "
                          "found 2",
                          rank));
  });
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
    env.secret = "another";
    env.timeout = milliseconds(300);
    auto bootstrap = createTcpBootstrap(env);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::Timeout);
    EXPECT_THAT(bootstrap.status().message(), HasSubstr("rank 1, to rank 0 at 127.0.0.1:"));
  });
  std::thread root([&] { joinAndMeet(job.of(0)); });
  foreign.join();
  joinAndMeet(job.of(1));
  root.join();
  for (int fd : strangers)
    ::close(fd);
}

TEST(Rendezvous, ForgedHelloIsRefused) {
  Job job(2);
  std::thread root([&] { joinAndMeet(job.of(0)); });
  std::vector<int> forgers;
  for (uint32_t rank : {1u, 7u, ~0u}) {
    int fd = connectTo(job.env.port);
    forgers.push_back(fd);
    bootstrap::Challenge challenge;
    ASSERT_EQ(::recv(fd, &challenge, sizeof(challenge), MSG_WAITALL), ssize_t(sizeof(challenge)));
    bootstrap::Hello hello;
    hello.rank = rank;
    hello.worldSize = rank == 1 ? 2 : 1u << 31;
    BootstrapEnvironment env = job.of(1);
    env.secret = "a guess";
    hello.proof = bootstrap::proofOfClient(env, challenge.nonce, hello);
    ASSERT_EQ(::send(fd, &hello, sizeof(hello), 0), ssize_t(sizeof(hello)));
    bootstrap::FrameHeader answer;
    ASSERT_EQ(::recv(fd, &answer, sizeof(answer), MSG_WAITALL), ssize_t(sizeof(answer)));
    EXPECT_EQ(answer.kind, bootstrap::FrameKind::Refused);
  }
  joinAndMeet(job.of(1));
  root.join();
  for (int fd : forgers)
    ::close(fd);
}

/// A rank proves nothing by repeating what another has sent.
TEST(Rendezvous, ProofsAreOfOneConnection) {
  BootstrapEnvironment env;
  env.secret = "a secret";
  bootstrap::Hello hello;
  hello.rank = 1;
  bootstrap::Nonce one = bootstrap::makeNonce(), two = bootstrap::makeNonce();
  EXPECT_NE(one, two);
  EXPECT_NE(proofOfClient(env, one, hello), proofOfClient(env, two, hello));
  EXPECT_NE(proofOfClient(env, one, hello), proofOfRoot(env, one, hello));
  bootstrap::Hello other = hello;
  other.rank = 2;
  EXPECT_NE(proofOfClient(env, one, hello), proofOfClient(env, one, other));
}

TEST(Rendezvous, SilentConnectionsKeepNoRankOut) {
  Job job(2);
  std::vector<int> silent;
  for (int i = 0; i < 300; ++i)
    silent.push_back(connectTo(job.env.port));
  std::thread root([&] { EXPECT_TRUE(createTcpBootstrap(job.of(0))); });
  auto begin = std::chrono::steady_clock::now();
  auto bootstrap = createTcpBootstrap(job.of(1));
  EXPECT_TRUE(bootstrap) << bootstrap.status().message();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  root.join();
  for (int fd : silent)
    ::close(fd);
}

/// Ranks meet while others send a byte now and then.
TEST(Rendezvous, SlowConnectionsKeepNoRankOut) {
  Job job(2);
  std::atomic<bool> isOver{false};
  std::vector<std::thread> slow;
  for (int i = 0; i < 8; ++i)
    slow.emplace_back([&] {
      int fd = connectTo(job.env.port);
      for (; !isOver; std::this_thread::sleep_for(milliseconds(150)))
        if (::send(fd, "x", 1, MSG_NOSIGNAL) < 0)
          break;
      ::close(fd);
    });
  std::thread root([&] { EXPECT_TRUE(createTcpBootstrap(job.of(0))); });
  std::this_thread::sleep_for(milliseconds(300));
  auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(createTcpBootstrap(job.of(1)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  isOver = true;
  for (std::thread &thread : slow)
    thread.join();
  root.join();
}

/// Rank 0 of another job, or a program that wants to be taken for it.
TEST(Rendezvous, RankZeroProvesItself) {
  Job job(2, milliseconds(600));
  std::thread impostor([&] {
    BootstrapEnvironment env = job.of(0);
    env.secret = "a guess";
    auto bootstrap = createTcpBootstrap(env);
    ASSERT_FALSE(bootstrap);
    EXPECT_THAT(bootstrap.status().message(), HasSubstr("rank 1 at 127.0.0.1:"));
    EXPECT_THAT(bootstrap.status().message(), HasSubstr("another TANDEM_SECRET"));
  });
  auto bootstrap = createTcpBootstrap(job.of(1));
  ASSERT_FALSE(bootstrap);
  EXPECT_THAT(bootstrap.status().message(), HasSubstr("another TANDEM_SECRET"));
  impostor.join();
}

/// The cause is still known when that rank 0 has ended.
TEST(Rendezvous, RankZeroThatRefusedAndEnded) {
  Job job(2, milliseconds(2000));
  std::thread other([&] {
    BootstrapEnvironment env = job.of(0);
    env.secret = "another";
    env.timeout = milliseconds(600);
    EXPECT_FALSE(createTcpBootstrap(env));
    std::this_thread::sleep_for(milliseconds(700)); // a connection waits, which is then closed
    job.close();
  });
  auto bootstrap = createTcpBootstrap(job.of(1));
  ASSERT_FALSE(bootstrap);
  EXPECT_THAT(bootstrap.status().message(), HasSubstr("another TANDEM_SECRET; tried for 2 s"));
  other.join();
}

/// RFC 4231, cases 2 and 6.
TEST(Rendezvous, HmacSha256) {
  auto hex = [](const bootstrap::Proof &proof) {
    std::string text;
    for (uint8_t byte : proof)
      text += fmt::format("{:02x}", byte);
    return text;
  };
  EXPECT_EQ(hex(bootstrap::hmac("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(bootstrap::hmac(std::string(131, '\xaa'),
                                "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Rendezvous, ListensWhereItIsTold) {
  auto where = [](const ListenSocket &listener) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    ::getsockname(listener.fd(), reinterpret_cast<sockaddr *>(&address), &length);
    return address.ss_family == AF_INET
               ? ntohl(reinterpret_cast<sockaddr_in &>(address).sin_addr.s_addr)
               : 0;
  };
  for (const char *address : {"127.0.0.1", "localhost", "lo"}) {
    auto listener = ListenSocket::open(0, address);
    ASSERT_TRUE(listener) << listener.status().message();
    EXPECT_GT(listener->port(), 0);
    if (address != std::string("localhost")) { // may be ::1
      EXPECT_EQ(where(*listener), INADDR_LOOPBACK) << address;
    }
  }
  EXPECT_THAT(
      ListenSocket::open(0, "no-such-interface.invalid").status().message(),
      HasSubstr("\"no-such-interface.invalid\": no interface, address or host has this name"));
  BootstrapEnvironment env;
  EXPECT_EQ(bootstrap::listenAsRoot(env).status().code(), Code::InvalidArgument); // no address
  env.addresses = {"localhost"};
  auto own = bootstrap::listenAsRoot(env);
  ASSERT_TRUE(own) << own.status().message();
  EXPECT_EQ(where(*own), INADDR_LOOPBACK);
  EXPECT_TRUE(meetsOnLoopback(env));
  // A host's own name may be the loopback. Ranks on other hosts use this name, too.
  char name[256] = "";
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  env.addresses = {name};
  if (meetsOnLoopback(env)) {
    env.worldSize = env.localSize = 2;
    for (bool isOneHost : {false, true}) {
      env.localSizeKnown = isOneHost;
      own = bootstrap::listenAsRoot(env);
      ASSERT_TRUE(own) << own.status().message();
      EXPECT_EQ(where(*own) >> 24, isOneHost ? 127u : 0u);
    }
  }
  env.addresses = {"127.0.0.1", "198.51.100.1"};
  EXPECT_FALSE(meetsOnLoopback(env));
  env.addresses = {"198.51.100.1"}; // of another host: then on all interfaces
  own = bootstrap::listenAsRoot(env);
  ASSERT_TRUE(own) << own.status().message();
  EXPECT_EQ(where(*own), 0u);
}

TEST(Rendezvous, LauncherTellsThatARankHasEnded) {
  int file = ::memfd_create("notice", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::write(file, "rank 2 ended", 12), 12);
  Job job(3);
  BootstrapEnvironment root = job.of(0);
  root.launcherFd = file;
  auto begin = std::chrono::steady_clock::now();
  auto bootstrap = createTcpBootstrap(root);
  ASSERT_FALSE(bootstrap);
  EXPECT_THAT(bootstrap.status().message(), HasSubstr("rank 2 ended"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  // Rank 0 itself has ended, so nothing listens.
  job.close();
  BootstrapEnvironment env = job.of(1);
  env.launcherFd = file;
  EXPECT_EQ(createTcpBootstrap(env).status().code(), Code::Aborted);
  ::close(file);
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

/// A connection of rank 1 that has said Hello.
static int helloOf(const Job &job, uint32_t version = kProtocolVersion) {
  int fd = connectTo(job.env.port);
  bootstrap::Challenge challenge;
  EXPECT_EQ(::recv(fd, &challenge, sizeof(challenge), MSG_WAITALL), ssize_t(sizeof(challenge)));
  bootstrap::Hello hello;
  hello.rank = 1;
  hello.worldSize = job.env.worldSize;
  hello.version = version;
  hello.proof = bootstrap::proofOfClient(job.env, challenge.nonce, hello);
  EXPECT_EQ(::send(fd, &hello, sizeof(hello), 0), ssize_t(sizeof(hello)));
  return fd;
}

/// Rank 1 is of another version. All end at once, and say why, also a rank that comes later.
TEST(Rendezvous, OtherVersionIsAnErrorOnAllRanks) {
  Job job(3);
  auto begin = std::chrono::steady_clock::now();
  auto fails = [&](uint32_t rank) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    ASSERT_FALSE(bootstrap);
    EXPECT_THAT(bootstrap.status().message(), HasSubstr("rank 1 (127.0.0.1:"));
    EXPECT_THAT(bootstrap.status().message(),
                HasSubstr(fmt::format("speaks version 99 of the protocol, rank 0 version {}: all "
                                      "ranks need the same version of Tandem",
                                      kProtocolVersion)));
  };
  std::thread root([&] { fails(0); });
  bootstrap::Socket other(helloOf(job, 99));
  auto deadline = bootstrap::Clock::now() + std::chrono::seconds(20);
  bootstrap::FrameHeader answer;
  ASSERT_TRUE(other.receive(&answer, sizeof(answer), deadline).ok());
  EXPECT_EQ(answer.kind, bootstrap::FrameKind::Accepted);
  bootstrap::Proof proof;
  ASSERT_TRUE(other.receive(proof.data(), proof.size(), deadline).ok());
  Status said = bootstrap::receiveHeader(other, bootstrap::FrameKind::Welcome, answer, deadline);
  EXPECT_EQ(said.code(), Code::Aborted);
  EXPECT_THAT(said.message(), HasSubstr("speaks version 99 of the protocol"));
  fails(2);
  root.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(9));
}

/// The version is a part of the proof.
TEST(Rendezvous, VersionCannotBeForged) {
  BootstrapEnvironment env;
  bootstrap::Hello hello, other;
  other.version = 99;
  bootstrap::Nonce nonce = bootstrap::makeNonce();
  EXPECT_NE(proofOfClient(env, nonce, hello), proofOfClient(env, nonce, other));
}

/// One connection ends at once after its Hello, one after Accepted: the rank comes again.
TEST(Rendezvous, RankThatEndsBeforeWelcomeMayComeAgain) {
  Job job(3);
  std::thread root([&] { joinAndMeet(job.of(0)); });
  ::close(helloOf(job));
  int fd = helloOf(job);
  bootstrap::FrameHeader answer;
  EXPECT_EQ(::recv(fd, &answer, sizeof(answer), MSG_WAITALL), ssize_t(sizeof(answer)));
  EXPECT_EQ(answer.kind, bootstrap::FrameKind::Accepted);
  ::close(fd);
  onRanks(2, [&](uint32_t i) {
    auto bootstrap = createTcpBootstrap(job.of(i + 1));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    EXPECT_TRUE((*bootstrap)->barrier().ok());
  });
  root.join();
}

/// Something that is not rank 0 cannot end a rank.
TEST(Rendezvous, AbortWithoutProofIsNotBelieved) {
  Job job(2, milliseconds(1500));
  std::thread impostor([&] {
    int fd = ::accept(job.of(0).listenFd, nullptr, nullptr);
    bootstrap::Challenge challenge;
    EXPECT_EQ(::send(fd, &challenge, sizeof(challenge), 0), ssize_t(sizeof(challenge)));
    bootstrap::Hello hello;
    EXPECT_EQ(::recv(fd, &hello, sizeof(hello), MSG_WAITALL), ssize_t(sizeof(hello)));
    bootstrap::sendAbort(bootstrap::Socket(fd), "go \x1b[2J home");
    auto bootstrap = createTcpBootstrap(job.of(0));
    EXPECT_TRUE(bootstrap) << bootstrap.status().message();
  });
  auto bootstrap = createTcpBootstrap(job.of(1));
  EXPECT_TRUE(bootstrap) << bootstrap.status().message();
  impostor.join();
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
