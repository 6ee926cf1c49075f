//===- SharedMemory.cpp - memory of a GPU that processes share -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedMemory.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace tandem::gpu {

Status SharedMemory::allocate(uint64_t bytes, void **memory) {
  TANDEM_ASSIGN_OR_RETURN(uint64_t unit, granularity());
  bytes = (std::max<uint64_t>(bytes, 1) + unit - 1) / unit * unit;
  CUmemAllocationProp wanted = properties();
  CUmemGenericAllocationHandle handle = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.cuMemCreate(&handle, bytes, &wanted, 0), "cuMemCreate"));
  return map(handle, bytes, true, memory);
}

Status SharedMemory::exportMemory(const void *memory, uint64_t bytes, SharedHandle *shared) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = mappings.find(address(memory));
  bool callers = found == mappings.end(); // of the embedder's allocator
  CUmemGenericAllocationHandle handle = callers ? 0 : found->second.handle;
  shared->offset = 0;
  shared->allocation = callers ? 0 : found->second.bytes;
  if (callers) {
    // The handle is that of the allocation, whatever address in it is given.
    CUdeviceptr base = 0;
    size_t size = 0;
    if (api.cuMemGetAddressRange(&base, &size, address(memory)) != CUDA_SUCCESS ||
        api.cuMemRetainAllocationHandle(&handle, const_cast<void *>(memory)) != CUDA_SUCCESS)
      return Status(Code::Unsupported,
                    "symmetric memory of the embedder's allocator: expected memory of "
                    "cuMemCreate that other processes can map");
    shared->offset = address(memory) - base;
    shared->allocation = size;
  }
  Status status;
  if (shared->offset > shared->allocation || bytes > shared->allocation - shared->offset)
    status = Status(Code::Unsupported,
                    fmt::format("symmetric memory of the embedder's allocator: expected {} bytes "
                                "in one allocation, found {} bytes to its end",
                                bytes, shared->allocation - shared->offset));
  if (status.ok())
    status =
        api.status(api.cuMemExportToShareableHandle(&shared->descriptor, handle,
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                   "cuMemExportToShareableHandle");
  if (callers)
    api.cuMemRelease(handle);
  return status;
}

Status SharedMemory::importMemory(int descriptor, uint64_t bytes, void **memory) {
  TANDEM_ASSIGN_OR_RETURN(uint64_t unit, granularity());
  bytes = (std::max<uint64_t>(bytes, 1) + unit - 1) / unit * unit;
  CUmemGenericAllocationHandle handle = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): how the API takes a descriptor
  auto *given = reinterpret_cast<void *>(static_cast<intptr_t>(descriptor));
  TANDEM_RETURN_IF_ERROR(api.status(
      api.cuMemImportFromShareableHandle(&handle, given, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle"));
  return map(handle, bytes, false, memory);
}

Status SharedMemory::free(void *memory) {
  Mapping mapping;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = mappings.find(address(memory));
    if (found == mappings.end())
      return Status(Code::InvalidArgument, "this address is not the start of shared memory");
    mapping = found->second;
    mappings.erase(found);
  }
  Status status = api.status(api.cuMemUnmap(address(memory), mapping.bytes), "cuMemUnmap");
  api.cuMemAddressFree(address(memory), mapping.bytes);
  api.cuMemRelease(mapping.handle);
  return status;
}

bool SharedMemory::reaches(CUdevice other) const {
  int can = 0;
  return other == device ||
         (api.cuDeviceCanAccessPeer(&can, device, other) == CUDA_SUCCESS && can != 0);
}

Expected<uint64_t> SharedMemory::granularity() const {
  CUmemAllocationProp wanted = properties();
  size_t size = 0;
  TANDEM_RETURN_IF_ERROR(api.status(
      api.cuMemGetAllocationGranularity(&size, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "cuMemGetAllocationGranularity"));
  return std::max<uint64_t>(size, 1);
}

CUmemAllocationProp SharedMemory::properties() const {
  CUmemAllocationProp properties;
  std::memset(&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

Status SharedMemory::map(CUmemGenericAllocationHandle handle, uint64_t bytes, bool everywhere,
                         void **memory) {
  CUdeviceptr at = 0;
  Status status = api.status(api.cuMemAddressReserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve");
  bool mapped = false;
  if (status.ok()) {
    status = api.status(api.cuMemMap(at, bytes, 0, handle, 0), "cuMemMap");
    mapped = status.ok();
  }
  if (status.ok())
    status = allow(at, bytes, everywhere);
  if (status.ok()) {
    std::lock_guard<std::mutex> lock(mutex);
    mappings[at] = {handle, bytes};
    *memory = reinterpret_cast<void *>(at); // NOLINT(performance-no-int-to-ptr): it is the API's
    return status;
  }
  if (mapped)
    api.cuMemUnmap(at, bytes);
  if (at)
    api.cuMemAddressFree(at, bytes);
  api.cuMemRelease(handle);
  return status;
}

Status SharedMemory::allow(CUdeviceptr at, uint64_t bytes, bool everywhere) const {
  int count = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  std::vector<CUmemAccessDesc> access;
  for (CUdevice other = 0; other < count; ++other) {
    int can = 0;
    if (other != device &&
        (!everywhere || api.cuDeviceCanAccessPeer(&can, other, device) != CUDA_SUCCESS || !can))
      continue;
    CUmemAccessDesc one;
    std::memset(&one, 0, sizeof one);
    one.location = {CU_MEM_LOCATION_TYPE_DEVICE, other};
    one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    access.push_back(one);
  }
  return api.status(api.cuMemSetAccess(at, bytes, access.data(), access.size()), "cuMemSetAccess");
}

} // namespace tandem::gpu
