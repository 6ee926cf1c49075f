//===- OpTest.cpp - an op is added from outside -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The op of docs/fusion.md, "Add an op", which the build takes from the page: compiled, and run on
// two ranks of the CPU.
//
//===----------------------------------------------------------------------===//

#include "RunOnCpu.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Compiler/Compiler.h"
#include "tandem/Compiler/CompilerMLIR.h"
#include "tandem/Compiler/Registration.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;

namespace demo {
void registerOps(DialectRegistry &registry);
} // namespace demo

namespace {

constexpr uint32_t kRanks = 2;
constexpr int64_t kRows = 4, kColumns = 6;

class OpTest : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    DialectRegistry registry;
    registerTandemDialects(registry);
    demo::registerOps(registry);
    context = std::make_unique<MLIRContext>(registry);
  }
  static void TearDownTestSuite() { context.reset(); }

  static compiler::CompileResult compile(const std::string &body, compiler::Output output) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 2]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#slices = #fusion.axes<#tp, [-, stream(2)]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#split = #fusion.axes<#tp, [didx("x")]>
#all = #fusion.axes<#tp, [-]>
)mlir" + body,
                                                               context.get());
    if (!module)
      return {};
    compiler::CompileOptions options;
    options.target = "cpu-local";
    options.output = output;
    return compiler::compileModule(*module, options);
  }

  /// Compiles the function and runs it on x[i, k] = 1 + i - k, of which each rank has some rows or
  /// some columns. The results of the ranks, one after another.
  static std::vector<float> run(const std::string &body, bool splitsRows, int64_t localRows) {
    compiler::CompileResult result = compile(body, compiler::Output::StreamProgram);
    EXPECT_TRUE(result.ok) << result.errorText();
    std::vector<float> all;
    if (!result.ok)
      return all;
    int64_t rows = splitsRows ? kRows / kRanks : kRows;
    int64_t columns = splitsRows ? kColumns : kColumns / kRanks;
    std::vector<std::vector<float>> inputs(kRanks);
    for (uint32_t r = 0; r < kRanks; ++r)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t k = 0; k < columns; ++k)
          inputs[r].push_back(
              getElement(splitsRows ? r * rows + i : i, splitsRows ? k : r * columns + k));
    EXPECT_EQ(test::runOnCpu(result.output, {rows, columns}, inputs, {localRows}, all), "");
    return all;
  }

  static float getElement(int64_t i, int64_t k) { return static_cast<float>(1 + i - k); }
  static std::vector<float> getSums() {
    std::vector<float> sums(kRows);
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t k = 0; k < kColumns; ++k)
        sums[i] += getElement(i, k) * getElement(i, k);
    return sums;
  }

  static std::unique_ptr<MLIRContext> context;
};

std::unique_ptr<MLIRContext> OpTest::context;

/// Columns are split: the result is partial, and reduced and scattered.
constexpr char kSplitColumns[] = R"mlir(
func.func @f(%x: tensor<4x6xf32, #columns>) -> tensor<4xf32, #split> {
  %y = "demo.sum_of_squares"(%x) : (tensor<4x6xf32, #columns>) -> tensor<4xf32, #split>
  return %y : tensor<4xf32, #split>
}
)mlir";

TEST_F(OpTest, PartialSumsAreReduced) {
  EXPECT_EQ(run(kSplitColumns, /*splitsRows=*/false, kRows / kRanks), getSums());
}

TEST_F(OpTest, FollowsItsOperand) {
  EXPECT_EQ(run(R"mlir(
func.func @f(%x: tensor<4x6xf32, #rows>) -> tensor<4xf32, #split> {
  %y = "demo.sum_of_squares"(%x) : (tensor<4x6xf32, #rows>) -> tensor<4xf32>
  %0 = arith.negf %y : tensor<4xf32>
  %1 = arith.negf %0 : tensor<4xf32>
  %2 = fusion.reshard %1 : tensor<4xf32> -> tensor<4xf32, #split>
  return %2 : tensor<4xf32, #split>
}
)mlir",
                /*splitsRows=*/true, kRows / kRanks),
            getSums());
}

/// Slices of the columns are gathered, and accumulate.
constexpr char kSlices[] = R"mlir(
func.func @f(%x: tensor<4x6xf32, #columns>) -> tensor<4xf32, #all> {
  %g = fusion.reshard %x : tensor<4x6xf32, #columns> -> tensor<4x6xf32, #slices>
  %y = "demo.sum_of_squares"(%g) : (tensor<4x6xf32, #slices>) -> tensor<4xf32, #all>
  return %y : tensor<4xf32, #all>
}
)mlir";

TEST_F(OpTest, SlicesAccumulate) {
  std::vector<float> sums = getSums(), twice = sums;
  twice.insert(twice.end(), sums.begin(), sums.end());
  EXPECT_EQ(run(kSlices, /*splitsRows=*/false, kRows), twice);
  compiler::CompileResult host = compile(kSlices, compiler::Output::HostIR);
  EXPECT_NE(host.output.find("hostir.accumulate"), std::string::npos) << host.output;
}

TEST_F(OpTest, ItsShapeIsInferred) {
  compiler::CompileResult result = compile(R"mlir(
func.func @f(%x: tensor<4x6xf32, #rows>) -> tensor<?xf32, #split> {
  %y = "demo.sum_of_squares"(%x) : (tensor<4x6xf32, #rows>) -> tensor<?xf32, #split>
  return %y : tensor<?xf32, #split>
}
)mlir",
                                           compiler::Output::HostIR);
  EXPECT_TRUE(result.ok) << result.errorText();
  EXPECT_NE(result.output.find("memref<2xf32>"), std::string::npos) << result.output;
}

} // namespace
