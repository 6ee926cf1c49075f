//===- Profiler.cpp - ranges that a profiler shows ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Profiler.h"

// A header of the CUDA toolkit; it opens the profiler's library by itself.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_HAVE_NVTX 1
#endif

namespace tandem::gpu {

#if TANDEM_HAVE_NVTX

namespace {

nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t made = nvtxDomainCreateA("tandem");
  return made;
}

} // namespace

ProfilerRange::ProfilerRange(const char *name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}
ProfilerRange::~ProfilerRange() { nvtxDomainRangePop(domain()); }

#else

ProfilerRange::ProfilerRange(const char *) {}
ProfilerRange::~ProfilerRange() = default;

#endif

} // namespace tandem::gpu
