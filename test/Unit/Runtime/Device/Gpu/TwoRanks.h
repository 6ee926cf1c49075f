//===- TwoRanks.h - tests whose ranks are processes -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_TWORANKS_H
#define TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_TWORANKS_H

#include "Ranks.h"

#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>

namespace tandem::test {

/// Runs the test that calls this as two ranks, each in a process of its own that does `part`, which
/// both end well. `grace`, if given: rank 1 is killed, at the latest so long after the end of rank
/// 0.
template <typename Part>
void asTwoRanks(Part part, std::chrono::seconds grace = std::chrono::seconds(0)) {
  if (std::getenv("TANDEM_RANK"))
    return part();
  const testing::TestInfo &test = *testing::UnitTest::GetInstance()->current_test_info();
  bool isKilled = grace.count() > 0;
  run::SpawnOptions options;
  options.ranks = 2;
  options.argv = {"/proc/self/exe",
                  std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name(),
                  "--gtest_brief=1"};
  options.limit = std::chrono::seconds(90);
  if (isKilled)
    options.grace = grace;
  options.endTogether = isKilled;
  auto exits = run::spawnRanks(options);
  ASSERT_TRUE(exits.ok()) << exits.status().message();
  EXPECT_EQ((*exits)[0].code, 0);
  EXPECT_EQ((*exits)[1].signal, isKilled ? SIGKILL : 0);
  if (!isKilled) {
    EXPECT_EQ((*exits)[1].code, 0);
  }
}

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_TWORANKS_H
