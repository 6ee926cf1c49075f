//===- TuningTest.cpp - which algorithm a matmul uses ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "Driver.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// A product on every rank by itself, large enough to be worth a choice.
ProgramSpec product(uint32_t ranks, sp::Determinism deterministic) {
  ProgramSpec spec(ranks);
  spec.deterministic = deterministic;
  uint32_t a = spec.stacked("a", false, DType::F32, {512, 512});
  uint32_t b = spec.stacked("b", false, DType::F32, {512, 4});
  uint32_t out = spec.stacked("out", true, DType::F32, {512, 4});
  for (RankSpec &rank : spec.ranks) {
    uint32_t left = rank.view(rank.argument(a, 512 * 512 * 4), DType::F32, {512, 512});
    uint32_t right = rank.view(rank.argument(b, 512 * 4 * 4), DType::F32, {512, 4});
    uint32_t result = rank.view(rank.argument(out, 512 * 4 * 4), DType::F32, {512, 4});
    rank.add(sp::CommandKind::matmul, 0, {result, left, right});
  }
  return spec;
}

/// How often each algorithm of the stand-in library was run by one preparation of product(), and
/// by one run.
struct Uses {
  int64_t prepare[3] = {}, run[3] = {};
  int64_t prepared() const { return prepare[0] + prepare[1] + prepare[2]; }
};
Uses use(uint32_t ranks = 1, sp::Determinism deterministic = sp::Determinism::none,
         const char *failure = nullptr) {
  Uses uses;
  auto counter = [](int i) -> std::atomic<int64_t> & {
    return fakeNumber(("products." + std::to_string(i)).c_str());
  };
  for (int i = 0; i < 3; ++i)
    uses.prepare[i] = -counter(i);
  Variable noGraph("TANDEM_GRAPH", "0"); // a trial capture would count as well
  auto ended = runRanks(product(ranks, deterministic), "local",
                        [&](Context &context, Instance &instance) -> Status {
                          TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
                          TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
                          if (context.rank() == 0)
                            for (int i = 0; i < 3; ++i) {
                              uses.prepare[i] += counter(i);
                              uses.run[i] = -counter(i);
                            }
                          TANDEM_RETURN_IF_ERROR(context.bootstrap().barrier());
                          return instance.run();
                        });
  for (const Status &status : ended)
    EXPECT_TRUE(failure ? status.message().find(failure) != std::string::npos : status.ok())
        << status.message();
  for (int i = 0; i < 3; ++i)
    uses.run[i] += counter(i);
  return uses;
}

std::string readAll(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class GpuTuning : public testing::Test {
public:
  GpuTuning() : path(testing::TempDir() + "/algorithms-" + std::to_string(::getpid())) {
    std::remove(path.c_str());
  }
  ~GpuTuning() override { std::remove(path.c_str()); }

  const std::string path;
  // Of minutes, beside which what a loaded host adds is nothing.
  Knob first{"product-cost.0", 100000000}, second{"product-cost.1", 0},
      third{"product-cost.2", 100000000};
};

TEST_F(GpuTuning, TheFastestRuns) {
  Uses uses = use();
  EXPECT_EQ(uses.run[0], 0);
  EXPECT_EQ(uses.run[1], 1);
  EXPECT_GE(uses.prepare[1], 7);                   // two runs, then five turns
  EXPECT_LT(uses.prepare[0] + uses.prepare[2], 7); // far behind, they have no turns
}

/// On numbers that are all equal a GPU is not held back by its power.
TEST_F(GpuTuning, NumbersAreNotEqual) {
  Knob hungry("product-power.1", 200000000);
  Uses uses = use();
  EXPECT_EQ(uses.run[1], 0);
  Knob frugal("product-cost.2", 0);
  EXPECT_EQ(use().run[2], 1);
}

/// What is as fast as the library's choice to the accuracy of a clock is not worth another one.
TEST_F(GpuTuning, TheLibrarysChoiceIsKept) {
  Knob fast("product-cost.0", 100000000), close("product-cost.1", 99500000),
      slow("product-cost.2", 200000000);
  EXPECT_EQ(use().run[0], 1);
  Knob clearly("product-cost.1", 90000000);
  EXPECT_EQ(use().run[1], 1);
}

TEST_F(GpuTuning, OneRankDecidesForAll) {
  Uses one = use(1), two = use(2);
  EXPECT_EQ(two.run[1], 2);
  // The second rank has only warmed up, once before and once after.
  EXPECT_LT(two.prepared(), one.prepared() + 5);
}

TEST_F(GpuTuning, AFileRemembers) {
  Variable file("TANDEM_ALGORITHMS", path.c_str());
  EXPECT_EQ(use().run[1], 1);
  std::string text = readAll(path);
  EXPECT_NE(text.find("fake sm_90 cublasLt 0\tf32 f32 512x4x512"), std::string::npos) << text;
  // Another would be found now, had there been no file.
  Knob slow("product-cost.1", 100000000), fast("product-cost.2", 0);
  Uses uses = use(2);
  EXPECT_EQ(uses.run[1], 2);
  EXPECT_LT(uses.prepared(), 10);
  EXPECT_EQ(readAll(path), text);
}

TEST_F(GpuTuning, AFileThatIsNotWholeIsNotUsed) {
  Variable file("TANDEM_ALGORITHMS", path.c_str());
  use();
  std::string text = readAll(path);
  ASSERT_FALSE(text.empty());
  std::string changed = text;
  changed[text.find("512x4")] = '9';
  for (const std::string &wrong : {std::string("{}"), text.substr(0, text.size() / 2), changed}) {
    std::ofstream(path) << wrong;
    takeLog();
    Uses uses = use();
    EXPECT_NE(takeLog().find("ignored"), std::string::npos);
    EXPECT_GE(uses.prepare[1], 7);
    EXPECT_EQ(readAll(path), text);
  }
}

TEST_F(GpuTuning, AFileThatCannotBeWrittenIsNoError) {
  Variable file("TANDEM_ALGORITHMS", "/nowhere/at/all");
  takeLog();
  EXPECT_EQ(use().run[1], 1);
  EXPECT_NE(takeLog().find("cannot write \"/nowhere/at/all"), std::string::npos);
}

} // namespace

TEST_F(GpuTuning, ADeterministicProgramAddsInTheOrderOfK) {
  Knob second("product-order.1", 1);
  EXPECT_EQ(use().run[1], 1) << "the fastest";
  Uses uses = use(1, sp::Determinism::bitwise);
  EXPECT_EQ(uses.run[1], 0) << "the fastest, but it adds in another order";
  EXPECT_EQ(uses.run[0] + uses.run[2], 1);
}

TEST_F(GpuTuning, DeterministicProductsAreRefusedOnHip) {
  if (!gpu::vendorOf("hip"))
    GTEST_SKIP() << "this build has no device hip";
  Variable device("TANDEM_TEST_GPU", "hip");
  use(2, sp::Determinism::bitwise,
      "command 0 (matmul \"matmul #0\"): f32[512,512] by f32[512,4] into f32[512,4]: hipBLASLt "
      "cannot be told not to split sums, as a deterministic program needs it");
}

TEST_F(GpuTuning, NoAlgorithmAddsInTheOrderOfK) {
  Knob first("product-order.0", 2), second("product-order.1", 2), third("product-order.2", 2);
  use(1, sp::Determinism::batch,
      "none of the 3 algorithms that cublasLt 0 suggests adds in the "
      "order of K");
}
