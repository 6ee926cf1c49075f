//===- CJobTest.cpp - jobs of launchers in the C API ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "tandem/Runtime/Rendezvous.h"

#include "Support/ProgramSpec.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

/// Environment variables that exist as long as this object.
class Variables {
public:
  using Values = std::vector<std::pair<std::string, std::string>>;
  explicit Variables(Values values) : all(std::move(values)) {
    for (const auto &[name, value] : all)
      ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto &[name, value] : all)
      ::unsetenv(name.c_str());
  }
  Variables(const Variables &) = delete;
  Variables &operator=(const Variables &) = delete;

private:
  Values all;
};

std::string node() {
  char text[512];
  EXPECT_EQ(tandem_node(text, sizeof text), TANDEM_OK);
  return text;
}

TEST(CJob, Node) {
  char host[256] = "";
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_EQ(node(), tandem::hostOf(host));
  {
    Variables empty(Variables::Values{{"TANDEM_NODE", ""}});
    EXPECT_EQ(node(), tandem::hostOf(host));
  }
  {
    Variables torchrun(Variables::Values{{"TORCHELASTIC_RUN_ID", "job"},
                                         {"RANK", "0"},
                                         {"WORLD_SIZE", "many"}, // not asked for
                                         {"MASTER_ADDR", "a"},
                                         {"MASTER_PORT", "1"},
                                         {"GROUP_RANK", "3"}});
    EXPECT_EQ(node(), tandem::hostOf("3"));
    Variables given(Variables::Values{{"TANDEM_NODE", "rack"}});
    EXPECT_EQ(node(), tandem::hostOf("rack"));
  }
  char small[4] = "abc";
  EXPECT_EQ(tandem_node(small, sizeof small), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(small, "");
  EXPECT_EQ(tandem_node(nullptr, 0), TANDEM_INVALID_ARGUMENT);
}

TEST(CJob, NoLauncher) {
  tandem_job *job = nullptr;
  ASSERT_EQ(tandem_job_join(&job), TANDEM_OK) << tandem_job_error(job);
  EXPECT_EQ(tandem_job_launch(job)->world_size, 1u);
  EXPECT_STREQ(tandem_job_error(job), "");
  tandem_context_options options = {};
  options.struct_size = sizeof options;
  options.launch = tandem_job_launch(job);
  tandem_context *context = nullptr;
  EXPECT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
  tandem_job_destroy(job); // its context keeps the connections
  std::string file = tandem::test::ProgramSpec(1).encode();
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  EXPECT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK)
      << tandem_last_error(context);
  EXPECT_EQ(tandem_prepare(context, program, &instance), TANDEM_OK) << tandem_last_error(context);
  tandem_instance_destroy(instance);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
}

TEST(CJob, Malformed) {
  Variables variables({{"TANDEM_RANK", "zero"}, {"TANDEM_WORLD_SIZE", "2"}});
  tandem_job *job = nullptr;
  EXPECT_EQ(tandem_job_join(&job), TANDEM_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tandem_job_error(job)).find("TANDEM_RANK"), std::string::npos)
      << tandem_job_error(job);
  EXPECT_EQ(tandem_job_launch(job), nullptr);
  tandem_job_destroy(job);
  EXPECT_EQ(tandem_job_join(nullptr), TANDEM_INVALID_ARGUMENT);
}

/// Joins as `rank` of two; returns whether the ranks have exchanged their numbers.
bool joins(uint32_t rank, uint16_t port) {
  Variables variables({{"TANDEM_RANK", std::to_string(rank)},
                       {"TANDEM_WORLD_SIZE", "2"},
                       {"TANDEM_MASTER_ADDR", "127.0.0.1"},
                       {"TANDEM_MASTER_PORT", std::to_string(port)}});
  tandem_job *job = nullptr;
  if (tandem_job_join(&job) != TANDEM_OK)
    return false;
  const tandem_launch &launch = *tandem_job_launch(job);
  uint32_t all[2] = {9, 9};
  bool ok = launch.rank == rank && launch.world_size == 2 &&
            launch.all_gather(launch.user, &rank, sizeof rank, all) == 0 &&
            launch.barrier(launch.user) == 0 && all[0] == 0 && all[1] == 1;
  tandem_job_destroy(job);
  return ok;
}

TEST(CJob, TwoProcesses) {
  uint16_t port = 0;
  {
    auto listener = tandem::ListenSocket::open(0); // a free port
    ASSERT_TRUE(listener) << listener.status().message();
    port = listener->port();
  }
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    ::_exit(joins(1, port) ? 0 : 1);
  EXPECT_TRUE(joins(0, port));
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
