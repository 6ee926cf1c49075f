//===- ProgramCacheTest.cpp - compiled programs by key ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCache.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

using namespace tandem::compiler;

namespace {

CompileResult program(std::string bytes) {
  CompileResult result;
  result.ok = true;
  result.output = std::move(bytes);
  return result;
}

TEST(ProgramCache, SameKeySameObject) {
  ProgramCache cache({});
  auto first = cache.get("a", [] { return program("A"); });
  auto again = cache.get("a", []() -> CompileResult { return ADD_FAILURE(), CompileResult(); });
  auto other = cache.get("b", [] { return program("B"); });
  EXPECT_EQ(first.get(), again.get());
  EXPECT_EQ(other->output, "B");
  CacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.hits, 1u);
  EXPECT_EQ(counts.programs, 2u);
  EXPECT_EQ(counts.bytes, 4u);
}

TEST(ProgramCache, LeastRecentlyUsedGoesFirst) {
  ProgramCache cache({/*programs=*/2, /*bytes=*/1000});
  auto a = cache.get("a", [] { return program("A"); });
  cache.get("b", [] { return program("B"); });
  cache.get("a", [] { return program("not made"); });
  cache.get("c", [] { return program("C"); });
  EXPECT_EQ(cache.statistics().evicted, 1u);
  EXPECT_EQ(cache.get("a", [] { return program("again"); })->output, "A");
  EXPECT_EQ(cache.get("b", [] { return program("again"); })->output, "again");
}

TEST(ProgramCache, BytesAreBounded) {
  ProgramCache cache({/*programs=*/100, /*bytes=*/64});
  for (char key = 'a'; key < 'k'; ++key)
    cache.get(std::string(1, key), [] { return program(std::string(15, 'x')); });
  EXPECT_EQ(cache.statistics().programs, 4u);
  EXPECT_EQ(cache.statistics().bytes, 64u);
  // What does not fit at all takes the place of nothing for long, and is still the caller's.
  auto large = cache.get("large", [] { return program(std::string(100, 'x')); });
  EXPECT_EQ(large->output.size(), 100u);
  EXPECT_LE(cache.statistics().bytes, 64u);
}

TEST(ProgramCache, FailuresAreNotKept) {
  ProgramCache cache({});
  int made = 0;
  auto fail = [&] {
    ++made;
    return CompileResult();
  };
  EXPECT_FALSE(cache.get("a", fail)->ok);
  EXPECT_FALSE(cache.get("a", fail)->ok);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(cache.statistics().failed, 2u);
  EXPECT_EQ(cache.statistics().programs, 0u);
}

TEST(ProgramCache, ClearLeavesWhatIsHeld) {
  ProgramCache cache({});
  auto held = cache.get("a", [] { return program("A"); });
  cache.clear();
  EXPECT_EQ(cache.statistics().programs, 0u);
  EXPECT_EQ(cache.statistics().bytes, 0u);
  EXPECT_EQ(held->output, "A");
}

// One thread makes the program, and only once all the others are known to ask for it.
TEST(ProgramCache, OneOfManyThreadsCompiles) {
  constexpr unsigned kThreads = 8;
  for (bool succeeds : {true, false}) {
    ProgramCache cache({});
    std::atomic<int> made{0};
    std::vector<ProgramCache::Program> found(kThreads);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        found[i] = cache.get("a", [&] {
          ++made;
          while (cache.statistics().joined < kThreads - 1)
            std::this_thread::yield();
          return succeeds ? program("A") : CompileResult();
        });
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(made, 1);
    for (const ProgramCache::Program &program : found)
      EXPECT_EQ(program.get(), found[0].get());
    EXPECT_EQ(found[0]->ok, succeeds);
  }
}

// Hits, misses, evictions and clears at once: what TSan looks at.
TEST(ProgramCache, ManyThreadsManyKeys) {
  ProgramCache cache({/*programs=*/3, /*bytes=*/1000});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (unsigned i = 0; i < 500; ++i) {
        std::string key = std::to_string((i * (thread + 1)) % 7);
        wrong += cache.get(key, [&] { return program(key); })->output != key;
        if (i % 100 == 99)
          cache.clear();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(cache.statistics().programs, 3u);
}

} // namespace
