//===- RendezvousTest.cpp - ranks find each other ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Rendezvous.h"
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
    env.secret = "a secret";
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

/// Rank 1, or another, of the job in a process of its own, which joins, calls `body` and ends.
template <typename F> pid_t rankOne(const Job &job, F &&body, uint32_t rank = 1) {
  pid_t pid = ::fork();
  if (pid == 0) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    if (bootstrap)
      body(**bootstrap);
    ::_exit(0); // without a word
  }
  return pid;
}

template <typename F> void eventually(F &&condition) {
  for (int i = 0; i < 1000 && !condition(); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(condition());
}

TEST(Rendezvous, StoppedRankIsATimeout) {
  Job job(2);
  job.env.exchangeTimeout = milliseconds(500);
  pid_t pid = rankOne(job, [](Bootstrap &) { ::raise(SIGSTOP); });
  ASSERT_GT(pid, 0);
  std::shared_ptr<void> child(nullptr, [pid](void *) { // whatever fails
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  });
  auto bootstrap = createTcpBootstrap(job.of(0));
  ASSERT_TRUE(bootstrap) << bootstrap.status().message();
  Status status = (*bootstrap)->barrier();
  EXPECT_EQ(status.code(), Code::Timeout);
  EXPECT_THAT(status.message(), HasSubstr("waited 0.5 s for rank 1 (127.0.0.1:"));
}

/// A rank that computes longer than the timeout lives.
TEST(Rendezvous, SlowRankIsWaitedFor) {
  onRanks(2, [](uint32_t slow) { // two jobs at once
    Job job(2);
    job.env.exchangeTimeout = milliseconds(2000);
    onRanks(2, [&](uint32_t rank) {
      auto bootstrap = createTcpBootstrap(job.of(rank));
      ASSERT_TRUE(bootstrap) << bootstrap.status().message();
      if (rank == slow)
        std::this_thread::sleep_for(milliseconds(3500));
      Status status = (*bootstrap)->barrier();
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE((*bootstrap)->health().ok());
    });
  });
}

TEST(Rendezvous, DeathBetweenExchangesIsNoticed) {
  Job job(3);
  pid_t pid = rankOne(job, [](Bootstrap &bootstrap) { bootstrap.barrier().ignore(); });
  onRanks(2, [&](uint32_t i) {
    auto bootstrap = createTcpBootstrap(job.of(i * 2));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    ASSERT_TRUE((*bootstrap)->barrier().ok());
    eventually([&] { return !(*bootstrap)->health().ok(); });
    EXPECT_THAT((*bootstrap)->health().message(), HasSubstr("lost rank 1: its process has ended"));
    EXPECT_FALSE((*bootstrap)->barrier().ok());
  });
  ::waitpid(pid, nullptr, 0);
}

/// A rank that ends with its part unread does not get the whole.
TEST(Rendezvous, DeathBehindAPartIsNoticed) {
  Job job(2);
  pid_t pid = rankOne(job, [](Bootstrap &bootstrap) {
    std::thread([&] { bootstrap.barrier().ignore(); }).detach();
    std::this_thread::sleep_for(milliseconds(300));
  });
  ASSERT_GT(pid, 0);
  auto bootstrap = createTcpBootstrap(job.of(0));
  ASSERT_TRUE(bootstrap) << bootstrap.status().message();
  eventually([&] { return !(*bootstrap)->health().ok(); });
  EXPECT_THAT((*bootstrap)->health().message(), HasSubstr("lost rank 1: its process has ended"));
  ::waitpid(pid, nullptr, 0);
}

TEST(Rendezvous, RankThatGivesUpSaysWhy) {
  for (uint32_t victim : {0u, 1u}) {
    Job job(3);
    onRanks(3, [&](uint32_t rank) {
      auto bootstrap = createTcpBootstrap(job.of(rank));
      ASSERT_TRUE(bootstrap) << bootstrap.status().message();
      ASSERT_TRUE((*bootstrap)->barrier().ok());
      if (rank == victim)
        (*bootstrap)->giveUp(Status(Code::Internal, "it is too hot"));
      eventually([&] { return !(*bootstrap)->health().ok(); });
      EXPECT_THAT((*bootstrap)->health().message(), HasSubstr("it is too hot"));
      std::this_thread::sleep_for(milliseconds(100)); // rank 0 forwards it before it leaves
    });
  }
}

/// Three ranks as threads, with their bootstraps; in the end they leave one after the other.
static std::vector<std::unique_ptr<Bootstrap>> joinAll(const Job &job) {
  std::vector<std::unique_ptr<Bootstrap>> joined(job.env.worldSize);
  onRanks(job.env.worldSize, [&](uint32_t rank) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    joined[rank] = std::move(*bootstrap);
  });
  return joined;
}

/// Each rank learns how many runs the others have begun, at once if it asks for it.
TEST(Rendezvous, RunsThatAllHaveBegun) {
  Job job(4);
  auto ranks = joinAll(job);
  ASSERT_TRUE(ranks[0] && ranks[1] && ranks[2] && ranks[3]);
  auto all = [&](uint64_t runs) {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](auto &rank) { return rank->begunByAll() == runs; });
  };
  EXPECT_TRUE(all(0));
  for (uint32_t last : {2u, 0u, 3u}) {
    uint64_t before = ranks[0]->begunByAll();
    for (uint32_t r = 0; r < 4; ++r)
      if (r != last)
        ranks[r]->noteBegun(before + 2 + r);
    // The others wait for it, and can say so.
    std::string expected = "rank " + std::to_string(last) + " has not begun it";
    for (uint32_t r = 0; r < 4; ++r)
      if (r != last)
        eventually([&] {
          EXPECT_EQ(ranks[r]->begunByAll(), before);
          return ranks[r]->late(before + 1) == expected;
        });
    ranks[last]->noteBegun(before + 1);
    eventually([&] { return all(before + 1); });
    for (auto &rank : ranks)
      eventually([&] { return rank->late(before + 1).empty(); });
    for (auto &rank : ranks)
      rank->noteBegun(before + 5);
    eventually([&] { return all(before + 5); });
  }
  // A rank may be in an exchange already, to which the others have not come.
  uint64_t runs = ranks[0]->begunByAll() + 1;
  std::vector<char> part(1 << 20);
  std::vector<std::thread> exchanges;
  for (uint32_t r : {2u, 3u, 1u, 0u}) {
    ranks[r]->noteBegun(runs);
    if (r == 0)
      eventually([&] { return ranks[0]->begunByAll() == runs; });
    exchanges.emplace_back([&, r] {
      std::vector<char> whole(4 << 20);
      EXPECT_TRUE(ranks[r]->allGather(part.data(), part.size(), whole.data()).ok());
    });
  }
  for (std::thread &exchange : exchanges)
    exchange.join();
  // Fewer runs, of another context, change nothing. A rank that has left is not waited for.
  ranks[1]->noteBegun(1);
  ranks[3].reset();
  for (uint32_t r = 0; r < 3; ++r)
    ranks[r]->noteBegun(runs + 1);
  ranks.pop_back();
  eventually([&] { return all(runs + 1); });
}

/// While a rank waits until a stopped one begins a run, that one is lost after the timeout.
TEST(Rendezvous, StoppedRankBeginsNoRun) {
  for (uint32_t stopped : {0u, 1u}) {
    Job job(3);
    job.env.exchangeTimeout = milliseconds(1500);
    pid_t pid = rankOne(
        job,
        [](Bootstrap &bootstrap) {
          bootstrap.barrier().ignore();
          ::raise(SIGSTOP);
        },
        stopped);
    ASSERT_GT(pid, 0);
    onRanks(2, [&](uint32_t i) {
      auto bootstrap = createTcpBootstrap(job.of(i == 0 ? 1 - stopped : 2));
      ASSERT_TRUE(bootstrap) << bootstrap.status().message();
      ASSERT_TRUE((*bootstrap)->barrier().ok());
      (*bootstrap)->noteBegun(1);
      eventually([&] {
        (*bootstrap)->begunByAll(); // it asks
        return !(*bootstrap)->health().ok();
      });
      // Without a run that waits it is 10 s.
      EXPECT_THAT((*bootstrap)->health().message(),
                  HasSubstr(fmt::format("rank {}: it has sent no heartbeat for 1.5 s", stopped)));
    });
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

/// What is released behind giveUp() may end operations of others, who know of the failure by then.
TEST(Rendezvous, GivingUpEndsWhenAllKnow) {
  for (uint32_t victim : {0u, 2u}) {
    Job job(4);
    job.env.noticeTimeout = std::chrono::seconds(30);
    auto ranks = joinAll(job);
    ASSERT_TRUE(ranks[0] && ranks[1] && ranks[2] && ranks[3]);
    ranks[victim]->giveUp(Status(Code::Internal, "it is too hot"));
    for (auto &rank : ranks)
      EXPECT_THAT(rank->health().message(), HasSubstr("it is too hot"));
  }
}

/// Two ranks at once, and both wait for the third.
TEST(Rendezvous, GivingUpTwiceEndsWhenAllKnow) {
  Job job(3);
  job.env.noticeTimeout = std::chrono::seconds(30);
  auto ranks = joinAll(job);
  ASSERT_TRUE(ranks[0] && ranks[1] && ranks[2]);
  onRanks(2, [&](uint32_t rank) {
    ranks[rank]->giveUp(Status(Code::Internal, "it is too hot"));
    EXPECT_FALSE(ranks[2]->health().ok());
  });
}

TEST(Rendezvous, GivingUpDoesNotWaitForTheDead) {
  Job job(2);
  job.env.noticeTimeout = std::chrono::seconds(60);
  pid_t pid = rankOne(job, [](Bootstrap &bootstrap) { bootstrap.barrier().ignore(); });
  ASSERT_GT(pid, 0);
  auto bootstrap = createTcpBootstrap(job.of(0));
  ASSERT_TRUE(bootstrap) << bootstrap.status().message();
  (*bootstrap)->barrier().ignore();
  auto begin = std::chrono::steady_clock::now();
  (*bootstrap)->giveUp(Status(Code::Internal, "it is too hot"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  ::waitpid(pid, nullptr, 0);
}

TEST(Rendezvous, GivingUpDoesNotWaitForTheStopped) {
  Job job(2);
  job.env.noticeTimeout = milliseconds(300);
  pid_t pid = rankOne(job, [](Bootstrap &) { ::raise(SIGSTOP); });
  ASSERT_GT(pid, 0);
  auto bootstrap = createTcpBootstrap(job.of(0));
  ASSERT_TRUE(bootstrap) << bootstrap.status().message();
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  auto begin = std::chrono::steady_clock::now();
  (*bootstrap)->giveUp(Status(Code::Internal, "it is too hot"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(300));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

/// A stopped rank 0 passes nothing on: a rank that gives up waits until the others miss rank 0.
TEST(Rendezvous, GivingUpWithoutRankZero) {
  Job job(3);
  job.env.exchangeTimeout = milliseconds(1500);
  pid_t pid = rankOne(
      job,
      [](Bootstrap &bootstrap) {
        bootstrap.barrier().ignore();
        ::raise(SIGSTOP);
      },
      0);
  ASSERT_GT(pid, 0);
  std::unique_ptr<Bootstrap> ranks[3];
  onRanks(2, [&](uint32_t i) {
    auto bootstrap = createTcpBootstrap(job.of(i + 1));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    ASSERT_TRUE((*bootstrap)->barrier().ok());
    ranks[i + 1] = std::move(*bootstrap);
  });
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  if (ranks[1] && ranks[2]) {
    ranks[1]->giveUp(Status(Code::Internal, "it is too hot"));
    EXPECT_THAT(ranks[2]->health().message(), HasSubstr("lost rank 0: it has sent no heartbeat"));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

/// The reason comes behind what rank 1 has sent for an exchange that rank 0 has not reached.
TEST(Rendezvous, GivingUpInAnExchangeIsHeard) {
  Job job(2);
  auto ranks = joinAll(job);
  ASSERT_TRUE(ranks[0] && ranks[1]);
  std::thread waits([&] { EXPECT_FALSE(ranks[1]->barrier().ok()); });
  std::this_thread::sleep_for(milliseconds(100)); // in most cases it has sent its part by now
  ranks[1]->giveUp(Status(Code::Internal, "it is too hot"));
  eventually([&] { return !ranks[0]->health().ok(); });
  EXPECT_THAT(ranks[0]->health().message(), HasSubstr("it is too hot"));
  waits.join();
}

/// A rank that has done its part of an exchange gives up before the others come.
TEST(Rendezvous, GivingUpBehindAPartEndsTheExchange) {
  Job job(3);
  job.env.exchangeTimeout = std::chrono::seconds(60);
  auto ranks = joinAll(job);
  ASSERT_TRUE(ranks[0] && ranks[1] && ranks[2]);
  auto begin = std::chrono::steady_clock::now();
  std::thread root([&] { EXPECT_THAT(ranks[0]->barrier().message(), HasSubstr("too hot")); });
  std::thread waits([&] { EXPECT_FALSE(ranks[1]->barrier().ok()); });
  std::this_thread::sleep_for(milliseconds(100));
  ranks[1]->giveUp(Status(Code::Internal, "it is too hot"));
  root.join();
  waits.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

/// The operations of a rank that gives up are released behind the notice, which therefore waits
/// neither for a peer that does not read nor for a thread that writes to it.
TEST(Rendezvous, GivingUpWaitsForNoPeer) {
  constexpr size_t kBytes = 16 << 20; // more than sockets hold
  Job job(2, milliseconds(8000));
  std::promise<void> sent, read;
  std::thread other([&, mayRead = read.get_future()] {
    auto root = bootstrap::connectToRoot(job.of(1));
    ASSERT_TRUE(root) << root.status().message();
    auto deadline = bootstrap::Clock::now() + std::chrono::seconds(20);
    bootstrap::FrameHeader header;
    header.kind = bootstrap::FrameKind::Part;
    header.sequence = 1;
    header.bytes = kBytes;
    std::string part(kBytes, 'x');
    ASSERT_TRUE(root->send(&header, sizeof header, deadline).ok());
    ASSERT_TRUE(root->send(part.data(), part.size(), deadline).ok());
    sent.set_value();
    mayRead.wait();
    do
      ASSERT_TRUE(root->receive(&header, sizeof header, deadline).ok());
    while (header.kind == bootstrap::FrameKind::Heartbeat);
    ASSERT_EQ(header.kind, bootstrap::FrameKind::Whole);
    std::string whole(2 * kBytes, 0);
    ASSERT_TRUE(root->receive(whole.data(), whole.size(), deadline).ok());
    do
      ASSERT_TRUE(root->receive(&header, sizeof header, deadline).ok());
    while (header.kind == bootstrap::FrameKind::Heartbeat);
    ASSERT_EQ(header.kind, bootstrap::FrameKind::Abort);
    std::string text(header.bytes, 0);
    ASSERT_TRUE(root->receive(text.data(), text.size(), deadline).ok());
    EXPECT_EQ(text, "it is too hot");
  });
  {
    auto bootstrap = createTcpBootstrap(job.of(0));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    std::string mine(kBytes, 'y'), all(2 * kBytes, 0);
    std::thread writer([&] {
      Status status = (*bootstrap)->allGather(mine.data(), kBytes, all.data());
      EXPECT_EQ(status.message(), "it is too hot");
    });
    sent.get_future().wait(); // then rank 0 reads what is still in the sockets, and writes
    std::this_thread::sleep_for(milliseconds(100));
    auto start = std::chrono::steady_clock::now();
    (*bootstrap)->giveUp(Status(Code::Internal, "it is too hot"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
    read.set_value();
    writer.join();
  }
  other.join();
}

/// 512 ranks on one machine, each a process: they meet, and exchange what a channel's addresses
/// take. It takes less than a second on two idle cores, so 20 s hold on a busy machine, too.
TEST(Rendezvous, ManyRanks) {
#ifdef TANDEM_TEST_SANITIZED
  GTEST_SKIP() << "512 processes of a sanitized binary take too much memory";
#endif
  constexpr uint32_t kRanks = 512;
  Job job(kRanks, milliseconds(60000));
  auto run = [&](uint32_t rank) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    if (!bootstrap)
      return false;
    std::vector<uint32_t> mine(64, rank), all(64 * kRanks);
    bool good = (*bootstrap)->allGather(mine.data(), 256, all.data()).ok();
    for (uint32_t from = 0; good && from < kRanks; ++from)
      good = all[from * 64 + 63] == from;
    return good && (*bootstrap)->barrier().ok();
  };
  auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (uint32_t rank = 1; rank < kRanks; ++rank)
    if (pid_t pid = ::fork(); pid == 0) {
      ::_exit(run(rank) ? 0 : 1);
    } else if (pid > 0) {
      children.push_back(pid);
    } else { // the others wait for it in vain
      ADD_FAILURE() << "fork of rank " << rank << ": " << std::strerror(errno);
      for (pid_t child : children)
        ::kill(child, SIGKILL);
      break;
    }
  if (children.size() + 1 == kRanks) {
    EXPECT_TRUE(run(0));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
  for (pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

/// Ranks need not leave together.
TEST(Rendezvous, RankThatLeavesIsNotLost) {
  Job job(2);
  onRanks(2, [&](uint32_t rank) {
    auto bootstrap = createTcpBootstrap(job.of(rank));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    ASSERT_TRUE((*bootstrap)->barrier().ok());
    if (rank == 1)
      return;
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_TRUE((*bootstrap)->health().ok()) << (*bootstrap)->health().message();
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
