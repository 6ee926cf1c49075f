//===- ModuleCompilerTest.cpp - one module, many sizes ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/ModuleCompiler.h"

#include "tandem/Replay/Machine.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <thread>

using namespace tandem::compiler;

namespace {

const char *const kModuleText = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
func.func @layer(%x: tensor<?x?xf32, #rows> {fusion.name = "x"}, %w: tensor<?x8xf32, #columns> {fusion.name = "w"})
    -> tensor<?x8xf32, #columns> {
  %y = fusion.matmul %x, %w : tensor<?x?xf32, #rows>, tensor<?x8xf32, #columns> -> tensor<?x8xf32, #columns>
  return %y : tensor<?x8xf32, #columns>
}
)mlir";

CompileOptions sizes(int64_t ranks, int64_t rows, int64_t inner) {
  CompileOptions options;
  options.mesh = {{"x", ranks}};
  options.shapes = {{"x", {rows, inner}}, {"w", {inner, 8}}};
  return options;
}

TEST(ModuleCompiler, ProgramsByShape) {
  ModuleCompiler compiler(kModuleText);
  auto small = compiler.compile(sizes(2, 4, 6));
  ASSERT_TRUE(small->ok) << small->errorText();
  EXPECT_EQ(small->output, compileText(kModuleText, sizes(2, 4, 6)).output);
  auto large = compiler.compile(sizes(4, 32, 6));
  EXPECT_EQ(large->output, compileText(kModuleText, sizes(4, 32, 6)).output);
  EXPECT_NE(small->output, large->output);
  // The order in which sizes are named is no part of the question.
  CompileOptions turned = sizes(2, 4, 6);
  std::swap(turned.shapes[0], turned.shapes[1]);
  EXPECT_EQ(compiler.compile(turned), small);
  CacheStatistics counts = compiler.statistics();
  EXPECT_EQ(counts.compiled, 2u);
  EXPECT_EQ(counts.hits, 1u);
  EXPECT_EQ(counts.programs, 2u);
}

TEST(ModuleCompiler, EveryOptionCounts) {
  ModuleCompiler compiler(kModuleText);
  const CompileOptions base = sizes(2, 4, 6);
  std::vector<CompileOptions> all(12, base);
  all[1].entry = "layer";
  all[2].target = "cpu-local";
  all[3].rank = 0;
  all[4].rank = 1;
  all[5].numRanks = 3;
  all[6].workers = 2;
  all[7].gather = "after";
  all[8].reference = false;
  all[9].disabledPasses = {"hostir-localize-buffers"};
  all[10].output = Output::HostIR;
  all[11].maxCommands = 1000;
  for (const CompileOptions &options : all) {
    auto result = compiler.compile(options);
    EXPECT_TRUE(result->ok) << result->errorText();
    EXPECT_EQ(result->output, compileText(kModuleText, options).output);
  }
  EXPECT_EQ(compiler.statistics().compiled, all.size());
  EXPECT_EQ(compiler.statistics().hits, 0u);
}

TEST(ModuleCompiler, MoreThanAProgramIsNotKept) {
  ModuleCompiler compiler(kModuleText);
  CompileOptions options = sizes(2, 4, 6);
  options.log = true;
  EXPECT_FALSE(compiler.compile(options)->diagnostics.empty());
  EXPECT_FALSE(compiler.compile(options)->diagnostics.empty());
  EXPECT_EQ(compiler.statistics().bypassed, 2u);
  EXPECT_EQ(compiler.statistics().programs, 0u);
}

TEST(ModuleCompiler, TextThatCannotBeRead) {
  CompilerSettings settings;
  settings.name = "layer.mlir";
  ModuleCompiler compiler("func.func @f(", settings);
  for (int i = 0; i < 2; ++i) {
    auto result = compiler.compile();
    EXPECT_FALSE(result->ok);
    EXPECT_NE(result->errorText().find("layer.mlir:1:"), std::string::npos) << result->errorText();
  }
}

// A wrong shape names the argument, the dimension, what was found and what would do.
TEST(ModuleCompiler, WrongShapes) {
  ModuleCompiler compiler(kModuleText);
  auto errorOf = [&](const CompileOptions &options) {
    auto result = compiler.compile(options);
    EXPECT_FALSE(result->ok);
    return result->errorText();
  };
  auto contains = [](const std::string &text, const char *part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  CompileOptions options = sizes(2, 4, 6);
  options.shapes[1].second = {6, 9};
  contains(errorOf(options), "argument 1 (\"w\"): expected extent 8 in dimension 1");
  contains(errorOf(options), "found 9");
  options.shapes[1].second = {6};
  contains(errorOf(options), "argument 1 (\"w\"): expected a shape of rank 2");
  contains(errorOf(options), "found rank 1");
  options = sizes(2, 4, 6);
  options.shapes.pop_back();
  contains(errorOf(options),
           "expected a known extent in dimension 0 of argument 1 (\"w\"), found '?'");
  options = sizes(2, 4, 6);
  options.shapes[0].first = "z";
  contains(errorOf(options), "option 'shape', found 'z'");
  EXPECT_EQ(compiler.statistics().programs, 0u);
}

TEST(ModuleCompiler, ManyThreads) {
  ModuleCompiler compiler(kModuleText);
  std::vector<std::shared_ptr<const CompileResult>> results(12);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      results[i] = compiler.compile(sizes(2, static_cast<int64_t>(4 + 2 * (i % 3)), 6));
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(results[i]->ok);
    EXPECT_EQ(results[i], results[i % 3]);
  }
  EXPECT_EQ(compiler.statistics().compiled, 3u);
  EXPECT_EQ(compiler.statistics().hits + compiler.statistics().joined, 9u);
}

TEST(ModuleCompiler, MoreCompilesThanAContextIsGoodFor) {
  CompilerSettings settings;
  settings.limits.programs = 4;
  ModuleCompiler compiler(kModuleText, settings);
  for (int64_t i = 1; i <= 150; ++i)
    ASSERT_TRUE(compiler.compile(sizes(1, i, 2))->ok);
  EXPECT_EQ(compiler.statistics().evicted, 146u);
}

/// A folder for one test.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-cache-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path onlyFile() const {
    return std::filesystem::directory_iterator(path)->path();
  }
  std::filesystem::path path;
};

TEST(ModuleCompiler, ProgramsOutliveTheCompiler) {
  Folder folder;
  CompilerSettings settings;
  settings.directory = folder.path / "made";
  std::string bytes = ModuleCompiler(kModuleText, settings).compile(sizes(2, 4, 6))->output;
  ModuleCompiler again(kModuleText, settings);
  auto found = again.compile(sizes(2, 4, 6));
  EXPECT_EQ(found->output, bytes);
  EXPECT_EQ(found->numRanks, 2u);
  EXPECT_GT(found->numCommands, 0u);
  EXPECT_EQ(again.statistics().fromDisk, 1u);
  EXPECT_EQ(again.statistics().compiled, 0u);
  // Another text, other sizes.
  ModuleCompiler other(std::string(kModuleText) + "// changed\n", settings);
  EXPECT_TRUE(other.compile(sizes(2, 4, 6))->ok);
  EXPECT_EQ(other.statistics().fromDisk, 0u);
  EXPECT_TRUE(again.compile(sizes(2, 6, 6))->ok);
  EXPECT_EQ(again.statistics().compiled, 1u);
}

/// A copy of a machine file that Tandem ships.
static void writeMachine(const std::filesystem::path &path, const std::string &name) {
  std::stringstream text;
  text << std::ifstream(tandem::machine::pathOf(name)).rdbuf();
  std::ofstream(path, std::ios::trunc) << text.str();
}

TEST(ModuleCompiler, MachinesCountByWhatTheySay) {
  Folder folder, machines;
  std::string machine = (machines.path / "here.json").string();
  CompilerSettings settings;
  settings.directory = folder.path;
  CompileOptions options = sizes(2, 4, 6), none = options;
  options.machine = machine;
  // In one process and in the next, which finds the programs of this one in the folder.
  for (unsigned process = 0; process < 2; ++process) {
    ModuleCompiler compiler(kModuleText, settings);
    for (const char *name : {"cpu2", "h200x8", "cpu2"}) {
      writeMachine(machine, name);
      auto result = compiler.compile(options);
      ASSERT_TRUE(result->ok) << result->errorText();
      EXPECT_EQ(result->output, compileText(kModuleText, options).output);
    }
    EXPECT_TRUE(compiler.compile(none)->ok);
    CacheStatistics counts = compiler.statistics();
    EXPECT_EQ(counts.hits, 1u); // the second cpu2
    EXPECT_EQ(process == 0 ? counts.compiled : counts.fromDisk, 3u);
  }
  std::filesystem::remove(machine);
  ModuleCompiler compiler(kModuleText, settings);
  EXPECT_FALSE(compiler.compile(options)->ok);
}

TEST(ModuleCompiler, MachinesCountByWhatTheyExtend) {
  Folder machines;
  CompileOptions options = sizes(2, 4, 6);
  options.machine = (machines.path / "top.json").string();
  std::ofstream(options.machine) << R"({"extends": "base"})";
  ModuleCompiler compiler(kModuleText, {});
  for (const char *name : {"cpu2", "h200x8", "cpu2"}) {
    writeMachine(machines.path / "base.json", name);
    auto result = compiler.compile(options);
    ASSERT_TRUE(result->ok) << result->errorText();
    EXPECT_EQ(result->output, compileText(kModuleText, options).output);
  }
  EXPECT_EQ(compiler.statistics().compiled, 2u);
}

TEST(ModuleCompiler, DamagedFilesAreCompiledAnew) {
  Folder folder;
  CompilerSettings settings;
  settings.directory = folder.path;
  std::string bytes = ModuleCompiler(kModuleText, settings).compile(sizes(2, 4, 6))->output;
  std::filesystem::path file = folder.onlyFile();
  std::stringstream whole;
  whole << std::ifstream(file, std::ios::binary).rdbuf();
  std::string good = whole.str();
  std::string flipped = good;
  flipped[good.size() / 2] ^= 1;
  for (const std::string &damaged : {std::string(), good.substr(0, good.size() / 2), flipped,
                                     std::string("tandem-cache 1 "), good + "x"}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
    ModuleCompiler compiler(kModuleText, settings);
    EXPECT_EQ(compiler.compile(sizes(2, 4, 6))->output, bytes);
    EXPECT_EQ(compiler.statistics().compiled, 1u);
  }
  EXPECT_EQ(ModuleCompiler(kModuleText, settings).compile(sizes(2, 4, 6))->output, bytes);
}

TEST(ModuleCompiler, FolderThatCannotBeMade) {
  Folder folder;
  std::ofstream(folder.path / "file") << "in the way";
  CompilerSettings settings;
  settings.directory = folder.path / "file";
  EXPECT_TRUE(ModuleCompiler(kModuleText, settings).compile(sizes(2, 4, 6))->ok);
}

} // namespace
