//===- SharedMemory.h - memory of a GPU that processes share -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_DEVICE_GPU_CUDA_SHAREDMEMORY_H
#define TANDEM_RUNTIME_LIB_DEVICE_GPU_CUDA_SHAREDMEMORY_H

#include "../Driver.h"
#include "CudaApi.h"

#include <map>
#include <mutex>

namespace tandem::gpu {

inline CUdeviceptr address(const void *memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// Physical memory of one GPU (cuMemCreate, cuMemMap), mapped for every GPU of the process that can
/// access this one. Any thread; the GPU's context must be current.
class SharedMemory {
public:
  SharedMemory(const CudaApi &api, CUdevice device) : api(api), device(device) {}

  Status allocate(uint64_t bytes, void **memory);
  Status exportMemory(const void *memory, uint64_t bytes, SharedHandle *shared);
  Status importMemory(int descriptor, uint64_t bytes, void **memory);
  Status free(void *memory);
  bool reaches(CUdevice other) const;

private:
  struct Mapping {
    CUmemGenericAllocationHandle handle = 0;
    uint64_t bytes = 0;
  };

  Expected<uint64_t> granularity() const;
  CUmemAllocationProp properties() const;

  /// Takes ownership of the handle. `everywhere`: map for all GPUs, not only this one.
  Status map(CUmemGenericAllocationHandle handle, uint64_t bytes, bool everywhere, void **memory);
  Status allow(CUdeviceptr at, uint64_t bytes, bool everywhere) const;

  const CudaApi &api;
  const CUdevice device;
  std::mutex mutex; ///< guards the fields below
  std::map<CUdeviceptr, Mapping> mappings;
};

} // namespace tandem::gpu

#endif // TANDEM_RUNTIME_LIB_DEVICE_GPU_CUDA_SHAREDMEMORY_H
