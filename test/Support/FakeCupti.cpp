//===- FakeCupti.cpp - records of the nodes of the fake driver's graphs ---===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// TANDEM_CUPTI_LIBRARY names the library that this is part of. As the driver does, cuInit loads the
// library that CUDA_INJECTION64_PATH names.

#include "FakeCupti.h"
#include "FakeCuda.h"

#if TANDEM_HAVE_CUPTI

#include <cstring>
#include <cupti.h>
#include <dlfcn.h>
#include <mutex>
#include <set>

namespace tandem::fake {

namespace {

/// Of all that is registered and done.
struct {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc give = nullptr;
  CUpti_BuffersCallbackCompleteFunc take = nullptr;
  std::set<CUpti_ActivityKind> kinds;
  std::set<CUpti_CallbackId> calls;
  std::vector<GraphLaunch> launches;
} state;

/// 0: no such kind of record is written here.
size_t sizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
  case CUPTI_ACTIVITY_KIND_DRIVER:
    return sizeof(CUpti_ActivityAPI);
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    return sizeof(CUpti_ActivityKernel10);
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    return sizeof(CUpti_ActivityMemcpy6);
  case CUPTI_ACTIVITY_KIND_MEMCPY2:
    return sizeof(CUpti_ActivityMemcpyPtoP4);
  default:
    return 0;
  }
}

/// Fills buffers of the profiler with records.
class Writer {
public:
  ~Writer() { flush(); }

  void add(const GraphLaunch &launch, uint32_t correlation) {
    if (state.calls.count(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch)) {
      auto call = make<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER, launch.begin, launch.end);
      call.correlationId = correlation;
      call.cbid = CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch;
      add(call);
    }
    auto complete = [&](auto record, uint32_t graph) {
      record.correlationId = correlation;
      record.deviceId = static_cast<uint32_t>(launch.gpu - 1);
      record.graphId = graph;
      if (state.kinds.count(record.kind))
        add(record);
    };
    uint64_t copies = 0;
    for (const NodeTime &node : launch.nodes)
      if (node.bytes == 0) {
        auto kernel = make<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                   node.begin, node.end);
        kernel.name = node.name.c_str();
        complete(kernel, 1);
      } else if (++copies % 2) {
        auto copy =
            make<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, node.begin, node.end);
        copy.bytes = node.bytes;
        complete(copy, 1);
      } else {
        auto copy = make<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, node.begin, node.end);
        copy.bytes = node.bytes;
        complete(copy, 1);
      }
    auto other = make<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, launch.begin,
                                              launch.end);
    other.name = "of_no_graph";
    complete(other, 0);
  }

private:
  template <typename T> static T make(CUpti_ActivityKind kind, uint64_t begin, uint64_t end) {
    T record{};
    record.kind = kind;
    record.start = begin;
    record.end = end;
    return record;
  }
  template <typename T> void add(const T &record) {
    if (bytes - used < sizeof record)
      flush();
    size_t most = 0;
    if (!buffer)
      state.give(&buffer, &bytes, &most);
    if (!buffer || bytes < sizeof record)
      return;
    std::memcpy(buffer + used, &record, sizeof record);
    used += sizeof record;
  }
  void flush() {
    if (buffer)
      state.take(nullptr, 0, buffer, bytes, used);
    buffer = nullptr;
    bytes = used = 0;
  }

  uint8_t *buffer = nullptr;
  size_t bytes = 0, used = 0;
};

} // namespace

bool isProfiled() {
  std::lock_guard<std::mutex> lock(state.mutex);
  return state.give != nullptr;
}

void note(GraphLaunch launch) {
  std::lock_guard<std::mutex> lock(state.mutex);
  state.launches.push_back(std::move(launch));
}

void loadInjection() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char *path = std::getenv("CUDA_INJECTION64_PATH");
    void *library = path ? ::dlopen(path, RTLD_NOW) : nullptr;
    if (void *start = library ? ::dlsym(library, "InitializeInjection") : nullptr)
      reinterpret_cast<int (*)()>(start)();
  });
}

} // namespace tandem::fake

using tandem::fake::number;
using tandem::fake::state;

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  std::lock_guard<std::mutex> lock(state.mutex);
  state.give = give;
  state.take = take;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  std::lock_guard<std::mutex> lock(state.mutex);
  return state.kinds.insert(kind), CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  std::lock_guard<std::mutex> lock(state.mutex);
  return state.kinds.erase(kind), CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId call, uint8_t enable) {
  std::lock_guard<std::mutex> lock(state.mutex);
  if (enable && number("cupti-no-calls"))
    return CUPTI_ERROR_NOT_SUPPORTED;
  if (enable)
    state.calls.insert(call);
  else
    state.calls.erase(call);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  std::lock_guard<std::mutex> lock(state.mutex);
  uint32_t correlation = 0;
  {
    tandem::fake::Writer writer;
    for (const auto &launch : state.launches)
      writer.add(launch, ++correlation);
  }
  state.launches.clear();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
  size_t at = *record ? static_cast<size_t>(reinterpret_cast<uint8_t *>(*record) - buffer) +
                            tandem::fake::sizeOf((*record)->kind)
                      : 0;
  if (at >= valid)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity *>(buffer + at);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *dropped) {
  *dropped = static_cast<size_t>(number("cupti-dropped").exchange(0));
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char **text) {
  return *text = "the fake CUPTI refuses", CUPTI_SUCCESS;
}

} // extern "C"

#else

bool tandem::fake::isProfiled() { return false; }
void tandem::fake::note(GraphLaunch) {}
void tandem::fake::loadInjection() {}

#endif
