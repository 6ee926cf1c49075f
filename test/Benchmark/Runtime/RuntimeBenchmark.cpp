//===- RuntimeBenchmark.cpp - what running costs beside the work ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"

#include "tandem/Runtime/Context.h"
#include "tandem/Runtime/HostOps.h"

#include "tandem/Program/stream_program_generated.h"

#include <benchmark/benchmark.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// `steps` times: hand over from stream to stream, copy, matmul, accumulate: four commands and two
/// events each.
std::string manyCommands(int64_t steps) {
  ProgramSpec spec(1);
  spec.name = "many";
  RankSpec &rank = spec.ranks[0];
  uint32_t a = rank.view(rank.arena(256), DType::F32, {8, 8}),
           b = rank.view(rank.arena(256), DType::F32, {8, 8});
  uint32_t c = rank.view(rank.arena(256), DType::F32, {8, 8});
  for (int64_t i = 0; i < steps; ++i) {
    auto stream = static_cast<uint16_t>(i % 4);
    rank.copy(stream, a, b);
    rank.add(sp::CommandKind::matmul, stream, {c, a, b});
    rank.add(sp::CommandKind::accumulate, stream, {b, c});
    rank.sync(static_cast<uint16_t>((i + 1) % 4), stream);
  }
  return spec.encode();
}

struct Prepared {
  std::unique_ptr<Context> context;
  InstancePtr instance;
  int64_t commands = 0;
  Prepared(const std::string &bytes, std::unique_ptr<Device> device) {
    ContextOptions options;
    options.device = std::move(device);
    options.bootstrap = createSelfBootstrap();
    auto made = Context::create(std::move(options));
    auto file = ProgramFile::fromMemory(bytes);
    if (!made || !file)
      return;
    context = std::move(*made);
    auto program = (*file)->rankProgram(0);
    if (!program)
      return;
    commands = static_cast<int64_t>((*program)->data().commands()->size());
    auto prepared = Instance::create(*context, *program);
    if (prepared)
      instance = std::move(*prepared);
  }
};

void runAll(benchmark::State &state, std::unique_ptr<Device> device) {
  Prepared prepared(manyCommands(state.range(0)), std::move(device));
  if (!prepared.instance) {
    state.SkipWithError("the program could not be prepared");
    return;
  }
  for (auto _ : state)
    if (!prepared.instance->run().ok()) {
      state.SkipWithError("a run failed");
      return;
    }
  state.SetItemsProcessed(state.iterations() * prepared.commands);
  state.counters["time/command"] = benchmark::Counter(
      static_cast<double>(prepared.commands),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// The executor alone: the device accepts everything and does nothing.
void dispatchNull(benchmark::State &state) { runAll(state, createNullDevice()); }
BENCHMARK(dispatchNull)->Arg(20)->Arg(200)->Arg(20000);

/// A run of a layer as an embedder calls it: three arguments are bound, then four commands are
/// enqueued. Goal: 2 us.
void bindAndRunNull(benchmark::State &state) {
  constexpr int64_t kSize = 8;
  constexpr uint64_t kBytes = kSize * kSize * 4;
  ProgramSpec spec(1);
  spec.name = "layer";
  RankSpec &rank = spec.ranks[0];
  uint32_t views[3];
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t argument = spec.stacked(std::string(1, "xwy"[i]), i == 2, DType::F32, {kSize, kSize});
    views[i] = rank.view(rank.argument(argument, kBytes), DType::F32, {kSize, kSize});
  }
  rank.sync(1, 0);
  rank.add(sp::CommandKind::matmul, 1, {views[2], views[0], views[1]});
  rank.sync(0, 1);
  rank.add(sp::CommandKind::accumulate, 0, {views[2], views[0]});
  Prepared prepared(spec.encode(), createNullDevice());
  if (!prepared.instance)
    return state.SkipWithError("the program could not be prepared");
  std::vector<std::byte> memory(3 * kBytes);
  Layout layout = Layout::dense(DType::F32, {kSize, kSize});
  for (auto _ : state) {
    Status status;
    for (uint32_t i = 0; i < 3 && status.ok(); ++i)
      status = prepared.instance->bind(i, {memory.data() + i * kBytes, layout}, kBytes);
    if (status.ok())
      status = prepared.instance->run();
    if (!status.ok())
      return state.SkipWithError(status.message().c_str());
  }
}
BENCHMARK(bindAndRunNull);

/// Worker threads, queues and tiny work beside it.
void dispatchCpu(benchmark::State &state) { runAll(state, createCpuDevice()); }
BENCHMARK(dispatchCpu)->Arg(200);

/// Hash, FlatBuffers and full verification.
void load(benchmark::State &state) {
  std::string bytes = manyCommands(state.range(0));
  for (auto _ : state) {
    auto file = ProgramFile::fromMemory(bytes);
    auto program = (*file)->rankProgram(0);
    if (!program) {
      state.SkipWithError("the program could not be loaded");
      return;
    }
    benchmark::DoNotOptimize(program);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * 5);
}
BENCHMARK(load)->Arg(200)->Arg(20000);

void copyStrided(benchmark::State &state) {
  constexpr int64_t n = 1024;
  std::vector<float> a(n * n), b(n * n);
  Layout dense = Layout::dense(DType::F32, {n, n}), other = dense;
  if (state.range(0))
    std::swap(other.strides[0], other.strides[1]);
  CopyPlan plan(dense, other);
  for (auto _ : state)
    plan.run(a.data(), b.data());
  state.SetBytesProcessed(state.iterations() * n * n * 4);
}
BENCHMARK(copyStrided)->ArgName("transposed")->Arg(0)->Arg(1);

void matmul(benchmark::State &state, DType type) {
  int64_t n = state.range(0);
  auto device = createCpuDevice();
  Layout layout = Layout::dense(type, {n, n});
  std::vector<uint32_t> a(static_cast<size_t>(n * n)), b(a), c(a);
  void *pointers[] = {c.data(), a.data(), b.data()};
  MatmulDesc desc;
  desc.out = {0, layout};
  desc.a = {1, layout};
  desc.b = {2, layout};
  auto operation = device->prepareMatmul(desc);
  auto stream = device->createStream(StreamPriority::Normal);
  if (!operation) {
    state.SkipWithError(operation.status().message().c_str());
    return;
  }
  Frame frame;
  frame.pointers = pointers;
  for (auto _ : state) {
    if (!(*operation)->enqueue(**stream, frame).ok() || !(*stream)->synchronize().ok())
      return state.SkipWithError("a matmul failed");
  }
  state.counters["flop/s"] = benchmark::Counter(2.0 * static_cast<double>(n * n * n),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(matmul, f32, DType::F32)->Arg(512)->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(matmul, bf16, DType::BF16)->Arg(512)->Arg(1024)->UseRealTime();
BENCHMARK_CAPTURE(matmul, f16, DType::F16)->Arg(512)->Arg(1024)->UseRealTime();

} // namespace
