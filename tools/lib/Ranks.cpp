//===- Ranks.cpp - ranks as processes and as threads ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/Rendezvous.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <thread>

using namespace tandem;
using namespace tandem::run;

Expected<bool> run::startsRanks(const BootstrapEnvironment &environment, uint32_t asked,
                                bool threads, const std::string &channels) {
  Launcher launcher = environment.launcher;
  if (launcher == Launcher::None || (launcher == Launcher::Slurm && asked != 0))
    return true;
  if (asked && asked != environment.worldSize)
    return Status(Code::InvalidArgument,
                  fmt::format("-n {}, but {} has started this as rank {} of {}", asked,
                              toString(launcher), environment.rank, environment.worldSize));
  if (threads && environment.worldSize > 1)
    return Status(Code::InvalidArgument,
                  fmt::format("--channel={}: ranks must be threads, but {} has started {} "
                              "processes",
                              channels, toString(launcher), environment.worldSize));
  return false;
}

Expected<std::vector<RankExit>> run::spawnSelf(const std::string &tool, uint32_t ranks,
                                               const std::vector<std::string> &arguments,
                                               bool prefix, std::chrono::milliseconds timeout) {
  SpawnOptions spawn;
  spawn.ranks = ranks;
  spawn.argv = {"/proc/self/exe"};
  spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
  spawn.prefixOutput = prefix;
  // The others notice within the timeout, and then some time to say so.
  spawn.grace = timeout + std::chrono::seconds(3);
  TANDEM_ASSIGN_OR_RETURN(std::vector<RankExit> exits, spawnRanks(spawn));
  for (uint32_t rank = 0; rank < exits.size(); ++rank) {
    const RankExit &exit = exits[rank];
    if (exit.killed)
      fmt::print(stderr, "{}: rank {} did not end by itself and was killed\n", tool, rank);
    else if (exit.signal)
      fmt::print(stderr, "{}: rank {} was ended by signal {} ({})\n", tool, rank, exit.signal,
                 ::strsignal(exit.signal));
  }
  return exits;
}

Expected<int> run::runThreadRanks(uint32_t ranks, std::chrono::milliseconds timeout,
                                  const RankMain &main) {
  tandem_local_world *world = nullptr;
  if (tandem_local_world_create(ranks, static_cast<uint32_t>(timeout.count()), &world))
    return Status(Code::OutOfMemory, "cannot make a local world");
  auto exchange = LocalWorld::create(ranks, timeout);
  std::vector<int> codes(ranks, 1);
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto bootstrap = exchange->bootstrap(rank);
      codes[rank] = main(*bootstrap, world);
    });
  for (std::thread &thread : threads)
    thread.join();
  tandem_local_world_destroy(world);
  return *std::max_element(codes.begin(), codes.end());
}

Expected<std::unique_ptr<Bootstrap>> run::joinRanks(const BootstrapEnvironment &environment,
                                                    std::chrono::milliseconds timeout) {
  BootstrapEnvironment env = environment;
  env.timeout = timeout;
  return createTcpBootstrap(env);
}

std::string run::rankMessage(uint32_t rank, const std::string &message) {
  std::string prefix = fmt::format("rank {}", rank);
  return message.compare(0, prefix.size(), prefix) ? prefix + ": " + message : message;
}
