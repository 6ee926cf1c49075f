//===- main.cpp - compiles and runs a fusion, in C++17 ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With exceptions and RTTI, which LLVM does without.
//
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <tandem-c/Compiler.h>
#include <tandem-c/Runtime.h>
#include <thread>
#include <typeinfo>
#include <vector>

namespace {

const char *const kFusion = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#all = #fusion.axes<#tp, [-, -]>
func.func @gather(%a: tensor<2x3xf32, #rows>) -> tensor<2x3xf32, #all> {
  %b = fusion.reshard %a : tensor<2x3xf32, #rows> -> tensor<2x3xf32, #all>
  return %b : tensor<2x3xf32, #all>
}
)mlir";

struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string compile(const std::string &text) {
  tandem_mesh_size mesh{sizeof mesh, "x", 2};
  tandem_compile_options options{};
  options.struct_size = sizeof options;
  options.mesh = &mesh;
  options.num_mesh = 1;
  options.target = "cpu-local";
  std::unique_ptr<tandem_compilation, void (*)(tandem_compilation *)> compilation(
      tandem_compile(text.data(), text.size(), nullptr, &options), tandem_compilation_destroy);
  tandem_diagnostic first{};
  first.struct_size = sizeof first;
  if (!tandem_compilation_ok(compilation.get())) {
    tandem_compilation_diagnostic(compilation.get(), 0, &first);
    throw CompileError(std::string(first.file) + ":" + std::to_string(first.line) + ":" +
                       std::to_string(first.column) + ": " + first.message);
  }
  size_t size = 0;
  const void *bytes = tandem_compilation_bytes(compilation.get(), &size);
  return {static_cast<const char *>(bytes), size};
}

void check(tandem_code code) {
  if (code != TANDEM_OK)
    throw std::runtime_error(tandem_code_name(code));
}

/// What this rank has gathered.
std::vector<float> gather(const std::string &bytes, tandem_local_world *world, uint32_t rank) {
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.channels = "local";
  options.local_world = world;
  options.local_world_rank = rank;
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  std::vector<float> mine(3, static_cast<float>(rank + 1)), all(6);
  void *data[] = {mine.data(), all.data()};
  uint64_t bytes_of[] = {mine.size() * sizeof(float), all.size() * sizeof(float)};
  tandem_run_options run{};
  run.struct_size = sizeof run;
  run.data = data;
  run.bytes = bytes_of;
  check(tandem_context_create(&options, &context));
  check(tandem_program_load_memory(context, bytes.data(), bytes.size(), &program));
  check(tandem_prepare(context, program, &instance));
  check(tandem_enqueue(instance, &run));
  check(tandem_wait(instance));
  tandem_instance_destroy(instance);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
  return all;
}

} // namespace

int main() {
  try {
    compile("func.func @broken(");
    return 1;
  } catch (const std::exception &error) {
    if (!dynamic_cast<const CompileError *>(&error) || typeid(error) != typeid(CompileError))
      return 1;
    std::printf("%s\n", error.what());
  }

  std::string program = compile(kFusion);
  tandem_local_world *world = nullptr;
  check(tandem_local_world_create(2, /*timeout_ms=*/30000, &world));
  std::vector<float> found[2];
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] { found[rank] = gather(program, world, rank); });
  for (std::thread &rank : ranks)
    rank.join();
  tandem_local_world_destroy(world);
  for (const std::vector<float> &all : found)
    if (all != std::vector<float>{1, 1, 1, 2, 2, 2})
      return 1;
  std::printf("gathered with %s\n", tandem_runtime_version_string());
}
