//===- main.cpp - compiles and runs a fusion, in C++17 ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// main [RANKS]: on two ranks, or as many as given, which have to be those of the program. With
// exceptions and RTTI, which LLVM does without.
//
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <cstdlib>
#include <exception>
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

/// Destroys a handle of the C API.
struct Destroy {
  void operator()(tandem_local_world *world) const { tandem_local_world_destroy(world); }
  void operator()(tandem_context *context) const { tandem_context_destroy(context); }
  void operator()(tandem_program *program) const { tandem_program_destroy(program); }
  void operator()(tandem_instance *instance) const { tandem_instance_destroy(instance); }
};
template <typename T> using Handle = std::unique_ptr<T, Destroy>;

/// `context`: that of the call; its message says why.
void check(tandem_code code, const tandem_context *context = nullptr) {
  if (code != TANDEM_OK)
    throw std::runtime_error(std::string(tandem_code_name(code)) +
                             (context ? std::string(": ") + tandem_last_error(context) : ""));
}

Handle<tandem_context> makeContext(const tandem_context_options &options) {
  tandem_context *made = nullptr;
  tandem_code code = tandem_context_create(&options, &made);
  Handle<tandem_context> context(made); // also after an error, for its message
  check(code, made);
  return context;
}

/// What this rank has gathered.
std::vector<float> gather(const std::string &bytes, tandem_local_world *world, uint32_t rank) {
  // They outlive the context: after an error it may still use them.
  std::vector<float> mine(3, static_cast<float>(rank + 1)), all(6);
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.channels = "local";
  options.local_world = world;
  options.local_world_rank = rank;
  Handle<tandem_context> owner = makeContext(options);
  tandem_context *context = owner.get();
  tandem_program *loaded = nullptr;
  check(tandem_program_load_memory(context, bytes.data(), bytes.size(), &loaded), context);
  Handle<tandem_program> program(loaded);
  tandem_instance *prepared = nullptr;
  check(tandem_prepare(context, loaded, &prepared), context);
  Handle<tandem_instance> instance(prepared);
  void *data[] = {mine.data(), all.data()};
  uint64_t bytes_of[] = {mine.size() * sizeof(float), all.size() * sizeof(float)};
  tandem_run_options run{};
  run.struct_size = sizeof run;
  run.data = data;
  run.bytes = bytes_of;
  check(tandem_enqueue(prepared, &run), context);
  check(tandem_wait(prepared), context);
  return all;
}

/// What each rank has gathered. Throws the errors of all ranks, once all have ended.
std::vector<std::vector<float>> gatherAll(const std::string &bytes, uint32_t ranks) {
  tandem_local_world *made = nullptr;
  check(tandem_local_world_create(ranks, /*timeout_ms=*/30000, &made));
  Handle<tandem_local_world> world(made);
  std::vector<std::vector<float>> found(ranks);
  std::vector<std::exception_ptr> errors(ranks); // one that leaves a thread would end the process
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        found[rank] = gather(bytes, made, rank);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  std::string messages;
  for (const std::exception_ptr &error : errors)
    try {
      if (error)
        std::rethrow_exception(error);
    } catch (const std::exception &failure) {
      messages += (messages.empty() ? "" : "\n") + std::string(failure.what());
    }
  if (!messages.empty())
    throw std::runtime_error(messages);
  return found;
}

} // namespace

int main(int argc, char **argv) {
  try {
    compile("func.func @broken(");
    return 1;
  } catch (const std::exception &error) {
    if (!dynamic_cast<const CompileError *>(&error) || typeid(error) != typeid(CompileError))
      return 1;
    std::printf("%s\n", error.what());
  }

  try {
    uint32_t ranks = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 2;
    for (const std::vector<float> &all : gatherAll(compile(kFusion), ranks))
      if (all != std::vector<float>{1, 1, 1, 2, 2, 2})
        return 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::printf("gathered with %s\n", tandem_runtime_version_string());
}
