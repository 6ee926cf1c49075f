//===- BootstrapTest.cpp - launches without processes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/LyingBootstrap.h"

#include "tandem/Runtime/Bootstrap.h"
#include "tandem/Runtime/Local.h"
#include "tandem/Runtime/NodeMap.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

namespace tandem {

namespace {

TEST(Bootstrap, Self) {
  auto bootstrap = createSelfBootstrap();
  EXPECT_EQ(bootstrap->worldSize(), 1u);
  int mine = 7, all = 0;
  EXPECT_TRUE(bootstrap->allGather(&mine, sizeof mine, &all).ok());
  EXPECT_EQ(all, 7);
  auto texts = allGatherStrings(*bootstrap, "hello");
  ASSERT_TRUE(texts.ok());
  EXPECT_EQ(*texts, std::vector<std::string>{"hello"});
}

TEST(Bootstrap, Callbacks) {
  BootstrapCallbacks callbacks;
  callbacks.rank = 1;
  callbacks.worldSize = 2;
  callbacks.localSize = 2;
  callbacks.localRank = 1;
  EXPECT_FALSE(createCallbackBootstrap(callbacks).ok());
  callbacks.allGather = [](const void *mine, size_t bytes, void *all) {
    std::memset(all, 0, bytes);
    std::memcpy(static_cast<char *>(all) + bytes, mine, bytes);
    return 0;
  };
  callbacks.barrier = [] { return 42; };
  auto bootstrap = createCallbackBootstrap(callbacks);
  ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().message();
  EXPECT_EQ((*bootstrap)->localRank(), 1u);
  uint16_t mine = 3, all[2] = {9, 9};
  EXPECT_TRUE((*bootstrap)->allGather(&mine, 2, all).ok());
  EXPECT_EQ(all[0], 0);
  EXPECT_EQ(all[1], 3);
  EXPECT_EQ((*bootstrap)->barrier().message(), "the barrier callback returned 42");
  callbacks.localRank = 2;
  EXPECT_EQ(createCallbackBootstrap(callbacks).status().message(),
            "local rank 2 of 2 in a world of 2");
}

TEST(Bootstrap, AFailedCallbackHasTheReasonThatIsKnown) {
  BootstrapCallbacks callbacks;
  callbacks.worldSize = 2;
  callbacks.localSize = 2;
  callbacks.allGather = [](const void *, size_t, void *) { return 5; };
  callbacks.barrier = [] { return 5; };
  Status known;
  callbacks.health = [&] { return known; };
  auto bootstrap = createCallbackBootstrap(callbacks);
  ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().message();
  EXPECT_EQ((*bootstrap)->barrier().message(), "the barrier callback returned 5");
  known = Status(Code::Aborted, "lost rank 1: its process has ended");
  EXPECT_EQ((*bootstrap)->barrier().message(), known.message());
  EXPECT_EQ((*bootstrap)->allGather(nullptr, 0, nullptr).message(), known.message());
}

TEST(Bootstrap, HostIsWhatTheLaunchSays) {
  BootstrapCallbacks callbacks;
  callbacks.worldSize = 2;
  callbacks.localSize = 2;
  callbacks.allGather = [](const void *, size_t, void *) { return 0; };
  callbacks.barrier = [] { return 0; };
  auto hostOf = [&](const std::string &node) {
    callbacks.node = node;
    auto bootstrap = createCallbackBootstrap(callbacks);
    EXPECT_TRUE(bootstrap.ok()) << bootstrap.status().message();
    return (*bootstrap)->host();
  };
  EXPECT_EQ(hostOf("a"), tandem::hostOf("a"));
  EXPECT_NE(hostOf("a"), hostOf("b"));
  EXPECT_EQ(hostOf(""), createSelfBootstrap()->host());
  ::setenv("TANDEM_NODE", "a", 1);
  EXPECT_EQ(hostOf(""), tandem::hostOf("a"));
  ::unsetenv("TANDEM_NODE");
}

TEST(NodeMap, Block) {
  NodeMap map = nodeMapOf({"a", "a", "b", "b", "c", "c"}, {0, 1, 0, 1, 0, 1});
  EXPECT_EQ(map.nodes, (std::vector<uint32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(map.numNodes(), 3u);
  EXPECT_EQ(map.localRank(3), 1u);
  EXPECT_EQ(map.localSize(3), 2u);
}

TEST(NodeMap, Cyclic) {
  NodeMap map = nodeMapOf({"b", "a", "b", "a"}, {0, 0, 1, 1});
  EXPECT_EQ(map.nodes, (std::vector<uint32_t>{0, 1, 0, 1}));
  EXPECT_EQ(map.localRank(0), 0u);
  EXPECT_EQ(map.localRank(2), 1u);
  EXPECT_EQ(map.localRank(3), 1u);
}

TEST(NodeMap, Uneven) {
  NodeMap map = nodeMapOf({"a", "b", "a", "a", "b"}, {0, 1, 2, 3, 4});
  EXPECT_EQ(map.numNodes(), 2u);
  EXPECT_EQ(map.localRank(3), 2u);
  EXPECT_EQ(map.localSize(3), 3u);
  EXPECT_EQ(map.localSize(4), 2u);
}

TEST(NodeMap, HostThatALauncherHasDivided) {
  std::vector<std::string> one(4, "a");
  EXPECT_EQ(nodeMapOf(one, {0, 1, 0, 1}).nodes, (std::vector<uint32_t>{0, 0, 1, 1}));
  EXPECT_EQ(nodeMapOf(one, {0, 0, 1, 1}).nodes, (std::vector<uint32_t>{0, 1, 0, 1}));
}

TEST(NodeMap, OneNodeAndNone) {
  EXPECT_EQ(nodeMapOf({"a", "a", "a"}, {0, 1, 2}).localSize(0), 3u);
  EXPECT_EQ(nodeMapOf({"a", "a", "a"}, {0, 1, 2}).numNodes(), 1u);
  EXPECT_EQ(nodeMapOf({}, {}).numNodes(), 0u);
}

TEST(LocalWorld, GathersInRankOrder) {
  constexpr uint32_t size = 4;
  auto world = LocalWorld::create(size, std::chrono::seconds(10));
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      auto bootstrap = world->bootstrap(r);
      for (int round = 0; round < 200; ++round) {
        auto texts = allGatherStrings(*bootstrap, std::string(r * static_cast<uint32_t>(round % 5),
                                                              'a' + static_cast<char>(r)));
        ASSERT_TRUE(texts.ok()) << texts.status().message();
        for (uint32_t other = 0; other < size; ++other)
          ASSERT_EQ((*texts)[other].size(), other * static_cast<uint32_t>(round % 5));
      }
      ASSERT_TRUE(bootstrap->barrier().ok());
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// What rank 0 gets when both ranks give `text` and rank 1 lies in exchange `at`.
Expected<std::vector<std::string>> gatherBesideLiar(const std::string &text, unsigned at,
                                                    test::Lie lie, unsigned *exchanges = nullptr) {
  auto world = LocalWorld::create(2, std::chrono::seconds(10));
  std::thread liar([&] {
    test::LyingBootstrap bootstrap(world->bootstrap(1), at, lie, exchanges);
    allGatherStrings(bootstrap, text).status().ignore();
  });
  auto truthful = world->bootstrap(0);
  auto found = allGatherStrings(*truthful, text);
  liar.join();
  return found;
}

TEST(GatherStrings, LongTextsComeInPieces) {
  std::string text(70u << 20, 'a');
  text.back() = 'z';
  unsigned exchanges = 0;
  auto found = gatherBesideLiar(text, ~0u, test::Lie::Zeros, &exchanges);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_TRUE((*found)[0] == text && (*found)[1] == text);
  EXPECT_EQ(exchanges, 1u + 3u); // 32 MiB of each rank at once
}

TEST(GatherStrings, SizesOfPeersAreChecked) {
  auto found = gatherBesideLiar("text", 0, test::Lie::Huge);
  EXPECT_EQ(found.status().message(),
            "rank 1 gives 4611686018427387904 bytes, expected at most 4294967296");
  // Zeros behind its text, which are what it sends.
  found = gatherBesideLiar("text", 0, test::Lie::Million);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)[0], "text");
  EXPECT_EQ((*found)[1].size(), 1000000u);
}

TEST(LocalWorld, SaysWhoIsMissing) {
  auto world = LocalWorld::create(3, std::chrono::milliseconds(50));
  auto bootstrap = world->bootstrap(0);
  EXPECT_EQ(bootstrap->barrier().message(), "rank 0: no message from rank 1, 2 in 50 ms");
  auto other = LocalWorld::create(2, std::chrono::seconds(30));
  auto first = other->bootstrap(0);
  other->bootstrap(1); // and gone again
  EXPECT_EQ(first->barrier().message(), "rank 1 has left");
}

/// Both ranks meet by the bootstraps that they make now.
void expectRanksMeet(LocalWorld &world) {
  auto one = [&](uint32_t r) {
    auto bootstrap = world.bootstrap(r);
    return bootstrap->barrier();
  };
  Status second;
  std::thread thread([&] { second = one(1); });
  EXPECT_EQ(one(0).message(), "");
  thread.join();
  EXPECT_EQ(second.message(), "");
}

TEST(LocalWorld, ServesContextsThatFollow) {
  auto world = LocalWorld::create(2, std::chrono::seconds(30));
  for (int k = 0; k < 3; ++k)
    expectRanksMeet(*world);
}

TEST(LocalWorld, AnExchangeThatTimedOutIsTriedAgain) {
  auto world = LocalWorld::create(2, std::chrono::milliseconds(50));
  auto first = world->bootstrap(0), second = world->bootstrap(1);
  EXPECT_EQ(first->barrier().code(), Code::Timeout);
  // Its first try does not count as the other rank's.
  EXPECT_EQ(first->barrier().code(), Code::Timeout);
  EXPECT_EQ(second->barrier().message(), "rank 1: no message from rank 0 in 50 ms");
}

TEST(LocalWorld, SizesMustAgree) {
  auto world = LocalWorld::create(2, std::chrono::seconds(10));
  auto one = [&](uint32_t r) {
    auto bootstrap = world->bootstrap(r);
    char mine[8] = {}, all[16];
    return bootstrap->allGather(mine, 4 + 4 * r, all);
  };
  Status second;
  std::thread thread([&] { second = one(1); });
  Status first = one(0);
  thread.join();
  EXPECT_FALSE(first.ok());
  EXPECT_FALSE(second.ok());
}

} // namespace
} // namespace tandem
