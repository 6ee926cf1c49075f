//===- SpawnTest.cpp - ranks as child processes -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;
using std::chrono::milliseconds;

static SpawnOptions shell(uint32_t ranks, const std::string &script) {
  SpawnOptions options;
  options.ranks = ranks;
  options.argv = {"/bin/sh", "-c", script};
  return options;
}

TEST(Spawn, RanksKnowWhoTheyAre) {
  auto exits = spawnRanks(
      shell(3, "test $TANDEM_WORLD_SIZE = 3 && test $TANDEM_LOCAL_RANK = $TANDEM_RANK && "
               "test -n \"$TANDEM_MASTER_PORT\" && exit $TANDEM_RANK"));
  ASSERT_TRUE(exits) << exits.status().message();
  ASSERT_EQ(exits->size(), 3u);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ((*exits)[rank].code, rank);
  EXPECT_EQ(exitCodeOf(*exits), 1);
}

TEST(Spawn, OneThatDiesTakesTheOthersAlongAfterAGrace) {
  SpawnOptions options = shell(3, "if [ $TANDEM_RANK = 1 ]; then kill -9 $$; fi; exec sleep 30");
  options.grace = milliseconds(200);
  auto begin = std::chrono::steady_clock::now();
  auto exits = spawnRanks(options);
  ASSERT_TRUE(exits) << exits.status().message();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ((*exits)[1].signal, SIGKILL);
  EXPECT_FALSE((*exits)[1].killed);
  EXPECT_TRUE((*exits)[0].killed);
  EXPECT_TRUE((*exits)[2].killed);
  EXPECT_EQ(exitCodeOf(*exits), 128 + SIGKILL);
}

TEST(Spawn, StoppedRanksAreKilledAtTheLimit) {
  SpawnOptions options = shell(2, "kill -STOP $$");
  options.limit = milliseconds(300);
  auto exits = spawnRanks(options);
  ASSERT_TRUE(exits) << exits.status().message();
  for (const RankExit &exit : *exits)
    EXPECT_TRUE(exit.killed);
  EXPECT_NE(exitCodeOf(*exits), 0);
}

TEST(Spawn, RanksThatAreAllStoppedAreKilled) {
  for (uint32_t ranks : {1, 2}) {
    SpawnOptions options = shell(ranks, "kill -STOP $$");
    options.mostStopped = milliseconds(300);
    std::vector<std::string> seen;
    options.onTrouble = [&](const std::vector<std::string> &states) { seen = states; };
    auto exits = spawnRanks(options);
    ASSERT_TRUE(exits) << exits.status().message();
    EXPECT_EQ(seen, std::vector<std::string>(ranks, "stopped"));
    for (const RankExit &exit : *exits) {
      EXPECT_TRUE(exit.killed);
      EXPECT_TRUE(exit.stopped);
    }
    EXPECT_EQ(exitCodeOf(*exits), 128 + SIGKILL);
  }
}

TEST(Spawn, StoppedRanksMayWaitForOneThatRuns) {
  std::string file = testing::TempDir() + "spawn-" + std::to_string(::getpid());
  SpawnOptions options = shell(2, "file=" + file + R"(
if [ $TANDEM_RANK = 1 ]; then
  echo $$ > $file.new; mv $file.new $file; kill -STOP $$; exit 0
fi
until test -s $file; do sleep 0.02; done
pid=$(cat $file); rm $file
until grep -q '^State:.T' /proc/$pid/status; do sleep 0.02; done
sleep 1; kill -CONT $pid)");
  options.mostStopped = milliseconds(300);
  options.limit = std::chrono::seconds(60);
  auto exits = spawnRanks(options);
  ASSERT_TRUE(exits) << exits.status().message();
  EXPECT_EQ(exitCodeOf(*exits), 0);
}

TEST(Spawn, RanksAreToldThatOneHasEnded) {
  // The shell has no descriptor of two digits in a redirection.
  SpawnOptions options = shell(2, "test $TANDEM_RANK = 1 && exit 3\n"
                                  "file=/proc/$$/fd/$TANDEM_LAUNCHER_FD\n"
                                  "until test -n \"$(cat $file)\"; do sleep 0.02; done\n"
                                  "test \"$(cat $file)\" = "
                                  "'rank 1 ended before all ranks had connected (exit code 3)'");
  options.grace = milliseconds(20000);
  auto exits = spawnRanks(options);
  ASSERT_TRUE(exits) << exits.status().message();
  EXPECT_EQ((*exits)[0].code, 0);
  EXPECT_EQ((*exits)[1].code, 3);
}

TEST(Spawn, RanksThatEndTogether) {
  SpawnOptions options = shell(2, "if [ $TANDEM_RANK = 1 ]; then kill -STOP $$; fi");
  options.endTogether = true;
  options.grace = milliseconds(200);
  auto exits = spawnRanks(options);
  ASSERT_TRUE(exits) << exits.status().message();
  EXPECT_EQ((*exits)[0].code, 0);
  EXPECT_TRUE((*exits)[1].killed);
  EXPECT_NE(exitCodeOf(*exits), 0);
}

TEST(Spawn, ChildrenThatTheParentDoesNotWaitFor) {
  std::signal(SIGCHLD, SIG_IGN);
  auto exits = spawnRanks(shell(2, "exit 5"));
  ASSERT_TRUE(exits) << exits.status().message();
  EXPECT_EQ((*exits)[1].code, 5);
}

TEST(Spawn, MissingBinary) {
  SpawnOptions options;
  options.ranks = 2;
  options.argv = {"/nowhere/at/all"};
  auto exits = spawnRanks(options);
  ASSERT_TRUE(exits) << exits.status().message();
  EXPECT_EQ(exitCodeOf(*exits), 127);
}
