//===- Ranks.cpp - ranks as threads or processes -------------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace fuser;

namespace {
constexpr size_t kSlot = 4096;

/// Memory that the processes share: through it they exchange addresses when Tandem asks for it.
struct Board {
  pthread_barrier_t barrier;
  uint32_t ranks;
  char *slots() { return reinterpret_cast<char *>(this + 1); }

  static Board *create(uint32_t ranks) {
    void *memory = mmap(nullptr, sizeof(Board) + ranks * kSlot, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return nullptr;
    auto *board = new (memory) Board();
    board->ranks = ranks;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &attributes, ranks);
    return board;
  }
};

struct Process {
  Board *board;
  uint32_t rank;
};

int barrier(void *user) {
  pthread_barrier_wait(&static_cast<Process *>(user)->board->barrier);
  return 0;
}

int allGather(void *user, const void *mine, size_t bytes, void *all) {
  auto *me = static_cast<Process *>(user);
  for (size_t done = 0; done < bytes; done += kSlot) {
    size_t part = std::min(kSlot, bytes - done);
    std::memcpy(me->board->slots() + me->rank * kSlot, static_cast<const char *>(mine) + done,
                part);
    barrier(user);
    for (uint32_t rank = 0; rank < me->board->ranks; ++rank)
      std::memcpy(static_cast<char *>(all) + rank * bytes + done, me->board->slots() + rank * kSlot,
                  part);
    barrier(user);
  }
  return 0;
}

bool runOne(const RankBody &body, uint32_t rank, const tandem_context_options &options) {
  try {
    body(rank, options);
    return true;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    return false;
  }
}

bool runThreads(uint32_t ranks, const RankBody &body) {
  tandem_local_world *world = nullptr;
  if (tandem_local_world_create(ranks, /*timeout_ms=*/30000, &world) != TANDEM_OK)
    return false;
  std::atomic<bool> ok{true};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      tandem_context_options options = {};
      options.struct_size = sizeof options;
      options.local_world = world;
      options.local_world_rank = rank;
      if (!runOne(body, rank, options))
        ok = false;
    });
  for (std::thread &thread : threads)
    thread.join();
  tandem_local_world_destroy(world);
  return ok;
}

bool runProcesses(uint32_t ranks, const RankBody &body) {
  Board *board = Board::create(ranks);
  if (!board)
    return false;
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    pid_t child = fork();
    if (child == 0) {
      Process me{board, rank};
      tandem_launch launch = {};
      launch.struct_size = sizeof launch;
      launch.rank = launch.local_rank = rank;
      launch.world_size = launch.local_size = ranks;
      launch.all_gather = allGather;
      launch.barrier = barrier;
      launch.user = &me;
      tandem_context_options options = {};
      options.struct_size = sizeof options;
      options.launch = &launch;
      bool ok = runOne(body, rank, options);
      std::fflush(nullptr);
      _exit(ok ? 0 : 1);
    }
    if (child < 0)
      break;
    children.push_back(child);
  }
  bool ok = children.size() == ranks;
  for (size_t left = children.size(); left > 0; --left) {
    if (!ok) // the others may wait for one that is gone
      for (pid_t child : children)
        kill(child, SIGKILL);
    int status = 0;
    pid_t ended = wait(&status);
    children.erase(std::remove(children.begin(), children.end(), ended), children.end());
    ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return ok;
}
} // namespace

bool fuser::runRanks(uint32_t ranks, bool processes, const RankBody &body) {
  return processes ? runProcesses(ranks, body) : runThreads(ranks, body);
}
