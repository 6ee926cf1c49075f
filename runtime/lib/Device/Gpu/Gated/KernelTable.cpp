//===- KernelTable.cpp - the kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTable.h"

namespace tandem::gpu::gated {

// The build writes a line TANDEM_KERNEL(entry) for each kernel.
#define TANDEM_KERNEL(entry) extern const KernelEntry entry;
#include "GatedKernels.inc"
#undef TANDEM_KERNEL

static const KernelEntry *const kEntries[] = {
#define TANDEM_KERNEL(entry) &entry,
#include "GatedKernels.inc"
#undef TANDEM_KERNEL
};

static const Table kTable = {
    sizeof(kEntries) / sizeof(kEntries[0]), [](uint32_t kernel) { return &kEntries[kernel]->info; },
    [](uint32_t kernel, const Matmul *matmul) { return kEntries[kernel]->whyNot(*matmul); },
    [](uint32_t kernel, const Matmul *matmul, void *stream) {
      return kEntries[kernel]->run(*matmul, stream);
    }};

} // namespace tandem::gpu::gated

extern "C" __attribute__((visibility("default"))) const tandem::gpu::gated::Table *
tandem_gated_kernels(uint32_t version) {
  using namespace tandem::gpu::gated;
  return version == kVersion ? &kTable : nullptr;
}
