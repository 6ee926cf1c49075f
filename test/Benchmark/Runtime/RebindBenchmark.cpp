//===- RebindBenchmark.cpp - host time of a run on a GPU, by its addresses ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times bind and enqueue, not the run. Goals: `eightSets` as `same`; `newAddresses` under 1.5 times
// `direct`. Without a GPU the benchmarks are skipped with the reason.
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/Gpu.h"

#include <benchmark/benchmark.h>
#include <chrono>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kSize = 32;
constexpr uint64_t kBytes = kSize * kSize * 4;
constexpr uint32_t kArguments = 3;

/// `steps` times on four streams: a product of the arguments, a sum, a copy, and a handover
/// from stream to stream.
std::string program(int64_t steps) {
  ProgramSpec spec(1);
  spec.name = "rebind";
  uint32_t x = spec.stacked("x", false, DType::F32, {kSize, kSize});
  uint32_t w = spec.stacked("w", false, DType::F32, {kSize, kSize});
  uint32_t y = spec.stacked("y", true, DType::F32, {kSize, kSize});
  RankSpec &rank = spec.ranks[0];
  auto matrix = [&](uint32_t buffer) { return rank.view(buffer, DType::F32, {kSize, kSize}); };
  uint32_t xv = matrix(rank.argument(x, kBytes)), wv = matrix(rank.argument(w, kBytes));
  uint32_t yv = matrix(rank.argument(y, kBytes)), z = matrix(rank.arena(kBytes));
  for (int64_t i = 0; i < steps; ++i) {
    auto stream = static_cast<uint16_t>(i % 4);
    rank.add(sp::CommandKind::matmul, stream, {z, xv, wv});
    rank.add(sp::CommandKind::accumulate, stream, {z, xv});
    rank.copy(stream, yv, z);
    rank.sync(static_cast<uint16_t>((i + 1) % 4), stream);
  }
  rank.sync(0, static_cast<uint16_t>(steps % 4));
  return spec.encode();
}

/// `sets`: how many sets of addresses take turns.
void enqueue(benchmark::State &state, size_t sets, bool graphs) {
  auto device = createGpuDevice("cuda:0", 0);
  if (!device)
    return state.SkipWithError(device.status().message().c_str());
  ContextOptions options;
  options.device = std::move(*device);
  options.bootstrap = createSelfBootstrap();
  options.graphs = graphs;
  auto context = Context::create(std::move(options));
  auto file = ProgramFile::fromMemory(program(state.range(0)));
  auto loaded = (*file)->rankProgram(0);
  if (!loaded)
    return state.SkipWithError(loaded.status().message().c_str());
  auto instance = Instance::create(**context, *loaded);
  if (!instance)
    return state.SkipWithError(instance.status().message().c_str());
  // Sets overlap: only their addresses matter.
  constexpr uint64_t kStep = 512;
  auto memory =
      (*context)->device().allocate(kArguments * (kBytes + sets * kStep), MemoryKind::Plain);
  if (!memory)
    return state.SkipWithError(memory.status().message().c_str());
  Layout layout = Layout::dense(DType::F32, {kSize, kSize});
  auto run = [&](size_t set) -> Status {
    for (uint32_t i = 0; i < kArguments; ++i) {
      auto *at = static_cast<std::byte *>((*memory)->data()) + i * (kBytes + sets * kStep);
      TANDEM_RETURN_IF_ERROR((*instance)->bind(i, {at + set * kStep, layout}, kBytes));
    }
    return (*instance)->enqueue();
  };
  size_t next = 0;
  Status status;
  for (size_t i = 0; i < 6 * 64 && status.ok(); ++i) { // both halves of each set, several times
    status = run(next++ / 2 % sets);
    if (status.ok())
      status = (*instance)->wait();
  }
  for (auto _ : state) {
    auto start = std::chrono::steady_clock::now();
    Status one = run(next++ / 2 % sets);
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (status.ok())
      status = one.ok() ? (*instance)->wait() : one;
  }
  if (!status.ok())
    state.SkipWithError(status.message().c_str());
}

constexpr size_t kNeverAgain = 20000; ///< sets: more than the cache remembers

void same(benchmark::State &state) { enqueue(state, 1, true); }
void eightSets(benchmark::State &state) { enqueue(state, 8, true); }
void newAddresses(benchmark::State &state) { enqueue(state, kNeverAgain, true); }
void direct(benchmark::State &state) { enqueue(state, 1, false); }
BENCHMARK(same)->Arg(8)->Arg(32)->UseManualTime();
BENCHMARK(eightSets)->Arg(8)->Arg(32)->UseManualTime();
BENCHMARK(newAddresses)->Arg(8)->Arg(32)->UseManualTime();
BENCHMARK(direct)->Arg(8)->Arg(32)->UseManualTime();

} // namespace
