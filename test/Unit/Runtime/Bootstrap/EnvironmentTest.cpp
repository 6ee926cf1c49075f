//===- EnvironmentTest.cpp - bootstrap variables -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
using testing::ElementsAre;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

static Expected<BootstrapEnvironment> read(const Variables &variables) {
  return readBootstrapEnvironment([&](const char *name) -> const char * {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

static std::string errorOf(const Variables &variables) {
  auto env = read(variables);
  return env ? "no error" : env.status().message();
}

static const Variables kTorch = {{"RANK", "3"},
                                 {"WORLD_SIZE", "8"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "node1"},
                                 {"MASTER_PORT", "29500"}};
static const Variables kSlurm = {{"SLURM_PROCID", "5"},
                                 {"SLURM_NTASKS", "6"},
                                 {"SLURM_LOCALID", "1"},
                                 {"SLURM_NODEID", "2"},
                                 {"SLURM_TASKS_PER_NODE", "2(x3)"},
                                 {"SLURM_JOB_NODELIST", "gpu[07-08,12]"},
                                 {"SLURM_JOB_ID", "4711"},
                                 {"SLURM_STEP_ID", "0"}};

static Variables with(Variables variables, const Variables &more) {
  for (auto &[name, value] : more)
    variables[name] = value;
  return variables;
}

TEST(Environment, NobodyIsAWorldOfOne) {
  auto env = read({});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->launcher, Launcher::None);
  EXPECT_EQ(env->worldSize, 1u);
}

TEST(Environment, RanksThatCannotMeetAreNoWorldsOfOne) {
  const char *const expected = "environment variables RANK=0, WORLD_SIZE=2: expected MASTER_ADDR "
                               "and MASTER_PORT, too, found ";
  const Variables job = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(errorOf(job), expected + std::string("neither"));
  EXPECT_EQ(errorOf(with(job, {{"MASTER_ADDR", "a"}})), expected + std::string("no MASTER_PORT"));
  EXPECT_EQ(errorOf(with(job, {{"MASTER_PORT", "1"}})), expected + std::string("no MASTER_ADDR"));
  EXPECT_EQ(errorOf(with(job, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}})), "no error");
  auto alone = read({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->worldSize, 1u);
}

TEST(Environment, TandemRun) {
  auto env = read({{"TANDEM_RANK", "2"},
                   {"TANDEM_WORLD_SIZE", "4"},
                   {"TANDEM_MASTER_ADDR", "10.0.0.1,::1"},
                   {"TANDEM_MASTER_PORT", "4000"},
                   {"TANDEM_SECRET", "ff"},
                   {"TANDEM_LISTEN_ADDR", "eth0"},
                   {"TANDEM_LAUNCHER_FD", "6"},
                   {"TANDEM_LAUNCH_TIMEOUT", "7"},
                   {"TANDEM_LISTEN_FD", "5"}});
  ASSERT_TRUE(env) << env.status().message();
  EXPECT_EQ(env->launcher, Launcher::Tandem);
  EXPECT_EQ(env->rank, 2u);
  EXPECT_EQ(env->localRank, 2u);
  EXPECT_EQ(env->localSize, 4u);
  EXPECT_THAT(env->addresses, ElementsAre("10.0.0.1", "::1"));
  EXPECT_EQ(env->port, 4000);
  EXPECT_EQ(env->secret, "ff");
  EXPECT_TRUE(env->secretGiven);
  EXPECT_EQ(env->listenAddress, "eth0");
  EXPECT_EQ(env->launcherFd, 6);
  EXPECT_EQ(env->listenFd, 5);
  EXPECT_EQ(env->timeout.count(), 7000);
}

TEST(Environment, SecretFile) {
  char path[] = "/tmp/tandem-secret-XXXXXX";
  int fd = ::mkstemp(path); // only for its owner
  ASSERT_GE(fd, 0);
  auto found = [&] { return read(with(kTorch, {{"TANDEM_SECRET_FILE", path}})); };
  EXPECT_THAT(found().status().message(), HasSubstr("expected a secret in the first line"));
  ASSERT_EQ(::write(fd, "hush\nmore", 9), 9);
  ASSERT_TRUE(found()) << found().status().message();
  EXPECT_EQ(found()->secret, "hush");
  EXPECT_TRUE(found()->secretGiven);
  EXPECT_FALSE(read(kTorch)->secretGiven);
  ASSERT_EQ(::pwrite(fd, "hush\r\n", 6, 0), 6); // an editor of another system
  EXPECT_EQ(found()->secret, "hush");
  if (::geteuid() == 0) {
    ASSERT_EQ(::fchown(fd, 1234, 0), 0);
    EXPECT_THAT(found().status().message(), HasSubstr("file of user 0, found one of user 1234"));
    ASSERT_EQ(::fchown(fd, 0, 0), 0);
  }
  ASSERT_EQ(::fchmod(fd, 0640), 0);
  EXPECT_THAT(found().status().message(), HasSubstr("only its owner can read, found mode 640"));
  ::close(fd);
  ::unlink(path);
  EXPECT_THAT(found().status().message(), HasSubstr("No such file"));
}

TEST(Environment, NoAddressIsAnError) {
  EXPECT_THAT(read(with(kTorch, {{"TANDEM_MASTER_ADDR", ","}})).status().message(),
              HasSubstr("TANDEM_MASTER_ADDR: expected hosts or addresses, found \",\""));
}

TEST(Environment, TorchVariables) {
  auto env = read(kTorch);
  ASSERT_TRUE(env) << env.status().message();
  EXPECT_EQ(env->launcher, Launcher::Torch);
  EXPECT_EQ(env->rank, 3u);
  EXPECT_EQ(env->worldSize, 8u);
  EXPECT_EQ(env->localRank, 1u);
  EXPECT_EQ(env->localSize, 2u);
  EXPECT_THAT(env->addresses, ElementsAre("node1"));
  EXPECT_EQ(env->port, 29500);
  // The same on all ranks, another for another job.
  EXPECT_EQ(env->secret, read(with(kTorch, {{"RANK", "0"}, {"LOCAL_RANK", "0"}}))->secret);
  EXPECT_NE(env->secret, read(with(kTorch, {{"MASTER_PORT", "29501"}}))->secret);
  // Ranks that disagree must meet to say so.
  EXPECT_EQ(env->secret, read(with(kTorch, {{"WORLD_SIZE", "9"}, {"MASTER_ADDR", "n1"}}))->secret);
}

TEST(Environment, TorchrunListensBesideItsStore) {
  auto env = read(with(kTorch, {{"TORCHELASTIC_RUN_ID", "job"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                {"OMPI_COMM_WORLD_RANK", "0"},
                                {"OMPI_COMM_WORLD_SIZE", "1"}}));
  ASSERT_TRUE(env) << env.status().message();
  EXPECT_EQ(env->launcher, Launcher::Torchrun);
  EXPECT_EQ(env->rank, 3u);
  EXPECT_EQ(env->port, 29501);
}

TEST(Environment, Node) {
  EXPECT_EQ(read(kTorch)->node, "");
  // torchrun's own number of the node; in other jobs it may be a leftover.
  EXPECT_EQ(read(with(kTorch, {{"GROUP_RANK", "1"}}))->node, "");
  Variables torchrun = with(kTorch, {{"TORCHELASTIC_RUN_ID", "job"}, {"GROUP_RANK", "1"}});
  EXPECT_EQ(read(torchrun)->node, "1");
  EXPECT_EQ(read(kSlurm)->node, "2");
  EXPECT_EQ(read(with(torchrun, {{"TANDEM_NODE", "rack3"}}))->node, "rack3");
  EXPECT_EQ(read(with(kSlurm, {{"TANDEM_NODE", "rack3"}}))->node, "rack3");
}

TEST(Environment, PlaceOnTheNode) {
  for (const Variables &both : {kTorch, kSlurm}) {
    EXPECT_TRUE(read(both)->localRankKnown);
    EXPECT_TRUE(read(both)->localSizeKnown);
  }
  Variables size = kTorch;
  size.erase("LOCAL_RANK");
  EXPECT_FALSE(read(size)->localRankKnown);
  EXPECT_TRUE(read(size)->localSizeKnown);
  EXPECT_EQ(read(size)->localSize, read(kTorch)->localSize);
  Variables rank = kTorch;
  rank.erase("LOCAL_WORLD_SIZE");
  EXPECT_TRUE(read(rank)->localRankKnown);
  EXPECT_FALSE(read(rank)->localSizeKnown);
  EXPECT_EQ(read(rank)->localRank, read(kTorch)->localRank);
  Variables withoutTasks = kSlurm;
  withoutTasks.erase("SLURM_TASKS_PER_NODE");
  EXPECT_TRUE(read(withoutTasks)->localRankKnown);
  EXPECT_FALSE(read(withoutTasks)->localSizeKnown);
}

TEST(Environment, OpenMpi) {
  std::map<std::string, std::string> oneHost = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                {"OMPI_COMM_WORLD_SIZE", "3"},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                                                {"PMIX_NAMESPACE", "4711"}};
  auto env = read(oneHost);
  ASSERT_TRUE(env) << env.status().message();
  EXPECT_EQ(env->launcher, Launcher::OpenMpi);
  EXPECT_EQ(env->rank, 1u);
  EXPECT_EQ(env->localSize, 3u);
  EXPECT_THAT(env->addresses, ElementsAre("127.0.0.1"));
  EXPECT_GE(env->port, 20000);
  EXPECT_LT(env->port, 40000);
  EXPECT_NE(env->port, read(with(oneHost, {{"PMIX_NAMESPACE", "4712"}}))->port);
  // A container's RANK and WORLD_SIZE do not hide mpirun.
  EXPECT_EQ(
      read(with(kTorch, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}}))->worldSize,
      3u);
  // On several hosts the user says where rank 0 is.
  auto several = with(oneHost, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_THAT(read(several).status().message(), HasSubstr("expected TANDEM_MASTER_ADDR"));
  EXPECT_THAT(read(with(several, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}))->addresses,
              ElementsAre("node1"));
}

TEST(Environment, Slurm) {
  auto env = read(kSlurm);
  ASSERT_TRUE(env) << env.status().message();
  EXPECT_EQ(env->launcher, Launcher::Slurm);
  EXPECT_EQ(env->rank, 5u);
  EXPECT_EQ(env->worldSize, 6u);
  EXPECT_EQ(env->localRank, 1u);
  EXPECT_EQ(env->localSize, 2u);
  EXPECT_THAT(env->addresses, ElementsAre("gpu07"));
  EXPECT_GE(env->port, 20000);
  EXPECT_LT(env->port, 40000);
  EXPECT_NE(env->secret, read(with(kSlurm, {{"SLURM_JOB_ID", "4712"}}))->secret);
}

TEST(Environment, OwnVariablesOverride) {
  auto env = read(with(kSlurm, {{"TANDEM_MASTER_ADDR", "a"}, {"TANDEM_MASTER_PORT", "5"}}));
  ASSERT_TRUE(env) << env.status().message();
  EXPECT_EQ(env->launcher, Launcher::Slurm);
  EXPECT_THAT(env->addresses, ElementsAre("a"));
  EXPECT_EQ(env->port, 5);
}

TEST(Environment, ErrorsNameTheVariable) {
  EXPECT_EQ(errorOf(with(kTorch, {{"RANK", "three"}})),
            "environment variable RANK: expected a number from 0 to 65535, found \"three\"");
  EXPECT_THAT(errorOf(with(kTorch, {{"MASTER_PORT", "0"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(errorOf(with(kTorch, {{"MASTER_PORT", "99999"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(errorOf(with(kTorch, {{"WORLD_SIZE", "-1"}})), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(errorOf(with(kTorch, {{"RANK", "8"}})),
              HasSubstr("rank 8 is not below the world's size 8"));
  EXPECT_THAT(errorOf(with(kTorch, {{"LOCAL_RANK", "2"}})), HasSubstr("local rank 2 of 2"));
  EXPECT_THAT(errorOf({{"TANDEM_RANK", "0"}, {"TANDEM_WORLD_SIZE", "2"}}),
              HasSubstr("no address of rank 0"));
  EXPECT_THAT(errorOf(with(kSlurm, {{"SLURM_JOB_NODELIST", "n[1-"}})),
              HasSubstr("environment variable SLURM_JOB_NODELIST: malformed node list"));
  EXPECT_THAT(errorOf(with(kSlurm, {{"SLURM_NODEID", "3"}})), HasSubstr("SLURM_NODEID"));
  EXPECT_THAT(errorOf(with(kSlurm, {{"SLURM_TASKS_PER_NODE", "2(x"}})),
              HasSubstr("SLURM_TASKS_PER_NODE"));
}

TEST(Environment, HalfOfAPlaceIsAnError) {
  EXPECT_EQ(errorOf({{"TANDEM_RANK", "0"}}),
            "environment variable TANDEM_RANK=0: expected TANDEM_WORLD_SIZE, too");
  EXPECT_EQ(errorOf(with(kTorch, {{"TANDEM_WORLD_SIZE", "1"}})),
            "environment variable TANDEM_WORLD_SIZE=1: expected TANDEM_RANK, too");
  EXPECT_EQ(errorOf({{"TANDEM_LOCAL_RANK", "0"}}),
            "environment variable TANDEM_LOCAL_RANK=0: expected TANDEM_WORLD_SIZE, too");
  EXPECT_EQ(errorOf({{"RANK", "1"}}), "environment variable RANK=1: expected WORLD_SIZE, too");
  EXPECT_EQ(errorOf({{"WORLD_SIZE", "2"}}),
            "environment variable WORLD_SIZE=2: expected RANK, too");
}

TEST(Slurm, NodeLists) {
  EXPECT_THAT(*parseSlurmNodeList("localhost"), ElementsAre("localhost"));
  EXPECT_THAT(*parseSlurmNodeList("n[1-3,07],gpu5"), ElementsAre("n1", "n2", "n3", "n07", "gpu5"));
  EXPECT_THAT(*parseSlurmNodeList("r[1-2]n[08-09]x"),
              ElementsAre("r1n08x", "r1n09x", "r2n08x", "r2n09x"));
  for (const char *bad : {"", ",", "a,", "n[", "n]", "n[]", "n[1-", "n[3-1]", "n[a]", "n[[1]]",
                          "n[1-4000000000]", "n]1["})
    EXPECT_FALSE(parseSlurmNodeList(bad)) << bad;
}

TEST(Slurm, TasksPerNode) {
  EXPECT_THAT(*parseSlurmTasksPerNode("4"), ElementsAre(4));
  EXPECT_THAT(*parseSlurmTasksPerNode("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char *bad : {"", "x", "0", "2(", "2(x", "2(x)", "2(xa)", "2(x3", "2(x4000000000)"})
    EXPECT_FALSE(parseSlurmTasksPerNode(bad)) << bad;
}
