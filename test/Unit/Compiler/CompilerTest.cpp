//===- CompilerTest.cpp - the compiler as a library -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/CompilerMLIR.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Program/Program.h"

#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::compiler;

namespace {

/// A gather of rows, for any number of ranks.
const char *const kGather = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = ?]>
func.func @gather(%a: tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "rows"})
    -> (tensor<?x4xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "all"}) {
  %0 = fusion.reshard %a : tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x4xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<?x4xf32, #fusion.axes<#tp, [stream, -]>>
}
)mlir";

CompileOptions forRanks(int64_t ranks, int64_t rows) {
  CompileOptions options;
  options.mesh = {{"x", ranks}};
  options.shapes = {{"rows", {rows, 4}}};
  return options;
}

/// Copies x, but its unsharded reference doubles it.
const char *const kWrong = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 2]>
hostir.program @copied(
    %x: memref<1x4xf32> {hostir.name = "x", hostir.type = tensor<2x4xf32, #fusion.axes<#tp, [didx("x"), -]>>},
    %y: memref<1x4xf32> {hostir.name = "y", hostir.result, hostir.type = tensor<2x4xf32, #fusion.axes<#tp, [didx("x"), -]>>}) {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<1x4xf32> to memref<1x4xf32>
}
hostir.program @doubled(
    %x: memref<2x4xf32> {hostir.name = "x", hostir.type = tensor<2x4xf32>},
    %y: memref<2x4xf32> {hostir.name = "y", hostir.result, hostir.type = tensor<2x4xf32>}) attributes {reference_of = @copied} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<2x4xf32> to memref<2x4xf32>
  hostir.accumulate sum %x into %y on %main : memref<2x4xf32> to memref<2x4xf32>
}
)mlir";

const Certificate &certificateOf(const CompileResult &result) {
  static std::shared_ptr<const ProgramFile> file;
  file = *ProgramFile::fromMemory(result.output);
  EXPECT_NE(file->certificate(), nullptr);
  return *file->certificate();
}

TEST(Compiler, ProvesByDefault) {
  for (bool reference : {true, false}) {
    CompileOptions options = forRanks(3, 6);
    options.reference = reference;
    CompileResult result = compileText(kGather, options);
    ASSERT_TRUE(result) << result.errorText();
    EXPECT_EQ((*ProgramFile::fromMemory(result.output))->hasReference(), reference);
    const Certificate &certificate = certificateOf(result);
    EXPECT_EQ(certificate.data.rfind("checked", 0), 0u) << certificate.data;
    EXPECT_EQ(certificate.properties.front(), "deadlock");
    EXPECT_EQ(certificate.properties, result.certificate.properties);
    options.check = false;
    const Certificate &unproven = certificateOf(compileText(kGather, options));
    EXPECT_TRUE(unproven.properties.empty());
    EXPECT_EQ(unproven.limits, std::vector<std::string>{"not checked: compiled without the check"});
  }
}

TEST(Compiler, WrongResultsAreErrors) {
  for (bool reference : {true, false})
    for (int call = 0; call < 2; ++call) { // what is wrong is not kept as proven
      CompileOptions options;
      options.reference = reference;
      CompileResult result = compileText(kWrong, options, "wrong.mlir");
      EXPECT_FALSE(result);
      EXPECT_TRUE(result.isUnproven && result.output.empty());
      EXPECT_NE(result.errorText().find("wrong.mlir:3:1: error: the stream program is not proven: "
                                        "error: wrong-result: rank 0: "),
                std::string::npos)
          << result.errorText();
      options.check = false;
      EXPECT_TRUE(compileText(kWrong, options));
    }
}

/// The last bits of a deterministic program are compared with the unoverlapped baseline.
TEST(Compiler, BitsAreProvenByDefault) {
  CompileOptions options = forRanks(3, 6);
  options.deterministic = "bitwise";
  CompileResult result = compileText(kGather, options);
  ASSERT_TRUE(result) << result.errorText();
  const std::vector<std::string> &found = certificateOf(result).properties;
  EXPECT_TRUE(std::find(found.begin(), found.end(), "bits-differ") != found.end());
}

TEST(Compiler, TextToStreamProgram) {
  CompileResult result = compileText(kGather, forRanks(3, 6));
  ASSERT_TRUE(result) << result.errorText();
  EXPECT_EQ(result.numRanks, 3u);
  EXPECT_GT(result.numCommands, 0u);
  EXPECT_TRUE(result.diagnostics.empty());
  auto file = ProgramFile::fromMemory(result.output);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->name(), "gather");
  EXPECT_TRUE((*file)->hasReference());
  auto program = (*file)->rankProgram(2);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_EQ((*program)->arguments().size(), 2u);
  const ArgumentInfo &rows = (*program)->arguments()[0], &all = (*program)->arguments()[1];
  EXPECT_EQ(rows.name, "rows");
  EXPECT_EQ(rows.shape, (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(rows.localShape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(all.name, "all");
  EXPECT_TRUE(all.isResult);
  EXPECT_EQ(all.localShape, (std::vector<int64_t>{6, 4}));
}

TEST(Compiler, SameInputSameBytes) {
  CompileResult first = compileText(kGather, forRanks(4, 8));
  CompileResult second = compileText(kGather, forRanks(4, 8));
  ASSERT_TRUE(first && second) << first.errorText();
  EXPECT_EQ(first.output, second.output);
}

TEST(Compiler, OneRankIsThatOfAll) {
  CompileOptions options = forRanks(4, 8);
  CompileResult all = compileText(kGather, options);
  options.rank = 2;
  CompileResult one = compileText(kGather, options);
  ASSERT_TRUE(all && one) << all.errorText() << one.errorText();
  EXPECT_LT(one.output.size(), all.output.size());
  auto dump = [](const CompileResult &result) {
    auto file = ProgramFile::fromMemory(result.output);
    auto program = (*file)->rankProgram(2);
    return program.ok() ? dumpProgram(**program) : program.status().message();
  };
  EXPECT_EQ(dump(all), dump(one));
}

/// Contexts of their own: nothing is shared.
TEST(Compiler, ManyThreads) {
  CompileResult expected = compileText(kGather, forRanks(4, 8));
  ASSERT_TRUE(expected) << expected.errorText();
  std::atomic<int> equal{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; ++i) {
        equal += compileText(kGather, forRanks(4, 8)).output == expected.output;
        CompileOptions options = forRanks(3, 8 + t);
        options.shapes[0].second[1] = 4 + t % 2; // the module says 4
        CompileResult bad = compileText(kGather, options, "thread" + std::to_string(t));
        refused += bool(bad) == (t % 2 == 0) &&
                   (bad || bad.errorText().find("thread" + std::to_string(t) + ":") == 0);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(equal, 32);
  EXPECT_EQ(refused, 32);
}

TEST(Compiler, ModuleOfTheCaller) {
  // A context with what an embedder has: it knows nothing of hostir yet.
  mlir::DialectRegistry registry;
  tandem::registerTandemDialects(registry);
  mlir::MLIRContext context(registry);
  int heard = 0;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &) { ++heard; });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kGather, &context, "caller.mlir");
  ASSERT_TRUE(module);
  std::string before, after;
  llvm::raw_string_ostream(before) << *module;
  CompileResult good = compileModule(*module, forRanks(2, 6));
  EXPECT_TRUE(good) << good.errorText();
  CompileOptions wrong = forRanks(4, 6);
  wrong.shapes[0].second[1] = 5; // the module says 4
  CompileResult bad = compileModule(*module, wrong);
  EXPECT_FALSE(bad);
  ASSERT_FALSE(bad.diagnostics.empty());
  EXPECT_EQ(bad.diagnostics[0].file, "caller.mlir");
  llvm::raw_string_ostream(after) << *module;
  EXPECT_EQ(before, after);
  EXPECT_EQ(heard, 0);
}

TEST(Compiler, HostIRAsOutputAndAsInput) {
  CompileOptions options = forRanks(4, 8);
  options.output = Output::HostIR;
  CompileResult text = compileText(kGather, options);
  ASSERT_TRUE(text) << text.errorText();
  EXPECT_NE(text.output.find("hostir.program @gather("), std::string::npos);
  options = CompileOptions();
  options.entry = "gather";
  CompileResult program = compileText(text.output, options);
  ASSERT_TRUE(program) << program.errorText();
  EXPECT_EQ(program.numRanks, 4u);
}

TEST(Compiler, Names) {
  EXPECT_EQ(targetNames(),
            (std::vector<std::string>{"cpu-ucx", "cpu-local", "cuda-ucx", "cuda-nccl", "cuda-peer",
                                      "hip-ucx", "hip-rccl", "hip-peer"}));
  std::vector<std::string> passes = passNames();
  EXPECT_NE(std::find(passes.begin(), passes.end(), "convert-fusion-to-hostir"), passes.end());
  EXPECT_EQ(version().substr(0, 7), "tandem ");
}

/// Every pass but those without which nothing can be translated may be left out: the result is a
/// program or an error.
TEST(Compiler, PassesLeftOut) {
  for (const std::string &pass : passNames()) {
    CompileOptions options = forRanks(2, 4);
    options.disabledPasses = {pass};
    CompileResult result = compileText(kGather, options);
    EXPECT_TRUE(result.ok || !result.errorText().empty()) << pass;
    if (pass == "fusion-verify" || pass == "canonicalize" || pass == "cse" ||
        pass == "hostir-localize-buffers" || pass == "hostir-verify") {
      EXPECT_TRUE(result.ok) << pass << ": " << result.errorText();
    }
  }
}

} // namespace
