//===- FamilyTest.cpp - programs for a varying extent -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Family.h"

#include "tandem-c/Compiler.h"
#include "tandem/Program/Program.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

using namespace tandem;
using namespace tandem::compiler;

namespace {

const char *const kFamilyText = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#whole = #fusion.axes<#tp, [-, -]>
func.func @layer(%x: tensor<?x8xf32, #rows> {fusion.name = "x"}, %w: tensor<8x6xf32, #whole> {fusion.name = "w"})
    -> (tensor<?x6xf32, #rows> {fusion.name = "y"}, tensor<8xf32, #fusion.axes<#tp, [-]>> {fusion.name = "s"}) {
  %e = math.exp %x : tensor<?x8xf32, #rows>
  %y = fusion.matmul %e, %w : tensor<?x8xf32, #rows>, tensor<8x6xf32, #whole> -> tensor<?x6xf32, #rows>
  %s = fusion.reduce sum %e dims [0] : tensor<?x8xf32, #rows> -> tensor<8xf32, #fusion.axes<#tp, [-]>>
  return %y, %s : tensor<?x6xf32, #rows>, tensor<8xf32, #fusion.axes<#tp, [-]>>
}
)mlir";

std::set<int64_t> allSteps(const FamilySteps &steps) {
  std::set<int64_t> found;
  for (int64_t extent = 0; extent <= steps.bound; ++extent) {
    int64_t step = steps.roundUp(extent);
    EXPECT_GE(step, extent);
    EXPECT_EQ(steps.roundUp(step), step);
    found.insert(step);
  }
  return found;
}

TEST(Family, Steps) {
  EXPECT_EQ(allSteps({8192, 64, 4}).size(), 24u);
  EXPECT_EQ(allSteps({1000, 64, 2}), (std::set<int64_t>{64, 128, 192, 256, 384, 512, 768, 1000}));
  EXPECT_EQ(allSteps({10, 4, 1}), (std::set<int64_t>{4, 8, 10}));
  EXPECT_EQ(allSteps({100, 64, 4, 40}), (std::set<int64_t>{40, 80, 100}));
  EXPECT_EQ(allSteps({1, 64, 4}), (std::set<int64_t>{1}));
  // Beyond perDoubling * unit a run computes at most a quarter more.
  FamilySteps steps{8192, 64, 4};
  for (int64_t extent = 256; extent <= 8192; ++extent)
    EXPECT_LE(steps.roundUp(extent) * 4, extent * 5) << extent;
}

TEST(Family, FewPrograms) {
  ModuleCompiler compiler(kFamilyText);
  ProgramFamily family(compiler, {}, {40, 8, 2});
  std::set<std::shared_ptr<const CompileResult>> programs;
  for (int64_t extent = 0; extent <= 40; ++extent) {
    auto compiled = family.program(extent);
    ASSERT_TRUE(compiled->ok) << compiled->errorText();
    programs.insert(compiled);
  }
  // 8, 16, 24, 32, 40
  EXPECT_EQ(programs.size(), 5u);
  EXPECT_EQ(compiler.statistics().compiled, 5u);
}

TEST(Family, CompilesAll) {
  ModuleCompiler compiler(kFamilyText);
  ProgramFamily family(compiler, {}, {40, 8, 2});
  auto last = family.compileAll(3);
  ASSERT_TRUE(last->ok) << last->errorText();
  EXPECT_EQ(compiler.statistics().compiled, 5u);
  EXPECT_EQ(family.program(40), last);
  family.program(1);
  EXPECT_EQ(compiler.statistics().compiled, 5u);
  EXPECT_FALSE(ProgramFamily(compiler, {}, {0}).compileAll()->ok);
  ModuleCompiler wrong("func.func @f(");
  EXPECT_FALSE(ProgramFamily(wrong, {}, {40, 8, 2}).compileAll(2)->ok);
}

TEST(Family, ArgumentsOfAnExtent) {
  ModuleCompiler compiler(kFamilyText);
  auto compiled = ProgramFamily(compiler, {}, {16, 8, 2}).program(13);
  ASSERT_TRUE(compiled->ok) << compiled->errorText();
  auto file = ProgramFile::fromMemory(compiled->output);
  ASSERT_TRUE(file) << file.status().message();
  auto last = (*file)->rankProgram(3);
  ASSERT_TRUE(last) << last.status().message();
  EXPECT_EQ(boundOf(**last), 16);
  auto arguments = atExtent(*last, 13)->arguments();
  ASSERT_EQ(arguments.size(), 5u); // x, w, the mask, y, s
  EXPECT_EQ(arguments[0].shape, (std::vector<int64_t>{13, 8}));
  EXPECT_EQ(arguments[0].localShape, (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(arguments[1].localShape, (std::vector<int64_t>{8, 6}));
  EXPECT_TRUE(arguments[2].isMask);
  EXPECT_EQ(arguments[3].localShape, (std::vector<int64_t>{1, 6}));
  EXPECT_EQ(atExtent(*last, 13)->shards()[0].offset, 12 * 8);
  EXPECT_EQ(atExtent(*last, 5)->arguments()[0].localShape, (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(atExtent(*last, 0)->shards()[0].numElements(), 0);
}

/// An MLP of which the quickest schedules change with the number of tokens.
const char *const kMlp = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 8]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#whole = #fusion.axes<#tp, [-, -]>
func.func @mlp(%x: tensor<?x8192xbf16, #rows>, %a: tensor<8192x28672xbf16, #columns>, %b: tensor<28672x8192xbf16, #rows>)
    -> tensor<?x8192xbf16, #rows> {
  %g = fusion.reshard %x : tensor<?x8192xbf16, #rows> -> tensor<?x8192xbf16, #whole>
  %h = fusion.matmul %g, %a : tensor<?x8192xbf16, #whole>, tensor<8192x28672xbf16, #columns> -> tensor<?x28672xbf16, #columns>
  %y = fusion.matmul %h, %b : tensor<?x28672xbf16, #columns>, tensor<28672x8192xbf16, #rows> -> tensor<?x8192xbf16, #rows>
  return %y : tensor<?x8192xbf16, #rows>
}
)mlir";

TEST(Family, SearchesFewSteps) {
  CompileOptions options;
  options.target = "cuda-peer";
  options.machine = TANDEM_MACHINES "/h200x8.json";
  options.reference = false;
  const FamilySteps steps{2048, 64, 2};
  const std::vector<int64_t> sizes = steps.list();
  EXPECT_EQ(sizes, (std::vector<int64_t>{64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048}));
  ModuleCompiler compiler(kMlp);
  ProgramFamily family(compiler, options, steps);
  std::vector<std::shared_ptr<const CompileResult>> programs;
  for (int64_t size : sizes) {
    programs.push_back(family.program(size));
    ASSERT_TRUE(*programs.back()) << programs.back()->errorText();
    ASSERT_EQ(programs.back()->loops.size(), 2u);
    bool searches = size == 64 || size == 256 || size == 1024 || size == 2048;
    for (const Certificate::Loop &loop : programs.back()->loops)
      EXPECT_EQ(loop.candidates.size() > 3, searches) << size << ": " << loop.what;
  }
  EXPECT_NE(programs.front()->loops[0].what, programs.back()->loops[0].what);
  EXPECT_EQ(compiler.statistics().compiled, sizes.size());
  // A program depends neither on the calls before, nor on where the others come from.
  std::string folder = std::filesystem::temp_directory_path() / "tandem-family-XXXXXX";
  CompilerSettings settings;
  settings.directory = ::mkdtemp(folder.data());
  for (bool fromDisk : {false, true}) {
    ModuleCompiler other(kMlp, settings);
    ProgramFamily again(other, options, steps);
    for (size_t i = sizes.size(); i-- > 0;)
      EXPECT_EQ(again.program(sizes[i])->output, programs[i]->output) << sizes[i];
    EXPECT_EQ(other.statistics().compiled, fromDisk ? 0 : sizes.size());
  }
  std::filesystem::remove_all(folder);
}

TEST(Family, Errors) {
  ModuleCompiler compiler(kFamilyText);
  EXPECT_EQ(ProgramFamily(compiler, {}, {16}).program(17)->errorText(),
            "error: expected an extent of 0 to 16, found 17");
  EXPECT_EQ(ProgramFamily(compiler, {}, {16, 0}).program(1)->errorText(),
            "error: expected a bound, unit and number of steps of at least 1, found 16, 0 and 4");
  CompileOptions known;
  known.shapes = {{"x", {8, 8}}};
  EXPECT_NE(ProgramFamily(compiler, known, {16})
                .program(1)
                ->errorText()
                .find("expected an argument with a `?` extent"),
            std::string::npos);
}

TEST(Family, CApi) {
  tandem_module_compiler *compiler =
      tandem_module_compiler_create(kFamilyText, std::strlen(kFamilyText), nullptr);
  tandem_family_options options = {};
  options.struct_size = sizeof options;
  options.bound = 40;
  options.unit = 8;
  tandem_family *family = tandem_family_create(compiler, nullptr, &options);
  EXPECT_EQ(tandem_family_step(family, 9), 16);
  EXPECT_EQ(tandem_family_step(family, 41), -1);
  EXPECT_EQ(tandem_round_up_extent(9, &options), 16);
  EXPECT_EQ(tandem_round_up_extent(41, &options), 48); // without a bound
  EXPECT_EQ(tandem_round_up_extent(-1, &options), -1);
  tandem_compilation *compilation = tandem_family_program(family, 9);
  EXPECT_TRUE(tandem_compilation_ok(compilation));
  tandem_compilation_destroy(compilation);
  compilation = tandem_family_program(family, -1);
  EXPECT_FALSE(tandem_compilation_ok(compilation));
  tandem_compilation_destroy(compilation);
  compilation = tandem_family_compile_all(family, 2);
  EXPECT_TRUE(tandem_compilation_ok(compilation));
  tandem_compilation_destroy(compilation);
  tandem_family_destroy(family);
  tandem_module_compiler_destroy(compiler);
}

} // namespace
