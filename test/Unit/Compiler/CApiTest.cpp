//===- CApiTest.cpp - the compiler's C API ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Compiler.h"
#include "tandem/Compiler/Compiler.h"
#include "tandem/Program/Program.h"

#include <cstring>
#include <gtest/gtest.h>

namespace {

const char *const kText = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = ?]>
func.func @gather(%a: tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<?x4xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reshard %a : tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x4xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<?x4xf32, #fusion.axes<#tp, [stream, -]>>
}
)mlir";

namespace {

/// Options of kText on 3 devices, and the sizes that they point to.
struct Sizes {
  tandem_mesh_size mesh = {sizeof(tandem_mesh_size), "x", 3};
  int64_t extents[2] = {6, 4};
  tandem_argument_shape shape = {sizeof(tandem_argument_shape), "arg0", extents, 2};
  tandem_compile_options options = {};

  Sizes() {
    options.struct_size = sizeof options;
    options.mesh = &mesh;
    options.num_mesh = 1;
    options.shapes = &shape;
    options.num_shapes = 1;
  }
  Sizes(const Sizes &) = delete;
};

} // namespace

TEST(CompilerCApi, TextThatIsNull) {
  Sizes sizes;
  auto expectRefused = [](tandem_compilation *compilation) {
    EXPECT_FALSE(tandem_compilation_ok(compilation));
    tandem_diagnostic why{};
    why.struct_size = sizeof why;
    ASSERT_TRUE(tandem_compilation_diagnostic(compilation, 0, &why));
    EXPECT_STREQ(why.message, "text: expected 5 bytes, found a null pointer");
    tandem_compilation_destroy(compilation);
  };
  expectRefused(tandem_compile(nullptr, 5, nullptr, &sizes.options));
  tandem_module_compiler *compiler = tandem_module_compiler_create(nullptr, 5, nullptr);
  expectRefused(tandem_module_compile(compiler, &sizes.options));
  tandem_module_compiler_destroy(compiler);
  // No text is one without functions.
  tandem_compilation *empty = tandem_compile(nullptr, 0, nullptr, &sizes.options);
  EXPECT_FALSE(tandem_compilation_ok(empty));
  tandem_compilation_destroy(empty);
}

TEST(CompilerCApi, SameBytesAsFromCpp) {
  Sizes sizes;
  tandem_compile_options &options = sizes.options;
  options.entry = "@gather";
  options.target = "cpu-local";
  tandem_compilation *compilation = tandem_compile(kText, std::strlen(kText), nullptr, &options);
  ASSERT_NE(compilation, nullptr);
  EXPECT_TRUE(tandem_compilation_ok(compilation));
  size_t size = 0;
  const void *bytes = tandem_compilation_bytes(compilation, &size);
  tandem::compiler::CompileOptions same;
  same.mesh = {{"x", 3}};
  same.shapes = {{"arg0", {6, 4}}};
  same.target = "cpu-local";
  EXPECT_EQ(std::string(static_cast<const char *>(bytes), size),
            tandem::compiler::compileText(kText, same).output);
  tandem_compilation_destroy(compilation);
}

TEST(CompilerCApi, Certify) {
  Sizes sizes;
  sizes.options.certify = 1;
  tandem_compilation *compilation =
      tandem_compile(kText, std::strlen(kText), nullptr, &sizes.options);
  ASSERT_TRUE(tandem_compilation_ok(compilation));
  size_t size = 0;
  const void *bytes = tandem_compilation_bytes(compilation, &size);
  auto file = tandem::ProgramFile::fromMemory({static_cast<const char *>(bytes), size});
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->requireProof().ok());
  tandem_compilation_destroy(compilation);

  sizes.options.one_rank = 1;
  compilation = tandem_compile(kText, std::strlen(kText), nullptr, &sizes.options);
  EXPECT_FALSE(tandem_compilation_ok(compilation));
  tandem_diagnostic diagnostic{};
  diagnostic.struct_size = sizeof diagnostic;
  ASSERT_TRUE(tandem_compilation_diagnostic(compilation, 0, &diagnostic));
  EXPECT_STREQ(diagnostic.message, "a certificate is of all ranks: rank 0 alone has none");
  tandem_compilation_destroy(compilation);
}

TEST(CompilerCApi, Machine) {
  Sizes sizes;
  tandem_compile_options &options = sizes.options;
  tandem::compiler::CompileOptions same;
  same.mesh = {{"x", 3}};
  same.shapes = {{"arg0", {6, 4}}};
  same.machine = "h200x8";
  options.machine = "h200x8";
  tandem_compilation *compilation = tandem_compile(kText, std::strlen(kText), nullptr, &options);
  EXPECT_TRUE(tandem_compilation_ok(compilation));
  size_t size = 0;
  const void *bytes = tandem_compilation_bytes(compilation, &size);
  EXPECT_EQ(std::string(static_cast<const char *>(bytes), size),
            tandem::compiler::compileText(kText, same).output);
  std::string loops = tandem_compilation_loops(compilation);
  for (const char *part : {"\"signature\":\"", "\"source\":\"cost\"", "\"candidates\":[{"})
    EXPECT_NE(loops.find(part), std::string::npos) << loops;
  tandem_compilation_destroy(compilation);

  options.machine = "no-such-machine";
  compilation = tandem_compile(kText, std::strlen(kText), nullptr, &options);
  EXPECT_FALSE(tandem_compilation_ok(compilation));
  tandem_diagnostic diagnostic{};
  diagnostic.struct_size = sizeof diagnostic;
  ASSERT_TRUE(tandem_compilation_diagnostic(compilation, 0, &diagnostic));
  EXPECT_NE(std::string(diagnostic.message).find("no-such-machine"), std::string::npos)
      << diagnostic.message;
  EXPECT_EQ(tandem_compilation_num_diagnostics(compilation), 1u);
  tandem_compilation_destroy(compilation);
}

TEST(CompilerCApi, Diagnostics) {
  // No sizes; and options of a caller that knows of nothing but the first field.
  tandem_compile_options options = {};
  options.struct_size = sizeof(size_t);
  options.target = "not looked at";
  for (const tandem_compile_options *given :
       {(const tandem_compile_options *)nullptr, (const tandem_compile_options *)&options}) {
    tandem_compilation *compilation = tandem_compile(kText, std::strlen(kText), "f.mlir", given);
    ASSERT_NE(compilation, nullptr);
    EXPECT_FALSE(tandem_compilation_ok(compilation));
    size_t size = 1;
    EXPECT_EQ(tandem_compilation_bytes(compilation, &size), nullptr);
    EXPECT_EQ(size, 0u);
    size_t count = tandem_compilation_num_diagnostics(compilation);
    ASSERT_GE(count, 1u);
    tandem_diagnostic diagnostic{};
    diagnostic.struct_size = sizeof diagnostic;
    ASSERT_TRUE(tandem_compilation_diagnostic(compilation, 0, &diagnostic));
    EXPECT_EQ(diagnostic.severity, TANDEM_ERROR);
    EXPECT_STREQ(diagnostic.file, "f.mlir");
    EXPECT_EQ(diagnostic.line, 3u) << diagnostic.message;
    EXPECT_FALSE(tandem_compilation_diagnostic(compilation, count, &diagnostic));
    tandem_compilation_destroy(compilation);
  }
}

TEST(CompilerCApi, ModuleCompiler) {
  tandem_module_options settings = {};
  settings.struct_size = sizeof settings;
  settings.name = "f.mlir";
  settings.max_programs = 1;
  tandem_module_compiler *compiler =
      tandem_module_compiler_create(kText, std::strlen(kText), &settings);
  ASSERT_NE(compiler, nullptr);
  Sizes sizes;
  tandem_compile_options &options = sizes.options;
  tandem_compilation *first = tandem_module_compile(compiler, &options);
  tandem_compilation *again = tandem_module_compile(compiler, &options);
  sizes.extents[0] = 9;
  tandem_compilation *larger = tandem_module_compile(compiler, &options);
  sizes.extents[1] = 7; // the module says 4
  tandem_compilation *wrong = tandem_module_compile(compiler, &options);
  tandem_cache_statistics counts{};
  counts.struct_size = sizeof counts;
  tandem_module_compiler_statistics(compiler, &counts);
  EXPECT_EQ(counts.hits, 1u);
  EXPECT_EQ(counts.compiled, 3u);
  EXPECT_EQ(counts.failed, 1u);
  EXPECT_EQ(counts.evicted, 1u);
  EXPECT_EQ(counts.programs, 1u);
  tandem_module_compiler_destroy(compiler);

  // They outlive the compiler and the limit.
  size_t size = 0, sameSize = 0, largerSize = 0;
  const void *bytes = tandem_compilation_bytes(first, &size);
  EXPECT_NE(bytes, nullptr);
  EXPECT_EQ(tandem_compilation_bytes(again, &sameSize), bytes);
  EXPECT_EQ(size, sameSize);
  EXPECT_NE(tandem_compilation_bytes(larger, &largerSize), bytes);
  EXPECT_FALSE(tandem_compilation_ok(wrong));
  tandem_diagnostic diagnostic{};
  diagnostic.struct_size = sizeof diagnostic;
  ASSERT_TRUE(tandem_compilation_diagnostic(wrong, 0, &diagnostic));
  EXPECT_STREQ(diagnostic.file, "f.mlir");
  for (tandem_compilation *compilation : {first, again, larger, wrong})
    tandem_compilation_destroy(compilation);
}

TEST(CompilerCApi, StructSizes) {
  auto expectRefused = [](const tandem_compile_options &options, const char *text) {
    tandem_compilation *compilation = tandem_compile(kText, std::strlen(kText), nullptr, &options);
    ASSERT_NE(compilation, nullptr);
    EXPECT_FALSE(tandem_compilation_ok(compilation));
    tandem_diagnostic diagnostic{};
    EXPECT_FALSE(tandem_compilation_diagnostic(compilation, 0, &diagnostic));
    EXPECT_EQ(diagnostic.message, nullptr);
    diagnostic.struct_size = offsetof(tandem_diagnostic, file); // an older caller
    diagnostic.line = 77;
    ASSERT_TRUE(tandem_compilation_diagnostic(compilation, 0, &diagnostic));
    EXPECT_NE(std::string(diagnostic.message).find(text), std::string::npos) << diagnostic.message;
    EXPECT_EQ(diagnostic.line, 77u);
    tandem_compilation_destroy(compilation);
  };
  Sizes sizes;
  sizes.mesh.struct_size = 0;
  expectRefused(sizes.options, "tandem_mesh_size: struct_size: expected");
  sizes.mesh.struct_size = sizeof sizes.mesh;
  sizes.shape.struct_size = 1;
  expectRefused(sizes.options, "tandem_argument_shape: struct_size: expected");
  sizes.shape.struct_size = sizeof sizes.shape;
  sizes.options.struct_size = 0;
  expectRefused(sizes.options, "tandem_compile_options: struct_size: expected");
  EXPECT_EQ(tandem_compiler_version(), uint32_t(TANDEM_VERSION));
  EXPECT_STREQ(tandem_compiler_version_string(), TANDEM_VERSION_STRING);
}

} // namespace
