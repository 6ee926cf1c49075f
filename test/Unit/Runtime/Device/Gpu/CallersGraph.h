//===- CallersGraph.h - graphs of the caller with runs in them --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_CALLERSGRAPH_H
#define TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_CALLERSGRAPH_H

#include "FakeGpu.h"

#include "Driver.h"

#include <cuda.h>
#include <dlfcn.h>
#include <memory>
#include <thread>

namespace tandem::test {

inline constexpr int64_t kCount = 16;

/// Each rank puts x to the next one, which copies it to y. The space is free again when that is
/// signalled, on another stream than the put's.
inline ProgramSpec capturedRing(uint32_t ranks) {
  ProgramSpec spec(ranks);
  uint32_t x = spec.stacked("x", false, DType::F32, {kCount});
  uint32_t y = spec.stacked("y", true, DType::F32, {kCount});
  std::vector<uint32_t> all;
  for (uint32_t r = 0; r < ranks; ++r)
    all.push_back(r);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t next = (r + 1) % ranks;
    uint32_t from = rank.view(rank.argument(x, kCount * 4), DType::F32, {kCount});
    uint32_t to = rank.view(rank.argument(y, kCount * 4), DType::F32, {kCount});
    uint32_t space = rank.view(rank.symmetric(kCount * 4), DType::F32, {kCount});
    uint16_t channel = rank.channel(all, OneSided);
    rank.slots = {1};
    rank.sync(1, 0);
    rank.put(1, channel, space, from, next);
    rank.signal(1, channel, next, 0, 1, true);
    rank.waitSignal(0, channel, 0, 1);
    rank.copy(0, to, space);
    rank.sync(0, 1);
  }
  return spec;
}

/// The caller's side: a stream and a graph of its own, by the vendor's functions.
class Caller {
public:
  static Expected<std::unique_ptr<Caller>> make(uint32_t gpu) {
    auto caller = std::make_unique<Caller>();
    TANDEM_ASSIGN_OR_RETURN(caller->driver, gpu::kCuda.open(gpu));
    TANDEM_RETURN_IF_ERROR(caller->driver->createStream(&caller->stream, StreamPriority::Normal));
    return caller;
  }
  ~Caller() {
    if (executable)
      driver->destroyExecutable(executable).ignore();
    if (graph)
      driver->destroyGraph(graph).ignore();
    driver->destroyStream(stream).ignore();
  }

  /// Captures in CUDA's default mode, which calls of other threads may end.
  Status capture(const std::function<Status()> &body) {
    static void *library = ::dlopen(TANDEM_FAKE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    auto begin = reinterpret_cast<decltype(&cuStreamBeginCapture)>(
        ::dlsym(library, "cuStreamBeginCapture_v2"));
    if (begin(static_cast<CUstream>(stream), CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS)
      return Status(Code::Internal, "no capture");
    Status status = body();
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // for a watchdog to look
    TANDEM_RETURN_IF_ERROR(driver->endCapture(stream, &graph));
    TANDEM_RETURN_IF_ERROR(status);
    return driver->instantiate(graph, &executable);
  }
  Status replay() { return driver->launchGraph(executable, stream); }
  Status finish() {
    for (bool done = false; !done;)
      TANDEM_RETURN_IF_ERROR(driver->queryStream(stream, &done));
    return Status();
  }

  std::unique_ptr<gpu::Driver> driver;
  gpu::StreamHandle stream = nullptr;
  gpu::GraphHandle graph = nullptr;
  gpu::ExecutableHandle executable = nullptr;
};

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_RUNTIME_DEVICE_GPU_CALLERSGRAPH_H
