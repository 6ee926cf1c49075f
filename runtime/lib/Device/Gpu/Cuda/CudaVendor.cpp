//===- CudaVendor.cpp - NVIDIA as a vendor of GPUs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaApi.h"

#include "tandem/Program/stream_program_generated.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_HAVE_NVTX 1
#endif

// Kernels.S
extern "C" const char tandemCudaKernels[], tandemCudaKernelsEnd[];

namespace tandem::gpu {

namespace {

std::string_view kernels() {
  return {tandemCudaKernels, static_cast<size_t>(tandemCudaKernelsEnd - tandemCudaKernels)};
}

// Ranges of NVTX, domain "tandem". Without a profiler (loaded from NVTX_INJECTION64_PATH) they cost
// the test of one pointer; with one, GPU work that the host issues meanwhile carries the range's
// name.
#if TANDEM_HAVE_NVTX
nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t made = nvtxDomainCreateA("tandem");
  return made;
}

void beginRange(const char *name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}
void endRange() { nvtxDomainRangePop(domain()); }
#else
void beginRange(const char *) {}
void endRange() {}
#endif

} // namespace

const Vendor kCuda{"cuda",
                   "CUDA",
                   countCudaDevices,
                   openCuda,
                   openCublas,
                   kernels,
                   static_cast<uint8_t>(sp::KernelFormat::ptx),
                   "compile it for a cuda target",
                   beginRange,
                   endRange};

} // namespace tandem::gpu
