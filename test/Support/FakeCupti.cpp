//===- FakeCupti.cpp - records of the nodes of the fake driver's graphs ---===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// TANDEM_CUPTI_LIBRARY names the library that this is part of. As the driver does, cuInit loads the
// library that CUDA_INJECTION64_PATH names.

#include "FakeCupti.h"

#if TANDEM_HAVE_CUPTI

#include <cstring>
#include <cupti.h>
#include <dlfcn.h>
#include <mutex>

namespace tandem::fake {

namespace {

/// Of all that is registered and done.
struct {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc give = nullptr;
  CUpti_BuffersCallbackCompleteFunc take = nullptr;
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
  default:
    return 0;
  }
}

template <typename T>
T recordOf(CUpti_ActivityKind kind, uint64_t begin, uint64_t end, uint32_t correlation) {
  T record{};
  record.kind = kind;
  record.start = begin;
  record.end = end;
  record.correlationId = correlation;
  return record;
}

/// Hands a record over in a buffer of its own.
template <typename T> void give(const T &record) {
  uint8_t *buffer = nullptr;
  size_t bytes = 0, most = 0;
  state.give(&buffer, &bytes, &most);
  if (!buffer || bytes < sizeof record)
    return;
  std::memcpy(buffer, &record, sizeof record);
  state.take(nullptr, 0, buffer, bytes, sizeof record);
}

void give(const GraphLaunch &launch, uint32_t correlation) {
  auto call = recordOf<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER, launch.begin, launch.end,
                                          correlation);
  call.cbid = CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch;
  give(call);
  uint64_t number = 0;
  auto complete = [&](auto record) {
    record.deviceId = static_cast<uint32_t>(launch.gpu - 1);
    record.graphId = 1;
    record.graphNodeId = ++number;
    give(record);
  };
  for (const NodeTime &node : launch.nodes)
    if (node.bytes) {
      auto copy = recordOf<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, node.begin, node.end,
                                                  correlation);
      copy.bytes = node.bytes;
      complete(copy);
    } else {
      auto kernel = recordOf<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                     node.begin, node.end, correlation);
      kernel.name = node.name.c_str();
      complete(kernel);
    }
}

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

using tandem::fake::state;

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  std::lock_guard<std::mutex> lock(state.mutex);
  state.give = give;
  state.take = take;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityFlushAll(uint32_t) {
  std::lock_guard<std::mutex> lock(state.mutex);
  uint32_t correlation = 0;
  for (const auto &launch : state.launches)
    tandem::fake::give(launch, ++correlation);
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
  return *dropped = 0, CUPTI_SUCCESS;
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
