//===- FamilyBenchmark.cpp - a trace of token counts ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 1,000 random numbers of tokens of an MLP on 8 GPUs: how many programs a family has, what they
// compute too much, and how compile time compares with the simulated runs. docs/families.md.
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Family.h"
#include "tandem/Program/Program.h"
#include "tandem/Replay/Machine.h"
#include "tandem/Replay/Simulate.h"

#include <benchmark/benchmark.h>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <random>
#include <unistd.h>

using namespace tandem;
using namespace tandem::compiler;

namespace {

const char *const kMlp = R"mlir(
#tp = #tandem.mesh<"tp", ["x" = 8]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#whole = #fusion.axes<#tp, [-, -]>
func.func @mlp(%x: tensor<?x8192xbf16, #rows>, %a: tensor<8192x28672xbf16, #columns>, %b: tensor<28672x8192xbf16, #rows>)
    -> tensor<?x8192xbf16, #rows> {
  %g = fusion.reshard %x : tensor<?x8192xbf16, #rows> -> tensor<?x8192xbf16, #whole>
  %h = fusion.matmul %g, %a : tensor<?x8192xbf16, #whole>, tensor<8192x28672xbf16, #columns> -> tensor<?x28672xbf16, #columns>
  %t = math.tanh %h : tensor<?x28672xbf16, #columns>
  %y = fusion.matmul %t, %b : tensor<?x28672xbf16, #columns>, tensor<28672x8192xbf16, #rows> -> tensor<?x8192xbf16, #rows>
  return %y : tensor<?x8192xbf16, #rows>
}
)mlir";

constexpr int64_t kBound = 8192;
constexpr int kLayers = 80;

CompileOptions makeOptions() {
  CompileOptions options;
  options.target = "cuda-peer";
  options.machine = TANDEM_MACHINES "/h200x8.json";
  options.reference = false;
  return options;
}

/// Uniform, or uniform in its logarithm.
std::vector<int64_t> makeTrace(bool isLog) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> part(0, 1);
  std::vector<int64_t> trace(1000);
  for (int64_t &tokens : trace) {
    double u = part(random);
    tokens = isLog ? static_cast<int64_t>(std::exp(u * std::log(double(kBound))))
                   : 1 + static_cast<int64_t>(u * kBound);
    tokens = std::min(tokens, kBound);
  }
  return trace;
}

double secondsOf(const CompileResult &compiled, const machine::Machine &machine) {
  auto file = ProgramFile::fromMemory(compiled.output);
  auto world = file ? replay::World::load(**file)
                    : Expected<std::shared_ptr<const replay::World>>(file.status());
  auto run =
      world ? simulate::simulate(**world, machine) : Expected<simulate::Result>(world.status());
  return run ? run->seconds : NAN;
}

/// Of this thread: other work of the machine does not count.
double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// What family.program takes in total. `directory`: of the cache on disk.
double compile(const std::vector<int64_t> &trace, unsigned perDoubling,
               const std::string &directory) {
  CompilerSettings settings;
  settings.directory = directory;
  double begin = cpuSeconds();
  ModuleCompiler compiler(kMlp, settings);
  ProgramFamily family(compiler, makeOptions(), {kBound, 64, perDoubling});
  for (int64_t tokens : trace)
    benchmark::DoNotOptimize(family.program(tokens));
  return cpuSeconds() - begin;
}

/// Arguments: programs per doubling; whether the trace is uniform in its logarithm.
void familyOfATrace(benchmark::State &state) {
  auto machine = machine::Machine::load(makeOptions().machine);
  if (!machine) {
    state.SkipWithError(machine.status().message().c_str());
    return;
  }
  std::vector<int64_t> trace = makeTrace(state.range(1) != 0);
  for (auto _ : state) {
    auto perDoubling = static_cast<unsigned>(state.range(0));
    std::string folder =
        std::filesystem::temp_directory_path() / ("tandem-family-" + std::to_string(getpid()));
    double compiling = compile(trace, perDoubling, folder),
           again = compile(trace, perDoubling, folder), running = 0;
    std::filesystem::remove_all(folder);
    ModuleCompiler compiler(kMlp);
    ProgramFamily family(compiler, makeOptions(), {kBound, 64, perDoubling});
    std::map<const CompileResult *, double> times;
    std::vector<double> each;
    for (int64_t tokens : trace) {
      auto compiled = family.program(tokens);
      if (!*compiled) {
        state.SkipWithError(compiled->errorText().c_str());
        return;
      }
      auto [time, isNew] = times.emplace(compiled.get(), 0);
      if (isNew)
        time->second = secondsOf(*compiled, *machine);
      each.push_back(time->second);
      running += time->second;
    }
    // Some of the counts with a program of their own.
    double exact = 0, same = 0;
    for (size_t i = 0; i < trace.size(); i += 25) {
      CompileOptions options = makeOptions();
      options.shapes = {{"arg0", {trace[i], 8192}}};
      exact += secondsOf(*compiler.compile(options), *machine);
      same += each[i];
    }
    state.counters["programs"] = static_cast<double>(times.size());
    state.counters["compiling_ms"] = compiling * 1e3;
    state.counters["from_disk_ms"] = again * 1e3;
    state.counters["running_ms"] = running * 1e3;
    state.counters["waste_%"] = (same / exact - 1) * 100;
    double model = running * kLayers;
    state.counters["compiling_%"] = compiling / (compiling + model) * 100;
    state.counters["from_disk_%"] = again / (again + model) * 100;
  }
}
BENCHMARK(familyOfATrace)
    ->ArgNames({"perDoubling", "log"})
    ->ArgsProduct({{1, 2, 4, 8}, {0, 1}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

} // namespace
