//===- SharedMemory.h - memory that other GPUs and processes map -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_HIP_SHAREDMEMORY_H
#define TANDEM_LIB_DEVICE_GPU_HIP_SHAREDMEMORY_H

#include "HipApi.h"

#include <mutex>
#include <set>

namespace tandem::gpu {

/// Memory of one GPU, shared by hipIpcGetMemHandle() as RCCL does it. (Memory of hipMemCreate() can
/// be exported too, but not uncached, and versions of HIP differ in how they take the descriptor.)
/// Any thread; the GPU must be current.
class HipSharedMemory {
public:
  HipSharedMemory(const HipApi &api, int device) : api(api), device(device) {}

  Status allocate(uint64_t bytes, void **memory);
  /// Uncached, or fine-grained where HIP is too old for that. Not initialised.
  Status allocateSignals(uint64_t bytes, void **memory);
  Status exportMemory(const void *memory, uint64_t bytes, SharedHandle *handle);
  Status importMemory(const SharedHandle &handle, void **memory);
  /// Whether `memory` is imported; forgets it.
  bool takeImported(void *memory);
  bool reaches(int other) const;
  bool hasAtomicsOn(int other) const;

private:
  /// Lets all GPUs of this process that can reach this one access its memory.
  Status openToPeers();

  const HipApi &api;
  const int device;
  std::mutex mutex; ///< guards the fields below
  bool isOpen = false;
  std::set<const void *> imported;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_HIP_SHAREDMEMORY_H
