//===- HandlesTest.cpp - handles of memory, and ranks that cannot give any ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "Ranks.h"

#include "Descriptors.h"

#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/Registry.h"
#include "tandem/Runtime/Rendezvous.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;
using namespace tandem::test;
using Clock = std::chrono::steady_clock;

namespace {

/// A channel over symmetric memory, and nothing to do.
ProgramSpec idle(uint32_t ranks) {
  ProgramSpec spec(ranks);
  std::vector<uint32_t> everybody;
  for (uint32_t r = 0; r < ranks; ++r)
    everybody.push_back(r);
  for (RankSpec &rank : spec.ranks) {
    rank.symmetric(64);
    rank.channel(everybody, OneSided);
    rank.slots = {1};
  }
  return spec;
}

Status makeInstance() {
  TANDEM_ASSIGN_OR_RETURN(auto bootstrap, createBootstrapFromEnvironment());
  uint32_t rank = bootstrap->rank();
  std::string file = idle(bootstrap->worldSize()).encode();
  ContextOptions options;
  options.device = fakeDevice(rank);
  options.bootstrap = std::move(bootstrap);
  TANDEM_ASSIGN_OR_RETURN(auto transport, createTransport("peer"));
  options.transports.push_back(std::move(transport));
  TANDEM_ASSIGN_OR_RETURN(auto opened, ProgramFile::fromMemory(file));
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(auto program, opened->rankProgram(rank));
  return Instance::create(*context, program).status();
}

/// Runs the test that calls this as two ranks, each in a process of its own that does `part`.
void asTwoRanks(void (*part)()) {
  if (std::getenv("TANDEM_RANK"))
    return part();
  const testing::TestInfo &test = *testing::UnitTest::GetInstance()->current_test_info();
  SpawnOptions options;
  options.ranks = 2;
  options.argv = {"/proc/self/exe",
                  std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name(),
                  "--gtest_brief=1"};
  options.limit = std::chrono::seconds(90);
  auto exits = spawnRanks(options);
  ASSERT_TRUE(exits.ok()) << exits.status().message();
  EXPECT_EQ(exitCodeOf(*exits), 0);
}

TEST(PeerHandles, AreExchanged) {
  asTwoRanks([] {
    Status status = makeInstance();
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

TEST(PeerHandles, OfARankThatCannotExport) {
  ::setenv("TANDEM_FAKE_NO_EXPORT_ON", "2", 1);
  asTwoRanks([] {
    auto start = Clock::now();
    Status status = makeInstance();
    EXPECT_NE(status.message().find("cuMemExportToShareableHandle"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  });
  ::unsetenv("TANDEM_FAKE_NO_EXPORT_ON");
}

TEST(PeerHandles, OfARankThatCannotImport) {
  ::setenv("TANDEM_FAKE_NO_IMPORT_ON", "2", 1);
  asTwoRanks([] {
    Status status = makeInstance();
    EXPECT_NE(status.message().find("cuMemImportFromShareableHandle"), std::string::npos)
        << status.message();
  });
  ::unsetenv("TANDEM_FAKE_NO_IMPORT_ON");
}

/// A wait for a handle of rank 7's memory; `health`: of the bootstrap.
core::SharedStep handleOf7(std::chrono::milliseconds timeout,
                           std::function<Status()> health = nullptr) {
  return core::SharedStep({timeout, std::move(health)}, "the memory of rank 7", "no handle came");
}

TEST(PeerHandles, AServerThatGivesUpIsHeardAtOnce) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  auto asked = peer::askForDescriptor(server->address());
  ASSERT_TRUE(asked.ok());
  auto start = Clock::now();
  std::thread failing([&] { peer::DescriptorServer gone = std::move(*server); });
  auto handle = peer::receiveDescriptor(*asked, handleOf7(std::chrono::seconds(30)));
  failing.join();
  EXPECT_FALSE(handle.ok());
  EXPECT_EQ(handle.status().code(), Code::Aborted);
  EXPECT_EQ(handle.status().message(),
            "the memory of rank 7: its rank ended before it sent a handle");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(PeerHandles, AreAwaitedUntilTheTimeout) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  Status given = server->give(STDIN_FILENO, 1, handleOf7(std::chrono::milliseconds(100)));
  EXPECT_EQ(given.code(), Code::Timeout);
  EXPECT_EQ(given.message(), "no handle came within 100 ms");
  auto asked = peer::askForDescriptor(server->address());
  ASSERT_TRUE(asked.ok());
  Status got = peer::receiveDescriptor(*asked, handleOf7(std::chrono::milliseconds(100))).status();
  EXPECT_EQ(got.message(), "no handle came within 100 ms");
}

/// A rank that does not answer, and that the bootstrap loses after a while.
TEST(PeerHandles, AreNotAwaitedFromALostRank) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  auto start = Clock::now();
  auto lost = [since = start] {
    return Clock::now() - since < std::chrono::milliseconds(100)
               ? Status()
               : Status(Code::Timeout, "lost rank 7: it has shown no life for 10 s");
  };
  core::SharedStep step = handleOf7(std::chrono::seconds(60), lost);
  std::string expected = "the memory of rank 7: lost rank 7: it has shown no life for 10 s";
  EXPECT_EQ(server->give(STDIN_FILENO, 1, step).message(), expected);
  auto asked = peer::askForDescriptor(server->address());
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(peer::receiveDescriptor(*asked, step).status().message(), expected);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(PeerHandles, AnAskerThatHasLeftHarmsNobody) {
  auto server = peer::DescriptorServer::open();
  ASSERT_TRUE(server.ok());
  auto stays = peer::askForDescriptor(server->address());
  peer::askForDescriptor(server->address()).status().ignore(); // closed at once
  ASSERT_TRUE(stays.ok());
  Status given = server->give(STDIN_FILENO, 2, handleOf7(std::chrono::seconds(10)));
  EXPECT_TRUE(given.ok()) << given.message();
  EXPECT_TRUE(peer::receiveDescriptor(*stays, handleOf7(std::chrono::seconds(10))).ok());
}

} // namespace
