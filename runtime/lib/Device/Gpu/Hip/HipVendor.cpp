//===- HipVendor.cpp - AMD as a vendor of GPUs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HipApi.h"

#include "../../../Core/SharedLibrary.h"

#include "tandem/Program/stream_program_generated.h"

// Kernels.S
extern "C" const char tandemHipKernels[], tandemHipKernelsEnd[];

namespace tandem::gpu {

namespace {

std::string_view kernels() {
  return {tandemHipKernels, static_cast<size_t>(tandemHipKernelsEnd - tandemHipKernels)};
}

/// Ranges of ROCTx; nothing where its library is not installed.
struct Roctx {
  int (*push)(const char *) = nullptr;
  int (*pop)() = nullptr;

  static const Roctx &get() {
    static const Roctx ranges = [] {
      Roctx found;
      auto library = SharedLibrary::open("TANDEM_ROCTX_LIBRARY", {"libroctx64.so.4"}, "ROCTx");
      if (library && library->find(found.push, "roctxRangePushA").ok() &&
          library->find(found.pop, "roctxRangePop").ok())
        return found;
      return Roctx();
    }();
    return ranges;
  }
};

void beginRange(const char *name) {
  if (Roctx::get().pop)
    Roctx::get().push(name);
}
void endRange() {
  if (Roctx::get().pop)
    Roctx::get().pop();
}

} // namespace

const Vendor kHip{"hip",
                  "HIP",
                  countHipDevices,
                  openHip,
                  openHipblaslt,
                  kernels,
                  static_cast<uint8_t>(sp::KernelFormat::amdgcn),
                  "compile it for a hip target that names this GPU, like hip-rccl:gfx942",
                  beginRange,
                  endRange};

} // namespace tandem::gpu
