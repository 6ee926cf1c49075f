//===- CompileBenchmark.cpp - how long compiling takes ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Pricer.h"
#include "tandem/Compiler/ModuleCompiler.h"
#include "tandem/Compiler/Pipelines.h"
#include "tandem/Compiler/Registration.h"
#include "tandem/Target/StreamProgram/StreamProgram.h"

#include "mlir/Parser/Parser.h"

#include <benchmark/benchmark.h>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tandem;

namespace {

std::string readProgram(const std::string &name) {
  std::ifstream file(std::string(TANDEM_PROGRAMS) + "/" + name + ".mlir");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Counts commands and says how long one takes.
void report(benchmark::State &state, uint64_t commands) {
  state.counters["commands"] = static_cast<double>(commands);
  state.counters["time/command"] = benchmark::Counter(
      static_cast<double>(commands),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.SetComplexityN(static_cast<int64_t>(commands));
}

/// allgather-matmul-p2p from text to the bytes of a .tsp file, as tandem-compile does it (with all
/// checks), for all ranks.
void compileText(benchmark::State &state) {
  std::string text = readProgram("allgather-matmul-p2p");
  compiler::CompileOptions options;
  options.mesh = {{"x", state.range(0)}};
  options.verifyOutput = state.range(1);
  options.check = false;
  uint64_t commands = 0;
  for (auto _ : state) {
    compiler::CompileResult result = compiler::compileText(text, options);
    if (!result) {
      state.SkipWithError(result.errorText().c_str());
      return;
    }
    commands = result.numCommands;
    benchmark::DoNotOptimize(result.output.data());
  }
  report(state, commands);
}
BENCHMARK(compileText)
    ->ArgNames({"ranks", "verify"})
    ->ArgsProduct({{8, 16, 32, 64, 128, 256, 512}, {0}})
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);
BENCHMARK(compileText)
    ->Name("compileTextAndReadBack")
    ->ArgNames({"ranks", "verify"})
    ->ArgsProduct({{8, 512}, {1}})
    ->Unit(benchmark::kMillisecond);

/// A matmul on slices of a gathered operand, `slices` of each owner, that peers push.
std::string slicedGather(int64_t ranks, int64_t rows, int64_t slices,
                         const std::string &schedule = "push") {
  std::ostringstream text;
  auto x = [&](const char *axes) {
    return "tensor<" + std::to_string(ranks * slices * rows) + "x1024xbf16, #fusion.axes<#tp, [" +
           axes + ", -]>>";
  };
  std::string stream =
      "stream(\"x\")" + (slices > 1 ? " * stream(" + std::to_string(slices) + ")" : "");
  std::string weight =
      "tensor<1024x" + std::to_string(64 * ranks) + "xbf16, #fusion.axes<#tp, [-, didx(\"x\")]>>";
  std::string result = "tensor<" + std::to_string(ranks * slices * rows) + "x" +
                       std::to_string(64 * ranks) + "xbf16, #fusion.axes<#tp, [" + stream +
                       ", didx(\"x\")]>>";
  std::string gathered = x(stream.c_str()), owned = x("didx(\"x\")");
  text << "#tp = #tandem.mesh<\"tp\", [\"x\" = " << ranks << "]>\nfunc.func @sliced(%x: " << owned
       << ", %w: " << weight << ") -> " << result
       << " {\n  %g = fusion.reshard %x {schedule = #fusion.schedule<" << schedule
       << ">} : " << owned << " -> " << gathered << "\n  %h = fusion.matmul %g, %w : " << gathered
       << ", " << weight << " -> " << result << "\n  return %h : " << result << "\n}\n";
  return text.str();
}

/// The last step alone: a lowered program, to bytes.
void translate(benchmark::State &state) {
  mlir::DialectRegistry registry;
  tandem::registerTandemDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  compiler::CompileOptions options;
  options.mesh = {{"x", state.range(0)}};
  options.output = compiler::Output::HostIR;
  compiler::CompileResult lowered =
      compiler::compileText(readProgram("allgather-matmul-p2p"), options);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(lowered.output, &context);
  if (!lowered || !module) {
    state.SkipWithError(lowered.errorText().c_str());
    return;
  }
  tandem::StreamProgramStats stats;
  for (auto _ : state) {
    stats = tandem::StreamProgramStats();
    auto bytes = tandem::translateToStreamProgram(*module, "allgather_matmul_p2p", {}, &stats);
    if (mlir::failed(bytes)) {
      state.SkipWithError("translation failed");
      return;
    }
    benchmark::DoNotOptimize(bytes->data());
  }
  report(state, stats.commands);
}
BENCHMARK(translate)
    ->ArgName("ranks")
    ->RangeMultiplier(2)
    ->Range(8, 512)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

/// Layers of a tensor-parallel network on `ranks` devices: gather, matmul, matmul, reduce-scatter.
struct Layers {
  int64_t count, ranks = 4, tokens = 64, width = 64, hidden = 128;
  const char *type = "f32";

  std::string text() const {
    auto tensor = [&](int64_t rows, int64_t columns, const char *axes) {
      return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + type +
             ", #fusion.axes<#tp, [" + axes + "]>>";
    };
    std::string rows = tensor(tokens, width, "didx(\"x\"), -"),
                whole = tensor(tokens, width, "-, -"), up = tensor(width, hidden, "-, didx(\"x\")"),
                down = tensor(hidden, width, "didx(\"x\"), -"),
                inner = tensor(tokens, hidden, "-, didx(\"x\")"),
                partial = tensor(tokens, width, "-, -], partial = [\"x\"");
    std::ostringstream text;
    text << "#tp = #tandem.mesh<\"tp\", [\"x\" = " << ranks << "]>\nfunc.func @layers(%x0: " << rows
         << ", %a: " << up << ", %b: " << down << ") -> " << rows << " {\n";
    for (int64_t i = 0; i < count; ++i)
      text << "  %g" << i << " = fusion.reshard %x" << i << " : " << rows << " -> " << whole
           << "\n  %h" << i << " = fusion.matmul %g" << i << ", %a : " << whole << ", " << up
           << " -> " << inner << "\n  %p" << i << " = fusion.matmul %h" << i << ", %b : " << inner
           << ", " << down << " -> " << partial << "\n  %x" << i + 1 << " = fusion.reshard %p" << i
           << " : " << partial << " -> " << rows << "\n";
    text << "  return %x" << count << " : " << rows << "\n}\n";
    return text.str();
  }
};

/// From text to a stream program for 4 ranks.
void compileLayers(benchmark::State &state) {
  std::string text = Layers{state.range(0)}.text();
  compiler::CompileOptions options;
  options.target = "cpu-local";
  options.verifyOutput = options.check = false;
  uint64_t commands = 0;
  for (auto _ : state) {
    compiler::CompileResult result = compiler::compileText(text, options);
    if (!result) {
      state.SkipWithError(result.errorText().c_str());
      return;
    }
    commands = result.numCommands;
  }
  state.counters["commands"] = static_cast<double>(commands);
  state.SetComplexityN(state.range(0));
}
BENCHMARK(compileLayers)
    ->ArgName("layers")
    ->Arg(62)
    ->Arg(125)
    ->Arg(250)
    ->Arg(500)
    ->Arg(1000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

/// A layer of 1024 tokens from text to a stream program, with its proof or without. Each has
/// another name, since a process proves a program once.
void compileCheckedLayer(benchmark::State &state) {
  std::string text = Layers{1, state.range(0), 1024, 4096, 16384, "bf16"}.text();
  size_t at = text.find("@layers") + 1;
  compiler::CompileOptions options;
  options.target = "cuda-peer";
  options.check = state.range(1);
  unsigned number = 0;
  for (auto _ : state) {
    std::string named = text;
    named.replace(at, 6, "layer" + std::to_string(number++));
    compiler::CompileResult result = compiler::compileText(named, options);
    if (!result)
      return state.SkipWithError(result.errorText().c_str());
    benchmark::DoNotOptimize(result.output.data());
  }
}
BENCHMARK(compileCheckedLayer)
    ->ArgNames({"ranks", "check"})
    ->ArgsProduct({{2, 4, 8}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

void compileByPrice(benchmark::State &state, const Layers &layers, const char *machine) {
  std::string text = layers.text();
  compiler::CompileOptions options;
  options.target = "cuda-peer";
  options.machine = std::string(TANDEM_MACHINES "/") + machine + ".json";
  options.verifyOutput = options.check = false;
  for (auto _ : state) {
    compiler::CompileResult result = compiler::compileText(text, options);
    if (!result)
      return state.SkipWithError(result.errorText().c_str());
    benchmark::DoNotOptimize(result.output.data());
  }
}

/// By price on 8 GPUs: equal layers are decided once.
void compileLayersByPrice(benchmark::State &state) {
  compileByPrice(state, {state.range(0), 8, 8192, 8192, 28672, "bf16"}, "h200x8");
  state.SetComplexityN(state.range(0));
}
BENCHMARK(compileLayersByPrice)
    ->ArgName("layers")
    ->RangeMultiplier(2)
    ->Range(1, 128)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

/// One layer by price on more of them.
void compileLayerByPrice(benchmark::State &state) {
  compileByPrice(state, {1, state.range(0), 16384, 8192, 32768, "bf16"}, "dgx-h100-pod");
}
BENCHMARK(compileLayerByPrice)
    ->ArgName("ranks")
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond);

/// A gather by `push`, so many slices per owner, from text to a stream program for 64 ranks.
void compileSlices(benchmark::State &state) {
  std::string text = slicedGather(64, 16, state.range(0));
  compiler::CompileOptions options;
  options.target = "cpu-local";
  options.reference = false;
  options.verifyOutput = options.check = false;
  uint64_t commands = 0;
  for (auto _ : state) {
    compiler::CompileResult result = compiler::compileText(text, options);
    if (!result)
      return state.SkipWithError(result.errorText().c_str());
    commands = result.numCommands;
  }
  report(state, commands);
}
BENCHMARK(compileSlices)
    ->ArgName("slices")
    ->RangeMultiplier(2)
    ->Range(16, 512)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

/// One candidate: a matmul on slices that peers push, lowered and simulated. Each has other
/// extents, so that none is in the cache.
void priceCandidate(benchmark::State &state) {
  mlir::DialectRegistry registry;
  registerTandemDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  Pricer::Options options;
  options.machine = TANDEM_MACHINES "/dgx-h100-pod.json";
  options.ranks = state.range(0);
  std::string error;
  std::unique_ptr<Pricer> pricer = createPricer(&context, options, error);
  if (!pricer)
    return state.SkipWithError(error.c_str());
  int64_t rows = 64; // `exchange`: puts do not cross the pod's nodes
  for (auto _ : state) {
    state.PauseTiming();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        slicedGather(state.range(0), rows += 8, 1, "exchange"), &context);
    mlir::func::FuncOp func = *module->getOps<mlir::func::FuncOp>().begin();
    state.ResumeTiming();
    if (mlir::failed(pricer->price(func, Pricer::From::FormLoops)))
      return state.SkipWithError("the candidate cannot be lowered");
  }
}
BENCHMARK(priceCandidate)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond);

/// The MLP, forward and backward, for shapes that have been compiled before: what a step of
/// training pays for asking.
void moduleCompilerHit(benchmark::State &state) {
  compiler::ModuleCompiler compiler(readProgram("mlp"));
  compiler::CompileOptions options;
  options.mesh = {{"x", 8}};
  for (auto _ : state) {
    auto program = compiler.compile(options);
    if (!program->ok) {
      state.SkipWithError(program->errorText().c_str());
      return;
    }
    benchmark::DoNotOptimize(program->output.data());
  }
}
BENCHMARK(moduleCompilerHit);

/// The same, where nothing has been compiled for them: the module is parsed already, and the
/// program is read back.
void moduleCompilerCold(benchmark::State &state) {
  compiler::ModuleCompiler compiler(readProgram("mlp"));
  compiler::CompileOptions options;
  options.mesh = {{"x", state.range(0)}};
  uint64_t commands = 0;
  for (auto _ : state) {
    compiler.clear();
    commands = compiler.compile(options)->numCommands;
  }
  report(state, commands);
}
BENCHMARK(moduleCompilerCold)->ArgName("ranks")->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

/// The same from a folder of programs.
void moduleCompilerFromDisk(benchmark::State &state) {
  std::string directory = std::filesystem::temp_directory_path() / "tandem-benchmark-cache";
  compiler::CompilerSettings settings;
  settings.directory = directory;
  compiler::ModuleCompiler compiler(readProgram("mlp"), settings);
  compiler::CompileOptions options;
  options.mesh = {{"x", 8}};
  for (auto _ : state) {
    compiler.clear();
    benchmark::DoNotOptimize(compiler.compile(options)->output.data());
  }
  if (compiler.statistics().compiled > 1)
    state.SkipWithError("compiled again");
  std::filesystem::remove_all(directory);
}
BENCHMARK(moduleCompilerFromDisk)->Unit(benchmark::kMicrosecond);

} // namespace
