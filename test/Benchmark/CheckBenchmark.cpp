//===- CheckBenchmark.cpp - how long a proof takes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"
#include "tandem/Compiler/Compiler.h"
#include "tandem/Replay/Check.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <map>

using namespace tandem;

namespace {

/// The bytes of allgather-matmul-p2p for so many ranks, compiled once.
const std::string &gatherMatmul(uint32_t ranks) {
  static std::map<uint32_t, std::string> made;
  std::string &bytes = made[ranks];
  if (bytes.empty()) {
    compiler::CompileOptions options;
    options.mesh = {{"x", ranks}};
    options.reference = false;
    options.verifyOutput = false;
    bytes =
        compiler::compileFile(std::string(TANDEM_PROGRAMS) + "/allgather-matmul-p2p.mlir", options)
            .output;
  }
  return bytes;
}

/// Every rank puts a piece into the symmetric memory of each other one, with a signal, and copies
/// what comes to the result.
const std::string &push(uint32_t ranks) {
  static std::map<uint32_t, std::string> made;
  std::string &bytes = made[ranks];
  if (!bytes.empty())
    return bytes;
  test::ProgramSpec spec(ranks);
  constexpr uint64_t kPiece = 64;
  spec.stacked("x", false, DType::F32, {16});
  spec.stacked("y", true, DType::F32, {ranks, 16});
  std::vector<uint32_t> group(ranks);
  for (uint32_t r = 0; r < ranks; ++r)
    group[r] = r;
  for (uint32_t r = 0; r < ranks; ++r) {
    test::RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel(group);
    uint32_t x = rank.view(rank.argument(0, kPiece), DType::F32, {16});
    uint32_t result = rank.argument(1, kPiece * ranks), space = rank.symmetric(kPiece * ranks);
    std::vector<uint32_t> rows, places;
    for (uint32_t i = 0; i < ranks; ++i) {
      rows.push_back(rank.view(result, DType::F32, {16}, kPiece * i));
      places.push_back(rank.view(space, DType::F32, {16}, kPiece * i));
    }
    rank.slots.assign(ranks, 1);
    rank.sync(1, 0);
    rank.sync(2, 0);
    for (uint32_t i = 1; i < ranks; ++i) {
      rank.put(1, channel, places[r], x, (r + i) % ranks);
      rank.signal(1, channel, (r + i) % ranks, r, 1);
    }
    rank.copy(2, rows[r], x);
    for (uint32_t i = 1; i < ranks; ++i) {
      uint32_t from = (r + ranks - i) % ranks;
      rank.waitSignal(2, channel, from, 1);
      rank.copy(2, rows[from], places[from]);
    }
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  bytes = spec.encode();
  return bytes;
}

/// Loading (verified, as a runtime would), matching and all proofs.
void checkBytes(benchmark::State &state, const std::string &bytes,
                const check::CheckOptions &options = {}) {
  uint64_t commands = 0;
  for (auto _ : state) {
    auto file = ProgramFile::fromMemory(bytes);
    auto world = file ? replay::World::load(**file)
                      : Expected<std::shared_ptr<const replay::World>>(file.status());
    if (!world) {
      state.SkipWithError(world.status().message().c_str());
      return;
    }
    check::Report report = check::check(**world, options);
    commands = report.numCommands;
    if (report.hasErrors() || !report.limits.empty())
      state.SkipWithError(toText(**world, report).c_str());
  }
  state.counters["commands"] = static_cast<double>(commands);
  state.counters["time/command"] = benchmark::Counter(
      static_cast<double>(commands),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void checkGatherMatmul(benchmark::State &state) {
  checkBytes(state, gatherMatmul(static_cast<uint32_t>(state.range(0))));
}
BENCHMARK(checkGatherMatmul)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void checkPush(benchmark::State &state) {
  checkBytes(state, push(static_cast<uint32_t>(state.range(0))));
}
BENCHMARK(checkPush)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// A matmul on slices that peers push, so many per owner, on 64 ranks: many commands per signal
/// slot.
void checkSlices(benchmark::State &state) {
  constexpr int64_t kRanks = 64;
  int64_t slices = state.range(0), rows = kRanks * slices * 16;
  std::string owned = "#fusion.axes<#tp, [didx(\"x\"), -]>",
              columns = "#fusion.axes<#tp, [-, didx(\"x\")]>";
  std::string streamed =
      fmt::format("#fusion.axes<#tp, [stream(\"x\") * stream({}), didx(\"x\")]>", slices);
  std::string types =
      fmt::format("tensor<{0}x64xbf16, {1}>, tensor<64x1024xbf16, {2}>", rows, owned, columns);
  std::string result = fmt::format("tensor<{}x1024xbf16, {}>", rows, streamed);
  std::string text = fmt::format(
      "#tp = #tandem.mesh<\"tp\", [\"x\" = {0}]>\n"
      "func.func @slices(%x: tensor<{1}x64xbf16, {2}>, %w: tensor<64x1024xbf16, {3}>) -> {4} {{\n"
      "  %y = fusion.matmul %x, %w {{fusion.schedule = #fusion.schedule<push>}} : {5} -> {4}\n"
      "  return %y : {4}\n}}\n",
      kRanks, rows, owned, columns, result, types);
  compiler::CompileOptions options;
  options.reference = false;
  options.verifyOutput = false;
  compiler::CompileResult compiled = compiler::compileText(text, options);
  if (!compiled)
    return state.SkipWithError(compiled.errorText().c_str());
  checkBytes(state, compiled.output);
  state.SetComplexityN(slices);
}
BENCHMARK(checkSlices)
    ->ArgName("slices")
    ->RangeMultiplier(2)
    ->Range(16, 512)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Complexity(benchmark::oN);

/// On 2 hardware queues, with lint.
void checkQueuesAndLint(benchmark::State &state) {
  check::CheckOptions options;
  options.queues = 2;
  options.lint = true;
  checkBytes(state, gatherMatmul(static_cast<uint32_t>(state.range(0))), options);
}
BENCHMARK(checkQueuesAndLint)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

} // namespace
