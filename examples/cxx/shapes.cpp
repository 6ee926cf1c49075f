//===- shapes.cpp - one program for each number of rows ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a fusion from text, then runs it on four ranks, which are threads here: each brings its
// rows of x, and all get the whole product x * w. The number of rows is known at run time only: the
// fusion says `?`, and each number is compiled once. With processes instead of threads, give
// tandem_context_options a `launch` (tandem_job_launch) and the channel "ucx".
//
//===----------------------------------------------------------------------===//

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <tandem-c/Compiler.h>
#include <tandem-c/Runtime.h>
#include <thread>
#include <vector>

namespace {

constexpr int kRanks = 4, kInner = 16, kColumns = 12;

// x is split by rows over the mesh axis "x"; the result is computed slice by slice, each as soon as
// its rows have come.
constexpr std::string_view kFusion = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = ?]>
func.func @gather_matmul(
    %x: tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %w: tensor<16x12xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"})
    -> (tensor<?x12xf32, #fusion.axes<#tp, [stream("x"), -]>> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w
      : tensor<?x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x12xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<?x12xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %y : tensor<?x12xf32, #fusion.axes<#tp, [stream("x"), -]>>
}
)mlir";

float xAt(int row, int k) { return 0.01f * static_cast<float>((7 * row + 3 * k) % 23 - 11); }
float wAt(int k, int column) { return 0.1f * static_cast<float>((5 * k + column) % 17 - 8); }

/// What one rank does with its `rows` rows of x. Empty, or what went wrong.
std::string runRank(const void *program, size_t size, tandem_local_world *world, uint32_t rank,
                    int rows) {
  tandem_context_options options = {};
  options.struct_size = sizeof options;
  options.device = "cpu";
  options.channels = "local";
  options.local_world = world;
  options.local_world_rank = rank;
  tandem_context *context = nullptr;
  tandem_program *loaded = nullptr;
  tandem_instance *instance = nullptr;
  std::vector<float> x, w, y(kRanks * rows * kColumns);
  for (int i = 0; i < rows * kInner; ++i)
    x.push_back(xAt(static_cast<int>(rank) * rows + i / kInner, i % kInner));
  for (int i = 0; i < kInner * kColumns; ++i)
    w.push_back(wAt(i / kColumns, i % kColumns));

  tandem_code code = tandem_context_create(&options, &context);
  if (code == TANDEM_OK)
    code = tandem_program_load_memory(context, program, size, &loaded);
  if (code == TANDEM_OK)
    code = tandem_prepare(context, loaded, &instance);
  // In the order of the function's arguments and results.
  void *data[] = {x.data(), w.data(), y.data()};
  uint64_t bytes[] = {x.size() * sizeof(float), w.size() * sizeof(float), y.size() * sizeof(float)};
  tandem_run_options binding = {};
  binding.struct_size = sizeof binding;
  binding.data = data;
  binding.bytes = bytes;
  for (int run = 0; code == TANDEM_OK && run < 3; ++run) // as often as wanted
    code = tandem_enqueue(instance, &binding);
  if (code == TANDEM_OK)
    code = tandem_wait(instance);

  std::string error = code == TANDEM_OK ? "" : tandem_last_error(context);
  tandem_instance_destroy(instance);
  tandem_program_destroy(loaded);
  tandem_context_destroy(context);
  for (int i = 0; error.empty() && i < kRanks * rows * kColumns; ++i) {
    float expected = 0;
    for (int k = 0; k < kInner; ++k)
      expected += xAt(i / kColumns, k) * wAt(k, i % kColumns);
    if (!(std::fabs(y[i] - expected) < 1e-5f))
      error = "element " + std::to_string(i) + " is " + std::to_string(y[i]) + ", expected " +
              std::to_string(expected);
  }
  return error;
}

/// All ranks, with the program for this number of rows.
bool runAll(tandem_module_compiler *compiler, int rows) {
  tandem_mesh_size mesh{sizeof mesh, "x", kRanks};
  tandem_compile_options options{};
  options.struct_size = sizeof options;
  options.mesh = &mesh;
  options.num_mesh = 1;
  options.target = "cpu-local";
  // [docs: shapes]
  const int64_t extents[] = {int64_t(kRanks) * rows, kInner};
  tandem_argument_shape shape{sizeof shape, "x", extents, 2}; // x: tensor<?x16xf32>
  options.shapes = &shape;
  options.num_shapes = 1;
  // [docs: end]
  std::unique_ptr<tandem_compilation, void (*)(tandem_compilation *)> compilation(
      tandem_module_compile(compiler, &options), tandem_compilation_destroy);
  tandem_diagnostic found{};
  found.struct_size = sizeof found;
  for (size_t i = 0; tandem_compilation_diagnostic(compilation.get(), i, &found); ++i)
    std::fprintf(stderr, "%s:%u:%u: %s\n", found.file, found.line, found.column, found.message);
  size_t size = 0;
  const void *bytes = tandem_compilation_bytes(compilation.get(), &size);
  if (!bytes)
    return false;

  tandem_local_world *world = nullptr;
  if (tandem_local_world_create(kRanks, /*timeout_ms=*/30000, &world) != TANDEM_OK)
    return false;
  std::vector<std::string> errors(kRanks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] { errors[rank] = runRank(bytes, size, world, rank, rows); });
  for (std::thread &thread : threads)
    thread.join();
  tandem_local_world_destroy(world);
  for (int rank = 0; rank < kRanks; ++rank)
    if (!errors[rank].empty()) {
      std::fprintf(stderr, "rank %d: %s\n", rank, errors[rank].c_str());
      return false;
    }
  std::printf("%d ranks computed the same product of %d rows each\n", kRanks, rows);
  return true;
}

} // namespace

int main() {
  tandem_module_options options{};
  options.struct_size = sizeof options;
  options.name = "gather_matmul.mlir";
  tandem_module_compiler *compiler =
      tandem_module_compiler_create(kFusion.data(), kFusion.size(), &options);
  bool ok = true;
  for (int rows : {8, 3, 8})
    ok = ok && runAll(compiler, rows);
  tandem_cache_statistics counts{};
  counts.struct_size = sizeof counts;
  tandem_module_compiler_statistics(compiler, &counts);
  tandem_module_compiler_destroy(compiler);
  std::printf("compiled %llu programs, used one again %llu times\n",
              static_cast<unsigned long long>(counts.compiled),
              static_cast<unsigned long long>(counts.hits));
  return ok ? 0 : 1;
}
