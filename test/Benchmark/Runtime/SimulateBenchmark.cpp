//===- SimulateBenchmark.cpp - what simulating costs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"

#include "tandem/Replay/Simulate.h"

#include <benchmark/benchmark.h>
#include <numeric>

using namespace tandem;
using namespace tandem::test;

namespace {

/// allgather-matmul-p2p: every rank exchanges with each other on four streams in turn, and
/// multiplies what has come. About 4 commands for each pair of ranks.
std::string exchange(uint32_t ranks) {
  ProgramSpec spec(ranks);
  spec.name = "exchange";
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0U);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    rank.numStreams = 5;
    rank.channel(all);
    auto matrix = [&](int64_t rows, int64_t columns) {
      return rank.view(rank.arena(static_cast<uint64_t>(rows * columns) * 2), DType::BF16,
                       {rows, columns});
    };
    uint32_t own = matrix(256, 512), weight = matrix(512, 512), out = matrix(256, 512),
             slots[] = {matrix(256, 512), matrix(256, 512), matrix(256, 512), matrix(256, 512)};
    for (uint32_t i = 1; i < ranks; ++i) {
      auto stream = static_cast<uint16_t>(1 + i % 4);
      rank.group(stream, 0, 2);
      rank.recv(stream, 0, slots[i % 4], (r + i) % ranks, 0);
      rank.send(stream, 0, own, (r + ranks - i) % ranks, 0);
      rank.add(sp::CommandKind::matmul, stream, {out, slots[i % 4], weight});
    }
  }
  return spec.encode();
}

/// Errors name the file.
Expected<machine::Machine> pod() {
  return machine::Machine::load(std::string(TANDEM_MACHINES) + "/dgx-h100-pod.json");
}

Expected<std::shared_ptr<const replay::World>> load(const std::string &bytes) {
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(bytes));
  return replay::World::load(*file);
}

void simulateExchange(benchmark::State &state) {
  auto world = load(exchange(static_cast<uint32_t>(state.range(0))));
  if (!world)
    return state.SkipWithError(world.status().message().c_str());
  auto machine = pod();
  if (!machine)
    return state.SkipWithError(machine.status().message().c_str());
  for (auto _ : state) {
    auto result = simulate::simulate(**world, *machine);
    if (!result)
      return state.SkipWithError(result.status().message().c_str());
    benchmark::DoNotOptimize(result);
  }
  state.counters["time/command"] = benchmark::Counter(
      static_cast<double>((*world)->commands.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(simulateExchange)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

void drawExchange(benchmark::State &state) {
  auto draw = [&]() -> Expected<timeline::Timeline> {
    TANDEM_ASSIGN_OR_RETURN(auto world, load(exchange(static_cast<uint32_t>(state.range(0)))));
    TANDEM_ASSIGN_OR_RETURN(machine::Machine machine, pod());
    TANDEM_ASSIGN_OR_RETURN(simulate::Result result, simulate::simulate(*world, machine));
    return makeTimeline(*world, result, "benchmark", world->numRanks());
  };
  auto timeline = draw();
  if (!timeline)
    return state.SkipWithError(timeline.status().message().c_str());
  for (auto _ : state)
    benchmark::DoNotOptimize(timeline::svg({*timeline}));
}
BENCHMARK(drawExchange)->ArgName("ranks")->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

} // namespace
