//===- ConformanceTest.cpp - every command on every device and channel ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// One suite, written once: each case runs on each backend (device x channel) at each rank count
// that it names. A backend that lacks a capability is a *known gap*: the case must then be refused
// cleanly, and the test fails when it is not, so that the list of capabilities in backends()
// follows what the channels can do.

#include "Scenario.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <set>

namespace tandem::test {

namespace {

bool close(double found, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(found))
    return std::isnan(expected) && std::isnan(found);
  if (found == expected)
    return true;
  return std::fabs(found - expected) <= tolerance * std::max(1.0, std::fabs(expected));
}

void compare(const Scenario &scenario, uint32_t rank, const RankResult &result) {
  ASSERT_TRUE(result.status.ok()) << "rank " << rank << ": " << result.status.message();
  unsigned expectedRuns = scenario.byTurns ? 8 : scenario.pipelined ? 1 : scenario.runs;
  ASSERT_EQ(result.outputs.size(), expectedRuns);
  for (const std::vector<Bytes> &outputs : result.outputs)
    for (auto [a, b] : scenario.equal)
      ASSERT_TRUE(outputs[a] == outputs[b])
          << "rank " << rank << ": \"" << scenario.spec.arguments[a].name << "\" and \""
          << scenario.spec.arguments[b].name << "\" differ in their last bits";
  for (unsigned run = 0; run < expectedRuns; ++run)
    for (uint32_t i = 0; i < scenario.spec.arguments.size(); ++i) {
      const ArgumentSpec &argument = scenario.spec.arguments[i];
      if (argument.role == sp::ArgumentRole::input || !scenario.spec.ranks[rank].shards[i].present)
        continue;
      size_t set = scenario.byTurns ? 0 : run % scenario.data.size();
      const Bytes &expected = scenario.data[set][rank][i];
      const Bytes &found = result.outputs[run][i];
      ASSERT_EQ(found.size(), expected.size());
      if (found == expected)
        continue;
      auto type = static_cast<DType>(argument.dtype);
      std::vector<double> a = decodeValues(type, found), b = decodeValues(type, expected);
      for (size_t e = 0; e < a.size(); ++e)
        ASSERT_TRUE(close(a[e], b[e], scenario.tolerance))
            << "rank " << rank << ", run " << run << ", \"" << argument.name << "\"[" << e
            << "]: expected " << b[e] << ", found " << a[e];
    }
}

class Conformance : public testing::Test {
public:
  Conformance(const Backend &backend, const Case &c, uint32_t ranks)
      : backend(backend), testCase(c), ranks(ranks) {}

  void TestBody() override {
    if (!backend.unavailable.empty())
      GTEST_SKIP() << backend.name << " cannot run here: " << backend.unavailable;
    Scenario scenario = testCase.make(ranks);
    auto start = std::chrono::steady_clock::now();
    std::vector<RankResult> results = runScenario(backend, scenario);
    bool gap = (testCase.capabilities & ~backend.capabilities) != 0 ||
               (testCase.needs & backend.lacks) != 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const RankResult &result = results[rank];
      if (gap) {
        EXPECT_EQ(result.status.code(), Code::Unsupported)
            << "rank " << rank << ": the gap may have closed: " << result.status.message();
        continue;
      }
      if (scenario.failsWith.empty())
        compare(scenario, rank, result);
      else
        expectFailure(scenario, rank, result);
    }
    if (!scenario.failsWith.empty() && !gap) {
      EXPECT_LT(std::chrono::steady_clock::now() - start,
                scenario.timeout * 3 + std::chrono::seconds(15));
    }
  }

private:
  static void expectFailure(const Scenario &scenario, uint32_t rank, const RankResult &result) {
    for (const auto *list : {&scenario.leavers, &scenario.stallers, &scenario.mayPass})
      for (uint32_t other : *list)
        if (other == rank)
          return;
    EXPECT_FALSE(result.status.ok());
    EXPECT_NE(result.status.code(), Code::Internal) << result.status.message();
    for (const std::string &text : scenario.failsWith)
      EXPECT_NE(result.status.message().find(text), std::string::npos)
          << "expected \"" << text << "\" in: " << result.status.message();
    std::string self = "rank " + std::to_string(rank) + ":";
    EXPECT_NE(result.status.message().find(self), std::string::npos)
        << "expected \"" << self << "\" in: " << result.status.message();
  }

  const Backend backend;
  const Case testCase;
  const uint32_t ranks;
};

} // namespace

static void registerAll() {
  Cases cases;
  addCopyCases(cases);
  addMatmulCases(cases);
  addEpilogueCases(cases);
  addReductionCases(cases);
  addLaunchCases(cases);
  addStreamCases(cases);
  addTwoSidedCases(cases);
  addOneSidedCases(cases);
  addCollectiveCases(cases);
  addFailureCases(cases);
  std::set<std::string> devices{"apart"}; // computes as the cpu does
  for (const Backend &backend : backends()) {
    // What needs no channel is a matter of the device: once for each, in this process.
    bool newDevice = !backend.processes && devices.insert(backend.device).second;
    for (const Case &c : cases) {
      bool gap = (c.capabilities & ~backend.capabilities) != 0;
      if (c.capabilities == 0 && !newDevice)
        continue;
      // A few of a gap's cases show that it is still one.
      if (gap && c.name.find(".odd.f32") == std::string::npos)
        continue;
      for (uint32_t ranks : c.ranks) {
        if (ranks > backend.mostRanks)
          continue;
        std::string name = c.name + "/" + std::to_string(ranks);
        testing::RegisterTest(
            backend.name.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
            [=]() -> Conformance * { return new Conformance(backend, c, ranks); });
      }
    }
  }
}

} // namespace tandem::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  tandem::test::registerAll();
  return RUN_ALL_TESTS();
}
