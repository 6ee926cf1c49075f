//===- LostRanksTest.cpp - ranks that end, stop or give up -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Job.h"
#include "Wire.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;
using testing::HasSubstr;

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
  std::promise<void> writes, read;
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
    do
      ASSERT_TRUE(root->receive(&header, sizeof header, deadline).ok());
    while (header.kind == bootstrap::FrameKind::Heartbeat);
    ASSERT_EQ(header.kind, bootstrap::FrameKind::Whole);
    writes.set_value();
    mayRead.wait();
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
    writes.get_future().wait();
    auto start = std::chrono::steady_clock::now();
    (*bootstrap)->giveUp(Status(Code::Internal, "it is too hot"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
    read.set_value();
    writer.join();
  }
  other.join();
}

/// What is left of a part is read after the failure: the answer follows it.
TEST(Rendezvous, GivingUpInTheMiddleOfAPart) {
  constexpr size_t kBytes = 1 << 20;
  Job job(2);
  job.env.noticeTimeout = std::chrono::seconds(60);
  std::promise<void> sent;
  std::thread other([&] {
    auto root = bootstrap::connectToRoot(job.of(1));
    ASSERT_TRUE(root) << root.status().message();
    auto deadline = bootstrap::Clock::now() + std::chrono::seconds(20);
    bootstrap::FrameHeader header;
    header.kind = bootstrap::FrameKind::Part;
    header.sequence = 1;
    header.bytes = kBytes;
    std::string part(kBytes / 2, 'x');
    ASSERT_TRUE(root->send(&header, sizeof header, deadline).ok());
    ASSERT_TRUE(root->send(part.data(), part.size(), deadline).ok());
    sent.set_value();
    do
      ASSERT_TRUE(root->receive(&header, sizeof header, deadline).ok());
    while (header.kind == bootstrap::FrameKind::Heartbeat);
    ASSERT_EQ(header.kind, bootstrap::FrameKind::Abort);
    ASSERT_TRUE(root->send(part.data(), part.size(), deadline).ok());
    bootstrap::sendText(*root, bootstrap::FrameKind::AbortAck, "", deadline);
    std::string text(header.bytes, 0);
    ASSERT_TRUE(root->receive(text.data(), text.size(), deadline).ok());
    root->receive(&header, sizeof header, deadline).ignore(); // until it leaves
  });
  {
    auto bootstrap = createTcpBootstrap(job.of(0));
    ASSERT_TRUE(bootstrap) << bootstrap.status().message();
    std::string mine(kBytes, 'y'), all(2 * kBytes, 0);
    std::thread exchange(
        [&] { EXPECT_FALSE((*bootstrap)->allGather(mine.data(), kBytes, all.data()).ok()); });
    sent.get_future().wait();
    auto start = std::chrono::steady_clock::now();
    (*bootstrap)->giveUp(Status(Code::Internal, "it is too hot"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    exchange.join();
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
