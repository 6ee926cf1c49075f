//===- PricerTest.cpp - the price of a candidate ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Pricer.h"

#include "tandem/Compiler/Compiler.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Program/Program.h"
#include "tandem/Replay/Simulate.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace tandem;

namespace {

constexpr char kMachine[] = TANDEM_MACHINES "/h200x8.json";

/// The gather of rows and a matmul on its slices, by a schedule.
std::string gatherMatmul(const std::string &schedule, const std::string &name = "f") {
  return R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 8]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#result = #fusion.axes<#tp, [stream("x"), didx("x")]>
func.func @)mlir" +
         name + R"mlir((%x: tensor<8192x4096xbf16, #rows> {fusion.name = ")mlir" + name + R"mlir("},
    %w: tensor<4096x8192xbf16, #columns>) -> tensor<8192x8192xbf16, #result> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<)mlir" +
         schedule + R"mlir(>} : tensor<8192x4096xbf16, #rows> -> tensor<8192x4096xbf16, #slices>
  %y = fusion.matmul %g, %w
      : tensor<8192x4096xbf16, #slices>, tensor<4096x8192xbf16, #columns> -> tensor<8192x8192xbf16, #result>
  return %y : tensor<8192x8192xbf16, #result>
}
)mlir";
}

class PricerTest : public ::testing::Test {
protected:
  PricerTest() : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED) {}

  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerTandemDialects(registry);
    return registry;
  }

  std::unique_ptr<Pricer> makePricer(std::string machine = kMachine, int64_t ranks = 8) {
    Pricer::Options options;
    options.machine = std::move(machine);
    options.ranks = ranks;
    return createPricer(&context, options, error);
  }

  mlir::FailureOr<double> price(Pricer &pricer, const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    return pricer.price(*module->getOps<mlir::func::FuncOp>().begin(), Pricer::From::FormLoops);
  }

  mlir::MLIRContext context;
  std::string error;
};

/// Seconds of a whole program by the simulator.
double simulated(const std::string &text, const std::string &machineFile = kMachine) {
  compiler::CompileOptions options;
  options.target = "cuda-peer";
  compiler::CompileResult compiled = compiler::compileText(text, options);
  EXPECT_TRUE(compiled) << compiled.errorText();
  auto file = ProgramFile::fromMemory(compiled.output);
  auto world = replay::World::load(**file);
  auto machine = machine::Machine::load(machineFile);
  return simulate::simulate(**world, *machine)->seconds;
}

TEST_F(PricerTest, IsTheSimulatedTimeOfTheProgram) {
  std::unique_ptr<Pricer> pricer = makePricer();
  ASSERT_TRUE(pricer) << error;
  for (const char *schedule : {"pipeline", "exchange", "push", "push, streams = 2",
                               "push, order = xor, merge = [1, 1, 2, 4]"}) {
    std::string text = gatherMatmul(schedule);
    auto seconds = price(*pricer, text);
    ASSERT_TRUE(mlir::succeeded(seconds)) << schedule;
    EXPECT_DOUBLE_EQ(*seconds, simulated(text)) << schedule;
  }
}

TEST_F(PricerTest, NamesDoNotMatterAndSchedulesDo) {
  std::unique_ptr<Pricer> pricer = makePricer();
  ASSERT_TRUE(pricer) << error;
  double push = *price(*pricer, gatherMatmul("push"));
  EXPECT_EQ(push, *price(*pricer, gatherMatmul("push", "other")));
  EXPECT_NE(push, *price(*pricer, gatherMatmul("pipeline")));
  // Another pricer of the same context knows them too; another machine has its own prices.
  EXPECT_EQ(push, *price(*makePricer(), gatherMatmul("push")));
  EXPECT_NE(push, *price(*makePricer(TANDEM_MACHINES "/h100x8.json"), gatherMatmul("push")));
}

TEST_F(PricerTest, FailsSilentlyWhereACandidateCannotBeLowered) {
  std::unique_ptr<Pricer> pricer = makePricer();
  ASSERT_TRUE(pricer) << error;
  unsigned diagnostics = 0;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &) {
    ++diagnostics;
    return mlir::success();
  });
  std::string wrong = gatherMatmul("push, merge = [1, 1]");
  for (int time = 0; time < 2; ++time) // the second answer comes from the cache
    EXPECT_TRUE(mlir::failed(price(*pricer, wrong)));
  EXPECT_EQ(diagnostics, 0u);
}

TEST_F(PricerTest, MachineErrors) {
  EXPECT_FALSE(makePricer(kMachine, 9));
  EXPECT_NE(error.find("9"), std::string::npos) << error;
  EXPECT_FALSE(makePricer("nowhere"));
  EXPECT_NE(error.find("nowhere"), std::string::npos) << error;
}

} // namespace
