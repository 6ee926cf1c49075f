//===- ScheduleTest.cpp - a schedule is added from outside -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedule of docs/schedules.md, "Add a schedule", which the build takes from the page.
//
//===----------------------------------------------------------------------===//

#include "Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Conversion/FusionToHostIR/Passes.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <thread>

using namespace mlir;
using namespace tandem;

namespace tandem {
std::unique_ptr<Schedule> createInOrderSchedule();
} // namespace tandem

namespace {

std::string gatherMatmul(StringRef schedule) {
  return (R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>
#whole = #fusion.axes<#tp, [-, -]>
func.func @f(%x: tensor<16x8xf32, #rows>, %w: tensor<8x4xf32, #whole>) -> tensor<16x4xf32, #slices> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<)mlir" +
          schedule + R"mlir(>} : tensor<16x8xf32, #rows> -> tensor<16x8xf32, #slices>
  %y = fusion.matmul %g, %w
      : tensor<16x8xf32, #slices>, tensor<8x4xf32, #whole> -> tensor<16x4xf32, #slices>
  return %y : tensor<16x4xf32, #slices>
}
)mlir")
      .str();
}

/// The schedule of the page, which counts how often each candidate is planned.
class Counted : public Schedule {
public:
  static std::map<std::string, unsigned> plans; ///< by schedule and what the loop slices

  fusion::ScheduleInfo getInfo() const override { return schedule->getInfo(); }
  void getCandidates(const StreamLoop &loop,
                     SmallVectorImpl<Candidate> &candidates) const override {
    schedule->getCandidates(loop, candidates);
  }
  Explained<SchedulePlan> match(const StreamLoop &loop) const override {
    std::string key;
    llvm::raw_string_ostream os(key);
    os << loop.schedule;
    for (Operation *op : loop.ops)
      os << ' ' << op->getName() << ' ' << op->getResult(0).getType();
    ++plans[key];
    return schedule->match(loop);
  }

private:
  std::unique_ptr<Schedule> schedule = createInOrderSchedule();
};
std::map<std::string, unsigned> Counted::plans;

class ScheduleTest : public ::testing::Test {
protected:
  ScheduleTest() {
    DialectRegistry registry;
    registerTandemDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    addSchedule(&context, std::make_unique<Counted>());
  }

  /// Null if it does not parse or convert; then `error` has the first diagnostic.
  OwningOpRef<ModuleOp> convert(const std::string &text, const std::string &machine = "") {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (error.empty())
        error = diagnostic.str();
      return success();
    });
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    PassManager passes(&context);
    passes.addNestedPass<func::FuncOp>(createFusionFormLoops());
    FusionSelectScheduleOptions options;
    options.machine = machine;
    passes.addPass(createFusionSelectSchedule(options));
    passes.addPass(createConvertFusionToHostIR());
    if (module && succeeded(passes.run(*module)))
      return module;
    return nullptr;
  }

  template <typename OpT> static unsigned count(ModuleOp module) {
    unsigned number = 0;
    module.walk([&](OpT) { ++number; });
    return number;
  }

  MLIRContext context;
  std::string error;
};

TEST_F(ScheduleTest, RunsOnTheMainStreamAlone) {
  OwningOpRef<ModuleOp> module = convert(gatherMatmul("in_order"));
  ASSERT_TRUE(module) << error;
  EXPECT_EQ(count<hostir::WorkerStreamOp>(*module), 0u);
  EXPECT_EQ(count<hostir::CollectiveOp>(*module), 1u);
  EXPECT_EQ(count<hostir::MatmulOp>(*module), 1u);
}

TEST_F(ScheduleTest, ItsOptionsAreVerified) {
  EXPECT_TRUE(convert(gatherMatmul("in_order, backwards = yes"))) << error;
  error.clear();
  EXPECT_FALSE(convert(gatherMatmul("in_order, backward = yes")));
  EXPECT_EQ(error, "schedule in_order has no option 'backward'; did you mean 'backwards'?");
  error.clear();
  EXPECT_FALSE(convert(gatherMatmul("in_order, backwards = maybe")));
  EXPECT_EQ(error, "expected 'backwards' to be one of no, yes, found \"maybe\"");
}

TEST_F(ScheduleTest, IsListedWithTheOthers) {
  EXPECT_FALSE(convert(gatherMatmul("out_of_order")));
  EXPECT_EQ(error, "expected a schedule (direct, exchange, gated, hierarchical, in_order, "
                   "pipeline, push, ring), "
                   "found 'out_of_order'");
}

TEST_F(ScheduleTest, SaysWhyItDoesNotMatch) {
  std::string text = gatherMatmul("in_order");
  for (size_t at; (at = text.find("stream(\"x\")")) != std::string::npos;)
    text.replace(at, 11, "-");
  EXPECT_FALSE(convert(text));
  EXPECT_EQ(error, "schedule in_order: expected a loop with slices, found none");
}

/// Schedules belong to a context: another one does not have those that were added to this.
TEST_F(ScheduleTest, OtherContextsDoNotHaveIt) {
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext other(registry);
  other.loadAllAvailableDialects();
  std::string found;
  ScopedDiagnosticHandler handler(&other, [&](Diagnostic &diagnostic) {
    found = diagnostic.str();
    return success();
  });
  EXPECT_FALSE(parseSourceString<ModuleOp>(gatherMatmul("in_order"), &other));
  EXPECT_NE(found.find("found 'in_order'"), std::string::npos) << found;
  EXPECT_TRUE(parseSourceString<ModuleOp>(gatherMatmul("push"), &other));
}

/// Selection prices by the plans and conversion lowers by them: nobody makes one a second time.
TEST_F(ScheduleTest, PlansEachCandidateOnce) {
  std::string text = gatherMatmul("in_order");
  Counted::plans.clear();
  ASSERT_TRUE(convert(text)) << error;
  EXPECT_EQ(Counted::plans.size(), 1U);
  for (const auto &[candidate, times] : Counted::plans)
    EXPECT_EQ(times, 1U) << candidate;
  // Without an annotation the loop has candidates: as it is, and cut further.
  size_t begin = text.find(" {schedule"), end = text.find("} : tensor");
  text.erase(begin, end + 1 - begin);
  for (const char *slices : {"stream(\"x\")", "-"}) {
    std::string whole = text;
    for (size_t at; (at = whole.find("stream(\"x\")")) != std::string::npos;)
      whole.replace(at, 11, "SLICES");
    for (size_t at; (at = whole.find("SLICES")) != std::string::npos;)
      whole.replace(at, 6, slices);
    // Large enough that the host's work is not all.
    for (size_t at = 0; (at = whole.find("16x", at)) != std::string::npos; at += 6)
      whole.replace(at, 3, "16384x");
    Counted::plans.clear();
    ASSERT_TRUE(convert(whole, "h200x8")) << error;
    EXPECT_FALSE(Counted::plans.empty());
    for (const auto &[candidate, times] : Counted::plans)
      EXPECT_EQ(times, 1U) << candidate;
  }
}

/// Planners give their reasons as values; `report` makes one an error at its op.
TEST_F(ScheduleTest, PlannersEmitNoDiagnostics) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(gatherMatmul("push"), &context);
  ASSERT_TRUE(module);
  std::vector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors.push_back(diagnostic.str());
    return success();
  });
  fusion::ReshardOp gather;
  module->walk([&](fusion::ReshardOp op) { gather = op; });
  StreamLoop loop;
  loop.begin(gather, {4});
  loop.op = gather;
  Builder builder(&context);
  for (StringRef name :
       {"pipeline", "exchange", "ring", "push", "gated", "direct", "hierarchical"}) {
    NamedAttrList options;
    if (name == "pipeline")
      options.set("combine", builder.getStringAttr("whole"));
    loop.schedule = fusion::ScheduleAttr::get(&context, name, options.getDictionary(&context));
    Explained<SchedulePlan> plan = getSchedule(loop.schedule)->match(loop);
    EXPECT_TRUE(errors.empty()) << name.str();
    if (failed(plan)) {
      EXPECT_TRUE(failed(plan.report()));
      ASSERT_EQ(errors.size(), 1U);
      EXPECT_NE(errors.front().find("schedule " + name.str()), std::string::npos);
    }
    errors.clear();
  }
}

/// What passes report on a trial copy is its explanation; what other threads report is not.
TEST_F(ScheduleTest, TrialsExplainThemselves) {
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(&context)));
  std::vector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    errors.push_back(diagnostic.str());
    return success();
  });
  Obstacle why = runTrial(*module, [&]() -> LogicalResult {
    std::thread([&] { module->emitError("of another thread"); }).join();
    module->emitRemark("no error");
    (void)module->emitError("first");
    return module->emitError("second");
  });
  ASSERT_TRUE(why);
  EXPECT_EQ(why->str(), "first");
  EXPECT_EQ(errors, std::vector<std::string>{"of another thread"});
  EXPECT_FALSE(runTrial(*module, [] { return success(); }));
}

/// Slices of columns whose rows have 1 KiB or more; those of rows are dense.
TEST_F(ScheduleTest, PutsOfAllReducesHaveLongRows) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 2]>
!t = tensor<1024x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<1024x4096xbf16, #fusion.axes<#tp, [-, -]>>
func.func @f(%t: !t) -> !y {
  %y = fusion.reshard %t : !t -> !y
  return %y : !y
}
)mlir",
                                                             &context);
  PassManager passes(&context);
  passes.addNestedPass<func::FuncOp>(createFusionFormLoops());
  ASSERT_TRUE(module && succeeded(passes.run(*module)));
  SmallVector<int64_t> rows, columns;
  module->walk([&](fusion::StreamLoopOp op) {
    FailureOr<StreamLoop> loop = getStreamLoop(op);
    ASSERT_TRUE(succeeded(loop));
    for (const Candidate &candidate : getCandidates(*loop))
      if (candidate.slices && candidate.slices->second.perOwner > 1 &&
          candidate.schedule.str() == "push")
        (candidate.slices->second.dim == 0 ? rows : columns)
            .push_back(candidate.slices->second.count);
  });
  EXPECT_EQ(rows, (SmallVector<int64_t>{4, 8, 16}));
  EXPECT_EQ(columns, (SmallVector<int64_t>{4, 8}));
}

/// Kernels push the slices of gathers, and those of reductions from matmuls.
TEST_F(ScheduleTest, CandidatesFollowTheRules) {
  auto module = parseSourceString<ModuleOp>(gatherMatmul("pipeline"), &context);
  PassManager passes(&context);
  passes.addNestedPass<func::FuncOp>(createFusionFormLoops());
  ASSERT_TRUE(module && succeeded(passes.run(*module)));
  SmallVector<std::string> candidates;
  module->walk([&](fusion::StreamLoopOp op) {
    FailureOr<StreamLoop> loop = getStreamLoop(op);
    ASSERT_TRUE(succeeded(loop));
    for (const Candidate &candidate : getCandidates(*loop))
      candidates.push_back(candidate.schedule.str());
  });
  EXPECT_TRUE(llvm::is_contained(candidates, "push, by = sms"));
  EXPECT_FALSE(llvm::is_contained(candidates, "push, by = epilogue"));
}

static std::string getPage() {
  std::ifstream file(TANDEM_DOCS "/schedules.md");
  std::stringstream page;
  page << file.rdbuf();
  return page.str();
}

/// The rows of the table of docs/schedules.md: which choices go together.
TEST(ScheduleChoices, AreTheTableOfThePage) {
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.getOrLoadDialect<fusion::FusionDialect>();
  std::string table = "| schedule |", line = "|---|";
  for (StringRef choice : fusion::kScheduleChoices) {
    table += " `" + choice.str() + "` |";
    line += "---|";
  }
  table += "\n" + line + "\n";
  for (const fusion::ScheduleInfo &info : fusion::ScheduleRegistry::get(&context)->getInfos()) {
    table += "| `" + info.name.str() + "` |";
    for (StringRef choice : fusion::kScheduleChoices) {
      const fusion::ScheduleOption *has = info.getChoice(choice);
      table += " " + (has ? "`" + llvm::join(has->words, "`, `") + "`" : "") + " |";
    }
    table += "\n";
  }
  EXPECT_NE(getPage().find("\n\n" + table + "\n"), std::string::npos) << table;
}

/// Each spelling of a schedule is the same attribute.
TEST(ScheduleChoices, AreSpelledByNamesOrWords) {
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.getOrLoadDialect<fusion::FusionDialect>();
  std::pair<const char *, const char *> rows[] = {
      {"by = messages", "exchange"},
      {"order = rotated, by = engines, compute = sliced, sum = reduce", "push"},
      {"by = collective, streams = 2", "pipeline, streams = 2"},
      {"order = xor", "push, order = xor"},
      {"by = epilogue, sum = matmul", "push, by = epilogue, sum = matmul"},
      {"push, by = engines, order = rotated", "push"},
      {"push, compute = gated, by = sms", "gated, by = sms"},
      {"exchange, by = engines", "push"},
      {"compute = gated", "gated"},
      {"compute = whole, shots = two", "direct, shots = two"},
      {"order = ring, sum = matmul", "ring, sum = matmul"},
      {"order = nodes", "hierarchical"},
      {"order = rotated, by = messages, slices = 8, dim = 0", "exchange, slices = 8, dim = 0"}};
  for (auto [written, is] : rows) {
    auto candidate = fusion::CandidateAttr::fromStr(&context, written);
    ASSERT_TRUE(candidate) << written;
    EXPECT_EQ(candidate.str(), is) << written;
    EXPECT_EQ(candidate, fusion::CandidateAttr::fromStr(&context, is));
  }
  for (const char *written :
       {"ring, by = engines", "order = ring, by = sms", "gated, sum = reduce",
        "direct, by = messages", "pipeline, compute = whole", "hierarchical, sum = matmul"})
    EXPECT_FALSE(fusion::CandidateAttr::fromStr(&context, written)) << written;
}

/// The rows of the table of docs/schedules.md: what goes with an option.
TEST(ScheduleRules, AreTheTableOfThePage) {
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.getOrLoadDialect<fusion::FusionDialect>();
  const auto *schedules = fusion::ScheduleRegistry::get(&context);
  ASSERT_TRUE(schedules);
  auto list = [](const auto &parts, auto describe) {
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::interleaveComma(parts, os, [&](const auto &part) { os << describe(part); });
    return text;
  };
  auto describe = [](const fusion::ScheduleChoice &choice) {
    return "`" + (choice.word.empty() ? choice.option : choice.option + " = " + choice.word).str() +
           "`";
  };
  auto describeLoop = [](fusion::LoopKind kind) {
    const char *names[] = {"gather", "all-to-all", "reduction", "all-reduce"};
    return names[static_cast<int>(kind)];
  };
  std::string table =
      "| schedule | option | loops | not with | only with |\n|---|---|---|---|---|\n";
  for (StringRef name : schedules->getNames())
    for (const fusion::ScheduleRule &rule : schedules->lookup(name)->rules)
      table += "| `" + name.str() + "` | " + describe(rule.choice) + " | " +
               list(rule.loops, describeLoop) + " | " + list(rule.without, describe) + " | " +
               (rule.with ? describe(*rule.with) : "") + " |\n";
  EXPECT_NE(getPage().find("\n\n" + table + "\n"), std::string::npos) << table;
}

TEST(ScheduleRules, AreVerified) {
  DialectRegistry registry;
  registerTandemDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.getOrLoadDialect<fusion::FusionDialect>();
  auto isLegal = [&](StringRef text) {
    return bool(fusion::CandidateAttr::fromStr(&context, text));
  };
  for (const char *text : {"push, by = sms, blocks = 4", "push, merge = [1, 1, 2], streams = 2",
                           "push, copies = 1, by = sms", "push, sum = matmul, by = epilogue",
                           "direct, protocol = block, shots = two", "gated, by = sms, blocks = 1"})
    EXPECT_TRUE(isLegal(text)) << text;
  for (const char *text :
       {"push, blocks = 1", "push, by = epilogue, blocks = 4", "push, merge = [1, 1], copies = 2",
        "push, copies = 2, by = sms", "push, streams = 2, by = epilogue",
        "push, copies = 2, by = epilogue", "push, merge = [1, 1], by = epilogue",
        "push, sum = matmul, merge = [1, 1]", "direct, protocol = ll, shots = two",
        "gated, blocks = 4"})
    EXPECT_FALSE(isLegal(text)) << text;
}

} // namespace
