//===- Job.h - a job whose ranks are threads or processes -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_RUNTIME_BOOTSTRAP_JOB_H
#define TANDEM_TEST_UNIT_RUNTIME_BOOTSTRAP_JOB_H

#include "tandem/Runtime/Rendezvous.h"

#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <sys/types.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tandem::test {

using std::chrono::milliseconds;

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

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_RUNTIME_BOOTSTRAP_JOB_H
