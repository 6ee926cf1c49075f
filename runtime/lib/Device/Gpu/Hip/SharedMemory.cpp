//===- SharedMemory.cpp - memory that other GPUs and processes map ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedMemory.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace tandem::gpu {

/// hipDeviceMallocUncached of HIP 6 and later.
static constexpr unsigned kUncached = 3;

Status HipSharedMemory::openToPeers() {
  std::lock_guard<std::mutex> lock(mutex);
  if (isOpen)
    return Status();
  int count = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.hipGetDeviceCount(&count), "hipGetDeviceCount"));
  Status status;
  for (int other = 0; other < count && status.ok(); ++other) {
    int can = 0;
    if (other == device || api.hipDeviceCanAccessPeer(&can, other, device) != hipSuccess || !can)
      continue;
    status = api.status(api.hipSetDevice(other), "hipSetDevice");
    if (!status.ok())
      break;
    hipError_t result = api.hipDeviceEnablePeerAccess(device, 0);
    if (result != hipErrorPeerAccessAlreadyEnabled)
      status = api.status(result, "hipDeviceEnablePeerAccess");
  }
  Status back = api.status(api.hipSetDevice(device), "hipSetDevice");
  isOpen = status.ok();
  return status.ok() ? back : status;
}

Status HipSharedMemory::allocate(uint64_t bytes, void **memory) {
  TANDEM_RETURN_IF_ERROR(openToPeers());
  TANDEM_RETURN_IF_ERROR(
      api.status(api.hipMalloc(memory, std::max<uint64_t>(bytes, 1)), "hipMalloc"));
  return Status();
}

Status HipSharedMemory::allocateSignals(uint64_t bytes, void **memory) {
  TANDEM_RETURN_IF_ERROR(openToPeers());
  hipError_t result = api.hipExtMallocWithFlags(memory, bytes, kUncached);
  if (result == hipErrorInvalidValue)
    result = api.hipExtMallocWithFlags(memory, bytes, hipDeviceMallocFinegrained);
  TANDEM_RETURN_IF_ERROR(api.status(result, "hipExtMallocWithFlags"));
  return Status();
}

Status HipSharedMemory::exportMemory(const void *memory, uint64_t bytes, SharedHandle *handle) {
  // A handle is that of an allocation. Where HIP takes another address, it may or may not add the
  // offset when it opens the handle.
  hipDeviceptr_t base = nullptr;
  size_t size = 0;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.hipMemGetAddressRange(&base, &size, const_cast<void *>(memory)),
                 "hipMemGetAddressRange")
          .withPrefix("symmetric memory of the embedder's allocator: expected memory of "
                      "hipMalloc: "));
  handle->offset = static_cast<uint64_t>(static_cast<const std::byte *>(memory) -
                                         static_cast<const std::byte *>(base));
  handle->allocation = size;
  if (bytes > size - handle->offset)
    return Status(Code::Unsupported,
                  fmt::format("symmetric memory of the embedder's allocator: expected {} bytes in "
                              "one allocation, found {} bytes to its end",
                              bytes, size - handle->offset));
  hipIpcMemHandle_t made;
  std::memset(&made, 0, sizeof made);
  TANDEM_RETURN_IF_ERROR(api.status(api.hipIpcGetMemHandle(&made, base), "hipIpcGetMemHandle"));
  handle->bytes.assign(reinterpret_cast<const char *>(&made), sizeof made);
  return Status();
}

Status HipSharedMemory::importMemory(const SharedHandle &handle, void **memory) {
  hipIpcMemHandle_t given;
  if (handle.bytes.size() != sizeof given)
    return Status(Code::InvalidArgument,
                  fmt::format("expected a handle of {} bytes, found {}: do all ranks use HIP?",
                              sizeof given, handle.bytes.size()));
  std::memcpy(&given, handle.bytes.data(), sizeof given);
  // hipIpcMemLazyEnablePeerAccess, the only flag that HIP takes: 1, and 0 before HIP 6.
  hipError_t result = api.hipIpcOpenMemHandle(memory, given, 1);
  if (result == hipErrorInvalidValue)
    result = api.hipIpcOpenMemHandle(memory, given, 0);
  TANDEM_RETURN_IF_ERROR(api.status(result, "hipIpcOpenMemHandle"));
  std::lock_guard<std::mutex> lock(mutex);
  imported.insert(*memory);
  return Status();
}

bool HipSharedMemory::takeImported(void *memory) {
  std::lock_guard<std::mutex> lock(mutex);
  return imported.erase(memory) != 0;
}

bool HipSharedMemory::hasAtomicsOn(int other) const {
  int native = 0;
  return api.hipDeviceGetP2PAttribute(&native, hipDevP2PAttrNativeAtomicSupported, device, other) ==
             hipSuccess &&
         native != 0;
}

bool HipSharedMemory::reaches(int other) const {
  int can = 0;
  return other == device ||
         (api.hipDeviceCanAccessPeer(&can, device, other) == hipSuccess && can != 0);
}

} // namespace tandem::gpu
