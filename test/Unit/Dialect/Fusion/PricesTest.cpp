//===- PricesTest.cpp - prices of plans -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanPrices.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "gtest/gtest.h"
#include <thread>

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
/// Reports an error in another thread while it prices a function.
class ReportingPricer : public Pricer {
public:
  explicit ReportingPricer(MLIRContext *context) : context(context) {}
  StringRef getMachineName() const override { return "test"; }
  program::CapabilitySet getCapabilities() const override { return {}; }
  const program::Margins &getMargins() const override { return margins; }
  bool isWorth(double, double, const Difference &) const override { return false; }
  FailureOr<double> price(func::FuncOp, From) override {
    std::thread([&] { emitError(UnknownLoc::get(context)) << "of another thread"; }).join();
    return 1.0;
  }
  FailureOr<double> price(Operation *, StringRef, function_ref<OwningOpRef<ModuleOp>()>) override {
    return 1.0;
  }

private:
  MLIRContext *context;
  program::Margins margins;
};
} // namespace

TEST(Prices, OtherThreadsKeepTheirDiagnostics) {
  MLIRContext context;
  context.loadDialect<FusionDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    #tp = #tandem.mesh<"tp", ["x" = 2]>
    #all = #fusion.axes<#tp, [-, -]>
    func.func @f(%a: tensor<2x2xf32, #all>) -> tensor<2x2xf32, #all> {
      %0 = fusion.matmul %a, %a : tensor<2x2xf32, #all>, tensor<2x2xf32, #all> -> tensor<2x2xf32, #all>
      return %0 : tensor<2x2xf32, #all>
    })",
                                                             &context);
  ASSERT_TRUE(module);
  std::vector<std::string> seen;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    seen.push_back(diagnostic.str());
    return success();
  });
  ReportingPricer pricer(&context);
  module->walk([&](MatmulOp op) {
    std::string reason;
    FailureOr<LocalPlan> plan = planLocal(op, GatherMode::Before, reason);
    ASSERT_TRUE(succeeded(plan)) << reason;
    EXPECT_EQ(priceLocalPlan(op, *plan, pricer), 1.0);
  });
  EXPECT_EQ(seen, std::vector<std::string>{"of another thread"});
}
